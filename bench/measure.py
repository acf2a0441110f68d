"""Runs one build and takes its time: wall clock, and CPU time of everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trouble import BenchError

#: A build that takes longer is hanging (the longest one of the default workload takes half a minute).
LIMIT_SECONDS = 1200.0

#: The kernel counts CPU time in ticks, mostly of 10 ms.
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Times:
    """Seconds by the clock, and of user and system time of all cores; `others` is the CPU time of everybody else."""

    wall: float
    cpu: float
    others: float = 0.0

    def __add__(self, more: Times) -> Times:
        return Times(self.wall + more.wall, self.cpu + more.cpu, self.others + more.others)


def timed(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path) -> Times:
    """Run `argv` to its end. Its output goes to `log`, whose end is part of the error if it fails.

    The CPU time is that of the process and of all descendants that were waited for, as `wait4` reports it:
    a server that was there before is not in it (see `Tool.server_cpu`).
    """
    with log.open("wb") as output:
        busy = machine_cpu()
        start = time.perf_counter()
        process = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        watchdog = threading.Timer(LIMIT_SECONDS, _end, [process.pid])
        watchdog.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            _end(process.pid)
            process.wait()
            raise
        finally:
            watchdog.cancel()
        wall = time.perf_counter() - start
        busy = machine_cpu() - busy
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        text = log.read_text(encoding="utf-8", errors="replace")
        raise BenchError(
            f"'{argv[0]}' ended with status {process.returncode} after {wall:.1f} s; the end of its output:",
            text[-4000:].rstrip(),
        )
    cpu = usage.ru_utime + usage.ru_stime
    return Times(wall, cpu, max(busy - cpu, 0.0))


def _end(pid: int) -> None:
    """End the session that `timed` started with `pid` as its leader."""
    try:
        os.killpg(pid, signal.SIGTERM)
    except ProcessLookupError:
        return


def machine_cpu() -> float:
    """CPU seconds that the whole machine was at work so far (Linux)."""
    # The first line of proc(5)'s `stat`: user, nice, system, idle, iowait, irq, softirq, steal.
    with open("/proc/stat", encoding="utf-8") as stat:
        ticks = [int(field) for field in stat.readline().split()[1:9]]
    return (sum(ticks) - sum(ticks[3:5])) / TICKS


def tree_cpu(pid: int) -> float:
    """CPU seconds that the process `pid` and its children that have ended used so far (Linux)."""
    # The fields after the command's name, which stands in parentheses and may hold spaces: 14 to 17 of proc(5).
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:15]) / TICKS
