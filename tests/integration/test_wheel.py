"""What a fresh environment with nothing but the wheel can do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hipcache
import pytest
from cmake_project import ARCHES, CHECKOUT, Project, simple_project
from hip import BARE, COMPILERS, HIP_IN_SHORT, KERNEL, LLVM
from wheels import install, wheel

__all__ = ["wheel"]

# `python -m build` and pip see our own environment; compiles and CMake here shall see the fresh one only.
PLAIN_PATH = "/usr/bin:/bin"
# An ordinary user, who need not be known here.
SOMEBODY = 54321


@pytest.fixture(scope="module")
def everybodys_directory() -> Iterator[Path]:
    """One that other users may enter (those of pytest may not be)."""
    place = Path(tempfile.mkdtemp(prefix="hipcache-wheel-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def prefix(wheel: Path, everybodys_directory: Path) -> Path:
    return install(everybodys_directory / "native", str(wheel))


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_the_lines_that_install_run_as_they_stand(wheel: Path, tmp_path: Path, page: str) -> None:
    """In the unpacked source, with the home of a new user."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (CHECKOUT / page).read_text(), re.MULTILINE | re.DOTALL)
    (lines,) = [block for block in blocks if "-m venv" in block]
    (source,) = wheel.parent.glob("*.tar.gz")
    subprocess.run(["tar", "-xf", source, "-C", tmp_path, "--strip-components=1"], check=True)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".profile").write_text('[ ! -d "$HOME/.local/bin" ] || PATH="$HOME/.local/bin:$PATH"\n')
    path = f"{home}/.local/bin:{PLAIN_PATH}"
    environ = {"HOME": str(home), "PATH": path, "HIP_PLATFORM": "amd", "HIPCACHE_RESIDENT": "0"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HIPCACHE_")}
    done = subprocess.run(
        ["bash", "-e", "-c", lines],
        cwd=tmp_path,
        env={**kept, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0 and "No problems found." in done.stdout, done.stdout


def test_cmake_gets_the_version_of_the_python_package() -> None:
    text = (CHECKOUT / "cmake" / "HipCacheConfigVersion.cmake").read_text()
    assert f'set(PACKAGE_VERSION "{hipcache.__version__}")' in text


def test_cmakedir_is_where_the_wheel_put_the_module(prefix: Path) -> None:
    done = subprocess.run([prefix / "bin" / "hipcache", "--cmakedir"], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == f"{prefix}/share/cmake/HipCache\n"


def test_in_a_target_of_pip_the_files_are_those_beside_it(wheel: Path, tmp_path: Path) -> None:
    """Not those of the hipcache that this Python has."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--target", str(tmp_path), str(wheel)], check=True)
    for option, place in (("cmake", "cmake/HipCache"), ("meson", "hipcache/meson"), ("scons", "hipcache/scons")):
        asked = [tmp_path / "bin" / "hipcache", f"--{option}dir"]
        done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True)
        assert done.stdout == f"{tmp_path}/share/{place}\n"


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


@pytest.mark.parametrize("way", ["HipCache_ROOT", "HipCache_DIR"])
def test_through_a_link_elsewhere_the_installation_is_found(tmp_path: Path, prefix: Path, way: str) -> None:
    """As pipx and uv install programs. find_package() itself does not follow links on PATH; the doctor says so."""
    links = tmp_path / "local" / "bin"
    links.mkdir(parents=True)
    (links / "hipcache").symlink_to(prefix / "bin" / "hipcache")
    project = Project(tmp_path, "newest", "Unix Makefiles", environ={"PATH": f"{links}:{PLAIN_PATH}"})
    modules = project.run(links / "hipcache", "--cmakedir").stdout.strip()
    assert modules == f"{prefix}/share/cmake/HipCache"
    assert f"export HipCache_ROOT={modules}" in project.run(links / "hipcache", "doctor").stdout
    options = [ARCHES]
    if way == "HipCache_ROOT":
        project.environ[way] = modules
    else:
        options.append(f"-D{way}={modules}")
    project.write(simple_project("find_package(HipCache REQUIRED)")).configure(*options)
    assert project.launchers() == {"kernels": f"{prefix}/bin/hipcache"}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("0.1", True),
        (hipcache.__version__, True),
        (f"{hipcache.__version__} EXACT", True),
        ("0.1...0.9", False),
        ("0.1...9.0", True),
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


@pytest.mark.parametrize("version", COMPILERS)
def test_an_ordinary_user_compiles_with_the_installed_wheel(
    everybodys_directory: Path, prefix: Path, version: str
) -> None:
    hipcache_program = prefix / "bin" / "hipcache"
    home = Path(tempfile.mkdtemp(dir=everybodys_directory))
    for name, text in (("hip_in_short.hpp", HIP_IN_SHORT), ("k.hip", KERNEL)):
        (home / name).write_text(text)
    if os.geteuid() == 0:
        os.chown(home, SOMEBODY, SOMEBODY)

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        as_somebody = {"user": SOMEBODY, "group": SOMEBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        environ = {"HOME": str(home), "PATH": "/nonexistent", "HIPCACHE_RESIDENT": "0"}
        return subprocess.run(
            words, cwd=home, env=environ, capture_output=True, text=True, check=False, timeout=300, **as_somebody
        )

    compile = [f"{LLVM[version]}/bin/clang++", "--offload-arch=gfx906", *BARE, "-cuid=5eed", "-c", "k.hip", "-o"]
    assert run(*compile, "plain.o").returncode == 0
    for _ in range(2):
        ended = run(hipcache_program, *compile, "out.o")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert (home / "out.o").read_bytes() == (home / "plain.o").read_bytes()
    counted = json.loads(run(hipcache_program, "stats", "--json").stdout)["compiles"]
    assert {name: count for name, count in counted.items() if count} == {"miss": 1, "hit": 1}
