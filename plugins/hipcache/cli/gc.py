"""`hipcache gc`: reduce the store to a size, least recently used entries first, or remove entries that were long unused
or that a build does not use.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from hipcache import config
from hipcache.base.errors import ConfigError, HipcacheError
from hipcache.base.patterns import pattern
from hipcache.cache import records
from hipcache.cli import Console
from hipcache.cli.build_directory import Build, all_used_by
from hipcache.cli.screen import ProgressLine, human_size, plural
from hipcache.config.settings import VARIABLES, parse_size
from hipcache.report import conditions
from hipcache.store import seal
from hipcache.store.faults import as_store_error
from hipcache.store.layout import ACTIONS, HEADER_BYTES, DamagedEntry, action_name, blob_name, is_made, unpack_action
from hipcache.store.local import LocalStore, is_there, open_store, open_to_write
from hipcache.store.seal import Seal

SUMMARY = "remove the least recently used entries"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-size", type=_size, metavar="SIZE", help="for example 5GiB (default: HIPCACHE_MAX_SIZE)")
    parser.add_argument(
        "--older-than",
        type=_age,
        metavar="AGE",
        help="also remove entries not used for this long, for example 12h, 7d or 4w (and an hour more:"
        " uses are recorded once an hour)",
    )
    parser.add_argument(
        "--not-used-by",
        type=Path,
        metavar="BUILD",
        help="also remove entries that a build's objects do not use: its directory, or its compile_commands.json",
    )
    parser.add_argument(
        "--namespace",
        "--evict-namespace",
        type=_namespace,
        metavar="NAME",
        help="also remove all results of this namespace, and contents that no other namespace uses",
    )
    parser.add_argument("--dry-run", action="store_true", help="remove nothing; show how much would be freed")


def run(options: argparse.Namespace, console: Console) -> int:
    settings = config.load(console.environ, strict=True)
    store = open_to_remove(settings, console, dry_run=options.dry_run)
    if store is None:
        return 0
    path = options.not_used_by
    build = Build.at(path, console.environ) if path else None
    basedir = str(settings.basedir or "")
    if build and options.namespace:
        raise HipcacheError("--not-used-by and --namespace cannot be combined", "run 'hipcache gc' twice")
    with (
        ProgressLine(console.err, "entries looked at") as looked,
        ProgressLine(console.err, "entries removed") as removed,
    ):
        keeping: Callable[[], Container[str]] | None = None
        eviction = None
        if build:
            keeping = partial(all_used_by, build, store, basedir, looked.at)
        elif options.namespace:
            evicted = seal.read(settings.key).within(options.namespace)
            eviction = Eviction(store, evicted, looked.at)
            keeping = eviction.kept
        freed = store.collect(
            options.max_size,
            unused_for=options.older_than,
            keeping=keeping,
            dry_run=options.dry_run,
            progress=removed.at,
        )
    if eviction and not eviction.records:
        known = f"; the namespace that is set is '{settings.namespace}'" if settings.namespace else ""
        print(f"no results have the namespace '{options.namespace}'{known}", file=console.out)
    left = store.size(beside=True)
    going = f"{human_size(freed)} in {plural(removed.number, 'entry')} would be freed"
    done = going if options.dry_run else f"freed {human_size(freed)}"
    entries = f"{human_size(left.bytes)} in {plural(left.entries, 'entry')}" if left.entries else "no entries"
    print(f"{done}; the store holds {entries}", file=console.out)
    return 0


def open_to_remove(settings: config.Config, console: Console, *, dry_run: bool = False) -> LocalStore | None:
    """The store, whose statistics then count what is removed; None, and a message, if there is none yet. `dry_run`: to
    read it alone."""
    if not is_there(settings):
        print(f"nothing to remove: there is no store in '{settings.dir}' yet", file=console.out)
        return None
    store = open_store(settings, read_only=True) if dry_run else open_to_write(settings)
    with as_store_error("read", store.confined.base):
        found = is_made(store.confined)
    if not found:
        raise HipcacheError(
            f"'{store.confined.base}' is no store: it has other files, and no CACHEDIR.TAG",
            "set HIPCACHE_DIR to the store",
        )
    conditions.follow_upkeep(settings, store)
    return store


def _namespace(text: str) -> str:
    try:
        config.check(VARIABLES["HIPCACHE_NAMESPACE"], text, {})
    except ConfigError as error:
        raise argparse.ArgumentTypeError(f"{error.message}; {error.hint}") from error
    if not text:
        raise argparse.ArgumentTypeError("'hipcache clear' removes results without a namespace")
    return text


def _size(text: str) -> int:
    size = parse_size(text)
    if size is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 500M or 10GiB")
    if size == 0:  # "no limit" for HIPCACHE_MAX_SIZE, and here it could only mean the opposite
        raise argparse.ArgumentTypeError("0 would remove everything; that is 'hipcache clear'")
    return size


def _age(text: str) -> int:
    """The age in seconds."""
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit() and len(number) < 10 and unit in _SECONDS):
        raise argparse.ArgumentTypeError(f"'{text}' is not an age such as 12h, 7d or 4w (s, m, h, d, w)")
    if int(number) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' would remove everything; that is 'hipcache clear'")
    return int(number) * _SECONDS[unit]


_DIGEST = pattern(rb"[0-9a-f]{64}")


class AllBut:
    """Names of entries below `v2/`: all but these."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name not in self._names


class Eviction:
    """Which entries are of no other namespace (--namespace): those of records with a seal. `progress` is given the
    number of records that were read; `records`: how many have that seal, once `kept` was called."""

    def __init__(self, store: LocalStore, seal: Seal, progress: Callable[[int], object]) -> None:
        self._store, self._seal, self._progress = store, seal, progress
        self.records = 0

    def kept(self) -> AllBut:
        """All entries but these records, and the contents that no other record names. The history and what is known of
        tools belong to no namespace."""
        gone: set[str] = set()
        mine: set[str] = set()
        others: set[str] = set()
        for number, (name, content) in enumerate(_records(self._store), 1):
            self._progress(number)
            try:
                payload = unpack_action(name, content, self._seal)
            except DamagedEntry:  # of another namespace, or without one
                others.update(_named(content[HEADER_BYTES:]))
            else:
                gone.add(action_name(name))
                mine.update(_named(payload))
        self.records = len(gone)
        # Packs with such a record leave whole: what others have in them is a miss for these.
        packs = list(self._store.packs())
        gone |= {pack for pack, _, entries in packs if not gone.isdisjoint(entries)}
        gone |= {pack for pack, bases, _ in packs if not gone.isdisjoint(bases)}
        return AllBut(gone | set(map(blob_name, mine - others)))


def _records(store: LocalStore) -> Iterator[tuple[str, bytes]]:
    for name in store.names(ACTIONS):
        record = store.get_raw(name)
        if record is not None:
            yield name, record


def _named(payload: bytes) -> set[str]:
    """The contents that a record names, and perhaps other digests."""
    with suppress(ValueError):
        direct = records.direct_record(payload)
        return {*direct.lists, *(digest for _, digest in direct.outputs), *(digest for _, digest in direct.uses)}
    return {found.decode("ascii") for found in _DIGEST.findall(payload)}
