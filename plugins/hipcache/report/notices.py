"""Prints each condition once per build, however many compiles run at the same time.

A build is the topmost build tool (ninja, make ...) among the ancestors of this process, within its session; else the
topmost of all of them. Who makes the mark of a build and a condition says it: an empty file `said-BUILD-CONDITION` in
the user's runtime directory, or wherever one can be made. It is not in the store, which may be what is broken.

Rejected: process groups (ninja gives each compile its own), the parent (a shell of its own for each compile), the
session alone (one terminal runs many builds).
"""

from __future__ import annotations

import binascii
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from hipcache import processes
from hipcache.config import Config
from hipcache.processes.slots import places_for_marks
from hipcache.report import conditions, statistics, telling
from hipcache.report.conditions import Condition

if TYPE_CHECKING:
    from hipcache.store.local import LocalStore

_TOOLS = frozenset(["ninja", "ninja-build", "samu", "n2", "make", "gmake", "cmake", "ctest", "meson", "scons", "bazel"])
_GENERATIONS = 100
_HOUR = 3600
_OLD = 24 * _HOUR


def tell(those: Iterable[Condition], environ: Mapping[str, str]) -> None:
    """Say those that nobody has said yet in this build; they count as said now."""
    found = tuple(those)
    if found:
        build = build_of_this_process()
        text = "".join(f"hipcache: {one}\n" for one in found if _is_first(build, one.identity, environ))
        with suppress(OSError):
            telling.say(text)


def is_first(identity: str, environ: Mapping[str, str]) -> bool:
    """Has nobody in this build asked that of this identity? Also true if no mark can be made."""
    return _is_first(build_of_this_process(), identity, environ)


def build_of_this_process() -> str:
    """A name for the build that it is part of."""
    return _build(os.getpid())


def follow_upkeep(config: Config, store: LocalStore) -> None:
    """Count what the store evicts, and note what it holds when it has been counted."""

    def note(size: int, entries: int) -> None:
        from hipcache.report import store_history  # once a day
        from hipcache.store import StoreSize

        store_history.record(config.dir, config.umask, StoreSize(size, entries, store.max_bytes), time.time)

    store.tell(partial(statistics.record_evictions, config.dir, config.umask), note)


def tell_of_lock(config: Config, environ: Mapping[str, str], seconds: float) -> None:
    """Count a lock that did not come free within so many seconds, and say it, once in a build."""
    statistics.record_locked(config.dir, config.umask)
    tell([conditions.locked(config, seconds)], environ)


def _is_first(build: str, identity: str, environ: Mapping[str, str]) -> bool:
    """Also true if no mark can be made: rather too often than never."""
    name = f"said-{build}-{binascii.crc32(os.fsencode(identity)):08x}"
    for directory in places_for_marks(environ):
        try:
            os.close(os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
        except OSError:
            continue
        _sweep(directory)
        return True
    return True


def _sweep(directory: str) -> None:
    now = time.time()
    with suppress(OSError), os.scandir(directory) as found:
        for entry in found:
            if entry.name.startswith("said-"):
                with suppress(OSError):
                    if now - entry.stat(follow_symlinks=False).st_mtime > _OLD:
                        os.unlink(entry.path)


def _build(number: int) -> str:
    """A name for the build that the process is part of."""
    own = processes.find_process(number)
    if own is None:
        return f"session-{os.getsid(0)}-{int(time.time()) // _HOUR}"
    tool, top, process = None, own, processes.find_process(own.parent)
    for _ in range(_GENERATIONS):
        if process is None or process.session != own.session:
            break
        if process.name in _TOOLS:
            tool = process
        # The leader of a session with a terminal is the shell at which somebody types one command after the other.
        if process.number != process.session or not process.terminal:
            top = process
        process = processes.find_process(process.parent)
    if tool:
        return f"{tool.number}-{tool.started}"
    # It may live for weeks, and be no build at all.
    return f"{top.number}-{top.started}-{int(time.time()) // _HOUR}"
