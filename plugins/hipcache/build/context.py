"""The outside world, as the engine sees it: store, processes, slots, environment, clock.

A front opens one for any number of compiles, in any number of threads; nothing below it reads `os.environ` or the
working directory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from hipcache.base import features
from hipcache.base.errors import StoreError
from hipcache.base.paths import runtime_directory
from hipcache.base.values import dataclass
from hipcache.config import Config
from hipcache.config.settings import NO_EXECUTOR
from hipcache.inputs.file_manager import RACY
from hipcache.inputs.identity import Memos, memos_in
from hipcache.processes.runner import Runner, SubprocessRunner
from hipcache.processes.slots import Slots, open_slots
from hipcache.report import conditions
from hipcache.report.history import History, Record
from hipcache.store.local import LocalStore, open_store
from hipcache.store.seal import NO_SEAL, Seal


@dataclass(frozen=True)
class Context:
    """`environ` is what compilers are run with; `clock` gives seconds of the epoch; `history` tells why units miss;
    `basedir` as HIPCACHE_BASEDIR; `source_dir`: where there is none, paths below it are portable in keys and
    read sets, too, but CUIDs and whole compiles know nothing of it: a program may have objects of several such
    directories (ExternalProject); `recache` takes no hits; a file younger than `racy` seconds may change once more
    unseen; `seal`: that of the store's records; `remote`: gives the client of a remote cache, which is
    loaded by that; `queue` takes the key of a record that is to be uploaded; `executions`: likewise, of executors;
    `preambles`: one use of a precompiled header in so many is checked (0: none is used)."""

    store: LocalStore
    runner: Runner
    slots: Slots
    environ: Mapping[str, str]
    clock: Callable[[], float]
    history: History | None = None
    basedir: str = ""
    source_dir: str = ""
    recache: bool = False
    racy: float = RACY
    seal: Seal = NO_SEAL
    remote: Callable[[], Any] | None = None
    queue: Callable[[str], object] = bool
    preambles: int = 0
    executions: Callable[[], Any] | None = None

    @property
    def memos(self) -> Memos:
        return memos_in(self.store.get_action, self.keep_for_speed)

    def last(self, path: str) -> Record | None:
        """The last compile of `path`."""
        return self.history.load(path) if self.history else None

    def compared(self, path: str) -> Record | None:
        """The compile of `path` with which the next one is compared."""
        return self.history.compared(path, self.seal.namespace, self.seal.key) if self.history else None

    def keep_for_speed(self, key: str, record: bytes, *, own: bool = False) -> None:
        """Put an action into the store. Only speed is lost if that cannot be done; what must be kept says so."""
        with suppress(StoreError):
            self.store.put_action(key, record, own=own)


def open_context(config: Config, environ: Mapping[str, str], *, racy: float = RACY) -> Context:
    """The real world under the user's settings. Raises StoreError."""
    store = open_store(config, defers_upkeep=True)
    shares = not store.read_only
    store.work.on_timeout = partial(conditions.tell_of_lock, config, environ)
    conditions.follow_upkeep(config, store)
    return Context(
        store=store,
        runner=SubprocessRunner(),
        slots=open_slots(
            environ,
            config.job_slots,
            runtime_directory(environ),
            elsewhere=any(address != NO_EXECUTOR for address in config.executor),
        ),
        environ=environ,
        clock=time.time,
        history=None if store.read_only else History(store.notes()),
        basedir=str(config.basedir or ""),
        source_dir=str(config.source_dir or ""),
        recache=config.recache,
        racy=racy,
        seal=store.seal,
        preambles=config.preamble_checks if config.preambles and shares else 0,
        **_servers(config, environ) if shares and (config.remote or config.executor) else {},
    )


def _servers(config: Config, environ: Mapping[str, str]) -> dict[str, Any]:
    """The remote and executors. Nothing of either is loaded until it is needed."""
    remote, executions = (next(features.added(name), None) for name in ("remote", "executions"))
    if not remote:
        return {}
    client, queue = remote(config, environ)
    found = {"remote": client, "queue": queue} if config.remote else {}
    return {**found, "executions": executions(client, config, environ)} if executions else found
