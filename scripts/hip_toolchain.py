"""The HIP toolchains of this machine, for tests, the demo, benchmarks and campaigns: the one place that knows versions.

TOOLCHAIN names the clangs to try, by version (TOOLCHAIN=23, TOOLCHAIN=21,22). Without it they are HIP's own, for which
the device libraries were built, and the next newer one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_LLVM = Path("/usr/lib")
# Debian 12 has device libraries beside all clangs. Later releases have them in the clang that they were built for,
# which finds them there by itself.
_BESIDE = Path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")
_WITHIN = "lib/clang/*/**/amdgcn/bitcode"
# From this version on, the new offload driver is HIP's default (llvm#123359), which has another plan.
_NEW_DRIVER = 23


@dataclass(frozen=True)
class Toolchain:
    """A clang with LLVM's directory. `device_libraries` (None if there are none that it may read), and the `flags` with
    which it finds them and HIP's headers."""

    version: str
    root: Path
    device_libraries: Path | None
    flags: tuple[str, ...]

    @property
    def compiler(self) -> Path:
        return self.root / "bin" / "clang++"

    @property
    def name(self) -> str:
        """The compiler's name on PATH."""
        return f"clang++-{self.version}"

    @property
    def has_new_driver(self) -> bool:
        """Is the new offload driver its default?"""
        return int(self.version) >= _NEW_DRIVER


@cache
def installed() -> dict[str, Toolchain]:
    """Version -> toolchain, the oldest first."""
    roots = {path.parent.parent for path in _LLVM.glob("llvm-[0-9]*/bin/clang++")}
    return {made.version: made for made in map(_toolchain, sorted(roots, key=lambda root: int(root.name[5:])))}


def _toolchain(root: Path) -> Toolchain:
    version = root.name.removeprefix("llvm-")
    if _BESIDE.is_dir():
        return Toolchain(version, root, _BESIDE, ("--rocm-path=/usr", f"--rocm-device-lib-path={_BESIDE}"))
    return Toolchain(version, root, next(root.glob(_WITHIN), None), ())


@cache
def chosen() -> tuple[Toolchain, ...]:
    """The toolchains to try: HIP's own is the first. Empty if there is no clang."""
    named = [version for version in os.environ.get("TOOLCHAIN", "").split(",") if version]
    if named:
        absent = [version for version in named if version not in installed()]
        if absent:
            known = ", ".join(installed()) or "none"
            raise SystemExit(f"TOOLCHAIN: clang {absent[0]} is not installed here\n  installed: {known}")
        return tuple(installed()[version] for version in named)
    with_libraries = [one for one in installed().values() if one.device_libraries is not None]
    if not with_libraries:
        return tuple(installed().values())[:1]
    # Libraries beside all clangs are as old as the oldest.
    own = with_libraries[0] if _BESIDE.is_dir() else with_libraries[-1]
    newer = [one for one in with_libraries if int(one.version) > int(own.version) and not one.has_new_driver]
    return (own, *newer[:1])


def hips_own() -> Toolchain:
    """Raises SystemExit if there is none."""
    if not chosen():
        raise SystemExit("no clang is installed in /usr/lib/llvm-*\n  install HIP: scripts/setup.sh (Debian, Ubuntu)")
    return chosen()[0]
