"""`hipcache clear`: remove every entry of the store. The statistics stay; `hipcache stats --zero` clears those."""

from __future__ import annotations

import argparse
import sys

from hipcache import config
from hipcache.base import features
from hipcache.base.errors import HipcacheError, StoreError
from hipcache.cli import Console
from hipcache.cli.gc import open_to_remove
from hipcache.cli.screen import ProgressLine, human_size, plural

SUMMARY = "remove every entry"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="remove nothing; show how much would be freed")
    parser.add_argument("--yes", action="store_true", help="do not ask on a terminal")


def run(options: argparse.Namespace, console: Console) -> int:
    settings = config.load(console.environ, strict=True)
    store = open_to_remove(settings, console, dry_run=options.dry_run)
    if store is None:
        return 0
    size, hints = store.size(), features.hints(console.environ)
    held = f"{plural(size.entries, 'entry')} ({human_size(size.bytes)}) in '{settings.dir}'"
    shared = sum(hint.size().bytes for hint in hints)
    if shared:
        held += f", and precompiled headers of all stores ({human_size(shared)}) in '{hints[0].root}',"
    if options.dry_run:
        print(f"{held} would be removed", file=console.out)
        return 0
    if not options.yes and sys.stdin is not None and sys.stdin.isatty():
        print(f"remove {held}? [y/N] ", end="", file=console.err, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise HipcacheError("nothing was removed", "answer 'y', or use --yes")
    with ProgressLine(console.err, "entries removed") as progress:
        store.clear(progress=progress.at)
    for hint in hints:
        try:
            hint.clear()
        except StoreError as error:
            print(f"the precompiled headers in '{hint.root}' are left: {error.message}", file=console.err)
            shared = 0
    for queue in features.modules("QUEUE"):
        queue.empty(store.confined)
    print(f"freed {human_size(size.bytes + shared)}; the store in '{settings.dir}' is empty", file=console.out)
    return 0
