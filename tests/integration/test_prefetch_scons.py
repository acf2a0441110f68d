"""The SCons tool's first step of a build, where a remote is set."""

from __future__ import annotations

from pathlib import Path

import pytest
from cmake_project import hip_source
from hip import HIP_IN_SHORT
from remote_lab import nginx, running, uploaded_from
from remote_team import patient
from scons_project import QUICK, Project

pytestmark = pytest.mark.takes_turns("project")

# No compile asks for itself.
ALONE = """\
import os
from hipcache.remote import client
if os.environ.get("ALONE"):
    client.Client.fetch = lambda client, keys: False
"""
OBJECTS = "env.HipObject(['one.hip', 'two.hip'])\n"


LIST = 'env["HIPCOM"] = [env["HIPCOM"], "true"]\n'
POST_ACTION = "objects = env.HipObject(['one.hip', 'two.hip'])\nenv.AddPostAction(objects, 'true')\n"


def project(root: Path, environ: dict[str, str], objects: str = OBJECTS) -> Project:
    """With the newest SCons: the Python of Debian's has no libraries of the protocols."""
    root.mkdir(exist_ok=True)
    made = Project(root, "newest", environ)
    made.write({"hip_in_short.hpp": HIP_IN_SHORT, "one.hip": hip_source("one"), "two.hip": hip_source("two")})
    return made.construct(QUICK + ALONE + objects)


@pytest.mark.parametrize("objects", [OBJECTS, LIST + OBJECTS, POST_ACTION], ids=["plain", "list", "post-action"])
def test_a_build_begins_with_the_fetch_of_all_that_it_needs(tmp_path: Path, objects: str) -> None:
    with running(nginx(tmp_path / "server")) as server:
        run = tmp_path / "run"
        run.mkdir(mode=0o700)
        environ = {"HIPCACHE_REMOTE": patient(server.url), "XDG_RUNTIME_DIR": str(run)}
        made = project(tmp_path / "project", environ, objects)
        try:
            assert "of 2 HIP compiles 0 fetched, 0 already here, 2 to compile or look up" in made.build("-j2").out
            uploaded_from(made.root / "store")
            made.build("-c")
            environ |= {"HIPCACHE_DIR": str(tmp_path / "other-store"), "ALONE": "1"}
            built = made.build("-j2")
            assert built.out.count("HIP compiles") == 1, "once in a build"
            assert made.outcomes == {"hit": 2}, built.out + built.err
            assert "HIP compile" not in made.build().out
            (made.root / "one.o").unlink()
            assert "HIP compile" not in made.build().out, "one object asks for itself"
        finally:
            for place in (run / "hipcache").glob("remote-*"):
                place.unlink()


@pytest.mark.parametrize("off", [{}, {"HIPCACHE_REMOTE": "http://127.0.0.1:1/team", "HIPCACHE_PREFETCH": "0"}])
def test_without_a_remote_or_switched_off_nothing_is_fetched_ahead(tmp_path: Path, off: dict[str, str]) -> None:
    made = project(tmp_path / "project", {**off, "XDG_RUNTIME_DIR": str(tmp_path)})
    built = made.build()
    assert "HIP compile" not in built.out
    assert "ahead" not in built.err


def test_a_fetch_that_fails_ends_no_build(tmp_path: Path) -> None:
    made = project(tmp_path / "project", {"HIPCACHE_REMOTE": "htp://no", "XDG_RUNTIME_DIR": str(tmp_path)})
    made.build()
    assert made.outcomes == {"miss": 2}
