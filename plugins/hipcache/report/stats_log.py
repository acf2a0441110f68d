"""The statistics log (HIPCACHE_STATS_LOG): one line for each compile of a build, for its figures alone and for reports.

A line is a JSON object, appended with one write to a file opened with O_APPEND; `native/launcher/logs.c` writes the
same for a direct hit. A line that begins with "#" is a comment, as in ccache's.

    format     1
    began      seconds of the epoch; at a hit that the launcher serves, when it began to look
    seconds    from then to the end of the compile (0 if it was left to the compiler, which went on in its place)
    pid        of the process
    directory  the working directory, absolute
    object     the output, absolute; "" if it is not known
    direct     was it served by the native launcher?
    counted    list of the texts that the store's statistics get: `outcome TAB reason TAB milliseconds *(TAB unit)`
               (report/statistics.py)
    units      only from the engine: list of {"name", "hit", "seconds" (of its compiler, at a hit those saved), "why"
               (list of sentences, empty for a hit)}
    detail     only from the engine, if there is one: which option or file the reason is about
    command    list of the words; only in HIPCACHE_LOG with HIPCACHE_LOG_FORMAT=json, which has the same lines

Bytes of paths that are no UTF-8 are written as they are, or as lone surrogates; Python's "surrogateescape" reads both.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hipcache.base.errors import HipcacheError
from hipcache.base.values import dataclass, replace
from hipcache.report import statistics
from hipcache.report.outcome import CACHEABLE, CompileOutcome, UnitOutcome, is_check

FORMAT = 1
_HINT = "set HIPCACHE_STATS_LOG to a file before the build, and name that file"


class NoLog(HipcacheError):
    """The file is no statistics log."""


@dataclass(frozen=True)
class Compile:
    """A line, read."""

    began: float
    seconds: float
    pid: int
    directory: str
    object: str
    direct: bool
    counted: tuple[str, ...]
    units: tuple[UnitOutcome, ...]
    detail: str

    @property
    def outcome(self) -> str:
        return self.counted[0].split("\t")[0] if self.counted else ""

    @property
    def reason(self) -> str:
        return self.counted[0].partition("\t")[2].partition("\t")[0] if self.counted else ""


def line(
    end: CompileOutcome, *, began: float, now: float, cwd: str, path: str, command: Sequence[str] | None = None
) -> str:
    """`path`: of the object, "" if it is not known; `command`: only if it is to be in the line."""
    told: dict[str, object] = {
        "format": FORMAT,
        "began": round(began, 6),
        "seconds": round(max(0.0, now - began), 6),
        "pid": os.getpid(),
        "directory": cwd,
        "object": os.path.join(cwd, path) if path else "",
        "direct": False,
        "counted": statistics.log_texts(end),
        "units": [
            {"name": unit.name, "hit": unit.hit, "seconds": round(unit.seconds, 3), "why": list(unit.why)}
            for unit in end.units
        ],
    }
    if end.detail:
        told["detail"] = end.detail
    if command is not None:
        told["command"] = list(command)
    return json.dumps(told)


def served(counted: bytes, *, began: float, now: float, cwd: str, path: str, command: Sequence[str] | None) -> str:
    """The line of a direct hit in this process. `counted`: as the native library gives it."""
    texts = [row.partition("\t")[2] for row in counted.decode("utf-8", "replace").split("\n") if row]
    told = json.loads(line(CompileOutcome(""), began=began, now=now, cwd=cwd, path=path, command=command))
    return json.dumps({**told, "direct": True, "counted": texts})


def read(path: Path, start: int = 0) -> Iterator[Compile]:
    """The compiles of a log from byte `start` on, as they ended. What is damaged is skipped. Raises NoLog if nothing
    is a line of it."""
    found, lines = False, 0
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            file.seek(start)
            for text in file:
                if text.startswith("#") or not text.strip():
                    continue
                lines += 1
                compile = _read(text)
                if compile is not None:
                    found = True
                    yield compile
    except OSError as error:
        raise NoLog(f"cannot read the statistics log '{path}': {error.strerror}", _HINT) from error
    if lines and not found:
        raise NoLog(f"'{path}' is not a statistics log", _HINT)


def follow(path: Path, start: int) -> tuple[list[Compile], int]:
    """(compiles of the whole lines from byte `start` on, where the next look begins), while the log is written."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            whole = file.read().rpartition(b"\n")[0]
    except OSError:
        return [], start
    lines = whole.decode("utf-8", "surrogateescape").split("\n") if whole else []
    return [compile for compile in map(_read, lines) if compile is not None], start + (len(whole) + 1 if whole else 0)


def _read(text: str) -> Compile | None:
    try:
        told = json.loads(text)
        counted = tuple(str(counts) for counts in told["counted"])
        for counts in counted:
            statistics.counters(counts)
        units = tuple(
            UnitOutcome(str(unit["name"]), bool(unit["hit"]), why=tuple(unit["why"]), seconds=float(unit["seconds"]))
            for unit in told.get("units", ())
        )
        return Compile(
            float(told["began"]),
            float(told["seconds"]),
            int(told["pid"]),
            str(told["directory"]),
            str(told["object"]),
            bool(told["direct"]),
            counted,
            units,
            str(told.get("detail", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def total(log: Path) -> statistics.Statistics:
    """The sums of a statistics log. Raises NoLog."""
    return together(read(log))


def together(compiles: Iterable[Compile]) -> statistics.Statistics:
    """The sums without configure checks, which are counted apart; `since` is the begin of the first compile."""
    counts, checks = Counter[str](), Counter[str]()
    took: dict[str, list[float]] = {end: [] for end in CACHEABLE}
    since: float | None = None
    for compile in compiles:
        since = compile.began if since is None else min(since, compile.began)
        if is_check(compile.object):
            checks[compile.outcome] += 1
            continue
        for text in compile.counted:
            counts.update(statistics.counters(text))
        if compile.seconds and compile.outcome in took:
            took[compile.outcome].append(compile.seconds)
    average = {end: sum(seconds) / len(seconds) for end, seconds in took.items() if seconds}
    timed = {end: len(seconds) for end, seconds in took.items() if seconds}
    return replace(statistics.of_counters(counts, since), average_seconds=average, timed=timed, checks=dict(checks))
