"""The subcommands: one verb, one file, one page.

A verb's module has `SUMMARY` (one line), `add_arguments(parser)` and `run(options, console) -> int`; it prints to
`console.out` and raises HipcacheError for a fault. Here its words are parsed and its errors shown: two lines on
standard error, exit status 1 for a fault and 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import io
import keyword
import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TextIO

from hipcache import VERBS as VERBS
from hipcache import __version__
from hipcache.base import features
from hipcache.base.errors import HipcacheError, nearest
from hipcache.base.values import dataclass, field
from hipcache.processes.runner import Runner, SubprocessRunner

OPTIONS = {
    "--cmakedir": "print the directory of HipCache.cmake",
    "--mesondir": "print the directory of the Meson files",
    "--sconsdir": "print the directory of the SCons tool",
    "--version": "print the version",
    "-h": "",
    "--help": "print this help",
}
_FULL = "free some space on that disk, or write to another one"
_ADVICE = {errno.ENOENT: "check its name", errno.ENOSPC: _FULL, errno.EDQUOT: _FULL}
FAULT = 1
USAGE = 2


@dataclass(frozen=True)
class Console:
    """The outside world, as a verb sees it."""

    environ: Mapping[str, str]
    out: TextIO
    err: TextIO
    runner: Runner = field(default_factory=SubprocessRunner)


def run(argv: Sequence[str], environ: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    return dispatch(argv, Console(environ, out, err))


def dispatch(argv: Sequence[str], console: Console) -> int:
    for stream in (console.out, console.err):
        # Paths are bytes; those that are no UTF-8 are printed as they are.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")
    try:
        status = _dispatch(argv, console)
        console.out.flush()
    except HipcacheError as error:
        print(f"hipcache: {error}", file=console.err)
        return FAULT
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _end_output(console)  # the reader (`| head`) has gone
        return FAULT
    except OSError as error:
        _end_output(console)
        place = f": '{error.filename}'" if error.filename else ""
        advice = _ADVICE.get(error.errno or 0, "check permissions and free space")
        print(f"hipcache: {error.strerror or error}{place}\n  {advice}", file=console.err)
        return FAULT
    return status


def _end_output(console: Console) -> None:
    """Drop what cannot be written: Python would complain when it flushes at its end."""
    try:
        console.out.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), console.out.fileno())


def _dispatch(argv: Sequence[str], console: Console) -> int:
    if not argv:
        print(_usage(), end="", file=console.err)
        return USAGE
    word, rest = argv[0], list(argv[1:])
    if word == "help":
        # As git and cargo have it.
        if rest[:1] == ["help"]:
            rest = []
        if rest and rest[0] not in VERBS:
            near = _hint_for(rest[0], VERBS, "hipcache --help")
            return _wrong_usage(f"there is no subcommand '{rest[0]}'", near, console)
        word, rest = (rest[0], ["--help", *rest[1:]]) if rest else ("--help", rest)
    if word in VERBS:
        return _run_verb(word, rest, console)
    if word not in OPTIONS:
        from hipcache.cli.ccache_options import hint

        near = hint(word) or _hint_for(word, [*VERBS, *OPTIONS], "hipcache --help")
        return _wrong_usage(f"unknown option '{word}'", near, console)
    if rest:
        return _wrong_usage(f"'{word}' takes no arguments, but got '{rest[0]}'", "see 'hipcache --help'", console)
    if word == "--version":
        text = f"hipcache {__version__}\n"
    elif word in ("--help", "-h"):
        text = _usage()
    else:
        from hipcache.cli.toolchain import support_files

        text = f"{support_files(word.removeprefix('--').removesuffix('dir'))}\n"
    print(text, end="", file=console.out)
    return 0


def _run_verb(verb: str, words: list[str], console: Console) -> int:
    try:
        found = module(verb)
    except HipcacheError:
        if "--step" in words:  # a build goes on without a feature
            return 0
        raise
    parser = _Parser(f"hipcache {verb}", found.SUMMARY, console.out)
    found.add_arguments(parser)
    try:
        takes_command = getattr(found, "TAKES_COMMAND", False)
        parse = parser.parse_known_args if takes_command else parser.parse_known_intermixed_args
        options, unknown = parse(words)
        if unknown:
            known = [option for action in parser._actions for option in action.option_strings]
            hint = _hint_for(unknown[0], known, f"{parser.prog} --help")
            kind = "option" if unknown[0].startswith("-") else "argument"
            raise _UsageError(f"unknown {kind} '{unknown[0]}' for '{parser.prog}'", hint)
    except _HelpShown:
        return 0
    except _UsageError as error:
        return _wrong_usage(error.message, error.hint, console)
    status: int = found.run(options, console)
    return status


def module(verb: str) -> Any:
    """That of a subcommand; a word of Python's own, or a name of this module's, has a mark behind it. Raises
    HipcacheError if its feature is not there."""
    name = f"hipcache.cli.{verb}" + ("_" if keyword.iskeyword(verb) or verb == run.__name__ else "")
    name = next((verbs[verb] for verbs in features.added("VERBS") if verb in verbs), name)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise HipcacheError(f"this hipcache has no '{verb}'", "see 'hipcache --help'") from error


class _UsageError(HipcacheError):
    pass


class _HelpShown(Exception):
    pass


class _Parser(argparse.ArgumentParser):
    """argparse, but it writes where it is told to, and reports in two lines."""

    def __init__(self, prog: str, description: str, out: TextIO) -> None:
        super().__init__(prog, description=description, allow_abbrev=False)
        self._out = out

    def print_help(self, file: object = None) -> None:
        super().print_help(self._out)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _HelpShown

    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{message}, in '{self.prog}'", f"see '{self.prog} --help'")


def _wrong_usage(message: str, hint: str, console: Console) -> int:
    print(f"hipcache: {message}\n  {hint}", file=console.err)
    return USAGE


def _hint_for(word: str, known: Sequence[str], help_command: str) -> str:
    near = nearest(word, known)
    return f"did you mean '{near}'?" if near else f"see '{help_command}'"


def _usage() -> str:
    lines = ["usage: hipcache COMPILER ARGS...", "       hipcache SUBCOMMAND [--help]", ""]
    lines += ["Runs COMPILER (clang++, amdclang++, hipcc), and serves its HIP compiles from the cache.", ""]
    for verb in VERBS:
        with contextlib.suppress(HipcacheError):
            summary = module(verb).SUMMARY
            lines.append(f"  {verb:<12}{summary}")
    lines.append("")
    lines += [f"  {option:<12}{summary}" for option, summary in OPTIONS.items() if summary]
    return "\n".join(lines) + "\n"
