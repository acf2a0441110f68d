"""`hipcache stats`: hits and misses, for each offload arch."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from hipcache import config, features
from hipcache.cli import Session, markdown, stats_text
from hipcache.cli.screen import Screen
from hipcache.cli.store_kinds import kinds
from hipcache.errors import HipcacheError, StoreError
from hipcache.report import conditions, interval, logged, statistics
from hipcache.store import StoreSize
from hipcache.store.opening import open_store

# Of --stats-log: the file that the settings name.
_SET = Path()
SUMMARY = "show hits and misses for each architecture, and the time saved"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print JSON")
    forms.add_argument(
        "--kinds", action="store_true", help="show what takes the store's bytes, and how many each architecture"
    )
    forms.add_argument("--markdown", action="store_true", help="print Markdown, for the summary of a CI job")
    parser.add_argument(
        "--since",
        type=Path,
        metavar="FILE",
        help="count only what came after FILE, the output of 'stats --json' before the build",
    )
    parser.add_argument(
        "--stats-log",
        type=Path,
        nargs="?",
        const=_SET,
        metavar="FILE",
        help="count only what is in FILE, a statistics log (default: HIPCACHE_STATS_LOG)",
    )
    parser.add_argument("--zero", action="store_true", help="show the counts, then set them to zero")


def run(options: argparse.Namespace, session: Session) -> int:
    settings = config.load(session.environ, strict=True)
    found = conditions.of_settings(settings)
    if options.stats_log and (options.since or options.zero):
        raise HipcacheError("--stats-log cannot be combined with --since or --zero", "give one of them alone")
    if options.stats_log == _SET and not settings.stats_log:
        raise HipcacheError("--stats-log needs a FILE, because HIPCACHE_STATS_LOG is not set", "name the build's log")
    log = settings.stats_log if options.stats_log == _SET else options.stats_log
    if options.kinds:
        stats_text.show_kinds(kinds(open_store(settings, read_only=True)), Screen(session.out, session.environ))
        return 0
    numbers = logged.total(log) if log else statistics.read(settings.dir)
    if options.since:
        numbers = interval.since(numbers, options.since)
    try:
        size = open_store(settings, read_only=True).size(beside=True)
    except StoreError:
        if not found:
            raise
        size = StoreSize(0, 0, settings.max_size)  # the conditions say why
    hints = features.hints(session.environ)
    if options.json:
        listed = [{"kind": one.kind, "message": one.message, "hint": one.hint} for one in found]
        beside = {"hints": {"bytes": sum(one.size().bytes for one in hints)}}
        more = {"namespace": settings.namespace, "conditions": listed, **beside}
        print(json.dumps({**numbers.as_json(size), **more}, indent=2), file=session.out)
    elif options.markdown:
        print(markdown.page(numbers, size, settings.namespace), end="", file=session.out)
        for one in found:
            print(f"\n> {one.describe()}: {one.hint}", file=session.out)
    else:
        screen = Screen(session.out, session.environ)
        stats_text.show(numbers, size, str(settings.dir), hints, screen)
        if settings.namespace:
            screen.line(f"namespace  {settings.namespace} (the figures are for all namespaces)")
        for one in found:
            screen.line()
            screen.line(f"{screen.paint('red', one.describe())}\n  {one.hint}")
    if options.zero:
        statistics.zero(settings.dir, umask=settings.umask)
        if not (options.json or options.markdown):
            print("All counts are now zero.", file=session.out)
    return 0
