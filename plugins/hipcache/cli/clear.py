"""`hipcache clear`: remove every entry of the store. The statistics stay; `hipcache stats --zero` clears those."""

from __future__ import annotations

import argparse

from hipcache import config
from hipcache.cli import Session
from hipcache.cli.gc import open_to_remove
from hipcache.cli.screen import Progress, human_size
from hipcache.remote import queue

SUMMARY = "remove every entry"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def run(options: argparse.Namespace, session: Session) -> int:
    settings = config.load(session.environ, strict=True)
    store = open_to_remove(settings, session)
    if store is None:
        return 0
    with Progress(session.err, "entries removed") as progress:
        freed = store.clear(progress=progress.at)
    queue.empty(store.confined)
    print(f"freed {human_size(freed)}; the store in '{settings.dir}' is empty", file=session.out)
    return 0
