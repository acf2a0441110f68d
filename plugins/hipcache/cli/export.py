"""`hipcache export`: entries of the store in one file, for another store."""

from __future__ import annotations

import argparse
from pathlib import Path

from hipcache import carrying, config
from hipcache.cli import Session
from hipcache.cli.screen import Progress, human_size, plural
from hipcache.errors import HipcacheError
from hipcache.store import archive
from hipcache.store.opening import open_store

SUMMARY = "write entries of the store into one file, for another store"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a new file, named .tar.zst or .tar.gz")
    parser.add_argument(
        "--since",
        type=Path,
        metavar="MARK",
        help="only what was used since an hour before the file MARK was written ('stats --json > MARK'): uses are"
        " noted once an hour",
    )


def run(options: argparse.Namespace, session: Session) -> int:
    settings = config.load(session.environ, strict=True)
    store = open_store(settings, read_only=True)
    with Progress(session.err, "entries written") as progress:
        count = archive.write(options.file, carrying.entries(store, _since(options.since), progress.at))
    size = human_size(options.file.stat().st_size)
    print(f"{plural(count, 'entry')}, {size}, in '{options.file}'", file=session.out)
    return 0


def _since(mark: Path | None) -> int | None:
    """In nanoseconds. Raises HipcacheError."""
    try:
        return mark.stat().st_mtime_ns if mark else None
    except OSError as error:
        hint = "make it before the build: 'hipcache stats --json > MARK'"
        raise HipcacheError(f"cannot look at '{mark}': {error.strerror}", hint) from error
