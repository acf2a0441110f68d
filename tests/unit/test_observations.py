"""Observations of a process, by the native observer's list: checked again, they tell whether its answer still holds."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hipcache.base.times import TICK
from hipcache.processes import GPUS, LINK, LIST, READ, STAT, observe, ptrace
from hipcache.processes.observe import Observation, sign


def rows(*texts: str) -> bytes:
    return b"".join(os.fsencode(text) + b"\0" for text in ("xf/usr/bin/true", *texts))


def observations(listed: bytes | None, cwd: str, *, ignore: str) -> tuple[Observation, ...]:
    """Of a process that began long after the last change."""
    return observe.observations(listed, cwd, ignore=ignore, started=time.time() + 100)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "broken").symlink_to("nowhere")
    return tmp_path


def test_each_way_to_look_at_a_path_is_an_observation(place: Path) -> None:
    listed = rows("rffile", f"sd{place}", f"dd{place}", "ll./link", "s-gone", "sbbroken", "rf/dev/null", "wfout")
    found = observations(listed, str(place), ignore="/ignored")
    ways = [
        (READ, "/usr/bin/true"),
        (READ, f"{place}/file"),
        (STAT, str(place)),
        (LIST, str(place)),
        (LINK, f"{place}/./link"),
        (STAT, f"{place}/gone"),
        (STAT, f"{place}/broken"),
    ]
    assert found == tuple(Observation(how, path, sign(how, path)) for how, path in ways)
    assert [one.path for one in found if not one.sign] == [f"{place}/gone", f"{place}/broken"]


def test_a_script_needs_its_interpreter(place: Path) -> None:
    (place / "inner").write_text("#! /bin/sh -e\n")
    (place / "script").write_text(f"#!{place}/inner\n")
    found = observations(rows("xfscript", "xf/usr/bin/env"), str(place), ignore="/ignored")
    paths = ["/usr/bin/true", f"{place}/script", f"{place}/inner", "/bin/sh", "/usr/bin/env"]
    assert found == tuple(Observation(READ, path, sign(READ, path)) for path in paths)


def test_its_own_files_do_not_count(place: Path) -> None:
    assert observations(rows(f"sd{place}", f"s-{place}/tmp", "rffile"), str(place), ignore=str(place)) == (
        Observation(READ, "/usr/bin/true", sign(READ, "/usr/bin/true")),
    )


@pytest.mark.parametrize(
    "row",
    [
        "p?",
        "n?",
        "rf/proc/cpuinfo",
        "sd/sys/devices",
        "s-/dev/kfd",
        "s-file",
        "sf/gone",
        "s?/gone/too\0sf/gone",
    ],
    ids=["process", "socket", "proc", "sys", "device", "came", "went", "one of two"],
)
def test_there_is_no_answer_for(place: Path, row: str) -> None:
    assert observations(rows("sffile"), str(place), ignore="/ignored")
    assert observations(rows("sffile", row), str(place), ignore="/ignored") == ()


def test_without_a_list_neither() -> None:
    assert observations(None, "/", ignore="/ignored") == ()


def test_the_kernels_list_of_gpus_is_read_again() -> None:
    path = f"{GPUS[0]}kfd/topology/nodes"
    found = observations(rows(f"s-{path}"), "/", ignore="/ignored")
    assert found[1:] == (() if os.path.exists(path) else (Observation(STAT, path, ""),))


def test_a_link_that_is_switched_after_a_wrapper_went_through_it_is_seen(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "other").write_text("older")
    path = place / "link"
    change = False

    def watched(*_: object, **__: object) -> ptrace.WatchedEnd:
        if change:
            (place / "new").symlink_to("other")
            (place / "new").replace(path)
        return ptrace.WatchedEnd(0, b"", b"", {(READ, str(path)): True}, ("clang", ("clang",), {}, ()))

    monkeypatch.setattr(ptrace, "watch", watched)
    for change in (False, True):
        time.sleep(2 * TICK)
        end = observe.until(lambda _: True, "wrapper", [], cwd=str(place), env={}, ignore="/ignored")
        assert end == "a file that it used changed meanwhile" if change else isinstance(end, observe.Reached)
