"""The statistics: what all compiles of all processes came to, one short line for each compile.

Everything is in `<HIPCACHE_DIR>/v1/statistics/`:

    lock        empty; held shared by whoever appends or reads, exclusively by whoever folds. Its modification
                time is that of the first compile.
    log         one line for each compile, appended with one write to a file opened with O_APPEND
    log.<name>  a log that is being folded, or the one line of a process that found the lock taken
    totals      the sums of all the logs folded so far, replaced by rename

    log    = *( LF crc TAB outcome TAB reason TAB milliseconds *( TAB unit ) LF )
    unit   = name SP hit frontend backend          ; each of them "+" hit, "-" miss, "." none
    totals = "hipcache statistics 1" SP crc LF *( number TAB key LF )
    crc    = 8 hexadecimal digits: CRC-32 of what follows, to the end of the line or of the file

A record opens with a line feed, so one that was torn off spoils no other. A line that is damaged is skipped,
damaged totals count as none: statistics are never a reason for a compile, or for a report, to fail.

When `log` has grown to 1 MiB (some 10,000 compiles), whoever appended last folds it: under the lock `log` is renamed to
a name of its own, its sums go into new totals that also list that name, and it is removed. Killed in between,
the file is still there, and the totals say whether it has been counted. Nobody waits for the lock while a compile
goes on: who finds it taken writes a `log.<name>` (whole, by rename) instead.

Rejected: a counter file rewritten at each compile (each waits for all others), SQLite (its import takes longer
than a whole hit), one file for each process (a build of 10,000 objects has 10,000 of them).
"""

from __future__ import annotations

import binascii
import contextlib
import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hipcache.errors import StoreError
from hipcache.outcome import OUTCOMES, PASSED_THROUGH, VERDICTS, CompileOutcome
from hipcache.store import StoreSize
from hipcache.values import asdict, dataclass

FOLD_AT = 1 << 20
HEADER = "hipcache statistics 1"
HOST, LINK = "host", "link"
_MARKS = {True: "+", False: "-", None: "."}
# Outcome of a line that tells of a comparison, no compile; its reason is the verdict.
VERIFIED = "verified"
_COUNTED = {"+": "hits", "-": "misses"}


@dataclass(frozen=True)
class Tally:
    """Hits and misses of one unit or one kind of job."""

    hits: int = 0
    misses: int = 0


@dataclass(frozen=True)
class Statistics:
    """The sums since `since` (seconds of the epoch; None where nothing has been recorded)."""

    compiles: Mapping[str, int]
    units: Mapping[str, Tally]
    frontend: Tally
    backend: Tally
    passed_through: Mapping[str, int]
    seconds_saved: float
    since: float | None
    verified: Mapping[str, int]

    def as_json(self, store: StoreSize) -> dict[str, object]:
        """The public form, as `hipcache stats --json` prints it."""
        return {
            "compiles": dict(self.compiles),
            "units": {name: asdict(tally) for name, tally in self.units.items()},
            "jobs": {"frontend": asdict(self.frontend), "backend": asdict(self.backend)},
            "store": {"bytes": store.bytes, "max_bytes": store.max_bytes, "entries": store.entries},
            "seconds_saved": round(self.seconds_saved, 3),
            "passed_through": dict(self.passed_through),
            "verified": dict(self.verified),
            "since": self.since,
        }


def record(root: Path, outcome: CompileOutcome) -> bool:
    """Count one compile in the store at `root`. False where that could not be written."""
    return _append(root, line(outcome))


def record_verified(root: Path, verdict: str) -> bool:
    """Count one comparison. `verdict`: of VERDICTS."""
    return _append(root, _line([VERIFIED, verdict, "0"]))


def _append(root: Path, content: bytes) -> bool:
    directory = _directory(root)
    try:
        try:
            lock = _open_lock(directory)
        except FileNotFoundError:
            directory.mkdir(parents=True, exist_ok=True)
            lock = _open_lock(directory)
        try:
            if not _try_lock(lock, fcntl.LOCK_SH):
                _write_whole(directory / f"log.{_unique()}", content)
                return True
            log = os.open(directory / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                written = os.write(log, content) == len(content)
                full = os.fstat(log).st_size >= FOLD_AT
            finally:
                os.close(log)
            fcntl.flock(lock, fcntl.LOCK_UN)
            # Who finds the lock taken leaves it: the next one that appends looks again.
            if full and _try_lock(lock, fcntl.LOCK_EX):
                # The line is written and counts; a fold that fails is tried again at the next one.
                with contextlib.suppress(OSError):
                    _fold(directory)
            return written
        finally:
            os.close(lock)
    except OSError:
        return False


def read(root: Path) -> Statistics:
    """The sums of everything recorded. Nothing there, no permission or damage: zeros."""
    directory = _directory(root)
    since: float | None = None
    lock: int | None = None
    with contextlib.suppress(OSError):
        lock = os.open(directory / "lock", os.O_RDONLY | os.O_CLOEXEC)
        since = os.fstat(lock).st_mtime
        # Where the lock stays taken, the sums may lack what is being folded right now.
        _wait_lock(lock, fcntl.LOCK_SH)
    try:
        counts, folded, zeroed = _read_totals(directory)
        for log in _logs(directory):
            if log.name not in folded:
                counts.update(_read_log(log))
    finally:
        if lock is not None:
            os.close(lock)
    return _statistics(counts, zeroed if zeroed is not None else since)


def zero(root: Path, clock: Callable[[], float] = time.time) -> None:
    """Begin again at zero. Compiles that run meanwhile are counted before or after, never in part."""
    directory = _directory(root)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = _open_lock(directory)
        try:
            if not _wait_lock(lock, fcntl.LOCK_EX):
                raise StoreError(f"the statistics in '{directory}' are in use", "another process holds them; try again")
            logs = _set_aside(directory)
            _write_totals(directory, Counter(), logs, clock())
            _remove(logs)
        finally:
            os.close(lock)
    except OSError as error:
        raise StoreError(
            f"cannot write the statistics in '{directory}': {error.strerror}", "check permissions and free space"
        ) from error


def _directory(root: Path) -> Path:
    return root / "v1" / "statistics"


# Locking


def _open_lock(directory: Path) -> int:
    return os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _try_lock(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_lock(lock: int, how: int) -> bool:
    """Lock within five seconds: a process that was stopped while it held the lock must not hang a report."""
    for _ in range(500):
        if _try_lock(lock, how):
            return True
        time.sleep(0.01)
    return False


# Lines


def line(outcome: CompileOutcome) -> bytes:
    fields = [outcome.outcome, outcome.reason, str(round(outcome.seconds_saved * 1000))]
    for unit in outcome.units:
        fields.append(f"{unit.name} {_MARKS[unit.hit]}{_MARKS[unit.frontend]}{_MARKS[unit.backend]}")
    return _line(fields)


def _line(fields: list[str]) -> bytes:
    text = "\t".join(" ".join(text.split()) for text in fields).encode("utf-8", "backslashreplace")
    return b"\n%08x\t%s\n" % (binascii.crc32(text), text)


def _read_log(log: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    try:
        content = log.read_bytes()
    except OSError:
        return counts
    for line in content.split(b"\n"):
        crc, _, text = line.partition(b"\t")
        if text and crc == b"%08x" % binascii.crc32(text):
            # A line of another version, with the right checksum, may still not read as one of ours.
            with contextlib.suppress(ValueError):
                counts.update(_count(text.decode("utf-8")))
    return counts


def _count(text: str) -> Counter[str]:
    """The counters that one line adds to. Raises ValueError where it does not follow the grammar."""
    outcome, reason, milliseconds, *units = text.split("\t")
    if outcome == VERIFIED:
        return Counter({f"{VERIFIED} {reason}": 1})
    counts = Counter({f"compile {outcome}": 1, "milliseconds": int(milliseconds)})
    if outcome == PASSED_THROUGH:
        counts[f"reason {reason}"] += 1
    for unit in units:
        name, _, marks = unit.rpartition(" ")
        keys = [f"unit {name}"] if name in (HOST, LINK) else [f"unit {name}", "job frontend", "job backend"]
        for key, mark in zip(keys, marks, strict=False):
            if mark in _COUNTED:
                counts[f"{key} {_COUNTED[mark]}"] += 1
    return counts


def _statistics(counts: Counter[str], since: float | None) -> Statistics:
    def tally(key: str) -> Tally:
        return Tally(counts[f"{key} hits"], counts[f"{key} misses"])

    units = {key.removeprefix("unit ").rpartition(" ")[0] for key in counts if key.startswith("unit ")}
    reasons = {key.removeprefix("reason "): count for key, count in counts.items() if key.startswith("reason ")}
    return Statistics(
        compiles={outcome: counts[f"compile {outcome}"] for outcome in OUTCOMES},
        units={name: tally(f"unit {name}") for name in [*sorted(units - {HOST, LINK}), HOST, LINK]},
        frontend=tally("job frontend"),
        backend=tally("job backend"),
        passed_through=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        seconds_saved=counts["milliseconds"] / 1000,
        since=since,
        verified={verdict: counts[f"{VERIFIED} {verdict}"] for verdict in VERDICTS},
    )


# Totals and folding


def _read_totals(directory: Path) -> tuple[Counter[str], set[str], float | None]:
    """The sums, the logs that they contain already, and when they were set to zero (None: never)."""
    try:
        header, _, body = (directory / "totals").read_bytes().partition(b"\n")
    except OSError:
        return Counter(), set(), None
    if header != f"{HEADER} {binascii.crc32(body):08x}".encode():
        return Counter(), set(), None
    counts: Counter[str] = Counter()
    folded = set()
    since = None
    for line in body.decode("utf-8", "replace").splitlines():
        number, _, key = line.partition("\t")
        if key.startswith("folded "):
            folded.add(key.removeprefix("folded "))
        elif key == "since":
            since = int(number) / 1000
        else:
            counts[key] = int(number)
    return counts, folded, since


def _write_totals(directory: Path, counts: Counter[str], folded: list[Path], since: float | None) -> None:
    lines = [f"{number}\t{key}\n" for key, number in sorted(counts.items())]
    lines += [f"0\tfolded {log.name}\n" for log in folded]
    if since is not None:
        lines.append(f"{round(since * 1000)}\tsince\n")
    body = "".join(lines).encode()
    _write_whole(directory / "totals", f"{HEADER} {binascii.crc32(body):08x}\n".encode() + body)


def _fold(directory: Path) -> None:
    """Add all logs to the totals. The caller holds the lock exclusively."""
    counts, folded, since = _read_totals(directory)
    logs = _set_aside(directory)
    for log in logs:
        if log.name not in folded:
            counts.update(_read_log(log))
    _write_totals(directory, counts, logs, since)
    _remove(logs)


def _set_aside(directory: Path) -> list[Path]:
    """Give `log` a name of its own, which is never used again, and list all such logs. Sweep what was being written
    by processes that died."""
    with contextlib.suppress(FileNotFoundError):
        (directory / "log").rename(directory / f"log.{_unique()}")
    for leftover in directory.glob("new.*"):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > 3600:
                leftover.unlink()
    return list(_logs(directory))


def _logs(directory: Path) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return
    yield from (directory / name for name in names if name == "log" or name.startswith("log."))


def _remove(logs: list[Path]) -> None:
    for log in logs:
        with contextlib.suppress(OSError):
            log.unlink()


def _write_whole(path: Path, content: bytes) -> None:
    new = path.with_name(f"new.{_unique()}")
    try:
        new.write_bytes(content)
        new.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def _unique() -> str:
    return f"{time.time_ns():x}-{os.getpid():x}-{os.urandom(4).hex()}"
