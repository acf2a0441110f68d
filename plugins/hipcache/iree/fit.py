"""Does a module fit a device and a target? In one line why not, and what to do."""

from __future__ import annotations

from hipcache.iree.module import AMDGPU, HIP, LOCAL, Module
from hipcache.patterns import pattern
from hipcache.values import dataclass

# iree-compile's names for the targets of products (IREE 3.13).
PRODUCTS = {
    **dict.fromkeys(["mi100", "cdna1"], "gfx908"),
    **dict.fromkeys(["mi210", "mi250", "mi250x", "cdna2"], "gfx90a"),
    **dict.fromkeys(["mi300a", "mi300x", "mi308x", "mi325x", "cdna3"], "gfx942"),
    **dict.fromkeys(["mi350x", "mi355x", "cdna4"], "gfx950"),
    **dict.fromkeys(["rx7900xt", "rx7900xtx", "w7800", "w7900"], "gfx1100"),
    **dict.fromkeys(["rx7700xt", "rx7800xt", "v710", "w7700"], "gfx1101"),
    **dict.fromkeys(["rx9060xt"], "gfx1200"),
    **dict.fromkeys(["rx9070", "rx9070xt", "r9700"], "gfx1201"),
}
# Names of iree-run-module's drivers for the processor.
LOCAL_DRIVERS = ("local-task", "local-sync")
DEVICES = (HIP, AMDGPU, LOCAL, *LOCAL_DRIVERS)
# NAME.DEVICE.TARGET.vmfb: what a module's own name says of it.
_CLAIM = pattern(r"\.(hip|amdgpu|local)(?:\.([\w+:-]+))?\.vmfb$")


@dataclass(frozen=True)
class Wanted:
    """`device` and `target` may be empty: then any will do."""

    device: str = ""
    target: str = ""


def claimed(path: str) -> Wanted:
    found = _CLAIM.search(path)
    return Wanted(found[1], found[2] or "") if found else Wanted()


def flag(module: Module) -> str:
    """The option for iree-run-module; empty if it is not clear."""
    device = module.devices[0] if len(module.devices) == 1 else ""
    return f"--device={LOCAL_DRIVERS[0] if device == LOCAL else device}" if device else ""


def misfit(module: Module, wanted: Wanted) -> str:
    """The reason why it does not fit, in one line; empty if it fits."""
    name = f"'{module.path}'"
    disagreement = _disagreement(module)
    if disagreement:
        return f"{name} {disagreement}"
    device = LOCAL if wanted.device in LOCAL_DRIVERS else wanted.device
    if device and module.devices and device not in module.devices:
        return (
            f"{name} is built for {described(module)}, not for {wanted.device}: run it with {flag(module)}, "
            f"or compile it with --iree-hal-target-device={device}"
        )
    arch = PRODUCTS.get(wanted.target.lower(), wanted.target)
    if arch and module.archs and arch not in module.archs:
        return (
            f"{name} is built for {' '.join(module.archs)}, not for {wanted.target}: "
            f"compile it with --iree-rocm-target={wanted.target}"
        )
    return ""


def _disagreement(module: Module) -> str:
    """Between the device that it asks for and the executables that it has for it."""
    for device, other in ((HIP, AMDGPU), (AMDGPU, HIP)):
        if module.devices == (device,):
            wrong = [one for one in module.containers if one != device]
            if wrong:
                held = f"a container of {other}" if other in wrong else wrong[0]
                return (
                    f"asks for {device} and holds {held}, so that nothing loads it: "
                    "compile it again without --iree-rocm-container-type"
                )
    return ""


def described(module: Module) -> str:
    """ "hip gfx942"."""
    return " ".join([*(module.devices or ("no device",)), *module.archs])
