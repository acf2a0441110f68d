"""Packages of HIP libraries through hipcache: another directory, entry or architecture compiles only what is new, and
the packages are those that are built without it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hipcache
import pytest
from dpkg_room import Dpkg, hipcache_of_debian, source_tree
from hip import FULL, LAUNCHER, script
from hipcache.base import native
from makepkg_room import Makepkg
from nix_room import Nix
from packaging_rooms import CHECKOUT, FIRST, NEXT, SMALL, Builder, Source, columns, member
from portage_room import Portage
from rpmbuild_room import Rpmbuild
from sbuild_room import Sbuild

ARCHES = ("gfx906", "gfx90a", "gfx1010", "gfx1030")
NEW = "gfx908"
# Python with other directories of its own, for `-m MODULE` and `-c CODE`.
LIB64 = """\
import runpy, sys, sysconfig
ours = sysconfig.get_paths
def theirs(scheme="posix_prefix", vars=None, expand=True):
    return ours("posix_prefix", {"platlibdir": "lib64", **(vars or {})}, expand)
sysconfig.get_paths = theirs
sysconfig.get_path = lambda name, *_, **__: theirs()[name]
_, way, what, *words = sys.argv
sys.argv = [way, *words]
exec(what) if way == "-c" else runpy.run_module(what, run_name="__main__", alter_sys=True)
"""
full = pytest.mark.skipif(not FULL, reason="make test-full builds this package, too")


@pytest.fixture
def place() -> Iterator[Path]:
    found = Path(tempfile.mkdtemp(prefix="hipcache-packages-"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found, ignore_errors=True)


def counted(builder: Builder) -> tuple[dict[str, int], set[str]]:
    """(compiles by outcome, the units that were not there) since the last call; without CMake's own checks of C++."""
    said = builder.run([LAUNCHER[0], "stats", "--json", "--zero"], builder.place, {})
    found = json.loads(said)
    compiles = {name: number for name, number in found["compiles"].items() if number and name != "passed_through"}
    return compiles, {name for name, unit in found["units"].items() if unit["misses"]}


def check(builder: Builder, source: Source, sources: int, *, thoroughly: bool = True) -> None:
    """`thoroughly`: with more architectures, and one thing that is new at a time."""
    few = ARCHES if thoroughly else ARCHES[:2]
    env, more = {"ARCHES": " ".join(few)}, {"ARCHES": " ".join((*few, NEW))}
    plain, package = builder.build("plain", source, FIRST, env), builder.whole
    assert builder.cached("cold-x1", source, FIRST, env) == plain
    assert builder.whole == package
    assert counted(builder) == ({"miss": sources}, {*few, "host"})
    if thoroughly:
        assert builder.cached("warm-another-place", source, FIRST, env) == plain
        assert builder.whole == package
        assert counted(builder) == ({"hit": sources}, set())
    assert builder.cached("new-entry-y2", source, NEXT, env) == plain
    assert counted(builder) == ({"hit": sources}, set())
    made, package = builder.cached("more-zz3", source, NEXT, more), builder.whole
    assert counted(builder) == ({"partial": sources}, {NEW})
    if thoroughly:
        assert made == builder.build("plain-more", source, NEXT, more)
        assert builder.whole == package


@pytest.mark.parametrize(
    "builder", [Dpkg, *(pytest.param(one, marks=full) for one in (Sbuild, Rpmbuild, Makepkg, Nix, Portage))]
)
def test_a_small_library(place: Path, builder: type[Builder]) -> None:
    check(builder(place), SMALL, 2, thoroughly=FULL)


@full
@pytest.mark.parametrize("builder", [Dpkg, Sbuild, Rpmbuild, Makepkg, Nix, Portage])
@pytest.mark.parametrize("language", ["hip", "hipcc"])
def test_the_example(place: Path, builder: type[Builder], language: str) -> None:
    check(builder(place), columns(language), 7)


# Where packagers put the parts


@pytest.mark.parametrize("place", ["libexec", "lib"])
def test_the_engine_may_stand_in_libexec_or_lib(tmp_path: Path, place: str) -> None:
    program, engine = tmp_path / "bin/hipcache", tmp_path / place / "hipcache/hipcache-engine"
    for path in (program, engine):
        path.parent.mkdir(parents=True)
    shutil.copy(LAUNCHER[0], program)

    def said() -> str:
        return subprocess.run([program, "stats"], capture_output=True, text=True, check=False, timeout=60).stdout

    assert said() == ""
    engine.write_text("#!/bin/sh\necho elsewhere: $*\n")
    engine.chmod(0o755)
    assert said() == "elsewhere: stats\n"
    (tmp_path / "bin/hipcache-engine").write_text("#!/bin/sh\necho beside: $*\n")
    (tmp_path / "bin/hipcache-engine").chmod(0o755)
    assert said() == "beside: stats\n"


def test_a_library_that_dh_python3_has_renamed_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renamed = tmp_path / "libhipcache.cpython-311-x86_64-linux-gnu.so"
    shutil.copy(native.PATH, renamed)
    monkeypatch.setattr(native, "PATH", tmp_path / "libhipcache.so")
    opened = native._open.__wrapped__()
    assert opened is not None
    assert opened._name == str(renamed)
    renamed.unlink()
    assert native._open.__wrapped__() is None


# hipcache itself


# A root of its own: the system's files below a layer that is gone afterwards, without the checkout.
ROOT = """\
set -e
mount -t tmpfs none {place}/root
cd {place}/root
mkdir up work root
mount -t overlay overlay -o lowerdir=/,upperdir=$PWD/up,workdir=$PWD/work root
mount --bind /proc root/proc
mount --rbind /dev root/dev
mount -t tmpfs none root/tmp
mount -t tmpfs none root{checkout}
cp -r {packages} {smoke} root/tmp/
exec chroot root /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 sh -ec 'cd /tmp; {install}; sh smoke'
"""


def installed_and_tried(place: Path, packages: list[Path], install: str) -> str:
    """What the package's own smoke test prints where it is installed."""
    namespace = ["unshare", "--mount"]
    if os.geteuid() != 0 or subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("the package is built; this user or machine mounts nothing, so it cannot be installed apart")
    (place / "root").mkdir()
    script = ROOT.format(
        place=place,
        checkout=CHECKOUT,
        packages=" ".join(map(str, packages)),
        smoke=CHECKOUT / "packaging/debian/debian/tests/smoke",
        install=install,
    )
    done = subprocess.run(
        [*namespace, "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1800,
    )
    if done.returncode == 32:  # mount(8): a mount failed
        pytest.skip(f"this machine has no overlays: {done.stdout}")
    assert done.returncode == 0, done.stdout
    return done.stdout


def described(program: bytes, place: Path) -> str:
    """What readelf says of its headers, its segments, and what it asks of libraries."""
    place.write_bytes(program)
    argv = ["readelf", "--wide", "--file-header", "--segments", "--dynamic", "--dyn-syms", place]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_hipcache_is_a_package_of_debian(place: Path) -> None:
    """dpkg installs it, and it compiles. In a full run: built in two directories it is the same, and lintian finds no
    error in it."""
    builder, built = Dpkg(place), []
    for name in ("one", "another/place") if FULL else ("one",):
        built.append(hipcache_of_debian(builder, place / name))
    assert len({package.read_bytes() for package in built}) == 1
    tree = ["dpkg-deb", "--fsys-tarfile", built[0]]
    program = member(subprocess.run(tree, stdout=subprocess.PIPE, check=True).stdout, "usr/bin/hipcache")
    found = described(program, place / "program")
    for sign in ("DYN (Position-Independent", "INTERP", "GNU_RELRO", "BIND_NOW", "__stack_chk_fail", "printf_chk"):
        assert sign in found, "the builder's own flags harden it"
    if FULL and shutil.which("lintian"):
        (changes,) = built[0].parent.glob("*.changes")
        builder.run(["lintian", "--fail-on", "error", changes], place, {})
    install = "dpkg -i --force-depends hipcache_*.deb >/dev/null"
    said = installed_and_tried(place, built[:1], install)
    assert said.splitlines()[-1] == f"hipcache {hipcache.__version__}"


@full
def test_autopkgtest_passes(place: Path) -> None:
    """On the installed package, in a root of its own as the machine that is tested."""
    if not shutil.which("autopkgtest"):
        pytest.skip("autopkgtest is not installed (scripts/setup.sh)")
    package = hipcache_of_debian(Dpkg(place), place)
    tree = place / f"hipcache-{hipcache.__version__}"
    install = f"dpkg -i hipcache_*.deb >/dev/null; autopkgtest --no-built-binaries ./{tree.name}/ -- null"
    assert re.search(r"^smoke +PASS$", installed_and_tried(place, [package, tree], install), re.MULTILINE)


def _archive(place: Path) -> Path:
    tree = source_tree(place)
    made = shutil.make_archive(str(tree), "gztar", place, tree.name)
    shutil.rmtree(tree)
    return Path(made)


@full
def test_hipcache_is_a_package_of_rpm(place: Path) -> None:
    builder = Rpmbuild(place)
    for name in ("SOURCES", "SPECS"):
        (place / name).mkdir()
    shutil.move(_archive(place), place / "SOURCES")
    spec = CHECKOUT / "packaging/fedora/hipcache.spec"
    argv = ["rpmbuild", "-bb", "--nodeps", "--define", f"_topdir {place}", spec]
    builder.run(argv, place, {"DEB_PYTHON_INSTALL_LAYOUT": "deb"})
    (package,) = (path for path in place.glob("RPMS/*/hipcache-*.rpm") if "debug" not in path.name)
    if shutil.which("rpmlint"):
        builder.run(["rpmlint", "-r", spec.with_suffix(".rpmlintrc"), package], place, {})
    install = "rpm2archive hipcache-*.rpm && tar -C / --keep-directory-symlink -xzf hipcache-*.tgz"
    said = installed_and_tried(place, [package], install)
    assert said.splitlines()[-1] == f"hipcache {hipcache.__version__}"


@full
def test_hipcache_is_a_package_of_rpm_where_python_has_lib64(place: Path) -> None:
    """As on Fedora and openSUSE. The file list names where native files go: rpmbuild refuses any that is not in it."""
    builder = Rpmbuild(place)
    (place / "SOURCES").mkdir()
    shutil.move(_archive(place), place / "SOURCES")
    script(place / "python3", LIB64, program="/usr/bin/python3")
    argv = ["rpmbuild", "-bb", "--nodeps", "--define", f"_topdir {place}", "--define", f"__python3 {place}/python3"]
    builder.run([*argv, CHECKOUT / "packaging/fedora/hipcache.spec"], place, {"DEB_PYTHON_INSTALL_LAYOUT": "deb"})
    (package,) = (path for path in place.glob("RPMS/*/hipcache-*.rpm") if "debug" not in path.name)
    names = subprocess.run(["rpm", "-qlp", package], capture_output=True, text=True, check=True, timeout=60).stdout
    assert re.search(r"^/usr/lib64/python3[^/]*/site-packages/hipcache/native/libhipcache.so$", names, re.MULTILINE)


@full
def test_hipcache_is_a_package_of_arch(place: Path) -> None:
    builder = Makepkg(place)
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    _archive(place)
    shutil.copy(CHECKOUT / "packaging/arch/PKGBUILD", place)
    builder.run(["makepkg", "-d"], place, {"PKGEXT": ".pkg.tar.gz", "DEB_PYTHON_INSTALL_LAYOUT": "deb"})
    (package,) = (path for path in place.glob("hipcache-*.pkg.tar.gz") if "debug" not in path.name)
    install = "tar -C / --keep-directory-symlink --exclude=.[A-Z]* -xzf hipcache-*.pkg.tar.gz"
    said = installed_and_tried(place, [package], install)
    assert said.splitlines()[-1] == f"hipcache {hipcache.__version__}"
