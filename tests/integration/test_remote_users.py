"""Members of a team, each with a home, a checkout, a build directory and a store of their own."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hip import HIT, LAUNCHER, MISS, Lab, kernel, let_others_in, settle
from hipcache.cli.toolchain import FAULT, Check
from hipcache.config import Config
from hipcache.remote import checks
from remote_lab import Server, Team, nginx, remote_counts, running, uploaded
from remote_team import patient, web

__all__ = ["web"]

SOURCES = ("one.hip", "two.hip")
# An ordinary user, who need not be known here.
OTHER = 54341


@pytest.fixture
def team(tmp_path: Path, web: Server) -> Iterator[Team]:
    found = Team(tmp_path, patient(web.url))
    yield found
    found.end()


def member(team: Team, checkout: str, build: str, *, base: bool) -> tuple[Lab, Path, Path]:
    """A machine, its checkout, and its build directory, which is named from there."""
    lab = team.machine()
    source = lab.root / checkout
    for number, name in enumerate(SOURCES):
        lab.write(source / "src" / name, '#include "../inc/shared.hpp"\n' + kernel(str(number + 3)))
    lab.write(source / "inc/shared.hpp", "typedef float element;\n")
    lab.write(source / "inc/hip_in_short.hpp", (lab.root / "hip_in_short.hpp").read_text())
    place = source / build
    place.mkdir(parents=True)
    if base:
        lab.environ["HIPCACHE_BASEDIR"] = str(source)
    settle()
    return lab, source, place


def ends(lab: Lab, source: Path, place: Path) -> set[str]:
    """Of a build as CMake's: paths from the root, in the build directory."""
    return {
        lab.compile(*flags(source, name), source=source / "src" / name, output=f"{name}.o", cwd=place).outcome
        for name in SOURCES
    }


def flags(source: Path, name: str) -> list[str]:
    archs = ["--offload-arch=gfx906", "--offload-arch=gfx90a"]
    return [*archs, f"-I{source}/inc", "-MD", "-MF", f"{name}.d", "-MT", f"{name}.o"]


def all_hit(lab: Lab, source: Path, place: Path) -> None:
    assert ends(lab, source, place) == {HIT}, lab.hipcache("explain").out.decode()
    counts = remote_counts(lab)
    assert counts["errors"] == 0
    assert counts["received"] > 0
    assert lab.stats()["compiles"]["hit"] == len(SOURCES)  # type: ignore[index]


def test_everything_hits_in_another_checkout_and_build_directory(team: Team) -> None:
    """HIPCACHE_BASEDIR says which paths are the checkout's."""
    first = member(team, "work/project", "build", base=True)
    assert ends(*first) == {MISS}
    uploaded(first[0])
    all_hit(*member(team, "other/place/of/it", "out/release", base=True))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_everything_hits_for_another_user(team: Team) -> None:
    """Who has a home, a store, a storage helper and a checkout of their own."""
    first = member(team, "work/project", "build", base=True)
    assert ends(*first) == {MISS}
    uploaded(first[0])
    lab, source, place = member(team, "other/place/of/it", "out/release", base=True)
    commands = [
        [*lab.words(*flags(source, name), source=source / "src" / name, output=f"{name}.o")] for name in SOURCES
    ]
    plain = []
    for name, words in zip(SOURCES, commands, strict=True):
        assert lab.run(words, cwd=place).status == 0
        plain.append((place / f"{name}.o").read_bytes())
        (place / f"{name}.o").unlink()
    let_others_in(lab.root)
    for path in (lab.root.parent, *lab.root.parent.rglob("*")):
        os.chown(path, OTHER, OTHER, follow_symlinks=False)
    settle()
    other = ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups"]
    for words in commands:
        ended = lab.run([*other, *LAUNCHER, *words], cwd=place)
        assert (ended.status, ended.err) == (0, b"")
    assert [(place / f"{name}.o").read_bytes() for name in SOURCES] == plain
    assert {path.stat().st_uid for path in lab.store.rglob("*")} == {OTHER}
    told = json.loads(lab.run([*other, *LAUNCHER, "stats", "--json"]).out)
    assert told["compiles"] == {"hit": len(SOURCES), "partial": 0, "miss": 0, "passed_through": 0, "failed": 0}


def test_everything_hits_in_another_build_directory_of_a_checkout(team: Team) -> None:
    first, source, place = member(team, "work/project", "build", base=False)
    assert ends(first, source, place) == {MISS}
    uploaded(first)
    second, _, other = member(team, "work/project", "out/release", base=False)
    all_hit(second, source, other)


_BLOCK = """\
import os, sys
for name in ("grpc", "google", "google.protobuf", "obstore"):
    sys.modules[name] = None
from hipcache.app.launch import launch
sys.exit(launch(sys.argv[1:], os.environ))
"""


@pytest.mark.parametrize("url", ["grpc://cache.example:9092", "s3://bucket"])
def test_without_the_extra_a_build_says_so_in_one_line_and_goes_on(tmp_path: Path, url: str) -> None:
    lab = Team(tmp_path, url).machine()
    words = lab.words()
    assert lab.run(words).status == 0
    plain = (lab.root / "out.o").read_bytes()
    build = 'for i in 1 2 3; do rm -f out.o; "$@" || exit; done'
    ended = lab.run(["sh", "-c", build, "sh", sys.executable, "-c", _BLOCK, *words])
    assert (ended.status, ended.out) == (0, b"")
    line, hint, *more = ended.err.decode().splitlines()
    assert line.startswith(f"hipcache: results are not shared: remote '{url}' needs protobuf, ")
    assert hint.startswith(f"  {sys.executable} -m pip install protobuf ")
    assert not more
    assert (lab.root / "out.o").read_bytes() == plain
    assert lab.stats()["compiles"]["hit"] == 2  # type: ignore[index]
    assert not (lab.store / "v2/remote").exists(), "nothing is queued"


def test_a_server_that_is_full_still_serves_what_it_has(tmp_path: Path) -> None:
    full = tmp_path / "full"
    rules = f"if (-f {full}) {{ set $full $request_method; }} if ($full = PUT) {{ return 507; }}"
    with running(nginx(tmp_path / "server", rules)) as server:
        team = Team(tmp_path, patient(server.url))
        first, second = team.machine(), team.machine()
        first.compile()
        uploaded(first)
        full.touch()
        assert second.compile().outcome == HIT
        second.write("k.hip", kernel("7"))
        assert second.compile().outcome == MISS
        told = second.hipcache("sync")
        assert told.status == 1
        assert b"it accepts no more data" in told.err
        assert list((second.store / "v2/remote").glob("item-*")), "it waits until there is room"
        full.unlink()
        assert second.hipcache("sync").status == 0
        team.end()


def test_a_server_that_was_emptied_is_filled_again(team: Team, web: Server) -> None:
    first = team.machine()
    first.compile()
    uploaded(first)
    shutil.rmtree(web.place / "www/team")
    second = team.machine()
    assert second.compile().outcome == MISS
    uploaded(second)
    assert team.machine().compile().outcome == HIT


def test_the_doctor_names_the_packages_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (found,) = checks(Config(dir=tmp_path, remote=("grpc://cache:1",), executor=("none",)))
    assert found == Check(
        FAULT, "remotes and executors need protobuf, grpcio", f"{sys.executable} -m pip install protobuf grpcio"
    )
    assert not list(checks(Config(dir=tmp_path, executor=("none",))))
