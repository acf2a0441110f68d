"""The command of iree-compile, as a value: its options, its input, its one output; or why it is left alone.

What it reads is not looked for here: it is observed while it runs (`iree/planner`). Options are LLVM's: one or
two dashes, `--name=value` or `--name value`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import partial

from hipcache.base.errors import PassThrough, Refused, nearest
from hipcache.base.files import Descriptor, write_all
from hipcache.base.keys import digest_bytes
from hipcache.base.paths import is_stream
from hipcache.base.patterns import pattern
from hipcache.clang.command import Command, expand, no_hint
from hipcache.config import Config

# IREE's two targets for AMD GPUs are not each other: what a command says and IREE would silently make otherwise.
#
# `hip` is ROCm's runtime, `amdgpu` is HSA without it; a module for one does not load on the other. Measured with IREE
# 3.13: of several `--iree-rocm-target` the last one wins; of several devices the first; `--iree-rocm-container-type`
# puts the other device's container into a module; `--iree-hal-target-backends` overrules `--iree-hal-target-device`.
# None of these says a word.
HIP, AMDGPU = "hip", "amdgpu"
_DEVICE, _TARGET = "iree-hal-target-device", "iree-rocm-target"
_CONTAINER, _BACKENDS = "iree-rocm-container-type", "iree-hal-target-backends"
_CONTAINERS = {HIP: ("auto", "hip"), AMDGPU: ("auto", "amdgpu")}
# The targets of IREE 3.13, for hints only: iree-compile itself rejects the others.
TARGETS = (
    *("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1103", "gfx1150", "gfx1151", "gfx1200"),
    *("gfx1201", "gfx1250", "mi100", "mi210", "mi250", "mi250x", "mi300a", "mi300x", "mi325x", "mi355x"),
    *("rx7800xt", "rx7900xt", "rx7900xtx", "rx9070xt", "w7900", "v710", "r9700"),
)


def check_targets(arguments: Sequence[str]) -> None:
    """Raises Refused, with what to write instead."""
    # (An empty target in front of another one is none; iree-compile rejects an empty one that stands last.)
    devices, targets = values(arguments, _DEVICE), [value for value in values(arguments, _TARGET) if value]
    containers, backends = values(arguments, _CONTAINER), values(arguments, _BACKENDS)
    ours = [device for value in devices for device in re.split("[,;]", value) if device in (HIP, AMDGPU)]
    if len(set(ours)) > 1:
        raise Refused(
            f"--iree-hal-target-device names hip and amdgpu, and iree-compile makes a module for {ours[0]} alone",
            "run it once for each: --iree-hal-target-device=hip -o NAME.hip.vmfb, and the same with amdgpu",
        )
    for value in targets:
        if re.search("[,;]", value):
            first, second = re.split("[,;] *", value)[:2]
            raise Refused(
                f"--iree-rocm-target={value} is a list, and takes one target",
                f"run iree-compile once for each: --iree-rocm-target={first}, then --iree-rocm-target={second}",
            )
    if len(set(targets)) > 1:
        raise Refused(
            f"--iree-rocm-target is given {len(targets)} times ({', '.join(targets)}), and iree-compile takes the last",
            f"run it once for each target; for this one leave all out but --iree-rocm-target={targets[-1]}",
        )
    device = ours[-1] if ours else ""
    for container in containers:
        if device and container not in _CONTAINERS[device]:
            raise Refused(
                f"--iree-rocm-container-type={container} makes a module for {device} that {device} does not load",
                f"leave it out; for the other device write --iree-hal-target-device={_other(device)}",
            )
    if device == AMDGPU and "rocm" in backends:
        raise Refused(
            "--iree-hal-target-backends=rocm makes a module for hip of one for amdgpu",
            "leave it out: --iree-hal-target-device=amdgpu is enough; for hip write --iree-hal-target-device=hip",
        )


def values(arguments: Sequence[str], name: str) -> list[str]:
    """The values of all occurrences of an option: --name=value or --name value."""
    found = []
    for word, after in zip(arguments, (*arguments[1:], ""), strict=False):
        if word == "--":
            break
        option, equals, value = word.partition("=")
        if option in (f"-{name}", f"--{name}"):
            found.append(value if equals else after)
    return found


def unknown_target(arguments: Sequence[str], said: str) -> Refused | None:
    """After a failure that iree-compile tells of in these words: the same with the nearest known target."""
    targets = values(arguments, _TARGET)
    if not targets or f"Unknown ROCM target '{targets[-1]}'" not in said:
        return None
    near = nearest(targets[-1].lower(), TARGETS, 0.5)
    hint = f"did you mean --iree-rocm-target={near}?" if near else "name one such as gfx942, gfx90a or gfx1100"
    return Refused(f"iree-compile does not know --iree-rocm-target={targets[-1]}", hint)


def target_of(arguments: Sequence[str]) -> str:
    """The device and the target in words, for the account: "hip gfx942", "local"."""
    devices = values(arguments, _DEVICE) or values(arguments, _BACKENDS)
    device = devices[0] if devices else "module"
    targets = values(arguments, _TARGET)
    return " ".join([device, *targets[-1:]]) if device in (HIP, AMDGPU, "rocm") else device


def _other(device: str) -> str:
    return AMDGPU if device == HIP else HIP


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
        check_targets(arguments)
    if not outputs or outputs[-1] in ("", "-"):
        raise PassThrough("standard_streams", "it writes the module to standard output")
    if len(outputs) > 1:
        raise PassThrough("iree_output", "-o more than once")
    inputs = list(positional(arguments))
    if not inputs:
        raise PassThrough("iree_output", "no input")
    if STANDARD_INPUT in arguments and inputs != [STANDARD_INPUT]:
        raise PassThrough("standard_streams", "standard input beside something else")
    hint = partial(unknown_target, arguments) if checks else no_hint
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
    with Descriptor(os.memfd_create("standard input", 0)) as kept:
        while piece := os.read(0, _AT_ONCE):
            write_all(kept, piece)
        os.lseek(kept, 0, os.SEEK_SET)
        os.dup2(kept, 0)


def standard_input() -> tuple[bytes, str]:
    """The content that `read` has kept, and its digest. Raises PassThrough."""
    try:
        with open(_AGAIN, "rb") as file:
            kept = file.read()
        return kept, digest_bytes(kept)
    except OSError as error:
        raise PassThrough("standard_streams", f"it cannot be read again: {error.strerror}") from error
