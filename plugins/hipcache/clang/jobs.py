"""The driver's jobs, as `-###` prints them.

One job a line, each word in double quotes with `\\`, `"` and `$` escaped (`llvm::sys::printArg` with Quote=true). Lines
that begin otherwise are the driver's banner or its own messages. No other character is escaped: a line ends only with
"\\n" (not where `str.splitlines` ends it), and a word that has one makes two lines of its job, neither of them whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from hipcache.base.errors import PassThrough, passing_through
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass
from hipcache.clang.cc1 import REFUSED_LLVM, Option, Role
from hipcache.processes import decode

_WORD = pattern(r' "((?:[^"\\]|\\.)*)"')
_LINE = pattern(r"[^\n]*\n|[^\n]+")
_ESCAPE = pattern(r"\\(.)", re.DOTALL)
_BANNER = pattern(
    r"([^:]*clang version |Target: |Thread model: |InstalledDir: |Configuration file: "
    r"|System configuration file directory: |User configuration file directory: |Build config: "
    r"| \(in-process\)$|Found candidate |Selected |Candidate multilib: )"
)


@dataclass(frozen=True)
class Cc1Job:
    """One pass of the compiler proper. `options` are all of its words after the program."""

    program: str
    options: tuple[Option, ...]

    def value(self, role: Role, name: str = "") -> str:
        """The value of the last option with this role (and name); empty if there is none."""
        found = [value for each, value in self._by_role.get(role, ()) if not name or each == name]
        return found[-1] if found else ""

    @cached_property
    def _by_role(self) -> Mapping[Role, Sequence[tuple[str, str]]]:
        """(name, value) of each option: there may be thousands that name a directory."""
        found: dict[Role, list[tuple[str, str]]] = {}
        for option in self.options:
            found.setdefault(option.role, []).append((option.name, option.value))
        return found

    @property
    def source(self) -> str:
        return self.value(Role.INPUT)

    @property
    def emits(self) -> str:
        """The option with the kind of its output."""
        return self.value(Role.EMIT)

    @property
    def all_headers(self) -> bool:
        """Does the user's dependency file list system headers too (-MD, or none is asked for)?"""
        return Role.DEPENDENCIES not in self._by_role or Role.DEPENDENCY_STYLE in self._by_role


@dataclass(frozen=True)
class ToolJob:
    """lld or clang-offload-bundler: `arguments` hold the names of temporary files in the driver's plan."""

    program: str
    arguments: tuple[str, ...]

    def renamed(self, names: dict[str, str]) -> list[str]:
        """Its words, with these files renamed."""
        return [self.program, *(_rename(word, names) for word in self.arguments)]


def _rename(word: str, names: dict[str, str]) -> str:
    option, equals, value = word.partition("=")
    if equals and option.lstrip("-") in ("input", "output"):
        return option + equals + names.get(value, value)
    if option == "--image":
        fields = [field.partition("=") for field in value.split(",")]
        return "--image=" + ",".join(name + is_ + names.get(file, file) for name, is_, file in fields)
    if equals and option.lstrip("-") in ("inputs", "outputs"):
        return option + equals + ",".join(names.get(part, part) for part in value.split(","))
    return names.get(word, word)


def clang_version(text: str) -> int:
    """The major version in a plan's banner; 0 without a banner."""
    named = re.search(r"^[^\n\":]*clang version (\d+)\.", text, re.MULTILINE)
    return int(named.group(1)) if named else 0


def split(text: str) -> tuple[list[tuple[str, ...]], str]:
    """The jobs of a plan, and the driver's own messages. Raises PassThrough for a line that is only a part of a job."""
    jobs, messages = [], []
    for line in _LINE.findall(text):
        if line.startswith(' "'):
            words = _WORD.findall(line)
            if ' "' + '" "'.join(words) + '"' != line.removesuffix("\n"):
                raise PassThrough("plan", "a line that is not a command")
            jobs.append(tuple(_ESCAPE.sub(r"\1", word) if "\\" in word else word for word in words))
        elif not _BANNER.match(line) and line.strip():
            if '" "' in line:
                raise PassThrough("plan", "a message that looks like a command")
            messages.append(line)
    # The jobs name files, as all else that is read in the locale; what is said is none of its.
    return jobs, decode(os.fsencode("".join(messages)))


def output_of(job: ToolJob) -> str:
    """The file that it writes. Raises PassThrough if it names none, or several."""
    after = zip(("", *job.arguments), job.arguments, strict=False)
    names = [word for before, word in after if before == "-o"]
    if len(names) != 1:
        raise PassThrough("plan", f"a job with {len(names)} of '-o'")
    return names[0]


# The device linker's words: which of them are the driver's own, and what in them names a file.

# The options that the driver itself gives lld. Options of users (-Xoffload-linker) may write files (-Map=), or put the
# name of lld's temporary output into the code object (--version-script=).
_KNOWN = pattern(
    r"-flavor$|gnu$|-m$|elf64_amdgpu$|--?no-undefined$|-shared$|--lto-(CGO[0-3]|partitions=\d+)$|--(no-)?whole-archive$"
    r"|-o$|[^-]|--fat-lto-objects$|--compress-debug-sections=(none|zlib|zstd)$"
    r"|--?plugin-opt=(-amdgpu-internalize-symbols|mcpu=|O[0-3]$|-mattr=|-debugger-tune=\w+$|thinlto$|-force-import-all$"
    r"|(jobs|lto-partitions)=\d+$|opt-remarks-(format|passes|with-hotness|hotness-threshold)\b)"
)
# Of LLVM's own options, those that may count what is done in a process: a link's threads, or all archs, share a count.
COUNTING = pattern(r"bisect|limit|counter|cutoff")
_WITH_VALUE = frozenset(["-flavor", "-m", "-o"])
_PLUGIN_OPTION = pattern(r"^--?plugin-opt=")  # clang 15 writes both


def known_link(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Raises PassThrough if the device linker gets an option that is not the driver's own."""
    for before, word in zip(("", *arguments), arguments, strict=False):
        if word != "-mllvm" and not _KNOWN.match(word):
            option = _PLUGIN_OPTION.sub("", word, count=1)
            # Without a dash it is one of lld's own: some write files (save-temps, thinlto-index-only, emit-asm).
            is_llvms = option.startswith("-") and (option != word or before == "-mllvm")
            if not is_llvms or REFUSED_LLVM.search(option) or (before == "-mllvm" and COUNTING.search(option)):
                raise PassThrough("linker_option", word)
    return arguments


def inputs(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The words that lld takes for files to read, in order."""
    after = zip(("", *arguments), arguments, strict=False)
    return tuple(word for before, word in after if not word.startswith("-") and before not in _WITH_VALUE)


def value_of(word: str) -> str:
    """The part of an option of the device linker that may name a file to read; empty if there is none."""
    name, _, value = _PLUGIN_OPTION.sub("", word, count=1).partition("=")
    return "" if name == "mcpu" or not word.startswith("-") else value


# What lld does not know by its first bytes is a linker script to it (llvm/lib/BinaryFormat/Magic.cpp), which may name
# other files, as a thin archive does.
_ARCHIVE = b"!<arch>\n"
_COMPLETE = (_ARCHIVE, b"BC\xc0\xde", b"\x7fELF")


def check_input(name: str, path: str) -> None:
    """Raises PassThrough if the device linker's input at `path` may name other files, or cannot be read."""
    if not _head(name, path).startswith(_COMPLETE):
        raise PassThrough("linker_option", f"'{name}' is no bitcode, object or archive that is complete")


def is_archive(name: str, path: str) -> bool:
    """Is it a static library with its members? Raises PassThrough if it cannot be read."""
    return _head(name, path) == _ARCHIVE


def _head(name: str, path: str) -> bytes:
    with passing_through("named_file", name), open(path, "rb") as file:
        return file.read(len(_ARCHIVE))
