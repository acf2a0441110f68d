"""The command of iree-compile, as a value: its options, its input, its one output; or why it is left alone.

What it reads is not looked for here: it is observed while it runs (`iree/process`). Options are LLVM's: one or
two dashes, `--name=value` or `--name value`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial

from hipcache.config import Config
from hipcache.errors import PassThrough
from hipcache.inputs.keys import digest_bytes
from hipcache.iree import targets
from hipcache.patterns import pattern
from hipcache.planning.command import Command, no_hint
from hipcache.planning.responses import expand
from hipcache.planning.streams import is_stream

# Options that write more than the module, print, or say how long it took; of IREE 3.13, and of MLIR and LLVM in it.
_WRITES_MORE = pattern(
    r"dump-compilation-phases-to|iree-hal-dump-|iree-codegen-dump-|iree-flow-dump-|iree-scheduling-dump-"
    r"|iree-parameter-(export|splat|encoder-output-file)|iree-llvmcpu-keep-linker-artifacts"
    r"|iree-util-hoist-into-globals-print|iree-consteval-jit-debug|iree-print-plugin-info"
    r"|mlir-(timing|pass-statistics|print-ir|pass-pipeline-crash-reproducer|enable-debugger-hook)|profile-actions-to"
    r"|log-(actions|mlir-actions)-to|remarks?-output-file|time-(passes|trace)|stats|print-(before|after)|debug(-only)?$|save-temps"
)
STANDARD_INPUT = "-"
# A source there is read once, and is there again for whoever runs the command.
_AT_ONCE = 1 << 20
_AGAIN = "/proc/self/fd/0"
_ASKS = pattern(r"(help(-hidden|-list)?|version|iree-list-plugins|iree-hal-list-target-)")
# A program or a library of somebody else's, which may do anything.
_RUNS_OTHERS = pattern(r"iree-hal-preprocess-executables-with|iree-load-plugin|load(-pass-plugin)?$")


def read(argv: tuple[str, ...], cwd: str, typed: tuple[str, ...], config: Config) -> tuple[Command]:
    """See `kinds.read`. A source on standard input is there again for whoever runs the command."""
    command = parse(argv, cwd, typed=typed, checks=config.iree_checks)
    if command.source == STANDARD_INPUT:
        _keep_standard_input()
    return (command,)


def parse(argv: tuple[str, ...], cwd: str, *, typed: tuple[str, ...], checks: bool) -> Command:
    """Raises PassThrough; and Refused with `checks`."""
    arguments = expand(argv[1:], cwd)
    outputs: list[str] = []
    for name, value in options(arguments):
        if name == "o":
            outputs.append(value)
        elif _ASKS.match(name):
            raise PassThrough("asks_driver", f"--{name}")
        elif _WRITES_MORE.match(name):
            raise PassThrough("iree_output", f"--{name}")
        elif _RUNS_OTHERS.match(name):
            raise PassThrough("plugin", f"--{name}")
    for word in arguments:
        if any(_is_stream(part, cwd) for part in word.split("=")):
            raise PassThrough("standard_streams", word)
    if checks:
        targets.check(arguments)
    if not outputs or outputs[-1] in ("", "-"):
        raise PassThrough("standard_streams", "it writes the module to standard output")
    if len(outputs) > 1:
        raise PassThrough("iree_output", "-o more than once")
    inputs = list(positional(arguments))
    if not inputs:
        raise PassThrough("iree_output", "no input")
    if STANDARD_INPUT in arguments and inputs != [STANDARD_INPUT]:
        raise PassThrough("standard_streams", "standard input beside something else")
    hint = partial(targets.unknown_target, arguments) if checks else no_hint
    return Command(argv, typed, arguments, cwd, inputs[-1], outputs[0], own_cuid=True, hint=hint)


def _is_stream(path: str, cwd: str) -> bool:
    return (
        path not in ("", STANDARD_INPUT)
        and not os.path.isdir(os.path.join(cwd, path))
        and is_stream(os.path.join(cwd, path))
    )


def options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(name without its dashes, value) of each; the next word counts as the value of one that has none with it."""
    for word, after in zip(arguments, (*arguments[1:], ""), strict=False):
        if word == "--":
            return
        if word.startswith("-") and len(word) > 1:
            name, equals, value = word.lstrip("-").partition("=")
            yield name, value if equals else after


def positional(arguments: Sequence[str]) -> Iterator[str]:
    """The words that may be inputs: those that are no options, and no value of -o."""
    ended = False
    for before, word in zip(("", *arguments), arguments, strict=False):
        if not ended and word == "--":
            ended = True
        elif ended or not ((word.startswith("-") and word != STANDARD_INPUT) or before.lstrip("-") == "o"):
            yield word


def without_output(arguments: Sequence[str]) -> list[str]:
    """All words but -o and its value."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*kept, word, *words]
        if word in ("-o", "--o"):
            next(words, None)
        elif not word.startswith(("-o=", "--o=")):
            kept.append(word)
    return kept


def _keep_standard_input() -> None:
    """Put all of it into memory, as this process' standard input, to be read from its beginning. Raises OSError before
    anything is read, if there is no such memory."""
    kept = os.memfd_create("standard input", 0)
    try:
        while piece := os.read(0, _AT_ONCE):
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(kept, rest) :]
        os.lseek(kept, 0, os.SEEK_SET)
        os.dup2(kept, 0)
    finally:
        os.close(kept)


def standard_input() -> tuple[bytes, str]:
    """The content that `read` has kept, and its digest. Raises PassThrough."""
    try:
        with open(_AGAIN, "rb") as file:
            kept = file.read()
        return kept, digest_bytes(kept)
    except OSError as error:
        raise PassThrough("standard_streams", f"it cannot be read again: {error.strerror}") from error
