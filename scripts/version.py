"""Writes the version of plugins/hipcache/__init__.py into all files that repeat it (recipes, CMake, Meson).

    scripts/version.py [NEW]        NEW: goes into plugins/hipcache/__init__.py first

The entries of the changelogs, and the ebuild, whose version is its name, remain to be made.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "plugins/hipcache/__init__.py"
# Before the version, and behind it.
PLACES = {
    "cmake/HipCacheConfigVersion.cmake": ('set(PACKAGE_VERSION "', '"'),
    "meson/meson.build": ("project('hipcache', 'cpp', version: '", "'"),
    "packaging/arch/PKGBUILD": ("pkgver=", "\n"),
    "packaging/conda/recipe.yaml": ("  version: ", "\n"),
    "packaging/fedora/hipcache.spec": ("Version:        ", "\n"),
    "packaging/guix/hipcache.scm": ('(version "', '"'),
    "packaging/nix/package.nix": ('  version = "', '"'),
    "packaging/spack/hipcache/package.py": ('    version("', '"'),
    "packaging/spack/packages.yaml": ("hipcache@", "\n"),
}


def version() -> str:
    (found,) = re.findall(r'^__version__ = "(.+)"$', SOURCE.read_text(), re.MULTILINE)
    return str(found)


def texts(wanted: str) -> dict[Path, str]:
    """Each file as it is with that version. Raises ValueError where a file has no place for it."""
    made = {}
    for name, (before, behind) in PLACES.items():
        pattern = f"({re.escape(before)})[0-9][0-9.]*(?={re.escape(behind)})"
        made[ROOT / name], count = re.subn(pattern, rf"\g<1>{wanted}", (ROOT / name).read_text())
        if count != 1:
            raise ValueError(f"{name} has {count} places for a version")
    return made


def main() -> int:
    for new in sys.argv[1:]:
        SOURCE.write_text(SOURCE.read_text().replace(f'__version__ = "{version()}"', f'__version__ = "{new}"'))
    for path, text in texts(version()).items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
