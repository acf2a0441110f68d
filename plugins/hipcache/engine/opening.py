"""Opens the outside world under the user's settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from hipcache import features
from hipcache.config import Config
from hipcache.engine import Engine, servers
from hipcache.inputs.trace import RACY
from hipcache.processes.runner import SubprocessRunner
from hipcache.processes.slots import open_slots, runtime_directory
from hipcache.report import notices
from hipcache.report.history import History
from hipcache.settings import NO_EXECUTOR
from hipcache.store.layout import HISTORY
from hipcache.store.opening import open_store

if TYPE_CHECKING:
    from hipcache.remote.client import Client


def open_engine(config: Config, environ: Mapping[str, str], *, racy: float = RACY) -> Engine:
    """The real world under the user's settings. Raises StoreError."""
    store = open_store(config)
    shares = not store.read_only
    client = servers.client_of(config, environ)
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
        remote=client if config.remote and shares else None,
        queue=servers.queue_of(config, environ),
        preambles=config.preamble_checks if config.has_preambles and shares else 0,
        executions=_executions(client, config, environ) if (config.executor or config.remote) and shares else None,
    )


def _executions(
    client: Callable[[], Client], config: Config, environ: Mapping[str, str]
) -> Callable[[], object] | None:
    return next((executions(client, config, environ) for executions in features.added("executions")), None)
