"""The CMake module's first step of a build, where a remote is set."""

from __future__ import annotations

from pathlib import Path

import pytest
from cmake_project import ARCHES, MODULE_PATH, Project, simple_project
from hip import statistics
from remote_lab import nginx, running
from remote_team import patient


@pytest.mark.parametrize(("cmake", "generator"), [("newest", "Ninja"), ("debian", "Unix Makefiles")])
def test_a_build_begins_with_the_fetch_of_all_that_it_needs(tmp_path: Path, cmake: str, generator: str) -> None:
    with running(nginx(tmp_path / "server")) as server:
        environ = {
            "HIPCACHE_REMOTE": patient(server.url),
            "XDG_RUNTIME_DIR": str(tmp_path / "run"),
            "HIPCACHE_BASEDIR": str(tmp_path / "project"),
        }
        (tmp_path / "run").mkdir(mode=0o700)
        project = Project(tmp_path / "project", cmake, generator, environ).write(simple_project("include(HipCache)"))
        try:
            project.configure(MODULE_PATH, ARCHES)
            first = project.run("cmake", "--build", project.build_dir)
            assert first.returncode == 0, first.stdout
            assert project.run("hipcache", "sync").returncode == 0
            environ["HIPCACHE_DIR"] = str(tmp_path / "other-store")
            project.environ = environ
            for file in [*project.build_dir.rglob("*.o"), *project.build_dir.rglob("hipcache_prefetch.stamp")]:
                file.unlink()
            second = project.run("cmake", "--build", project.build_dir)
            assert second.returncode == 0, second.stdout
            assert "of 1 HIP compile 1 fetched" in second.stdout
            assert statistics(project.clean_environ())["compiles"]["hit"] == 1  # type: ignore[index]
            third = project.run("cmake", "--build", project.build_dir)
            assert "HIP compile" not in third.stdout, "once for a build directory"
        finally:
            for place in (tmp_path / "run/hipcache").glob("remote-*"):
                place.unlink()


@pytest.mark.parametrize("option", ["-DHIPCACHE_PREFETCH=OFF", ""])
def test_without_a_remote_or_switched_off_there_is_no_such_step(tmp_path: Path, option: str) -> None:
    environ = {"HIPCACHE_REMOTE": "http://127.0.0.1:1/team"} if option else {}
    project = Project(tmp_path, environ=environ).write(simple_project("include(HipCache)"))
    project.configure(MODULE_PATH, ARCHES, *filter(None, [option]))
    assert "hipcache_prefetch" not in (project.build_dir / "build.ninja").read_text()


def test_a_step_that_cannot_run_ends_no_build(tmp_path: Path) -> None:
    environ = {"HIPCACHE_REMOTE": "htp://somewhere", "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    project = Project(tmp_path, environ=environ).write(simple_project("include(HipCache)"))
    project.configure(MODULE_PATH, ARCHES)
    built = project.run("cmake", "--build", project.build_dir)
    assert built.returncode == 0, built.stdout
