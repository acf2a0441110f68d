"""The driver's header, precompiled, where a process is killed, entries are evicted, another user owns the store, or the
disk is full: each object is plain clang's, and later compiles have a header again."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from header_lab import BOTH, build, build_with, counts, header_lab, headers, kept, prepared, wait, words
from hip import Lab, only_19, settle
from hipcache.base.values import replace
from hipcache.driver_header.entry import PAYS
from hipcache.driver_header.trust import Trust, Turn
from hipcache.processes.runner import SubprocessRunner, Traced

__all__ = ["header_lab", "kept", "prepared"]
pytestmark = pytest.mark.archs(1)


class Runner(SubprocessRunner):
    def group(self, servers: object = None) -> SubprocessRunner:
        return self


class Killed(Runner):
    """Kills this process when a header has been made, before it is kept."""

    def trace(self, argv: Sequence[str], **how: Any) -> Traced:
        traced = super().trace(argv, **how)
        if "-emit-pch" in argv:
            os.kill(os.getpid(), signal.SIGKILL)
        return traced


@only_19
def test_a_process_that_is_killed_while_it_makes_one_is_in_nobodys_way(header_lab: Lab) -> None:
    wait(header_lab)
    child = os.fork()
    if child == 0:
        try:
            build_with(header_lab, Killed(), 2)
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    build(header_lab, 3)
    assert counts(header_lab)["made"] == BOTH


class Evicting(Runner):
    """Removes each blob of the store before a pass with a header begins."""

    def __init__(self, store: Path) -> None:
        super().__init__()
        self.store = store

    def trace(self, argv: Sequence[str], **how: Any) -> Traced:
        if "-include-pch" in argv:
            for blob in (self.store / "v2/blobs").glob("*"):
                blob.unlink(missing_ok=True)
        return super().trace(argv, **how)


@only_19
def test_one_that_is_evicted_beside_a_compile_is_read_to_the_end(prepared: Lab) -> None:
    assert build_with(prepared, Evicting(headers(prepared)), 1)["checked"] == BOTH
    made = counts(prepared)["made"]
    for number in range(PAYS + 1):
        build(prepared, number)
    assert counts(prepared)["made"] == made + BOTH


@only_19
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_another_users_is_copied_and_checked(prepared: Lab) -> None:
    """An own one is read where it lies; another's may be written while clang reads it."""
    for path in headers(prepared).rglob("*"):
        os.chown(path, 65534, 65534)
    build(prepared, 1)
    assert counts(prepared)["used"] == BOTH
    for path in (path for path in headers(prepared).rglob("*") if path.is_file() and path.stat().st_size > 100_000):
        with path.open("r+b") as file:
            file.seek(50_000)
            file.write(b"damaged")
    for number in range(2, PAYS + 3):
        build(prepared, number)
    assert counts(prepared)["made"] == 2 * BOTH


def test_it_is_outside_of_the_store_and_told_and_cleared(prepared: Lab) -> None:
    (held,) = prepared.stats()["hints"].values()  # type: ignore[attr-defined]
    assert held > sum(path.stat().st_size for path in prepared.store.rglob("*"))
    assert f"in '{headers(prepared)}'" in prepared.hipcache("stats").out.decode()
    prepared.hipcache("clear")
    assert prepared.stats()["hints"] == {"bytes": 0}


def test_one_that_was_not_used_for_a_day_goes_when_another_one_is_made(prepared: Lab) -> None:
    files = (path for path in headers(prepared).rglob("*") if path.is_file())
    old = [path for path in files if path.read_bytes().startswith(b"CPCH")]
    assert len(old) == BOTH
    for path in old:
        os.utime(path, (1e9, 1e9))
    for number in range(PAYS + 1):
        build(prepared, number, "-O0")
    assert not any(path.exists() for path in old)


class Editing(Runner):
    """Edits a file when the second pass is about to start, with a header that was checked before the first one."""

    def __init__(self, edit: Callable[[], object]) -> None:
        super().__init__()
        self.edit = edit
        self.started = 0

    def trace(self, argv: Sequence[str], **how: Any) -> Traced:
        self.started += "-include-pch" in argv
        if self.started == BOTH and "-include-pch" in argv:
            self.edit()
        return super().trace(argv, **how)


@only_19
@pytest.mark.parametrize("edit", ["content", "shadow", "link"])
def test_an_edit_between_two_passes_is_noticed_by_the_second(prepared: Lab, edit: str) -> None:
    prepared.write("first/other.hpp", "")
    path = prepared.root / "own/value.hpp"
    text = path.read_text().replace("2 * x", "4 * x")
    if edit == "link":
        for name in ("old", "new"):
            prepared.write(f"kept/{name}.hpp", path.read_text() if name == "old" else text)
        path.unlink()
        path.symlink_to("../kept/old.hpp")
        for number in range(PAYS):
            build(prepared, number)
    build(prepared, 9)
    edits = {
        "content": lambda: path.write_text(text),
        "shadow": lambda: prepared.write("first/value.hpp", text),
        "link": lambda: (path.unlink(), path.symlink_to("../kept/new.hpp")),
    }
    prepared.environ["HIPCACHE_JOBS"] = "1"
    known = build_with(prepared, Editing(edits[edit]), 1, checks=1 << 30, same=False)
    assert known["without changed"] in (1, BOTH), "the first may be looked at after the edit"
    settle()
    prepared.compile(*words(prepared), source="own_runner.hip")  # compares it with plain clang's


class Full(Runner):
    """The disk has no room for a header."""

    def trace(self, argv: Sequence[str], **how: Any) -> Traced:
        traced = super().trace(argv, **how)
        if "-emit-pch" not in argv:
            return traced
        said = b"error: unable to open output file: 'No space left on device'\n"
        return replace(traced, ended=replace(traced.ended, status=1, stderr=said))


@only_19
def test_where_the_disk_has_no_room_for_one_passes_go_without(header_lab: Lab) -> None:
    wait(header_lab)
    assert build_with(header_lab, Full(), 1) == {"without none yet": BOTH}
    build(header_lab, 2)
    assert counts(header_lab)["made"] == 0


@only_19
@pytest.mark.parametrize("broken", ["", "v2/actions"])
def test_where_its_store_cannot_be_used_all_goes_on_without(header_lab: Lab, broken: str) -> None:
    place = headers(header_lab) / broken
    place.parent.mkdir(mode=0o700, parents=True)
    (headers(header_lab) / "v2/tmp").mkdir(parents=True) if broken else None
    place.write_text("no directory")
    build(header_lab, 1)
    settle()
    build(header_lab, 1)
    assert header_lab.stats()["direct_hits"] == 1
    cleared = header_lab.hipcache("clear")
    assert (cleared.status, b"are left" in cleared.err) == (0, bool(broken))


def test_a_pass_that_waits_for_a_comparison_goes_on_when_it_has_ended() -> None:
    """Also where another has begun meanwhile, as it may."""
    records: dict[str, bytes] = {}
    actions = SimpleNamespace(get=lambda keys: records)
    near = SimpleNamespace(actions=actions, put=records.__setitem__)
    store = SimpleNamespace(lock=lambda key: nullcontext())
    files = SimpleNamespace(digest=lambda path: (None, path))
    session: Any = SimpleNamespace(
        context=SimpleNamespace(store=store, preambles=64), shelves=SimpleNamespace(near=near), files=files
    )
    front: Any = SimpleNamespace(
        key=SimpleNamespace(inputs=(("compiler", "c"),)), is_device=True, source="s", job=SimpleNamespace(options=())
    )
    trust = Trust(session, near)
    turns = [trust.turn(front, is_compared=True) for _ in range(500)]
    assert set(turns) == {Turn.COMPARE, Turn.WAIT}, "a comparison may have been interrupted, so now and then one begins"
    waited: list[bool] = []
    waiting = threading.Thread(target=lambda: waited.append(trust.has_waited(front)))
    waiting.start()
    trust.told(front, same=True)
    waiting.join(timeout=60)
    assert waited in ([True], [False])
    assert not trust.has_waited(front)
    assert trust.turn(front, is_compared=True) in (Turn.USE, Turn.COMPARE)
