"""Builders of packages: which one runs this process, and below which directory it keeps what it builds.

A builder compiles each package in a directory of another name. What lies below that directory is keyed without it, as
with HIPCACHE_BASEDIR, so that the next build of the package shares what this one has made. Each builder says in the
environment who it is; where it does not say its directory too, that is looked for above the working directory:

    builder        known by                       its directory                                                source
    dpkg           DEB_BUILD_ARCH; debhelper:     the nearest parent with debian/changelog        dpkg-buildpackage(1)
                   DH_INTERNAL_OPTIONS
    rpmbuild       RPM_PACKAGE_NAME               RPM_BUILD_DIR                                       rpm: build/build.c
    Nix, Guix      NIX_BUILD_TOP                  the same                       Nix: libstore, derivation-builder.cc
    Portage        PORTAGE_BUILDDIR               the same                                                    ebuild(5)
    conda-build,   CONDA_BUILD                    SRC_DIR                            conda-build: environment variables
    rattler-build
    Spack          SPACK_SHORT_SPEC               the nearest parent spack-stage-*         Spack: build_environment.py
    makepkg        TEXTDOMAIN=pacman-scripts      the nearest parent `src` beside `pkg`               makepkg.sh.in
    pip, build, uv PEP517_BUILD_BACKEND, or       the nearest parent with pyproject.toml or setup.py    pyproject_hooks
                   _PYPROJECT_HOOKS_BUILD_BACKEND

The native launcher starts no resident below any of them but the last (`is_package_build` in native/direct/ask.c has the
same list).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from hipcache.base import shared
from hipcache.base.values import dataclass
from hipcache.config.files import parents


@dataclass(frozen=True)
class Room:
    """The directory that a builder works below, and why it is taken for that."""

    path: str
    why: str


@dataclass(frozen=True)
class _Builder:
    """It runs where the environment has one of the variables `known_by` (with `value`, if there is one). `variable`:
    the environment variable that names the directory; if it is empty, `holds` knows it by its path."""

    name: str
    known_by: tuple[str, ...]
    value: str = ""
    variable: str = ""
    holds: Callable[[str], bool] = lambda path: False
    sign: str = ""

    def is_here(self, environ: Mapping[str, str]) -> bool:
        found = [environ[name] for name in self.known_by if name in environ]
        return self.value in found if self.value else bool(found)


def _is_debian_source(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "debian", "changelog"))


def _is_spack_stage(path: str) -> bool:
    return os.path.basename(path).startswith("spack-stage-")


def _is_makepkg_source(path: str) -> bool:
    return os.path.basename(path) == "src" and os.path.isdir(os.path.join(os.path.dirname(path), "pkg"))


def _is_python_project(path: str) -> bool:
    return any(os.path.isfile(os.path.join(path, name)) for name in ("pyproject.toml", "setup.py"))


_BUILDERS = (
    _Builder(
        "dpkg",
        ("DEB_BUILD_ARCH", "DH_INTERNAL_OPTIONS", "DH_INTERNAL_BUILDFLAGS"),
        holds=_is_debian_source,
        sign="debian/changelog",
    ),
    _Builder("rpmbuild", ("RPM_PACKAGE_NAME",), variable="RPM_BUILD_DIR"),
    _Builder("Nix", ("NIX_BUILD_TOP",), variable="NIX_BUILD_TOP"),
    _Builder("Portage", ("PORTAGE_BUILDDIR",), variable="PORTAGE_BUILDDIR"),
    _Builder("conda", ("CONDA_BUILD",), variable="SRC_DIR"),
    _Builder("Spack", ("SPACK_SHORT_SPEC",), holds=_is_spack_stage, sign="its stage"),
    _Builder(
        "makepkg", ("TEXTDOMAIN",), value=shared.MAKEPKGS_TEXTDOMAIN, holds=_is_makepkg_source, sign="src beside pkg"
    ),
    # Behind the others: a package's rules may call it.
    _Builder(
        "Python's build hooks",
        ("PEP517_BUILD_BACKEND", "_PYPROJECT_HOOKS_BUILD_BACKEND"),
        holds=_is_python_project,
        sign="pyproject.toml or setup.py",
    ),
)


def room(environ: Mapping[str, str], working_directory: Callable[[], str] = os.getcwd) -> Room | None:
    """The directory of the builder that runs this process; None if there is no builder, or it works elsewhere."""
    here = [builder for builder in _BUILDERS if builder.is_here(environ)]
    if not here:
        return None
    try:
        cwd = working_directory()
    except OSError:
        return None
    for builder in here:
        if builder.variable:
            path = _spelled(environ.get(builder.variable, ""), cwd)
            why = f"{builder.variable} of {builder.name}"
        else:
            path = next(filter(builder.holds, parents(cwd)), "")
            why = f"{builder.sign}, in a build by {builder.name}"
        if path:
            return Room(path, why)
    return None


def _spelled(path: str, cwd: str) -> str:
    """The directory as its paths are spelled; empty unless the working directory is in it. `/` would be everything."""
    if not path.startswith("/"):
        return ""
    path = os.path.normpath(path)
    real = os.path.realpath(path)
    inside = real != "/" and (cwd == real or cwd.startswith(real + "/"))
    return real if inside else ""
