"""`hipcache export`: entries of the store in one file, for another store."""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from pathlib import Path

from hipcache import config
from hipcache.base import features
from hipcache.base.compression import inflate
from hipcache.base.errors import HipcacheError
from hipcache.cache import records
from hipcache.cli import Console
from hipcache.cli.build_directory import Build, Names, used_by
from hipcache.cli.screen import ProgressLine, human_size, plural
from hipcache.store import archive
from hipcache.store.archive import ArchiveEntry
from hipcache.store.layout import ACTIONS, BLOBS, USE_STEP, blob_name, pack_action
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


def run(options: argparse.Namespace, console: Console) -> int:
    settings = config.load(console.environ, strict=True)
    store = open_store(settings, read_only=True)
    only = _used_by(options.used_by, store, str(settings.basedir or ""), console) if options.used_by else None
    with ProgressLine(console.err, "entries written") as progress:
        count = archive.write(options.file, entries(store, _since(options.since), progress.at, only))
    size = human_size(options.file.stat().st_size)
    print(f"{plural(count, 'entry')}, {size}, in '{options.file}'", file=console.out)
    return 0


def _used_by(path: Path, store: LocalStore, basedir: str, console: Console) -> Names:
    """Raises HipcacheError."""
    build = Build.at(path, console.environ)
    with ProgressLine(console.err, "entries looked at") as progress:
        names, unknown = used_by(build, store, basedir, progress.at)
    if unknown:
        count = plural(len(unknown), "object")
        print(f"{count} of '{path}' left out: not known to the store, such as '{unknown[0]}'", file=console.err)
    return names


def _since(mark: Path | None) -> int | None:
    """The time of the mark in nanoseconds. Raises HipcacheError."""
    try:
        return mark.stat().st_mtime_ns if mark else None
    except OSError as error:
        hint = "write it before the build: 'hipcache stats --json > MARK'"
        raise HipcacheError(f"cannot read '{mark}': {error.strerror}", hint) from error


Progress = Callable[[int], object]
NANO = 10**9


def entries(
    store: LocalStore, since: int | None, progress: Progress, only: Container[str] | None = None
) -> Iterator[ArchiveEntry]:
    """The entries of an archive of `store`: all, or those that may have been used after `since` (nanoseconds since the
    epoch) and the contents that those records name; of them those whose names below `v2/` are in `only`, if it is
    given. Damaged ones are left out. `progress` is given the number so far. Raises OSError."""
    reader = store.whole()
    times = {tree: dict(_listed(store, tree, only)) for tree in (BLOBS, ACTIONS)}
    used = {
        tree: {name: time for name, time in found.items() if since is None or time >= since - USE_STEP * NANO}
        for tree, found in times.items()
    }
    # Record by record: their payloads are small, and read a second time rather than held.
    going = {name: used[ACTIONS][name] for name in sorted(used[ACTIONS]) if _record(reader, name)}
    needed = dict(used[BLOBS])
    if since is not None:
        for name, time in going.items():
            for digest in _needs(reader.get_record(name) or b""):
                if only is None or blob_name(digest) in only:
                    needed[digest] = max(time, needed.get(digest, 0))
    number = 0
    for digest in sorted(needed):
        content = reader.get_blob(digest) if (reader.blob_size(digest) or 0) <= archive.MOST_CONTENT else None
        if content is not None:
            number += 1
            progress(number)
            yield ArchiveEntry(BLOBS, digest, needed[digest] // NANO, content)
    for name, time in going.items():
        payload = reader.get_record(name)
        if payload is not None:
            number += 1
            progress(number)
            yield ArchiveEntry(ACTIONS, name, time // NANO, pack_action(name, payload, store.seal))


def _listed(store: LocalStore, tree: str, only: Container[str] | None) -> Iterator[tuple[str, int]]:
    for digest, last in store.names(tree).items():
        if only is None or f"{tree}/{digest}" in only:
            yield digest, last


def _record(reader: LocalStore, name: str) -> bool:
    """Does it travel?"""
    payload = reader.get_record(name)
    return payload is not None and len(payload) < archive.MOST_RECORD and not is_answer(payload)


def is_answer(payload: bytes) -> bool:
    """Could the engine take it for something that a tool has answered? Whatever unpacks is one: a record can be made
    that looks like another kind, too."""
    with suppress(zlib.error):
        inflate(payload)
        return True
    return payload[:1] == b"x"


def _needs(payload: bytes) -> list[str]:
    with suppress(ValueError):
        if records.kind_of(payload) == records.PASS:
            return [digest for entry in records.entries_of(payload) for digest in records.blobs_of(entry)]
        for travelling in features.modules("RECORDS"):
            if named := travelling.outputs(payload):
                return list(named)
        return records.blobs(payload)
    return []
