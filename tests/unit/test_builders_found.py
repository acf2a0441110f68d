"""Which directory a builder of packages works below."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hipcache import cli
from hipcache.config import builders
from hipcache.config.builders import Room


def room(cwd: Path, **environ: str) -> Room | None:
    return builders.room(environ, lambda: str(cwd))


# Which directory it is


@pytest.mark.parametrize("known", ["DEB_BUILD_ARCH", "DH_INTERNAL_OPTIONS", "DH_INTERNAL_BUILDFLAGS"])
def test_under_dpkg_it_is_the_nearest_parent_with_a_changelog(tmp_path: Path, known: str) -> None:
    for name in ("a", "a/embedded"):
        (tmp_path / name / "debian").mkdir(parents=True)
    (tmp_path / "a/debian/changelog").write_text("a (1) unstable\n")
    build = tmp_path / "a/embedded/obj"
    build.mkdir()
    found = room(build, **{known: ""})
    assert found == Room(str(tmp_path / "a"), "debian/changelog, in a build by dpkg")
    assert room(tmp_path, **{known: ""}) is None
    assert room(build) is None


@pytest.mark.parametrize(
    ("told", "others"),
    [
        ("RPM_BUILD_DIR", {"RPM_PACKAGE_NAME": "x"}),
        ("NIX_BUILD_TOP", {}),
        ("PORTAGE_BUILDDIR", {}),
        ("SRC_DIR", {"CONDA_BUILD": "1"}),
    ],
)
def test_others_name_it_and_count_where_they_work(tmp_path: Path, told: str, others: dict[str, str]) -> None:
    top = tmp_path / "top"
    (top / "work").mkdir(parents=True)
    (tmp_path / "link").symlink_to("top")
    for spelled in (str(top), f"{top}/", str(tmp_path / "link")):
        found = room(top / "work", **{told: spelled}, **others)
        assert found and found.path == str(top)
        assert found.why.startswith(f"{told} of ")
    assert room(top, **{told: str(top)}, **others)
    for wrong in ("/", "top", "", str(tmp_path / "to"), str(tmp_path / "elsewhere")):
        assert room(top / "work", **{told: wrong}, **others) is None, wrong
    if others:
        assert room(top / "work", **{told: str(top)}) is None


def test_spacks_is_its_stage(tmp_path: Path) -> None:
    build = tmp_path / "spack-stage-rocprim-6.3.2-abcdefg" / "spack-build-abcdefg"
    build.mkdir(parents=True)
    assert room(build, SPACK_SHORT_SPEC="rocprim@6.3.2") == Room(str(build.parent), "its stage, in a build by Spack")
    assert room(tmp_path, SPACK_SHORT_SPEC="rocprim@6.3.2") is None


def test_makepkgs_is_src_beside_pkg(tmp_path: Path) -> None:
    inner = tmp_path / "rocprim/src/rocPRIM-6/src"
    inner.mkdir(parents=True)
    assert room(inner, TEXTDOMAIN="pacman-scripts") is None
    (tmp_path / "rocprim/pkg").mkdir()
    found = room(inner, TEXTDOMAIN="pacman-scripts")
    assert found == Room(str(tmp_path / "rocprim/src"), "src beside pkg, in a build by makepkg")
    assert room(inner, TEXTDOMAIN="bash") is None


@pytest.mark.parametrize("known", ["PEP517_BUILD_BACKEND", "_PYPROJECT_HOOKS_BUILD_BACKEND"])
@pytest.mark.parametrize("file", ["pyproject.toml", "setup.py"])
def test_pips_is_the_project(tmp_path: Path, known: str, file: str) -> None:
    (tmp_path / file).touch()
    build = tmp_path / "build/temp"
    build.mkdir(parents=True)
    assert room(build, **{known: "x"}) == Room(
        str(tmp_path), "pyproject.toml or setup.py, in a build by Python's build hooks"
    )
    assert room(build) is None


def test_a_working_directory_that_is_gone_is_in_none() -> None:
    def gone() -> str:
        raise FileNotFoundError

    assert builders.room({"NIX_BUILD_TOP": "/build"}, gone) is None


def configured(environ: Mapping[str, str], *words: str) -> str:
    out = io.StringIO()
    assert cli.run(["config", *words], environ, out, io.StringIO()) == 0
    return out.getvalue()


def test_config_shows_it_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"HOME": str(tmp_path), "NIX_BUILD_TOP": str(tmp_path)}
    (line,) = [line for line in configured(environ).splitlines() if line.startswith("HIPCACHE_BASEDIR")]
    assert line.split(None, 2)[1:] == [str(tmp_path), "NIX_BUILD_TOP of Nix"]
    said = json.loads(configured(environ, "--json"))["HIPCACHE_BASEDIR"]
    assert said == {"value": str(tmp_path), "origin": "NIX_BUILD_TOP of Nix"}


def test_one_that_is_given_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"HOME": str(tmp_path), "NIX_BUILD_TOP": str(tmp_path), "HIPCACHE_BASEDIR": "/src"}
    assert json.loads(configured(environ, "--json"))["HIPCACHE_BASEDIR"] == {"value": "/src", "origin": "environment"}
