"""The statistics of all compiles of all processes: one short line for each compile.

Everything is in `<HIPCACHE_DIR>/v2/statistics/`:

    lock        empty; held shared to append or read, exclusively to fold. Its modification time is that of the
                first compile.
    log         one line for each compile, appended with one write to a file opened with O_APPEND
    log.<name>  a log that is being folded, or the one line of a process that found the lock taken
    totals      the sums of all the logs folded so far, replaced by rename
    sizes       the store over time (store_history.py)
    builds      the last builds (builds.py)

    log    = *( LF crc TAB outcome TAB reason TAB milliseconds *( TAB unit ) LF )
    unit   = name SP hit frontend backend          ; each of them "+" hit, "-" miss, "." none
                                                   ; also "took MICROSECONDS ...", "configure check ..."
                                                   ; and "direct ..."
    totals = "hipcache statistics 1" SP crc LF *( number TAB key LF )
    crc    = 8 hexadecimal digits: CRC-32 of what follows, to the end of the line or of the file

A record begins with a line feed, so a truncated one does not damage the next. Damaged lines are skipped, and damaged
totals count as none: statistics never make a compile or a report fail.

When `log` reaches 1 MiB (some 10,000 compiles), the process that appended last folds it: under the lock it renames
`log` to a unique name, writes new totals that include its sums and list that name, and removes it. If it is killed in
between, the file is still there, and the totals say whether it is counted. No compile waits for the lock: a process
that finds it taken writes a `log.<name>` (completely, by rename) instead. Many such files are folded, too.

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from hipcache.disk.confined import MOST_STATISTICS, Confined
from hipcache.errors import StoreError
from hipcache.report import sums
from hipcache.report.checks import is_check
from hipcache.report.outcome import CompileOutcome
from hipcache.report.sums import EVICTED, EXECUTED, LOCKED, REMOTE, VERIFIED, Statistics
from hipcache.values import replace

FOLD_AT = 1 << 20
HEADER = "hipcache statistics 1"
_HERE = "statistics"
_LOCK = f"{_HERE}/lock"
_MANY_LOGS = 64


def record(root: Path, outcome: CompileOutcome, umask: int | None = None) -> bool:
    """Count one compile in the store at `root`. False if that could not be written. `umask`: see `Confined`."""
    return _append(Confined(root, umask), b"".join(_line(text.split("\t")) for text in sums.texts(outcome)))


def record_verified(root: Path, verdict: str) -> bool:
    """Count one comparison. `verdict`: of VERDICTS."""
    return _append(Confined(root), _line([VERIFIED, verdict, "0"]))


def record_locked(root: Path, umask: int | None = None) -> bool:
    """Count one lock that did not come free."""
    return _append(Confined(root, umask), _line([LOCKED, "", "0"]))


def record_remote(root: Path, counts: Mapping[str, int], umask: int | None = None) -> bool:
    """Count what was asked of a remote: numbers by name, of REMOTE_COUNTS; for a unit, with its name before one of
    OF_REMOTE_UNITS."""
    return _record(root, REMOTE, counts, umask)


def record_executions(root: Path, counts: Mapping[str, int], umask: int | None = None) -> bool:
    """Count what was asked of an executor: numbers by name, of OF_EXECUTIONS; a fault by its kind ("fault KIND")."""
    return _record(root, EXECUTED, counts, umask)


def record_evictions(root: Path, umask: int | None, entries: int, size: int) -> bool:
    """Count entries that were removed, and their bytes on disk."""
    return _record(root, EVICTED, {"entries": entries, "bytes": size}, umask)


def _record(root: Path, of: str, counts: Mapping[str, int], umask: int | None) -> bool:
    told = [f"{name} {number}" for name, number in counts.items() if number]
    return not told or _append(Confined(root, umask), _line([of, "", "0", *told]))


def _append(store: Confined, content: bytes) -> bool:
    try:
        lock = _open_lock(store)
        try:
            if not _try_lock(lock, fcntl.LOCK_SH):
                write_whole(store, f"log.{_unique()}", content)
                return True
            log = store.keep(f"{_HERE}/log", MOST_STATISTICS, os.O_WRONLY | os.O_APPEND)
            try:
                written = os.write(log, content) == len(content)
                full = os.fstat(log).st_size >= FOLD_AT
            finally:
                os.close(log)
            fcntl.flock(lock, fcntl.LOCK_UN)
            # Who finds the lock taken leaves it: the next one that appends looks again.
            if (full or _has_many_logs(store)) and _try_lock(lock, fcntl.LOCK_EX):
                # The line is written and counts; a fold that fails is tried again at the next one.
                with contextlib.suppress(OSError):
                    _fold(store)
            return written
        finally:
            os.close(lock)
    except OSError:
        return False


def read(root: Path) -> Statistics:
    """The sums of everything recorded. Nothing there, no permission or damage: zeros."""
    store = Confined(root)
    since: float | None = None
    lock: int | None = None
    with contextlib.suppress(OSError):
        since = store.status(_LOCK).st_mtime
        lock = store.open(_LOCK, MOST_STATISTICS)
        # If the lock stays taken, the sums may lack what is being folded right now.
        _wait_lock(lock, fcntl.LOCK_SH)
    try:
        counts, folded, zeroed = _read_totals(store)
        for log in _logs(store):
            if log not in folded:
                counts.update(_read_log(store, log))
    finally:
        if lock is not None:
            os.close(lock)
    return sums.of(counts, zeroed if zeroed is not None else since)


def zero(root: Path, clock: Callable[[], float] = time.time, umask: int | None = None) -> None:
    """Begin again at zero. Compiles that run meanwhile are counted before or after, never in part."""
    store = Confined(root, umask)
    place = store.path(_HERE)
    try:
        lock = _open_lock(store)
        try:
            if not _wait_lock(lock, fcntl.LOCK_EX):
                raise StoreError(f"the statistics in '{place}' are in use", "another process has them; try again")
            logs = _set_aside(store)
            _write_totals(store, Counter(), logs, clock())
            _remove(store, logs)
        finally:
            os.close(lock)
    except OSError as error:
        raise StoreError(
            f"cannot write the statistics in '{place}': {error.strerror}", "check permissions and free space"
        ) from error


# Locking


def _open_lock(store: Confined) -> int:
    try:
        return store.keep(_LOCK, MOST_STATISTICS, lock=True)
    except (FileNotFoundError, NotADirectoryError):
        store.make((_HERE,))
        return store.keep(_LOCK, MOST_STATISTICS, lock=True)


def _try_lock(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_lock(lock: int, how: int) -> bool:
    """Lock within a second: a process that was stopped while it held the lock must not hang a report."""
    for _ in range(100):
        if _try_lock(lock, how):
            return True
        time.sleep(0.01)
    return False


# Lines


def line_of_hit(outcome: CompileOutcome, outputs: Iterable[str]) -> bytes:
    """The line of the same compile when nothing has changed. `outputs`: absolute paths."""
    hit = replace(outcome.as_hit(), check=any(map(is_check, outputs)), direct=True)
    return _line(sums.texts(hit)[0].split("\t"))


def _line(fields: list[str]) -> bytes:
    text = "\t".join(" ".join(text.split()) for text in fields).encode("utf-8", "backslashreplace")
    return sums.line(text)


def _read_log(store: Confined, log: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    try:
        content = store.read(f"{_HERE}/{log}", MOST_STATISTICS)
    except OSError:
        return counts
    for text in sums.lines(content):
        # A line of another version, with the right checksum, may still not read as one of ours.
        with contextlib.suppress(ValueError):
            counts.update(sums.counters(text.decode("utf-8")))
    return counts


# Totals and folding


def _read_totals(store: Confined) -> tuple[Counter[str], set[str], float | None]:
    """The sums, the logs that they contain already, and when they were set to zero (None: never)."""
    with contextlib.suppress(OSError, ValueError, OverflowError):
        header, _, body = store.read(f"{_HERE}/totals", MOST_STATISTICS).partition(b"\n")
        if header == f"{HEADER} {binascii.crc32(body):08x}".encode():
            return sums.totals(body.decode("utf-8", "replace"))
    return Counter(), set(), None


def _write_totals(store: Confined, counts: Counter[str], folded: list[str], since: float | None) -> None:
    lines = [f"{number}\t{key}\n" for key, number in sorted(counts.items())]
    lines += [f"0\tfolded {log}\n" for log in folded]
    if since is not None:
        lines.append(f"{round(since * 1000)}\tsince\n")
    body = "".join(lines).encode()
    write_whole(store, "totals", f"{HEADER} {binascii.crc32(body):08x}\n".encode() + body)


def _fold(store: Confined) -> None:
    """Add all logs to the totals. The caller holds the lock exclusively."""
    counts, folded, since = _read_totals(store)
    logs = _set_aside(store)
    for log in logs:
        if log not in folded:
            counts.update(_read_log(store, log))
    _write_totals(store, counts, logs, since)
    _remove(store, logs)


def _set_aside(store: Confined) -> list[str]:
    """Give `log` a name of its own, which is never used again, and list all such logs. Sweep what was being written
    by processes that died."""
    with contextlib.suppress(FileNotFoundError):
        store.rename(f"{_HERE}/log", f"{_HERE}/log.{_unique()}")
    for leftover, status in store.listing(_HERE):
        if leftover.startswith("new.") and time.time() - status.st_mtime > 3600:
            store.remove(f"{_HERE}/{leftover}")
    return list(_logs(store))


def _logs(store: Confined) -> Iterator[str]:
    with contextlib.suppress(OSError):
        names = sorted(name for name, _ in store.listing(_HERE))
        yield from (name for name in names if name == "log" or name.startswith("log."))


def _has_many_logs(store: Confined) -> bool:
    """Looks at one time in a hundred or so."""
    return os.urandom(1)[0] < 3 and sum(1 for _ in _logs(store)) > _MANY_LOGS


def _remove(store: Confined, logs: list[str]) -> None:
    for log in logs:
        store.remove(f"{_HERE}/{log}")


def write_whole(store: Confined, name: str, content: bytes) -> None:
    """Put the content into the place of the file of that name in this directory. Raises OSError."""
    new = f"{_HERE}/new.{_unique()}"
    try:
        store.write(new, content)
        store.rename(new, f"{_HERE}/{name}")
    except OSError:
        store.remove(new)
        raise


def _unique() -> str:
    return f"{time.time_ns():x}-{os.urandom(8).hex()}"
