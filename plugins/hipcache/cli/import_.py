"""`hipcache import`: put the entries of a file that `hipcache export` has made into the store."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hipcache import config
from hipcache.base.errors import HipcacheError
from hipcache.base.hashing import blake3
from hipcache.cache import entries as passes
from hipcache.cache import records
from hipcache.cli import Console
from hipcache.cli.export import NANO, is_answer
from hipcache.cli.screen import ProgressLine, plural
from hipcache.store import archive
from hipcache.store.archive import ArchiveEntry
from hipcache.store.layout import BLOBS, STATISTICS, DamagedEntry, action_name, blob_name, is_sealed, unpack_action
from hipcache.store.local import LocalStore, open_to_write
from hipcache.store.packs import MOST_TOGETHER
from hipcache.store.seal import NO_SEAL

SUMMARY = "add the entries of an exported file to the store"
NEW, THERE, LEFT, DAMAGED = "new", "already there", "left out", "damaged"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a file that 'hipcache export' wrote")


def run(options: argparse.Namespace, console: Console) -> int:
    store = open_to_write(config.load(console.environ, strict=True))
    with ProgressLine(console.err, "entries read") as progress:
        ends = merge(store, options.file, progress.at)
    told = ", ".join(f"{ends[end]} {end}" for end in (NEW, THERE, LEFT, DAMAGED) if ends[end] or end in (NEW, THERE))
    print(f"{plural(ends.total(), 'entry')} read: {told}", file=console.out)
    return 1 if ends[DAMAGED] else 0


def merge(store: LocalStore, path: Path, progress: Callable[[int], object]) -> Counter[str]:
    """Put the entries of an archive into `store`; how many of them were NEW, THERE, LEFT and DAMAGED. All that was put
    by the time of an error stays, whole. Raises HipcacheError, OSError."""
    if store.read_only:
        raise HipcacheError(f"cannot import into '{store.root}': the store is read-only", "unset HIPCACHE_READONLY")
    # The native launcher counts only where it is.
    store.confined.make((STATISTICS,))
    ends: Counter[str] = Counter()
    with suppress(OSError):  # which `read` tells
        if 0 < store.max_bytes < path.stat().st_size:
            raise HipcacheError(
                f"'{path}' is larger than the store's limit of {store.max_bytes} bytes",
                "raise HIPCACHE_MAX_SIZE, or export less ('hipcache export --since')",
            )
    waiting = 0
    try:
        for number, entry in enumerate(archive.read(path), 1):
            waiting += len(entry.content)
            if waiting > MOST_TOGETHER:  # so much may be above the limit for a while
                store.pack_by_use()
                waiting = 0
            ends[_put_blob(store, entry) if entry.tree == BLOBS else _put_record(store, entry)] += 1
            progress(number)
    finally:
        store.pack_by_use()
    return ends


def _put_blob(store: LocalStore, entry: ArchiveEntry) -> str:
    if blake3(entry.content).hexdigest() != entry.name:
        return DAMAGED
    if store.blob_size(entry.name) == len(entry.content):
        return THERE
    store.put_blob(entry.content)
    _date(store, blob_name(entry.name), entry.used)
    return NEW


def _is_of_others(entry: ArchiveEntry) -> bool:
    """Is it sealed with another secret, or with none? Here it would not count."""
    with suppress(DamagedEntry):
        unpack_action(entry.name, entry.content, NO_SEAL)
        return True
    return is_sealed(entry.content)


def _put_record(store: LocalStore, entry: ArchiveEntry) -> str:
    try:
        payload = unpack_action(entry.name, entry.content, store.seal)
    except DamagedEntry:
        return LEFT if _is_of_others(entry) else DAMAGED
    if is_answer(payload):
        return LEFT
    old = store.get_record(entry.name)
    if old is not None:
        if not records.is_pass(payload):
            return THERE
        mine = passes.unpack(old)
        both = records.merged(mine, records.passes(payload))
        if both == mine:
            return THERE
        payload = passes.pack(both)
    store.put_record(entry.name, payload)
    if old is None:
        _date(store, action_name(entry.name), entry.used)
    return NEW


def _date(store: LocalStore, name: str, used: int) -> None:
    """Give the entry its last use in the other store, so that what is used least leaves first; never one in the
    future."""
    with suppress(OSError):
        now = store.confined.status(name).st_mtime_ns
        store.confined.touch(name, min(now, used * NANO))
