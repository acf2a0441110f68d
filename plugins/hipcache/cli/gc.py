"""`hipcache gc`: hold the store to a size now, least recently used entries first."""

from __future__ import annotations

import argparse

from hipcache import config
from hipcache.cli import Session
from hipcache.cli.screen import Progress, human_size, plural
from hipcache.sizes import parse_size
from hipcache.store.opening import open_store

SUMMARY = "remove the least recently used entries"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-size", type=_size, metavar="SIZE", help="for example 5GiB (default: HIPCACHE_MAX_SIZE)")


def run(options: argparse.Namespace, session: Session) -> int:
    settings = config.load(session.environ, strict=True)
    store = open_store(settings)
    with Progress(session.err, "entries removed") as progress:
        freed = store.collect(options.max_size, progress=progress.at)
    left = store.size(beside=True)
    print(
        f"freed {human_size(freed)}; the store holds {human_size(left.bytes)} in {plural(left.entries, 'entry')}",
        file=session.out,
    )
    return 0


def _size(text: str) -> int:
    size = parse_size(text)
    if size is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 500M or 10GiB")
    if size == 0:  # "no bound" for HIPCACHE_MAX_SIZE, and here it could only mean the opposite
        raise argparse.ArgumentTypeError("0 would remove everything; that is 'hipcache clear'")
    return size
