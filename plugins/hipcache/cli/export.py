"""`hipcache export`: entries of the store in one file, for another store."""

from __future__ import annotations

import argparse
from pathlib import Path

from hipcache import config
from hipcache.cli import Session, carrying, compilation_database, used
from hipcache.cli.screen import ProgressLine, human_size, plural
from hipcache.errors import HipcacheError
from hipcache.store import archive
from hipcache.store.local import LocalStore, open_store

SUMMARY = "write the store's entries to one file, to import elsewhere"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="named .tar.zst or .tar.gz; it is replaced")
    parser.add_argument(
        "--since",
        type=Path,
        metavar="MARK",
        help="only entries used since one hour before the file MARK was written ('stats --json > MARK'); the store"
        " records last use once an hour",
    )
    parser.add_argument(
        "--used-by",
        type=Path,
        metavar="BUILD",
        help="only entries that a build's objects used: its directory, or its compile_commands.json",
    )


def run(options: argparse.Namespace, session: Session) -> int:
    settings = config.load(session.environ, strict=True)
    store = open_store(settings, read_only=True)
    only = _used_by(options.used_by, store, str(settings.basedir or ""), session) if options.used_by else None
    with ProgressLine(session.err, "entries written") as progress:
        count = archive.write(options.file, carrying.entries(store, _since(options.since), progress.at, only))
    size = human_size(options.file.stat().st_size)
    print(f"{plural(count, 'entry')}, {size}, in '{options.file}'", file=session.out)
    return 0


def _used_by(path: Path, store: LocalStore, basedir: str, session: Session) -> used.Names:
    """Raises HipcacheError."""
    build = used.Build.at(path, compilation_database.objects(path, session.environ))
    with ProgressLine(session.err, "entries looked at") as progress:
        names, unknown = used.by(build, store, basedir, progress.at)
    if unknown:
        count = plural(len(unknown), "object")
        print(f"{count} of '{path}' left out: not known to the store, such as '{unknown[0]}'", file=session.err)
    return names


def _since(mark: Path | None) -> int | None:
    """The time of the mark in nanoseconds. Raises HipcacheError."""
    try:
        return mark.stat().st_mtime_ns if mark else None
    except OSError as error:
        hint = "write it before the build: 'hipcache stats --json > MARK'"
        raise HipcacheError(f"cannot read '{mark}': {error.strerror}", hint) from error
