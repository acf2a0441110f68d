"""The Meson subproject's first step of a build, where a remote is set."""

from __future__ import annotations

from pathlib import Path

import pytest
from meson_project import BARE, MESONS, Project, simple
from remote_lab import nginx, running, uploaded_from
from remote_team import patient

pytestmark = pytest.mark.takes_turns("meson")


@pytest.mark.parametrize("meson", MESONS)
def test_a_build_begins_with_the_fetch_of_all_that_it_needs(tmp_path: Path, meson: str) -> None:
    with running(nginx(tmp_path / "server")) as server:
        environ = {"HIPCACHE_REMOTE": patient(server.url), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
        (tmp_path / "run").mkdir(mode=0o700)
        project = Project(tmp_path / "project", meson, environ)
        project.root.mkdir()
        project.write(simple())
        try:
            project.setup(BARE)
            assert "of 2 HIP compiles 0 fetched, 0 already here" in project.ninja()
            assert "no work to do" in project.ninja(), "once for a build directory"
            uploaded_from(project.root / "store")
            project.ninja("-t", "clean")
            environ["HIPCACHE_DIR"] = str(tmp_path / "other-store")
            assert "of 2 HIP compiles 2 fetched, 0 already here" in project.ninja()
            assert project.stats()["compiles"]["hit"] == 2
            project.setup(BARE)
            again = project.ninja()
            assert "of 2 HIP compiles 0 fetched, 2 already here" in again
            assert ".hip.o" not in again, "no object is made anew"
            (project.build_dir / "subprojects/hipcache/hipcache_prefetch.stamp").unlink()  # as if it were a new step
            project.setup(BARE)
            assert project.built() == set()
        finally:
            for place in (tmp_path / "run/hipcache").glob("remote-*"):
                place.unlink()


@pytest.mark.parametrize("off", [{}, {"HIPCACHE_REMOTE": "http://127.0.0.1:1/team", "HIPCACHE_PREFETCH": "0"}])
def test_without_a_remote_or_switched_off_there_is_no_such_step(tmp_path: Path, off: dict[str, str]) -> None:
    project = Project(tmp_path, "newest", off).write(simple())
    project.setup(BARE)
    assert "hipcache_prefetch" not in (project.build_dir / "build.ninja").read_text()


def test_a_step_that_cannot_run_ends_no_build(tmp_path: Path) -> None:
    environ = {"HIPCACHE_REMOTE": "htp://somewhere", "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    project = Project(tmp_path, "newest", environ).write(simple())
    project.setup(BARE)
    text = project.ninja("subprojects/hipcache/hipcache_prefetch.stamp")
    assert "hipcache: prefetch failed: " in text
