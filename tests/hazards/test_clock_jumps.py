"""A clock that is wrong, or jumps between or during compiles: what is remembered is neither stale nor for ever."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from direct_lab import Direct, direct, remembered
from hip import HIT, only_19, rewrite, same_times, settle
from hipcache.app.front import make
from hipcache.base import native
from hipcache.base.times import TICK, keeps_change_time
from hipcache.base.values import replace
from hipcache.build.context import open_context
from hipcache.clang.command import parse
from hipcache.config import Config
from hipcache.direct.provenance import Indirect
from hipcache.direct.record import NO_STATE
from hipcache.inputs.watched import FILE, Watched, are_old, states
from hipcache.store.layout import HEADER_BYTES

__all__ = ["direct"]

pytestmark = pytest.mark.archs(1)

HOUR = 3600.0


@dataclass
class Clock:
    """The machine's clock, set forwards by so many seconds."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def state(watched: Sequence[Watched], old: float) -> bytes | None:
    """What the digest of a record's state goes over; None where it does not stand for the contents."""
    found = states(watched)
    return b"".join(found.values()) if found is not None and are_old(found, old) else None


def decides(direct: Direct, began: float, ended: float, racy: float) -> str:
    """In a direct hit of a compile that began and ended with the clock set so far ahead: "state" or "contents"; or why
    there is none."""
    lab = direct.lab
    clock, words = Clock(began), lab.words()
    context = replace(open_context(Config(dir=lab.store), lab.environ, racy=racy), clock=clock)
    done = make(context, parse(tuple(words), str(lab.root), lab.environ), None)
    assert done.outcome.outcome == HIT
    if isinstance(done.provenance, Indirect):  # all that the driver saw has changed since, by a clock that is behind
        return done.provenance.why
    clock.ahead = ended
    direct.record().unlink()
    why = remembered(direct, context, done)
    hit = native.hit(str(lab.store), str(lab.root), words, lab.environ, terminal=False, resident=False)
    assert (hit is None) == bool(why), why
    if why:
        return why
    state = direct.record().read_bytes()[HEADER_BYTES + 32 :][:32]  # behind the variables (direct/record.py)
    return "contents" if state.hex() == NO_STATE else "state"


def test_two_writes_within_one_tick_look_alike_and_neither_is_relied_on(tmp_path: Path) -> None:
    """Another content with the status that was looked at: why a young file is not remembered."""
    header = tmp_path / "x.hpp"
    watched = [Watched(FILE, str(header))]
    for _ in range(200):
        header.write_text("1")
        time.sleep(0.001)
        looked, known = time.time(), state(watched, math.inf)
        header.write_text("2")
        if state(watched, math.inf) == known:
            break
    else:
        pytest.skip("each write has a time of its own here")
    assert state(watched, looked - TICK) is None
    settle()
    assert state(watched, looked - TICK) is None, "not by the time of the end, when it is old"
    assert state(watched, time.time() - TICK) == known


JUMPS = [(0.0, 0.0), (0.0, HOUR), (HOUR, 0.0), (-HOUR, 0.0), (0.0, -HOUR), (-HOUR, HOUR)]


@pytest.mark.files
@only_19
@pytest.mark.parametrize(("began", "ended"), JUMPS)
def test_a_file_that_was_written_just_before_is_not_relied_on(direct: Direct, began: float, ended: float) -> None:
    """By one end's time it is old, by the other's it is not: a change of the same tick could come after the look. (With
    an age that no compile takes, however busy the machine is.)"""
    lab = direct.lab
    lab.compile()
    settle()
    header = lab.root / "value.hpp"
    rewrite(header, header.read_text())
    assert decides(direct, began, ended, racy=300) != "state"


@pytest.mark.files
@only_19
@pytest.mark.parametrize(("began", "ended"), [jump for jump in JUMPS if min(jump) == 0])
def test_a_file_that_is_old_is_relied_on_wherever_the_clock_goes_from_there(
    direct: Direct, began: float, ended: float
) -> None:
    release = os.stat("/etc/os-release")  # the driver reads it
    if not keeps_change_time(release.st_dev, release.st_mtime_ns, release.st_ctime_ns):
        pytest.skip("files of this system have no change time")
    lab = direct.lab
    lab.compile()
    settle()
    assert decides(direct, began, ended, racy=0.03) == "state"


@only_19
@pytest.mark.parametrize("seconds", [-HOUR, HOUR])
def test_files_dated_otherwise_than_they_were_are_other_files(direct: Direct, seconds: float) -> None:
    """As by an editor after the clock was set."""
    lab, header = direct.lab, direct.lab.root / "value.hpp"
    before = lab.warm()
    assert direct.ask()
    old = header.stat()
    rewrite(header, header.read_text().replace("1", "2"))
    os.utime(header, (old.st_atime, old.st_mtime + seconds))
    assert not direct.ask()
    assert lab.compile().object != before.object


@only_19
def test_files_dated_in_the_future_are_compared_by_content(direct: Direct) -> None:
    lab, header = direct.lab, direct.lab.root / "value.hpp"
    os.utime(header, (time.time(), time.time() + HOUR))
    before = lab.warm()
    lab.compile()
    assert direct.ask()
    rewrite(header, header.read_text().replace("1", "2"))
    os.utime(header, (time.time(), time.time() + HOUR))
    assert not direct.ask()
    changed = lab.compile()
    assert changed.object != before.object
    same_times(header, (lab.root / "k.hip").stat())
    lab.warm()
    assert direct.ask()


@pytest.mark.files
@only_19
@pytest.mark.parametrize(
    ("seconds", "noted"), [(400 * 24 * HOUR, True), (2 * HOUR, True), (-2 * HOUR, True), (60, False)]
)
def test_a_use_is_noted_whatever_time_the_entries_have(direct: Direct, seconds: float, noted: bool) -> None:
    """Those dated in the future would be the last ones to be evicted; those that seem long unused the first."""
    lab = direct.lab
    lab.warm()
    assert direct.ask()
    wrong = time.time() + seconds
    store = [path for kind in ("actions", "blobs") for path in (lab.store / "v2" / kind).glob("*")]
    for path in store:
        os.utime(path, (wrong, wrong))
    assert direct.ask()
    used = {path for path in store if abs(path.stat().st_mtime - time.time()) < 50}
    assert (direct.record() in used) == noted
    assert (len(used) > 5) == noted, "the units' entries too"
