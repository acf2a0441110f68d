"""Opens the outside world under the user's settings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from hipcache import features
from hipcache.config import Config
from hipcache.engine import Engine
from hipcache.inputs.trace import RACY
from hipcache.processes.runner import SubprocessRunner
from hipcache.processes.slots import open_slots, runtime_directory
from hipcache.report import notices
from hipcache.report.history import History
from hipcache.settings import NO_EXECUTOR
from hipcache.store.layout import HISTORY
from hipcache.store.opening import open_store


def open_engine(config: Config, environ: Mapping[str, str], *, racy: float = RACY) -> Engine:
    """The real world under the user's settings. Raises StoreError."""
    store = open_store(config)
    shares = not store.read_only
    store.work.on_timeout = partial(notices.tell_of_lock, config, environ)
    notices.follow_upkeep(config, store)
    return Engine(
        store=store,
        runner=SubprocessRunner(),
        slots=open_slots(
            environ,
            config.job_slots,
            runtime_directory(environ),
            elsewhere=any(one != NO_EXECUTOR for one in config.executor),
        ),
        environ=environ,
        clock=time.time,
        history=None if store.read_only else History(store.notes(HISTORY)),
        basedir=str(config.basedir or ""),
        source_dir=str(config.source_dir or ""),
        recache=config.recache,
        racy=racy,
        seal=store.seal,
        preambles=config.preamble_checks if config.preambles and shares else 0,
        **_servers(config, environ) if shares and (config.remote or config.executor) else {},
    )


def _servers(config: Config, environ: Mapping[str, str]) -> dict[str, Any]:
    """The engine's remote and executors. Nothing of either is loaded until it is needed."""
    remote, executions = (next(features.added(name), None) for name in ("remote", "executions"))
    if not remote:
        return {}
    client, queue = remote(config, environ)
    found = {"remote": client, "queue": queue} if config.remote else {}
    return {**found, "executions": executions(client, config, environ)} if executions else found
