"""`hipcache clear`: remove every entry of the store. The statistics stay; `hipcache stats --zero` clears those."""

from __future__ import annotations

import argparse

from hipcache import config
from hipcache.cli import Session
from hipcache.cli.screen import Progress, human_size
from hipcache.report import notices
from hipcache.store.opening import is_there, open_to_write

SUMMARY = "remove every entry"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def run(options: argparse.Namespace, session: Session) -> int:
    settings = config.load(session.environ, strict=True)
    if not is_there(settings):
        print(f"nothing to remove: there is no store in '{settings.dir}' yet", file=session.out)
        return 0
    store = open_to_write(settings)
    notices.follow_upkeep(settings, store)
    with Progress(session.err, "entries removed") as progress:
        freed = store.clear(progress=progress.at)
    print(f"freed {human_size(freed)}; the store in '{settings.dir}' is empty", file=session.out)
    return 0
