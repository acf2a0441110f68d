"""The wheel: its exact list of files, and what a fresh environment with nothing but the wheel can do."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import hipcache
import pytest
from cmake_project import ARCHES, CHECKOUT, Project, simple_project

PACKAGE = CHECKOUT / "plugins" / "hipcache"
DATA = f"hipcache-{hipcache.__version__}.data/data"
SCRIPTS = f"hipcache-{hipcache.__version__}.data/scripts"
INFO = f"hipcache-{hipcache.__version__}.dist-info"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as for a release: the source distribution first, and the wheel from that."""
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(out), str(CHECKOUT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def prefix(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the wheel in it."""
    prefix = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(prefix)], check=True)
    pip = [str(prefix / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, str(wheel)], check=True)
    return prefix


def test_the_wheel_has_these_files_and_no_other(wheel: Path) -> None:
    packages = (PACKAGE, PACKAGE.parent / "hipcache_scons")
    modules = {path.relative_to(PACKAGE.parent).as_posix() for package in packages for path in package.rglob("*.py")}
    expected = {
        *modules,
        "hipcache/py.typed",
        "hipcache/native/libhipcache.so",
        f"{SCRIPTS}/hipcache",
        f"{DATA}/share/cmake/HipCache/HipCache.cmake",
        f"{DATA}/share/cmake/HipCache/HipCacheConfig.cmake",
        f"{DATA}/share/cmake/HipCache/HipCacheConfigVersion.cmake",
        f"{DATA}/share/hipcache/scons/hipcache.py",
        f"{INFO}/METADATA",
        f"{INFO}/RECORD",
        f"{INFO}/WHEEL",
        f"{INFO}/entry_points.txt",
        f"{INFO}/licenses/LICENSE",
    }
    assert set(zipfile.ZipFile(wheel).namelist()) == expected


def test_cmake_gets_the_version_of_the_python_package() -> None:
    text = (CHECKOUT / "cmake" / "HipCacheConfigVersion.cmake").read_text()
    assert f'set(PACKAGE_VERSION "{hipcache.__version__}")' in text


def test_cmakedir_is_where_the_wheel_put_the_module(prefix: Path) -> None:
    done = subprocess.run([prefix / "bin" / "hipcache", "--cmakedir"], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == f"{prefix}/share/cmake/HipCache\n"


# `python -m build` and pip see our own environment; CMake here shall see the fresh one only.
PLAIN_PATH = "/usr/bin:/bin"


@pytest.mark.parametrize("cmake", ["debian", "newest"])
@pytest.mark.parametrize("way", ["PATH", "CMAKE_PREFIX_PATH"])
def test_find_package_finds_the_installed_module_and_its_program(
    tmp_path: Path, prefix: Path, way: str, cmake: str
) -> None:
    project = Project(tmp_path, cmake, "Unix Makefiles", environ={"PATH": PLAIN_PATH})
    options = [ARCHES]
    if way == "PATH":
        project.environ["PATH"] = f"{prefix}/bin:{PLAIN_PATH}"
    else:
        options.append(f"-DCMAKE_PREFIX_PATH={prefix}")
    project.write(simple_project("find_package(HipCache REQUIRED)")).configure(*options)
    assert project.launchers() == {"kernels": f"{prefix}/bin/hipcache"}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("0.1", True),
        (hipcache.__version__, True),
        (f"{hipcache.__version__} EXACT", True),
        ("0.1...0.9", True),
        ("0.0.9 EXACT", False),
        ("99.0", False),
    ],
)
def test_find_package_knows_the_version(tmp_path: Path, asked: str, found: bool) -> None:
    text = f"""\
cmake_minimum_required(VERSION 3.21)
project(version LANGUAGES NONE)
find_package(HipCache {asked} QUIET CONFIG)
message(STATUS "found: ${{HipCache_FOUND}}")
"""
    answer = Project(tmp_path).write({"CMakeLists.txt": text}).configure(f"-DHipCache_DIR={CHECKOUT / 'cmake'}")
    assert f"found: {int(found)}" in answer.text


def test_a_build_with_the_installed_hipcache_is_cached(tmp_path: Path, prefix: Path) -> None:
    project = Project(tmp_path, "debian", "Unix Makefiles", environ={"PATH": PLAIN_PATH})
    project.write(simple_project("find_package(HipCache REQUIRED)"))
    project.configure(f"-DCMAKE_PREFIX_PATH={prefix}", ARCHES)
    project.build()
    project.clean()
    project.build()
    document = json.loads(project.run(prefix / "bin" / "hipcache", "stats", "--json").stdout)
    assert document["units"]["gfx90a"] == {"hits": 1, "misses": 1}
