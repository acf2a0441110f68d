"""The spelling of a pass's directories in a command, and the key of that pass for every spelling.

CMake names the source and the include directories from the root, SCons and Meson from the directory that they compile
in. Clang spells what it reads by these names: a directory as given, and behind it the rest as the text has it. So a
path is translated by its directory: into the *absolute* spelling and, in another command, back from it. No link is
followed. Where two directories of a command could have been meant, and give two spellings, there is none.

What a pass makes is the same for every spelling where no path gets into it. Whether the texts that it reads show one
is asked elsewhere (`inputs.place`); here stand the options with which that can be told at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property

from hipcache.base.keys import Key, make_key
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass
from hipcache.clang.cc1 import Option, Role
from hipcache.clang.jobs import Cc1Job
from hipcache.inputs import preprocessed
from hipcache.inputs.observing import plain

# The names of those that are -fX and -fno-X.
_SWITCHES = frozenset(
    (
        *("addrsig", "aligned-allocation", "apply-global-visibility-to-externs", "approx-func", "associative-math"),
        *("autolink", "char8_t", "color-diagnostics", "common", "convergent-functions"),
        *("cuda-allow-variadic-functions", "cuda-is-device", "cxx-exceptions", "data-sections", "denormal-fp-math"),
        *("denormal-fp-math-f32", "deprecated-macro", "exceptions", "fast-math", "finite-loops", "finite-math-only"),
        *("fp-contract", "function-sections", "gnuc-version", "gpu-allow-device-init", "gpu-approx-transcendentals"),
        *("gpu-exclude-wrong-side-overloads", "half-no-semantic-interposition", "hip-new-launch-api"),
        *("hip-fp32-correctly-rounded-divide-sqrt", "honor-infinities", "honor-nans", "inline-functions"),
        *("inline-hint-functions", "math-errno", "plt", "reciprocal-math", "rounding-math", "rtti", "signed-char"),
        *("signed-zeros", "sized-deallocation", "skip-odr-check-in-gmf", "strict-enums", "strict-vtable-pointers"),
        *("threadsafe-statics", "trapping-math", "unroll-loops", "unsafe-math-optimizations", "unwind-tables"),
        *("use-cxa-atexit", "visibility", "visibility-inlines-hidden", "visibility-inlines-hidden-static-local-var"),
        *("dwarf2-cfi-asm", "atomic-ignore-denormal-mode", "stack-clash-protection", "cf-protection"),
        *("gpu-default-stream", "wrapv", "zero-initialized-in-bss", "error-limit", "template-depth"),
        "template-backtrace-limit",
        *("constexpr-depth", "constexpr-steps", "constexpr-backtrace-limit", "macro-backtrace-limit"),
        *("spell-checking-limit", "bracket-depth", "operator-arrow-depth", "spell-checking"),
    )
)
# Plain options that put no path into the output, nor anything made from one. What is not listed is not shared. The
# names are those of clang's `clang/include/clang/Driver/Options.td` (releases 15 to 22).
_WITHOUT_PATHS = pattern(
    r"-(cc1|triple|aux-(triple|target-cpu|target-feature)|-?mrelax-relocations(=no)?|disable-free"
    r"|(no-)?clear-ast-before-backend|disable-llvm-verifier|discard-value-names|main-file-name|pic-level|pic-is-pie"
    r"|source-date-epoch|-?compress-debug-sections(=\w+)?"
    r"|target-(cpu|feature|abi|linker-version)|tune-cpu|debugger-tuning=\w+|resource-dir|exception-model"
    r"|stack-protector(-buffer-size)?|O[0-3sgz]?|Ofast|-?std=[\w+:.]+|stdlib=[\w+]+|W[\w+=.,-]*|w|pthread"
    r"|vectorize-(loops|slp)|nogpulib|-no-offloadlib|nogpuinc|nobuiltininc|nostdsysteminc|nostdinc\+\+"
    r"|relaxed-aliasing|no-struct-path-tbaa|fno-implicit-modules|complex-range=\w+|(no-)?enable-noundef-analysis|disable-O0-optnone|disable-red-zone"
    r"|m(?!llvm|odule)[a-z0-9][\w-]*(=[\w.,+:-]*)?)"
)
# Others that put no number of a line there; but a path, perhaps.
_WITHOUT_LINES = ("-emit-llvm-uselists", "-fgpu-rdc", "--offload-new-driver", "-flto=full", "-flto-unit")
_SWITCH = pattern(r"-f(?:no-)?([\w-]+)(?:=[\w.,+-]*)?")
_LLVM_WITHOUT_PATHS = pattern(r"--?(amdgpu|treat-scalable|inline|unroll|slp)-[\w=,.+-]+")


@dataclass(frozen=True)
class Spelling:
    """`directories`: of the source and of the headers, each (absolute, as clang spells it before the name of a file,
    where a leading `./` goes). `source`: the source's (absolute, spelled) path. `bare`: names of -include that are
    looked for in the working directory first."""

    source: tuple[str, str]
    directories: tuple[tuple[str, str], ...]
    bare: tuple[str, ...] = ()

    @property
    def has_working_directory(self) -> bool:
        return any(not spelled for _, spelled in self.directories)

    def places(self, path: str) -> tuple[str, ...]:
        """The absolute spellings that a path may have which clang names: all of them lead to it."""
        return tuple(whole for whole, _ in self._places(path))

    def places_in(self, directory: str, names: Collection[str]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
        """The same for names in a directory (as of `readset.Absent`): the absolute spellings of the directory, each
        with a slash at its end, and those of names that are directories themselves."""
        directory = plain(directory)
        if directory.startswith("/"):
            return (directory,), {}
        whole = tuple(
            os.path.join(absolute, directory[len(spelled) :].lstrip("/"))
            for spelled in ("", *_above(directory))
            for absolute in self._by_spelled.get(spelled, ())
        )
        own = [name for name in names if directory + name in self._by_spelled]
        return whole, {name: tuple(self._by_spelled[directory + name]) for name in own}

    def absolute(self, read: Mapping[str, Collection[str]], names: Collection[str]) -> dict[str, str]:
        """The absolute spelling of each file that a pass read, the source first; nothing if one is not clear.

        `read`: by path, in the order of reading, the names of headers that a file may have looked for beside itself;
        `names`: all names of headers, which clang puts behind those of directories."""
        beside: dict[str, set[str]] = {}
        found: dict[str, str] = {}
        for path, quoted in read.items():
            places = {whole for whole, rest in self._places(path) if not rest or rest in names}
            places |= beside.get(path, set()) if found else {self.source[0]}
            if len(places) != 1:
                return {}
            (found[path],) = places
            if not path.startswith("/"):
                for name in quoted:
                    way = plain(os.path.join(os.path.dirname(path), name))
                    beside.setdefault(way, set()).add(os.path.join(os.path.dirname(found[path]), name))
        return found

    def _places(self, path: str) -> Iterator[tuple[str, str]]:
        """(absolute spelling, what of it is behind the name of a directory)."""
        path = plain(path)
        if path.startswith("/"):
            yield path, ""
            return
        for spelled in ("", *_above(path + "/")):
            rest = path[len(spelled) :].lstrip("/")
            for absolute in self._by_spelled.get(spelled, ()):
                yield os.path.join(absolute, rest).rstrip("/"), rest

    def spelled(self, path: str) -> str:
        """The reverse of `absolute`."""
        found = {
            spelled + path[len(absolute) :] if spelled else path[len(absolute) + 1 :]
            for absolute in _above(path)
            for spelled in self._by_absolute.get(absolute, ())
        }
        return (found.pop() if len(found) == 1 else "") if found else path

    # Some compiles have thousands of directories, and look for each header in all of them.
    @cached_property
    def _by_absolute(self) -> Mapping[str, Collection[str]]:
        return _grouped(self.directories)

    @cached_property
    def _by_spelled(self) -> Mapping[str, Collection[str]]:
        return _grouped((spelled, absolute) for absolute, spelled in self.directories)


def _grouped(pairs: Iterable[tuple[str, str]]) -> Mapping[str, Collection[str]]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _above(path: str) -> Iterator[str]:
    """The directories that the path names on its way."""
    end = path.find("/")
    while end >= 0:
        yield path[:end]
        end = path.find("/", end + 1)


def of(job: Cc1Job, cwd: str) -> Spelling | None:
    """The spelling; None if the output may show a path that no text names, or a directory is spelled in no clear
    way."""
    if not shows_no_place(job):
        return None
    source = job.value(Role.INPUT)
    named = [os.path.dirname(source)]
    bare = []
    for option in job.options:
        if option.role is Role.INCLUDE and "/" not in option.value:
            bare.append(option.value)
        elif option.role is Role.INCLUDE:
            if not option.value.startswith("/"):
                return None
            named.append(os.path.dirname(option.value))
        elif option.role is Role.SEARCH:
            named.append(option.value)
    directories: dict[tuple[str, str], None] = {}
    for name in dict.fromkeys(named):
        spelled, absolute = _trimmed(name), _absolute(name, cwd)
        if not absolute:
            return None
        directories[absolute, spelled] = None
    whole = os.path.join(_absolute(named[0], cwd), os.path.basename(source))
    if plain(source) != source or source.startswith("-"):
        return None
    return Spelling((whole, source), tuple(directories), tuple(bare))


def shows_no_place(job: Cc1Job) -> bool:
    """Do its options put no path and no line of a file into the output?"""
    return job.emits == "-emit-obj" and bool(job.value(Role.CUID)) and all(map(_is_without_paths, job.options))


def shows_no_line(job: Cc1Job) -> bool:
    """Do they put no number of a line into it?"""
    unclear = (option for option in job.options if option.text[0] not in _WITHOUT_LINES)
    return bool(job.value(Role.CUID)) and all(map(_is_without_paths, unclear))


def _is_without_paths(option: Option) -> bool:
    if option.name == "-mllvm":
        return _LLVM_WITHOUT_PATHS.fullmatch(option.value) is not None
    if option.role is Role.AUXILIARY:
        return False
    if option.role is not Role.PLAIN:
        return True
    switch = _SWITCH.fullmatch(option.text[0])
    return bool(switch and switch[1] in _SWITCHES) or _WITHOUT_PATHS.fullmatch(option.text[0]) is not None


def _trimmed(directory: str) -> str:
    """The directory as clang writes it before a slash and a name, without a leading `./`."""
    directory = directory[:-1] if len(directory) > 1 and directory.endswith("/") else directory
    return plain(directory + "/")[:-1] if directory not in ("", ".") else ""


def _absolute(directory: str, cwd: str) -> str:
    """The directory from the root, empty if only the file system could tell it. `cwd` has no links in it."""
    if directory.endswith("//"):
        return ""  # of which clang leaves out some
    if directory.startswith("/"):
        return directory[:-1] if len(directory) > 1 and directory.endswith("/") else directory.rstrip("/")
    rest = re.sub(r"^(?:\.{1,2}(?:/+|$))+", "", directory)
    if ".." in rest.split("/"):
        return ""  # behind a link it leads elsewhere
    return os.path.normpath(os.path.join(cwd, directory)).rstrip("/")


def key(front: Key, job: Cc1Job, spelling: Spelling, portable: Callable[[str], str]) -> Key:
    """The key of a pass for every spelling: `front` is that for its own. The CUID is left out, and so is the order of
    macros: fronts write their own before or behind the user's."""
    absolute = {spelled: whole for whole, spelled in spelling.directories}
    others: dict[tuple[str, str], tuple[str, str] | None] = {}
    for option in job.options:
        own = ("option", portable(option.joined))
        if option.role is Role.SEARCH:
            others[own] = ("option", portable(f"{option.name} {absolute[_trimmed(option.value)]}"))
        elif option.role is Role.CUID:
            others[own] = None
    others["source", portable(spelling.source[1])] = ("source", portable(spelling.source[0]))
    inputs = [others.get(pair, pair) for pair in front.inputs]
    macros = [("option", portable(option.joined)) for option in job.options if option.role is Role.MACRO]
    defined = {preprocessed.macro_of(option.value) for option in job.options if option.role is Role.MACRO}
    if len(defined) == len(macros) and "" not in defined:
        ordered, unordered = iter(sorted(macros)), frozenset(macros)  # some builds have thousands
        inputs = [next(ordered) if pair in unordered else pair for pair in inputs]
    return make_key(f"{front.kind} however spelled", [pair for pair in inputs if pair])
