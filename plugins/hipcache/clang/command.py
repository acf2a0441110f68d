"""The command that the build tool ran, as a value: its source, its output, and whether hipcache handles it.

This module parses only what must be known *before* it asks the driver: is it one HIP source, compiled (to an object,
bitcode, assembly), and without side effects while the driver plans it? Everything else comes from the driver's plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from hipcache.base.errors import PassThrough, Refused, passing_through
from hipcache.base.paths import is_stream, names_stream
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass, replace
from hipcache.clang import assembler, tools
from hipcache.clang.driver_options import (
    SEPARATE,
    SERIALIZE,
    SIDES,
    Side,
    chooses_cuid,
    refuse_options,
    why_passed_through,
    why_passed_through_in_link,
    why_passed_through_in_program,
)
from hipcache.processes.observe import Observation

# Response files: `@file` in a command stands for the words in that file.


def expand(
    arguments: tuple[str, ...], cwd: str, read: dict[str, os.stat_result] | None = None, depth: int = 0
) -> tuple[str, ...]:
    """Response files (`@file`) read in, with the quoting rules of GNU's (llvm::cl::TokenizeGNUCommandLine). `read`
    gets the path of each, with its status before it was read. Raises PassThrough."""
    if not any(word.startswith("@") for word in arguments):
        return arguments
    if depth > 20:
        raise PassThrough("response_file", "nested too deep")
    words: list[str] = []
    for word in arguments:
        if not word.startswith("@"):
            words.append(word)
            continue
        path = os.path.join(cwd, word[1:])
        if is_stream(path):
            raise PassThrough("response_file", f"'{word[1:]}' is not a regular file")
        with passing_through("response_file", word[1:]), open(path, encoding="utf-8", errors="surrogateescape") as file:
            if read is not None:
                read[path] = os.fstat(file.fileno())
            words += expand(tokenize(file.read()), cwd, read, depth + 1)
    return tuple(words)


def tokenize(text: str) -> tuple[str, ...]:
    """Words of a response file: blanks separate, a backslash takes the next character, quotes group."""
    words: list[str] = []
    word, started, quote = "", False, ""
    for piece in _PIECE.findall(text):
        if piece[0] == "\\" and len(piece) == 2:
            word, started = word + piece[1], True
        elif quote:
            if piece == quote:
                quote = ""
            else:
                word += piece
        elif piece in "'\"":
            quote, started = piece, True
        elif piece in " \t\r\n\0":
            if started:
                words.append(word)
            word, started = "", False
        else:
            word, started = word + piece, True
    if started:
        words.append(word)
    return tuple(words)


# Of a response file.
_PIECE = pattern(r"(?s)[^\\'\" \t\r\n\0]+|\\.|.")
_LANGUAGES = ("-x", "--language")

# Options with which the driver links no program: it never links the device side alone.
COMPILES = frozenset(
    ["-c", "--compile", "-S", "--assemble", "-E", "--preprocess", "--cuda-device-only", "--offload-device-only"]
)

_RDC = ("-fgpu-rdc", "-fcuda-rdc", "-fno-gpu-rdc", "-fno-cuda-rdc")
_DRIVERS = ("--offload-new-driver", "--no-offload-new-driver")

# Variables that make the driver, a pass or lld write a second file, or a different output.
_SIDE_EFFECTS = (
    *("CC_PRINT_OPTIONS", "CC_PRINT_HEADERS", "CC_LOG_DIAGNOSTICS", "CC_PRINT_PROC_STAT"),
    *("DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "LLD_REPRODUCE", "LLD_VERSION"),
    *("LLVM_OVERRIDE_PRODUCER", "AMD_SPLIT_MODULE_LOG_DIR"),
)


@dataclass(frozen=True)
class Unwrapped:
    """A program that runs a compiler: its name in the command, its path, and what it looked at."""

    name: str
    program: str
    observations: tuple[Observation, ...]


def no_hint(said: str) -> Refused | None:
    return None


@dataclass(frozen=True)
class Command:
    """One HIP compile, or (without a source) a link of relocatable device code; or a program that is compiled and
    linked at once (`makes_program`), of `source` and maybe others; or (`assembles`) a source of a GPU's assembler.

    `argv` as the compiler gets it, `arguments` with response files read in; `typed`: as the build tool gave it, which
    is another one if a program stands before the compiler (hipcc, ccache). `source` and `output` as spelled; `output`
    is empty if the compiler chooses the name. `unwrapped`: the programs that chose `argv` (hipcc, a script), the first
    first. `part_of`: what the compiler gets for several sources, of which this is one. `hint`: the message to write
    instead, if the compiler fails with this one.
    """

    argv: tuple[str, ...]
    typed: tuple[str, ...]
    arguments: tuple[str, ...]
    cwd: str
    source: str
    output: str
    own_cuid: bool
    unwrapped: tuple[Unwrapped, ...] = ()
    part_of: tuple[str, ...] = ()
    makes_program: bool = False
    assembles: bool = False
    hint: Callable[[str], Refused | None] = no_hint

    @property
    def links(self) -> bool:
        return not self.source

    @property
    def side(self) -> Side:
        """The last such option counts; without any, both sides are compiled."""
        sides = [SIDES[word] for word in self.arguments if word in SIDES]
        return sides[-1] if sides else Side.BOTH

    @property
    def compiler(self) -> str:
        return self.argv[0]

    def path(self, name: str) -> str:
        return os.path.join(self.cwd, name)


def parse(argv: tuple[str, ...], cwd: str, environ: Mapping[str, str], *, typed: tuple[str, ...] = ()) -> Command:
    """Raises PassThrough, with a reason of `reasons.REASONS`, for all that is not one HIP source to one object."""
    arguments = expand(argv[1:], cwd)
    sources: list[tuple[str, str]] = []
    language, output, compiles, own_cuid = "", "", False, False
    refused: list[tuple[str, str]] = []
    for _, word, value in words_of(arguments):
        if not word:
            sources.append((value, language))
            continue
        option = value if word.startswith("-Xarch_") else word
        reason = why_passed_through(option)
        if reason:
            refused.append((reason, option))
        if _sets_language(word):
            language = _language(word, value)
        elif (named := output_in(word, value)) is not None:
            output = named
        elif word in COMPILES:
            compiles = True
        elif chooses_cuid(word):
            own_cuid = True
    if not compiles and links_device_code(arguments) and not any(is_hip(*source) for source in sources):
        _refuse_link(arguments, cwd, environ)
        return Command(argv, typed or argv, arguments, cwd, "", output or "a.out", own_cuid=True)
    assembles = assembler.assembles(arguments, sources, cwd)
    _refuse_programs(argv[0], sources)
    _refuse(arguments, sources, compiles=compiles, assembles=assembles, refused=refused, output=output, environ=environ)
    for name, _ in sources:
        if is_stream(os.path.join(cwd, name)):
            raise PassThrough("standard_streams", name)
    _refuse_streams(arguments, cwd)
    if not compiles:
        refuse_options(arguments, why_passed_through_in_program)
        source = next(name for name, language in sources if is_hip(name, language))
        output = output or "a.out"
        return Command(argv, typed or argv, arguments, cwd, source, output, own_cuid, makes_program=True)
    source = sources[0][0]
    return Command(argv, typed or argv, arguments, cwd, source, output, own_cuid, assembles=assembles)


def parse_each(
    argv: tuple[str, ...], cwd: str, environ: Mapping[str, str], *, typed: tuple[str, ...] = ()
) -> tuple[Command, ...]:
    """Like `parse`, but a command with several sources becomes one compile per source, in their order."""
    try:
        return (parse(argv, cwd, environ, typed=typed),)
    except PassThrough as left:
        if left.reason != "several_sources" or any(word.startswith("@") for word in argv):
            raise
        prefix = typed[: -len(argv)]
        parts = _one_source_each(argv)
        with suppress(PassThrough):
            commands = [parse(part, cwd, environ, typed=(*prefix, *part)) for part in parts]
            return tuple(replace(command, part_of=argv) for command in commands)
        raise


def _one_source_each(argv: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Without the other sources, and without a language option after the source (the driver would warn about it)."""
    words = list(words_of(argv[1:]))
    places = [at + 1 for at, word, _ in words if not word]
    languages = {place for at, word, _ in words if word in _LANGUAGES for place in (at + 1, at + 2)}
    languages |= {at + 1 for at, word, _ in words if word.startswith(("-x", "--language="))}
    for place in places:
        left_out = {*places, *(at for at in languages if at > place)} - {place}
        yield tuple(word for at, word in enumerate(argv) if at not in left_out)


def output_in(word: str, value: str) -> str | None:
    """The output that an option names; `value`: the next word. None if it names none."""
    if word in ("-o", "--output"):
        return value
    if word.startswith("--output="):
        return word.partition("=")[2]
    return word[2:] if word.startswith("-o") and not word.startswith(("-object", "-objc")) else None


def words_of(arguments: tuple[str, ...]) -> Iterator[tuple[int, str, str]]:
    """(index, option, its value if that is the next word), or of an input (index, "", name)."""
    words = iter(enumerate(arguments))
    for at, word in words:
        if not word:
            continue  # as clang does
        if word == "--":
            yield from ((at, "", name) for at, name in words)
        elif not word.startswith("-") or word == "-":
            yield at, "", word
        elif word.startswith("-Xarch_"):
            yield at, word, next(words, (0, ""))[1]
        else:
            yield at, word, next(words, (0, ""))[1] if word in SEPARATE else ""


def _sets_language(word: str) -> bool:
    return word in _LANGUAGES or word.startswith(("-x", "--language="))


def _language(word: str, value: str) -> str:
    """The language that an option of `_LANGUAGES` sets; `value`: the next word."""
    if word in _LANGUAGES:
        return value
    return word[2:] if word.startswith("-x") else word.partition("=")[2]


def messages_file(argv: Sequence[str]) -> tuple[int, str]:
    """Index and name of the file that gets all messages (the last one counts); (0, "") if there is none."""
    named = [(at + 2, value) for at, word, value in words_of(tuple(argv[1:])) if word in SERIALIZE]
    return named[-1] if named else (0, "")


def _refuse_programs(program: str, sources: list[tuple[str, str]]) -> None:
    """`env`, `nice` and the like, of which the compiler would seem to be a source."""
    behind = next((name for name, _ in sources if tools.is_clang(name) or tools.is_hipcc(name)), "")
    if behind and any(is_hip(*source) for source in sources) and not tools.is_clang(program):
        raise PassThrough("not_compiler", f"'{behind}' is behind it")


def _refuse(
    arguments: tuple[str, ...],
    sources: list[tuple[str, str]],
    *,
    compiles: bool,
    assembles: bool,
    refused: list[tuple[str, str]],
    output: str,
    environ: Mapping[str, str],
) -> None:
    hip = [name for name, language in sources if is_hip(name, language)]
    if not hip and not assembles:
        raise PassThrough("not_hip" if compiles or not sources else "link_or_not_hip")
    if refused:
        raise PassThrough(*refused[0])
    if not output and preprocesses(arguments):
        raise PassThrough("preprocess")
    if compiles and len(sources) != 1:
        raise PassThrough("several_sources", " ".join(name for name, _ in sources))
    if any(name == "-" for name, _ in sources) or output == "-":
        raise PassThrough("standard_streams")
    _refuse_variables(environ)


def _refuse_link(arguments: tuple[str, ...], cwd: str, environ: Mapping[str, str]) -> None:
    refuse_options(arguments, why_passed_through_in_link)
    _refuse_variables(environ)
    _refuse_streams(arguments, cwd)


def _refuse_streams(arguments: tuple[str, ...], cwd: str) -> None:
    refuse_options(arguments, lambda word: "standard_streams" if names_stream(word, cwd) else "")


def _refuse_variables(environ: Mapping[str, str]) -> None:
    for name in _SIDE_EFFECTS:
        if name in environ:
            raise PassThrough("side_output", name)


def links_device_code(arguments: tuple[str, ...]) -> bool:
    """Does clang, as a linker, put relocatable device code together? By the new driver it does so wherever there is
    any in the objects."""
    if "--hip-link" not in arguments and "--offload-link" not in arguments:
        return False
    drivers = [word for word in arguments if word in _DRIVERS]
    return is_relocatable(arguments) or drivers[-1:] == ["--offload-new-driver"]


def preprocesses(arguments: Iterable[str]) -> bool:
    """Does it preprocess? (Without an output file, to standard output.)"""
    return any(word in ("-E", "--preprocess") for word in arguments)


def is_relocatable(arguments: tuple[str, ...]) -> bool:
    """Is device code compiled to be linked (-fgpu-rdc)? The last option counts."""
    rdc = [word for word in arguments if word in _RDC]
    return bool(rdc) and not rdc[-1].startswith("-fno-")


def compiles_and_links(arguments: tuple[str, ...]) -> bool:
    """Does this one command compile HIP sources and link a program?"""
    if not COMPILES.isdisjoint(arguments) or any(map(why_passed_through_in_program, arguments)):
        return False
    language = ""
    for _, word, value in words_of(arguments):
        if _sets_language(word):
            language = _language(word, value)
        elif not word and is_hip(value, language):
            return True
    return False


def is_hip(source: str, language: str) -> bool:
    """Does clang compile it as HIP? `language` is that of the last -x before it, or empty."""
    if language in ("", "none"):
        return source.endswith(".hip")
    return language == "hip" and not source.endswith((".o", ".a", ".so"))
