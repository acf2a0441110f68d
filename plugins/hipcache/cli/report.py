"""`hipcache report`: one build as a page of HTML that needs no network, and as a trace for Chrome's viewer."""

from __future__ import annotations

import argparse
import json
import time
import webbrowser
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from hipcache import config
from hipcache.base.errors import HipcacheError, StoreError
from hipcache.base.files import write_whole
from hipcache.cli import Console, page
from hipcache.cli.screen import plural
from hipcache.report import build, stats_log, store_history
from hipcache.report.history import History
from hipcache.report.targets import Targets
from hipcache.store.local import open_store

SUMMARY = "write a report of a build: architectures, targets, timeline, causes of misses"
_DAY = 24 * 3600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a self-contained HTML page")
    parser.add_argument("--open", action="store_true", help="show the page in a browser, with the last builds")
    parser.add_argument(
        "--chrome-trace", type=Path, metavar="FILE", help="write a timeline for chrome://tracing or Perfetto"
    )
    parser.add_argument(
        "--stats-log",
        type=Path,
        metavar="FILE",
        help="the build's statistics log (default: HIPCACHE_STATS_LOG, or else the last compile of each object)",
    )


def run(options: argparse.Namespace, console: Console) -> int:
    settings = config.load(console.environ, strict=True)
    if not (options.html or options.chrome_trace or options.open):
        raise HipcacheError("'hipcache report' has nothing to write", "name a file: --html report.html; or use --open")
    if options.open and not options.html:
        with NamedTemporaryFile(prefix="hipcache-report-", suffix=".html", delete=False) as file:
            options.html = Path(file.name)
    log = options.stats_log or settings.stats_log
    compiles = list(stats_log.read(log)) if log else build.of_history(History.of_store(settings.dir).each())
    if not compiles:
        raise HipcacheError(
            f"no compile is known in {'the statistics log' if log else 'the store'} '{log or settings.dir}'",
            "build with HIPCACHE_STATS_LOG=FILE, and name that: --stats-log FILE",
        )
    targets, count = Targets(), plural(len(compiles), "compile")
    if options.html:
        source = f"from '{log}'" if log else f"the last compile of each object, from '{settings.dir}'"
        told = page.Told(source, compiles, targets.of, *_store(settings), build.last_builds(settings.dir))
        write_whole(options.html, page.page(told).encode(errors="backslashreplace"))
        print(f"report of {count}: '{options.html}'", file=console.out)
        if options.open and not webbrowser.open(options.html.absolute().as_uri()):
            raise HipcacheError("no browser could be started", f"open '{options.html}' in one")
    if options.chrome_trace:
        write_whole(options.chrome_trace, json.dumps(build.chrome_trace(compiles, targets.of)).encode())
        print(f"timeline of {count}: '{options.chrome_trace}'", file=console.out)
    return 0


def _store(settings: config.Config) -> tuple[int, Sequence[tuple[int, int]], Sequence[store_history.Point]]:
    """(bytes of the store, (days since their last use, bytes) of its entries, the store over time up to now); nothing
    if there is none."""
    try:
        store, now = open_store(settings, read_only=True), time.time()
        size, used = store.size(beside=True), Counter[int]()
        for when, taken in store.used():
            used[max(0, int((now - when) // _DAY))] += taken
    except StoreError:
        return 0, (), ()
    return size.bytes, sorted(used.items()), store_history.up_to_now(settings.dir, store.size(), now)
