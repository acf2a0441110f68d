"""`hipcache gc`: reduce the store to a size, least recently used entries first, or remove entries that were long unused
or that a build does not use."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Container
from functools import partial
from pathlib import Path

from hipcache import config
from hipcache.cli import Session, compilation_database, namespaces, used
from hipcache.cli.screen import ProgressLine, human_size, plural
from hipcache.errors import ConfigError, HipcacheError
from hipcache.report import notices
from hipcache.settings import VARIABLES, parse_size
from hipcache.store import seal
from hipcache.store.local import LocalStore
from hipcache.store.opening import is_there, open_to_write

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


def run(options: argparse.Namespace, session: Session) -> int:
    settings = config.load(session.environ, strict=True)
    store = open_to_remove(settings, session)
    if store is None:
        return 0
    path = options.not_used_by
    build = used.Build.at(path, compilation_database.objects(path, session.environ)) if path else None
    basedir = str(settings.basedir or "")
    if build and options.namespace:
        raise HipcacheError("--not-used-by and --namespace cannot be combined", "run 'hipcache gc' twice")
    with (
        ProgressLine(session.err, "entries looked at") as looked,
        ProgressLine(session.err, "entries removed") as removed,
    ):
        keeping: Callable[[], Container[str]] | None = None
        eviction = None
        if build:
            keeping = partial(used.all_by, build, store, basedir, looked.at)
        elif options.namespace:
            evicted = seal.read(settings.key).within(options.namespace)
            eviction = namespaces.Eviction(store, evicted, looked.at)
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
        print(f"no results have the namespace '{options.namespace}'{known}", file=session.out)
    left = store.size(beside=True)
    going = f"{human_size(freed)} in {plural(removed.number, 'entry')} would be freed"
    done = going if options.dry_run else f"freed {human_size(freed)}"
    entries = f"{human_size(left.bytes)} in {plural(left.entries, 'entry')}" if left.entries else "no entries"
    print(f"{done}; the store holds {entries}", file=session.out)
    return 0


def open_to_remove(settings: config.Config, session: Session) -> LocalStore | None:
    """The store, whose statistics then count what is removed; None, and a message, if there is none yet."""
    if not is_there(settings):
        print(f"nothing to remove: there is no store in '{settings.dir}' yet", file=session.out)
        return None
    store = open_to_write(settings)
    notices.follow_upkeep(settings, store)
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
