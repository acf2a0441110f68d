"""`hipcache import`: put the entries of a file that `hipcache export` has made into the store."""

from __future__ import annotations

import argparse
from pathlib import Path

from hipcache import config
from hipcache.cli import Console, export
from hipcache.cli.export import DAMAGED, LEFT, NEW, THERE
from hipcache.cli.screen import ProgressLine, plural
from hipcache.store.local import open_to_write

SUMMARY = "add the entries of an exported file to the store"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a file that 'hipcache export' wrote")


def run(options: argparse.Namespace, console: Console) -> int:
    store = open_to_write(config.load(console.environ, strict=True))
    with ProgressLine(console.err, "entries read") as progress:
        ends = export.merge(store, options.file, progress.at)
    told = ", ".join(f"{ends[end]} {end}" for end in (NEW, THERE, LEFT, DAMAGED) if ends[end] or end in (NEW, THERE))
    print(f"{plural(ends.total(), 'entry')} read: {told}", file=console.out)
    return 1 if ends[DAMAGED] else 0
