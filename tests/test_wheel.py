"""The wheel: its exact list of files, and what a fresh environment with nothing but the wheel can do."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import hipcache
import pytest
from blake3 import blake3
from cmake_project import ARCHES, CHECKOUT, Project, simple_project
from hip import BARE, HIP_IN_SHORT, KERNEL, LLVM, SESSION

PACKAGE = CHECKOUT / "plugins" / "hipcache"
DATA = f"hipcache-{hipcache.__version__}.data/data"
SCRIPTS = f"hipcache-{hipcache.__version__}.data/scripts"
INFO = f"hipcache-{hipcache.__version__}.dist-info"


# `python -m build` and pip see our own environment; compiles and CMake here shall see the fresh one only.
PLAIN_PATH = "/usr/bin:/bin"
# Loads a library, and prints the hash that it makes of a word.
LOADS = """\
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int count, char **words) {
    void *library = dlopen(words[1], RTLD_NOW);
    void (*hash)(const void *, size_t, unsigned char *) = library ? dlsym(library, "blake3") : NULL;
    unsigned char digest[32];
    if (!hash)
        return fprintf(stderr, "%s: %s\\n", words[count - 2], dlerror()), 1;
    hash(words[2], strlen(words[2]), digest);
    for (int at = 0; at < 32; at++)
        printf("%02x", digest[at]);
    return 0;
}
"""
# An ordinary user, who need not be known here.
SOMEBODY = 54321


def _built(*words: str, path: str = os.environ["PATH"], **environ: str) -> Path:
    """The wheel that `python -m build` makes."""
    out = Path(words[words.index("--outdir") + 1])
    done = subprocess.run(
        [sys.executable, "-m", "build", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "PATH": path, **environ},
    )
    assert done.returncode == 0, done.stdout
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel() -> Path:
    """Built as for a release: the source distribution first, and the wheel from that; once for all workers of a run."""
    place = SESSION / "wheel"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        dist = place / "dist"
        if not dist.exists():
            _built("--outdir", str(place / "part"), str(CHECKOUT))
            (place / "part").rename(dist)
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel_without_compiler(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the same source distribution where there is no C compiler."""
    (source,) = wheel.parent.glob("*.tar.gz")
    unpacked, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    shutil.unpack_archive(source, unpacked)
    return _built("--outdir", str(out), "--wheel", str(next(unpacked.iterdir())), path="/nonexistent")


@pytest.fixture(scope="module")
def everybodys_directory() -> Iterator[Path]:
    """One that other users may enter (those of pytest may not be)."""
    place = Path(tempfile.mkdtemp(prefix="hipcache-wheel-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def _install(wheel: Path, prefix: Path) -> Path:
    """A fresh virtual environment with the wheel in it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(prefix), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", str(wheel)], check=True)
    return prefix


@pytest.fixture(scope="module")
def prefix(wheel: Path, everybodys_directory: Path) -> Path:
    return _install(wheel, everybodys_directory / "native")


@pytest.fixture(scope="module")
def prefix_without_compiler(wheel_without_compiler: Path, everybodys_directory: Path) -> Path:
    return _install(wheel_without_compiler, everybodys_directory / "script")


def test_the_wheel_has_these_files_and_no_other(wheel: Path) -> None:
    packages = (PACKAGE, PACKAGE.parent / "hipcache_scons")
    modules = {path.relative_to(PACKAGE.parent).as_posix() for package in packages for path in package.rglob("*.py")}
    meson = [path for path in (CHECKOUT / "meson").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    expected = {
        *modules,
        *(f"{DATA}/share/hipcache/meson/{path.relative_to(CHECKOUT / 'meson')}" for path in meson),
        "hipcache/py.typed",
        "hipcache/native/libhipcache.so",
        f"{SCRIPTS}/hipcache",
        f"{DATA}/share/cmake/HipCache/HipCache.cmake",
        f"{DATA}/share/cmake/HipCache/HipCacheIree.cmake",
        f"{DATA}/share/cmake/HipCache/HipCacheConfig.cmake",
        f"{DATA}/share/cmake/HipCache/HipCacheConfigVersion.cmake",
        f"{DATA}/share/hipcache/scons/hipcache.py",
        f"{DATA}/share/man/man1/hipcache.1",
        f"{DATA}/share/man/man1/hipcache-engine.1",
        f"{DATA}/share/man/man5/hipcache.yaml.5",
        f"{DATA}/share/bash-completion/completions/hipcache",
        f"{DATA}/share/zsh/site-functions/_hipcache",
        f"{DATA}/share/fish/vendor_completions.d/hipcache.fish",
        f"{INFO}/METADATA",
        f"{INFO}/RECORD",
        f"{INFO}/WHEEL",
        f"{INFO}/entry_points.txt",
        f"{INFO}/licenses/LICENSE",
    }
    assert set(zipfile.ZipFile(wheel).namelist()) == expected


def test_the_launcher_is_static(wheel: Path, tmp_path: Path) -> None:
    """It starts faster; who makes a package has a switch for a dynamic one (`test_packages`)."""
    (tmp_path / "hipcache").write_bytes(zipfile.ZipFile(wheel).read(f"{SCRIPTS}/hipcache"))
    argv = ["readelf", "--wide", "--segments", tmp_path / "hipcache"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert "LOAD" in said
    assert "INTERP" not in said


def test_cmake_gets_the_version_of_the_python_package() -> None:
    text = (CHECKOUT / "cmake" / "HipCacheConfigVersion.cmake").read_text()
    assert f'set(PACKAGE_VERSION "{hipcache.__version__}")' in text


def test_cmakedir_is_where_the_wheel_put_the_module(prefix: Path) -> None:
    done = subprocess.run([prefix / "bin" / "hipcache", "--cmakedir"], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == f"{prefix}/share/cmake/HipCache\n"


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


@pytest.mark.parametrize("version", ["15", "19"])
@pytest.mark.parametrize("built", ["prefix", "prefix_without_compiler"])
def test_an_ordinary_user_compiles_with_the_installed_wheel(
    request: pytest.FixtureRequest, everybodys_directory: Path, built: str, version: str
) -> None:
    """Also where the wheel was built without a C compiler: its program must be executable."""
    hipcache_program = request.getfixturevalue(built) / "bin" / "hipcache"
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


def test_a_second_build_has_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    """In another directory (`build` makes one for each), later."""
    _built("--outdir", str(tmp_path), str(CHECKOUT))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in wheel.parent.iterdir())
    for again in tmp_path.iterdir():
        assert again.read_bytes() == (wheel.parent / again.name).read_bytes(), again.name


def _as_for_an_index(wheel: Path, out: Path, *more: Path) -> Path:
    """`linux_x86_64` says nothing about the C library: PyPI refuses it. `scripts/release.sh` does the same as this."""
    pytest.importorskip("twine", reason="twine is not installed (the extra 'release')")
    pytest.importorskip("auditwheel", reason="auditwheel is not installed (the extra 'release')")
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(*words: str | Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", *words], capture_output=True, text=True, check=False, env=environ, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run("auditwheel", "repair", "--wheel-dir", out, wheel)
    (repaired,) = out.iterdir()
    run("twine", "check", "--strict", repaired, *more)
    return repaired


def test_an_index_takes_wheel_and_source(wheel: Path, tmp_path: Path) -> None:
    (source,) = wheel.parent.glob("*.tar.gz")
    assert "-manylinux_2_" in _as_for_an_index(wheel, tmp_path, source).name


@pytest.mark.skipif(not shutil.which("musl-gcc"), reason="no musl-gcc")
def test_an_index_takes_a_wheel_for_musl_whose_library_loads_there(wheel: Path, tmp_path: Path) -> None:
    """There is no Python for musl here: a program of musl's loads the library, which hashes as this one's does."""
    built = _built("--wheel", "--outdir", str(tmp_path / "built"), str(CHECKOUT), HIPCACHE_BUILD="musl")
    (tmp_path / "repaired").mkdir()
    repaired = _as_for_an_index(built, tmp_path / "repaired")
    assert repaired.name == f"hipcache-{hipcache.__version__}-py3-none-musllinux_1_2_{platform.machine()}.whl"
    archive = zipfile.ZipFile(repaired)
    files = {name for name in archive.namelist() if not name.endswith("/")}
    assert files == set(zipfile.ZipFile(wheel).namelist())
    assert f"\nTag: py3-none-musllinux_1_2_{platform.machine()}\n" in archive.read(f"{INFO}/WHEEL").decode()

    archive.extractall(tmp_path)
    library, launcher = tmp_path / "hipcache/native/libhipcache.so", tmp_path / f"{SCRIPTS}/hipcache"
    dynamic = [["readelf", "--dynamic", "--wide", name] for name in (library, launcher)]
    needed, none = (subprocess.run(argv, capture_output=True, text=True, check=True).stdout for argv in dynamic)
    assert re.findall(r"NEEDED.*\[(.*)\]", needed) == [f"libc.musl-{platform.machine()}.so.1"]
    assert "There is no dynamic section" in none

    (tmp_path / "load.c").write_text(LOADS)
    subprocess.run(["musl-gcc", "-o", tmp_path / "load", tmp_path / "load.c"], check=True)
    said = subprocess.run([tmp_path / "load", library, "abc"], capture_output=True, text=True, check=False)
    assert (said.stderr, said.stdout) == ("", blake3(b"abc").hexdigest())


def test_a_release_that_names_no_public_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(CHECKOUT / "scripts/release.sh", tmp_path / "scripts")
    (tmp_path / "packaging").mkdir()
    recipe, project = tmp_path / "packaging/recipe", tmp_path / "pyproject.toml"
    (tmp_path / "out").mkdir()
    (tmp_path / "out/file").touch()

    def release(place: str, **environ: str) -> str:
        project.write_text(f'Homepage = "{place}"\n')
        argv = [tmp_path / "scripts/release.sh", tmp_path / "out"]
        ended = subprocess.run(argv, capture_output=True, text=True, check=False, env=bare | environ, timeout=60)
        assert ended.returncode == 2
        return ended.stderr

    bare = {name: value for name, value in os.environ.items() if name != "PLACEHOLDER"}
    recipe.write_text("url = https://example.org/hipcache\n")
    refused = release("https://example.org/hipcache")
    assert "'example.org' is a placeholder in pyproject.toml packaging/recipe\n" in refused
    assert "PLACEHOLDER=1" in refused
    assert "is a placeholder in packaging/recipe\n" in release("https://there.example/hipcache")
    assert "is not empty" in release("https://example.org/hipcache", PLACEHOLDER="1")
    recipe.write_text("url = https://there.example/hipcache\n")
    assert "is not empty" in release("https://there.example/hipcache")


def test_the_metadata_say_licence_and_place(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{INFO}/METADATA").decode()
    assert "\nLicense-Expression: MIT\n" in metadata
    assert "\nLicense-File: LICENSE\n" in metadata
    (place,) = (line.rpartition(" ")[2] for line in metadata.splitlines() if line.startswith("Project-URL: Homepage"))
    for recipe in ("arch/PKGBUILD", "fedora/hipcache.spec", "guix/hipcache.scm", "spack/hipcache/package.py"):
        assert place in (CHECKOUT / "packaging" / recipe).read_text(), recipe
