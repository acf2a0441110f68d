"""`hipcache --cmakedir`, `--mesondir`, `--sconsdir`: where the files for a build tool are installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import hipcache
from hipcache.errors import HipcacheError

# For each build tool: its directory below an installation's prefix, and below a source checkout.
PLACES = {
    "cmake": ("share/cmake/HipCache", "cmake"),
    "meson": ("share/hipcache/meson", "meson"),
    "scons": ("share/hipcache/scons", "plugins/hipcache_scons"),
}


def find(tool: str, package: Path | None = None, prefix: Path | None = None) -> Path:
    """The directory for `tool` of the installation, or checkout, that this very package belongs to."""
    imported = package or Path(hipcache.__file__).parent
    package, prefix = imported.resolve(), prefix or Path(sys.prefix)
    installed, in_checkout = PLACES[tool]
    checkout = package.parent.parent
    candidates = [checkout / in_checkout] if (checkout / "pyproject.toml").is_file() else []
    # `pip install --target` puts them beside the package, and records that they are elsewhere.
    candidates += [base / installed for base in (package.parent, *_recorded_prefixes(package, installed))]
    if imported.is_relative_to(prefix) or package.is_relative_to(prefix.resolve()):
        candidates.append(prefix / installed)
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    places = " or ".join(f"'{candidate}'" for candidate in candidates)
    raise HipcacheError(
        f"there are no files for '{tool}' in {places}",
        f"install a hipcache package that has them; this is {hipcache.__version__} in '{package}'",
    )


def _recorded_prefixes(package: Path, installed: str) -> Iterator[Path]:
    """The directories where the installer recorded that it put files below `installed`. A distribution of the same name
    that holds another copy of this package (beside an editable install) is not asked."""
    try:
        distribution = metadata.distribution("hipcache")
    except metadata.PackageNotFoundError:
        return
    if Path(str(distribution.locate_file("hipcache"))).resolve() != package:
        return
    for file in distribution.files or ():
        path = Path(str(distribution.locate_file(file))).resolve()
        if f"/{installed}/" in path.as_posix():
            yield Path(path.as_posix().partition(f"/{installed}/")[0])
            return
