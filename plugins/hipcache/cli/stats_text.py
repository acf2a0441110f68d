"""The statistics as text: tables, and a line for each rare event."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from hipcache.cli import arches
from hipcache.cli.screen import Screen, human_size, human_time, percent, plural
from hipcache.cli.store_kinds import Kinds
from hipcache.report.outcome import FAILED, HIT, MISS, PARTIAL, PASSED_THROUGH, WORDS
from hipcache.report.sums import Statistics, Tally
from hipcache.store import StoreSize
from hipcache.store.local import LocalStore

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
        _show_verified(numbers, screen)
        _show_preambles(numbers, screen)
        if numbers.lock_timeouts:
            screen.line(f"lock timeouts  {numbers.lock_timeouts}")
        _show_remote(numbers, screen)
        _show_executions(numbers, screen)
        if numbers.average_seconds:
            shown = ", ".join(f"{_OUTCOMES[end]} {took:.3g} s" for end, took in numbers.average_seconds.items())
            screen.line(f"average compile time  {shown}")
        if numbers.evicted["entries"]:
            freed = human_size(numbers.evicted["bytes"])
            screen.line(f"evicted  {plural(numbers.evicted['entries'], 'entry')} ({freed})")
        screen.line(f"compile time saved  {screen.paint('green', human_time(numbers.seconds_saved))}")
    limit = f"of {human_size(size.max_bytes)}, " if size.max_bytes else ""
    screen.line(f"store  {human_size(size.bytes)} {limit}{plural(size.entries, 'entry')}, in '{place}'")
    for one in (store for store in hints if store.size().entries):
        screen.line(f"precompiled headers, outside of it  {human_size(one.size().bytes)}, in '{one.root}'")


def show_kinds(kinds: Kinds, screen: Screen) -> None:
    ordered = sorted(kinds.archs, key=arches.order)
    rows = [["the store, by kind", "on disk"], ["  objects and device code", human_size(kinds.code)]]
    rows += [[f"    {arch}", human_size(kinds.archs[arch])] for arch in ordered]
    rows += [["  records", human_size(kinds.records)], ["  other", human_size(kinds.other)]]
    screen.table(rows)


def _show_units(numbers: Statistics, screen: Screen) -> None:
    rows = [_row(name, tally) for name, tally in arches.units(numbers.units)]
    _table(["architecture", "hits", "misses", "hit %"], rows, screen)
    jobs = [("front ends", numbers.frontend), ("back ends", numbers.backend)]
    rows = [_row(name, tally) for name, tally in jobs if tally.hits or tally.misses]
    _table(["device jobs", "hits", "misses", "hit %"], rows, screen)


def _show_remote(numbers: Statistics, screen: Screen) -> None:
    counts = numbers.remote
    if any(counts.values()):
        seconds = human_time(counts["milliseconds"] / 1000)
        received, sent = human_size(counts["received"]), human_size(counts["sent"])
        fetched = (
            f"{plural(counts['hits'], 'hit')} ({received} received in {seconds}), {plural(counts['misses'], 'miss')}"
        )
        uploaded = f"{plural(counts['uploads'], 'result')} sent ({sent})"
        screen.line(f"remote  {fetched}, {uploaded}, {plural(counts['errors'], 'error')}")


def _show_remote_units(numbers: Statistics, screen: Screen) -> None:
    rows = [[f"  {name}", *cells] for name, cells in arches.of_remote(numbers.remote_units)]
    _table(["of remotes", *arches.OF_REMOTE], rows, screen)


def _show_executions(numbers: Statistics, screen: Screen) -> None:
    counts, faults = numbers.executions, numbers.execution_faults
    if any(counts.values()) or faults:
        why = ", ".join(f"{kind} {count}" for kind, count in faults.items())
        done = f"{plural(counts['done'], 'action')} run remotely ({human_time(counts['milliseconds'] / 1000)})"
        told = f"{done}, {counts['taken back']} taken back to run here, {plural(sum(faults.values()), 'error')}"
        screen.line(f"executors  {told}{why and f': {why}'}")


def _show_verified(numbers: Statistics, screen: Screen) -> None:
    counts = numbers.verified
    if any(counts.values()):
        different = f"{counts['different']} different"
        told = screen.paint("red", different) if counts["different"] else different
        varying = f", {counts['varying']} not reproducible by the compiler itself"
        screen.line(
            f"hits compared with a fresh compile  {counts['same']} same, {told}{varying * bool(counts['varying'])}"
        )


def _show_preambles(numbers: Statistics, screen: Screen) -> None:
    counts = numbers.preambles
    if any(counts.values()):
        used = f"used by {plural(counts['used'], 'front end')}"
        told = f"{counts['checked']} checked, {_different(counts, screen)}"
        screen.line(f"precompiled headers  {counts['made']} made, {used}, {told}")


def _different(counts: Mapping[str, int], screen: Screen) -> str:
    """How many comparisons found a difference."""
    told = f"{counts['different']} different" + ", and switched off" * bool(counts["different"])
    return screen.paint("red", told) if counts["different"] else told


def _table(head: list[str], rows: list[list[str]], screen: Screen) -> None:
    """Behind an empty line; nothing if there are no rows."""
    if rows:
        screen.line()
        screen.table([head, *rows])


def _row(name: str, tally: Tally) -> list[str]:
    return [f"  {name}", str(tally.hits), str(tally.misses), percent(tally.hits, tally.hits + tally.misses)]
