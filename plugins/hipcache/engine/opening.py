"""Opens the outside world under the user's settings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from hipcache.config import Config
from hipcache.engine import Engine, servers
from hipcache.inputs.trace import RACY
from hipcache.processes.runner import SubprocessRunner
from hipcache.processes.slots import open_slots, runtime_directory
from hipcache.report import notices
from hipcache.report.history import History
from hipcache.store.layout import HISTORY
from hipcache.store.opening import open_store


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
            elsewhere=any(one != "none" for one in config.executor),
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
        executions=servers.executions_of(client, config, environ)
        if (config.executor or config.remote) and shares
        else None,
    )
