"""The assembler of a GPU: which commands assemble a source for it, the driver's one job for that, and what shows in
what it writes.

There is no dependency file for it, so only a source that can read no other file is understood. What reads one are
`.include` and `.incbin` (llvm/lib/MC/MCParser/AsmParser.cpp, 15 to 19; upper or lower case, or in quotes). A macro can
put such a name together from pieces. A piece is joined to what stands beside it where a backslash touches a letter, and
a name of a directive begins with a dot: so a source with macros has neither `.inc\\x` nor `\\x\\y`, `\\x\\()y`.

The options are those of clang/include/clang/Driver/Options.td with CC1AsOption (15 to 19).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from hipcache.base.errors import PassThrough
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass

TARGET = "amdgcn"
# Bytes of a source. A smaller one is assembled (50 KB: 25 ms, 500 KB: 95 ms) sooner than the engine has looked at what
# was generated anew with the same text (60 ms): it would only be slower here.
WORTH = 1 << 18
_LANGUAGE = "assembler"

_SEPARATE = frozenset(
    [
        *("-triple", "-filetype", "-main-file-name", "-target-cpu", "-target-feature", "-dwarf-debug-producer"),
        *("-mrelocation-model", "-o", "-I", "-defsym", "--defsym", "-mllvm"),
    ]
)
_UNDERSTOOD = pattern(
    r"-fdebug-compilation-dir=|-fdebug-prefix-map=|-object-file-name=|-debug-info-kind=|-dwarf-version=\d+$|-gdwarf(32|64)$"
    r"|--?compress-debug-sections(=\w+)?$|--?mrelax-relocations(=no)?$|-mrelax-all$|-mnoexecstack$|-msave-temp-labels$"
    r"|-massembler-(no-warn|fatal-warnings)$|--crel$|-n$"
)
_LLVM = pattern(r"-?-amdhsa-code-object-version=\d+$")

# Names of files and directories, which only debug information shows: asked for, or written by the source itself.
_NAMES = ("-main-file-name", "-fdebug-compilation-dir=", "-object-file-name=")
_DEBUGS = pattern(r"-debug-info-kind=|-g")
_DEBUG_DIRECTIVE = pattern(rb"\.(file|loc|cv_)")

# (Paths of headers are in what a compiler writes with -g.)
_READS = pattern(rb"incbin|(?<!/)include")
_HAS_MACROS = pattern(rb"macro|rep|irp")
_JOINED = pattern(rb"\\\\|\.[\w$.@?]*\\|\\(?:[\w$]*\.|[\w$]+[\\@?&]|(?:\(\)|@|\+)[\w$.\\@?&])")


@dataclass(frozen=True)
class AssemblerJob:
    """The job as the plan has it: `options` are all of its words but the program, the output and the source, each with
    its value. `arch` is the target CPU."""

    program: str
    options: tuple[tuple[str, ...], ...]
    source: str
    output: str
    arch: str

    @property
    def command(self) -> tuple[str, ...]:
        """All but the output and the source."""
        return (self.program, "-cc1as", *(word for option in self.options for word in option))

    def inputs(self, content: bytes, digest: str) -> list[tuple[str, str]]:
        """The parts of the job and of its source, whose `content` has that digest, that the output depends on."""
        shows = _DEBUG_DIRECTIVE.search(content.lower()) or any(_DEBUGS.match(option[0]) for option in self.options)
        counted = (option for option in self.options if shows or not option[0].startswith(_NAMES))
        named = [("source", self.source)] if shows else []
        return [*(("option", " ".join(option)) for option in counted), *named, ("text of the source", digest)]


def is_for_gpu(arguments: Sequence[str]) -> bool:
    """Does the command name the target of AMD's GPUs? (`plain` and the native launcher ask that, too.)"""
    return any(
        word.startswith(f"--target={TARGET}") or (before in ("-target", "--target") and word.startswith(TARGET))
        for before, word in zip(("", *arguments), arguments, strict=False)
    )


def assembles(arguments: Sequence[str], sources: Sequence[tuple[str, str]], cwd: str) -> bool:
    """Is the command one source of a GPU's assembler, worth it, to one object? `sources`: (name, language) of each."""
    if "-c" not in arguments or len(sources) != 1 or not is_for_gpu(arguments) or not _is_assembler(*sources[0]):
        return False
    try:
        return os.stat(os.path.join(cwd, sources[0][0])).st_size >= WORTH
    except OSError:
        return False


def _is_assembler(source: str, language: str) -> bool:
    return language == _LANGUAGE or (language in ("", "none") and source.endswith(".s"))


def parse(jobs: Sequence[tuple[str, ...]]) -> AssemblerJob:
    """The job of a plan. Raises PassThrough for another plan, and for an option that the cache does not understand."""
    if len(jobs) != 1 or jobs[0][1:2] != ("-cc1as",):
        raise PassThrough("plan", "not one job of the assembler")
    program, _, *words = jobs[0]
    options = _options(words)
    sources = [option[0] for option in options if not option[0].startswith("-")]
    values = {option[0]: option[-1] for option in options}
    if len(sources) != 1 or not values.get("-o") or values.get("-filetype") != "obj":
        raise PassThrough("plan", "not one source and one object of the assembler")
    if not values.get("-triple", "").startswith(TARGET):
        raise PassThrough("plan", f"an assembler for '{values.get('-triple', '')}'")
    kept = tuple(option for option in options if option[0] not in ("-o", sources[0]))
    return AssemblerJob(program, kept, sources[0], values["-o"], values.get("-target-cpu", "generic"))


def _options(words: Sequence[str]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    rest = iter(words)
    for word in rest:
        if word in _SEPARATE:
            value = next(rest, "")
            if not value or (word == "-mllvm" and not _LLVM.match(value)):
                raise PassThrough("compiler_option", f"{word} {value}")
            found.append((word, value))
        elif word.startswith("-") and not _UNDERSTOOD.match(word):
            raise PassThrough("compiler_option", word)
        else:
            found.append((word,))
    return found


def may_read_files(content: bytes) -> bool:
    """Can a source read another file?"""
    text = content.lower()
    if _READS.search(text) or b"altmacro" in text:
        return True
    return bool(_HAS_MACROS.search(text) and _JOINED.search(text))
