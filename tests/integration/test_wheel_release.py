"""What a release has: the wheel's exact list of files, its bytes, its tags and its metadata."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import hipcache
import pytest
from blake3 import blake3
from cmake_project import CHECKOUT
from wheels import INFO, SCRIPTS, build, build_wheel, install, wheel

__all__ = ["wheel"]

PACKAGE = CHECKOUT / "plugins" / "hipcache"
DATA = f"hipcache-{hipcache.__version__}.data/data"
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
        f"{DATA}/share/cmake/HipCache/HipToolchain.cmake",
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
        f"{INFO}/licenses/NOTICE",
    }
    assert set(zipfile.ZipFile(wheel).namelist()) == expected


def test_the_launcher_is_static(wheel: Path, tmp_path: Path) -> None:
    """It starts faster; who makes a package has a switch for a dynamic one (`test_packages`)."""
    (tmp_path / "hipcache").write_bytes(zipfile.ZipFile(wheel).read(f"{SCRIPTS}/hipcache"))
    argv = ["readelf", "--wide", "--segments", tmp_path / "hipcache"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert "LOAD" in said
    assert "INTERP" not in said


def test_a_second_build_has_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    """In another directory (`build` makes one for each), later."""
    build_wheel("--outdir", str(tmp_path), str(CHECKOUT))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in wheel.parent.iterdir())
    for again in tmp_path.iterdir():
        assert again.read_bytes() == (wheel.parent / again.name).read_bytes(), again.name


@pytest.mark.parametrize(
    "environ", [{"CC": "", "LDFLAGS": "-static"}, {"CC": " ", "HIPCACHE_BUILD": "package"}, {"CC": "g++"}], ids=str
)
def test_the_native_parts_are_built_with_what_a_builder_may_have_set(tmp_path: Path, environ: dict[str, str]) -> None:
    built = build_wheel("--outdir", str(tmp_path), "--wheel", str(CHECKOUT), **environ)
    archive = zipfile.ZipFile(built)
    assert "hipcache/native/libhipcache.so" in archive.namelist()
    assert archive.read(f"{SCRIPTS}/hipcache").startswith(b"\x7fELF")


@pytest.mark.parametrize("compiler", [{"PATH": "/nonexistent"}, {"CC": "false"}, {"CC": "no-such-cc"}], ids=str)
def test_without_a_c_compiler_the_build_fails_and_says_so_in_a_line(tmp_path: Path, compiler: dict[str, str]) -> None:
    done = build("--outdir", str(tmp_path), "--wheel", str(CHECKOUT), **compiler)
    name = compiler.get("CC", "cc")
    assert done.returncode != 0
    (said,) = (line for line in done.stdout.splitlines() if "hipcache needs" in line)
    assert said.startswith(f"hipcache needs a C compiler, and '{name}' fails: ")
    assert said.endswith(" (Debian: apt install gcc libc6-dev; or set CC)")
    assert not list(tmp_path.iterdir())


def test_an_editable_build_works_from_another_file_system(wheel: Path, tmp_path: Path) -> None:
    """`pip install -e .` builds below TMPDIR, and puts the library into the checkout."""
    (source,) = wheel.parent.glob("*.tar.gz")
    shutil.unpack_archive(source, tmp_path)
    checkout = next(tmp_path.iterdir())
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        if os.stat(elsewhere).st_dev == os.stat(checkout).st_dev:
            pytest.skip("there is no second file system")
        install(tmp_path / "venv", "--no-deps", "-e", str(checkout), TMPDIR=elsewhere)
    native = checkout / "plugins/hipcache/native"
    assert [path.name for path in native.glob("libhipcache*")] == ["libhipcache.so"]


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
    built = build_wheel("--wheel", "--outdir", str(tmp_path / "built"), str(CHECKOUT), HIPCACHE_BUILD="musl")
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


def test_a_release_of_what_is_not_committed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(CHECKOUT / "scripts/release.sh", tmp_path / "scripts")
    shutil.copy(CHECKOUT / ".gitignore", tmp_path)
    (tmp_path / "pyproject.toml").write_text('Homepage = "https://there.example/hipcache"\n')
    for name in ("dist", "packaging"):
        (tmp_path / name).mkdir()
    (tmp_path / "dist/file").touch()
    bare = {name: value for name, value in os.environ.items() if name != "PLACEHOLDER"}

    def release(**environ: str) -> str:
        argv, env = [tmp_path / "scripts/release.sh"], bare | environ
        ended = subprocess.run(argv, capture_output=True, text=True, check=False, env=env, timeout=60)
        assert ended.returncode == 2
        return ended.stderr

    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "a"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, timeout=60)
    (tmp_path / "site").mkdir()
    (tmp_path / "site/index.html").touch()
    assert release().startswith("release: '") and "is not empty" in release()
    (tmp_path / "notes.txt").touch()
    assert release() == "release: these files are not as they were committed:\n?? notes.txt\n  commit or remove them\n"
    assert "?? notes.txt" in release(PLACEHOLDER="1") and "is not empty" in release(PLACEHOLDER="1")


def test_the_metadata_say_licence_and_place(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{INFO}/METADATA").decode()
    assert "\nLicense-Expression: MIT\n" in metadata
    assert "\nLicense-File: LICENSE\nLicense-File: NOTICE\n" in metadata
    (place,) = (line.rpartition(" ")[2] for line in metadata.splitlines() if line.startswith("Project-URL: Homepage"))
    for recipe in ("arch/PKGBUILD", "fedora/hipcache.spec", "guix/hipcache.scm", "spack/hipcache/package.py"):
        assert place in (CHECKOUT / "packaging" / recipe).read_text(), recipe
