"""IREE's two targets for AMD GPUs are not each other: what a command says and IREE would silently make otherwise.

`hip` is ROCm's runtime, `amdgpu` is HSA without it; a module for one does not load on the other. Measured with IREE
3.13: of several `--iree-rocm-target` the last one wins; of several devices the first; `--iree-rocm-container-type` puts
the other device's container into a module; `--iree-hal-target-backends` overrules `--iree-hal-target-device`. None of
these says a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hipcache.errors import Refused, nearest

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


def check(arguments: Sequence[str]) -> None:
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
