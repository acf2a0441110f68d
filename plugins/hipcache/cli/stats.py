"""`hipcache stats`: hits and misses, for each offload arch, as text, Markdown or JSON; of one build (--since); and the
bytes of the store by what they are for (--kinds)."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hipcache import config
from hipcache.base import features
from hipcache.base.errors import HipcacheError, StoreError
from hipcache.base.patterns import pattern
from hipcache.base.values import asdict, replace
from hipcache.cli import Console
from hipcache.cli.screen import (
    REMOTE_HEAD,
    Screen,
    arch_order,
    asked_units,
    human_size,
    human_time,
    percent,
    plural,
    remote_rows,
    sentence,
)
from hipcache.report import conditions, statistics, stats_log
from hipcache.report.outcome import FAILED, HIT, MISS, PARTIAL, PASSED_THROUGH, WORDS
from hipcache.report.statistics import VERSION, Statistics, Tally
from hipcache.store import StoreSize
from hipcache.store.layout import ACTIONS, BLOBS, HISTORY, charge, digests
from hipcache.store.local import LocalStore, open_store
from hipcache.store.packs import CODE, is_code

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


def run(options: argparse.Namespace, console: Console) -> int:
    settings = config.load(console.environ, strict=True)
    found = conditions.of_settings(settings)
    if options.stats_log and (options.since or options.zero):
        raise HipcacheError("--stats-log cannot be combined with --since or --zero", "give one of them alone")
    if options.stats_log == _SET and not settings.stats_log:
        raise HipcacheError("--stats-log needs a FILE, because HIPCACHE_STATS_LOG is not set", "name the build's log")
    log = settings.stats_log if options.stats_log == _SET else options.stats_log
    if options.kinds:
        show_kinds(kinds(open_store(settings, read_only=True)), Screen(console.out, console.environ))
        return 0
    numbers = stats_log.total(log) if log else statistics.read(settings.dir)
    if options.since:
        numbers = since(numbers, options.since)
    try:
        size = open_store(settings, read_only=True).size(beside=True)
    except StoreError:
        if not found:
            raise
        size = StoreSize(0, 0, settings.max_size)  # the conditions say why
    hints = features.hints(console.environ)
    if options.json:
        listed = [{"kind": condition.kind, "message": condition.message, "hint": condition.hint} for condition in found]
        beside = {"hints": {"bytes": sum(hint.size().bytes for hint in hints)}}
        more = {"namespace": settings.namespace, "conditions": listed, **beside}
        print(json.dumps({**numbers.as_json(size), **more}, indent=2), file=console.out)
    elif options.markdown:
        print(markdown(numbers, size, settings.namespace), end="", file=console.out)
        for condition in found:
            print(f"\n> {condition.describe()}: {condition.hint}", file=console.out)
    else:
        screen = Screen(console.out, console.environ)
        show(numbers, size, str(settings.dir), hints, screen)
        if settings.namespace:
            screen.line(f"namespace  {settings.namespace} (the figures are for all namespaces)")
        for condition in found:
            screen.line()
            screen.line(f"{screen.paint('red', condition.describe())}\n  {condition.hint}")
    if options.zero:
        statistics.zero(settings.dir, umask=settings.umask)
        if not (options.json or options.markdown):
            print("All counts are now zero.", file=console.out)
    return 0


_OUTCOMES = {outcome: several for outcome, (_, several) in WORDS.items()}


def show(numbers: Statistics, size: StoreSize, place: str, hints: Sequence[LocalStore], screen: Screen) -> None:
    total = sum(numbers.compiles.values())
    since = f" since {time.strftime('%Y-%m-%d %H:%M', time.localtime(numbers.since))}" if numbers.since else ""
    if total == 0 and not numbers.checks and since:
        screen.line(f"Nothing has been compiled{since}.")
    elif total == 0 and not numbers.checks:
        screen.line("Nothing has been compiled yet: run 'hipcache clang++ ...', or include(HipCache) in CMake.")
    else:
        hits, units = numbers.unit_hits
        rows = [[f"compiles{since}", str(total), ""], ["cacheable", str(numbers.cacheable), ""]]
        for outcome in (HIT, PARTIAL, MISS):
            count = numbers.compiles[outcome]
            rows.append([f"  {_OUTCOMES[outcome]}", str(count), percent(count, numbers.cacheable)])
            if outcome == HIT:
                rows.append(["    direct", str(numbers.direct), percent(numbers.direct, count)])
        if units:
            rows.append(["  unit hits", str(hits), percent(hits, units)])
        left = {_OUTCOMES[outcome]: numbers.compiles[outcome] for outcome in (PASSED_THROUGH, FAILED)}
        left["configure checks"] = sum(numbers.checks.values())
        rows += [[what, str(count), ""] for what, count in left.items() if count]
        screen.table(rows)
        _show_units(numbers, screen)
        _show_remote_units(numbers, screen)
        left_out = {"passed through": numbers.passed_through, "compiled but not stored": numbers.not_kept}
        for what, reasons in left_out.items():
            # No compile by a compiler whose plan is not understood is cached.
            named = {name: screen.paint("red", f"  {name}") if name == "plan" else f"  {name}" for name in reasons}
            _table([f"{what}, by reason", ""], [[named[name], str(count)] for name, count in reasons.items()], screen)
        screen.line()
        for group in statistics.groups():
            counts = group.named(numbers.counted)
            if any(count for name, count in counts.items() if f"{{{name}" in group.text):
                screen.line(sentence(group.text, counts, screen))
        if numbers.average_seconds:
            shown = ", ".join(f"{_OUTCOMES[end]} {took:.3g} s" for end, took in numbers.average_seconds.items())
            screen.line(f"average compile time  {shown}")
        screen.line(f"compile time saved  {screen.paint('green', human_time(numbers.seconds_saved))}")
    limit = f"of {human_size(size.max_bytes)}, " if size.max_bytes else ""
    screen.line(f"store  {human_size(size.bytes)} {limit}{plural(size.entries, 'entry')}, in '{place}'")
    for hint in (hint for hint in hints if hint.size().entries):
        screen.line(f"precompiled headers, outside of it  {human_size(hint.size().bytes)}, in '{hint.root}'")


def show_kinds(kinds: Kinds, screen: Screen) -> None:
    ordered = sorted(kinds.archs, key=arch_order)
    rows = [["the store, by kind", "on disk"], ["  objects and device code", human_size(kinds.code)]]
    rows += [[f"    {arch}", human_size(kinds.archs[arch])] for arch in ordered]
    rows += [["  records", human_size(kinds.records)], ["  history of objects", human_size(kinds.history)]]
    rows += [["  other", human_size(kinds.other)]]
    screen.table(rows)


def _show_units(numbers: Statistics, screen: Screen) -> None:
    rows = [_row(f"  {name}", tally) for name, tally in asked_units(numbers.units)]
    _table(["architecture", "hits", "misses", "hit %"], rows, screen)
    jobs = [("front ends", numbers.frontend), ("back ends", numbers.backend)]
    rows = [_row(f"  {name}", tally) for name, tally in jobs if tally.hits or tally.misses]
    _table(["device jobs", "hits", "misses", "hit %"], rows, screen)


def _show_remote_units(numbers: Statistics, screen: Screen) -> None:
    rows = [[f"  {name}", *cells] for name, cells in remote_rows(numbers.counted.get("remote_units", {}))]
    _table(["of remotes", *REMOTE_HEAD], rows, screen)


def _table(head: list[str], rows: list[list[str]], screen: Screen) -> None:
    """Behind an empty line; nothing if there are no rows."""
    if rows:
        screen.line()
        screen.table([head, *rows])


def _row(name: str, tally: Tally) -> list[str]:
    return [name, str(tally.hits), str(tally.misses), percent(tally.hits, tally.hits + tally.misses)]


def markdown(numbers: Statistics, size: StoreSize, namespace: str = "") -> str:
    """A table of the compiles, one of the architectures, and one of commands that were not cached, if any."""
    compiles = numbers.compiles
    cacheable = numbers.cacheable
    rows = [
        ("compiles", str(sum(compiles.values()))),
        ("cacheable", str(cacheable)),
        ("hit rate", percent(compiles["hit"], cacheable)),
        ("unit hit rate", percent(*numbers.unit_hits)),
        *((f"average time of a {WORDS[end][0]}", f"{took:.3g} s") for end, took in numbers.average_seconds.items()),
        ("compile time saved", human_time(numbers.seconds_saved)),
        ("store", human_size(size.bytes) + (f" of {human_size(size.max_bytes)}" if size.max_bytes else "")),
    ]
    if numbers.checks:
        rows.append(("configure checks (not counted above)", str(sum(numbers.checks.values()))))
    evicted = numbers.counted[statistics.EVICTED]
    if evicted["entries"]:
        rows.append(("evicted entries", f"{evicted['entries']} ({human_size(evicted['bytes'])})"))
    if namespace:
        rows.append(("namespace", namespace))
    parts = ["### hipcache", _markdown_table(("", ""), rows)]
    units = asked_units(numbers.units)
    if units:
        parts.append(_markdown_table(("architecture", "hits", "misses", "hit rate"), (_row(*unit) for unit in units)))
    fetched = [(name, *cells) for name, cells in remote_rows(numbers.counted.get("remote_units", {}))]
    if fetched:
        parts.append(_markdown_table(("of remotes", *REMOTE_HEAD), fetched))
    left = {**numbers.passed_through, **numbers.not_kept}
    if left:
        parts.append(
            _markdown_table(("not cached, by reason", "compiles"), ((f"`{name}`", str(n)) for name, n in left.items()))
        )
    return "\n\n".join(parts) + "\n"


def _markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


# An ELF file for EM_AMDGPU, and the target in its metadata.
_MACHINE_AT, _AMDGPU = 18, b"\xe0\x00"
_TARGET = pattern(rb"amdgcn-amd-amdhsa-[a-z0-9]*-(gfx[0-9a-z-]+(?::[a-z]+[+-])*)")


class Kinds(NamedTuple):
    """Bytes on disk. `code`: objects and device code, of which `archs` tells the part of each architecture (an object
    has the code of all in it, and is compressed together with them); `records`: by which these are found; `history`: of
    objects, for `explain`; `other`: memos, statistics, what is worked on, and the unused ends of blocks."""

    code: int
    archs: Mapping[str, int]
    records: int
    history: int
    other: int


def kinds(store: LocalStore) -> Kinds:
    """`store`: read-only, so that no use is noted. Raises StoreError."""
    code = records = 0
    archs = Counter[str]()
    for table in store.tables():
        stored = {frame.number: frame.stored for frame in table.frames}
        code += stored.get(CODE, 0)
        records += sum(stored.values()) - stored.get(CODE, 0)
        sizes = Counter[str]()
        for name, place in table.entries.items():
            if place.frame.number == CODE:
                sizes[_arch(store, name)] += place.size
        whole = sum(sizes[arch] for arch in sizes if arch)
        archs.update({arch: stored[CODE] * size // whole for arch, size in sizes.items() if arch})
    records += sum(charge(name, status.st_size) for name, status in digests(store.confined, ACTIONS))
    for digest, status in digests(store.confined, BLOBS):
        size = charge(digest, status.st_size)
        if is_code(store.get_blob(digest) or b""):
            code += size
            archs[_arch(store, digest)] += size
        else:
            records += size
    del archs[""]
    history = sum(size for _, size in store.used(f"{HISTORY}/"))
    return Kinds(code, archs, records, history, max(0, store.size(beside=True).bytes - code - records - history))


def _arch(store: LocalStore, name: str) -> str:
    """The architecture of a code object, empty for all else."""
    content = store.get_blob(name.rpartition("/")[2]) or b""
    found = _TARGET.search(content) if content[_MACHINE_AT : _MACHINE_AT + 2] == _AMDGPU else None
    return found[1].decode("ascii") if found else ""


# Bytes of a mark: a page or two as a rule.
_MOST = 1 << 20
_MOST_COUNTED = 1e18  # JSON has numbers that are none: Infinity, NaN


class NoMark(HipcacheError):
    """The file is none, or the counts do not go on from it."""


def since(numbers: Statistics, mark: Path) -> Statistics:
    """The counts after the mark; their `since` is the time when the mark was written. Raises NoMark."""
    before = _read(mark)
    if before.get("since") not in (None, numbers.since):
        raise NoMark(
            f"'{mark}' does not match these counts: they were set to zero since, or it is from another store", _HINT
        )
    if before.get("version", VERSION) != VERSION:
        raise NoMark(f"'{mark}' has a different format version", _HINT)
    jobs = _mapping(before, "jobs")
    units = _mapping(before, "units")
    averages, timed = _mapping(before, "average_seconds"), _mapping(before, "timed")
    zeros = {"compiles", "timed", *(group.field for group in statistics.groups())}
    names = ("compiles", "timed", "passed_through", "not_kept", "checks")
    fields = {name: getattr(numbers, name) for name in names} | dict(numbers.counted)
    left = {name: _left(count, before.get(name), zeros=name in zeros) for name, count in fields.items()}
    average = {}
    for end, number in numbers.timed.items():
        there = int(_number(timed.get(end)))
        if number > there:
            spent = numbers.average_seconds[end] * number - _number(averages.get(end)) * there
            average[end] = max(0.0, spent / (number - there))
    return replace(
        numbers,
        average_seconds=average,
        **{name: left.pop(name) for name in names},
        counted=left,
        units={name: _tally(tally, units.get(name)) for name, tally in numbers.units.items()},
        frontend=_tally(numbers.frontend, jobs.get("frontend")),
        backend=_tally(numbers.backend, jobs.get("backend")),
        seconds_saved=max(0.0, numbers.seconds_saved - _number(before.get("seconds_saved"))),
        direct=_left(numbers.direct, before.get("direct_hits")),
        since=mark.stat().st_mtime,
    )


_HINT = "write it before the build: hipcache stats --json > FILE"


def _read(mark: Path) -> Mapping[str, object]:
    try:
        with open(mark, "rb") as file:
            text = file.read(_MOST)
    except OSError as error:
        raise NoMark(f"cannot read '{mark}': {error.strerror}", _HINT) from error
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoMark(f"'{mark}' is not output of 'hipcache stats --json': {error}", _HINT) from error
    if not isinstance(document, dict) or not {"compiles", "units", "jobs"} <= document.keys():
        raise NoMark(f"'{mark}' is not output of 'hipcache stats --json'", _HINT)
    return document


def _mapping(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = document.get(name, {})
    return found if isinstance(found, dict) else {}


def _number(found: object) -> float:
    return found if isinstance(found, int | float) and abs(found) < _MOST_COUNTED else 0


def _left(now: Any, before: object, *, zeros: bool = True) -> Any:
    """A count, or counts by name, without those before. Without `zeros` each name has a row."""
    if not isinstance(now, Mapping):
        return max(0, now - int(_number(before)))
    there = before if isinstance(before, dict) else {}
    left = {name: _left(count, there.get(name)) for name, count in now.items()}
    return {name: count for name, count in left.items() if count or zeros}


def _tally(now: Tally, before: object) -> Tally:
    return Tally(**_left(asdict(now), before))
