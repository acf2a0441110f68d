"""Starts processes (by `base/native`, and `ptrace` for scripts), and ends them when hipcache itself is told to end."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from hipcache.base import interruptible
from hipcache.base.errors import LibraryError
from hipcache.base.native import ForkServer, Observing, tells_loader
from hipcache.base.values import dataclass
from hipcache.processes import SIGNALS, observe
from hipcache.processes.observe import Reached

#: A standard input that ends at once, and an output that goes into the answer.
NO_STDIN, PIPE = subprocess.DEVNULL, subprocess.PIPE
_HANDED_ON = (signal.SIGTERM, signal.SIGHUP)
# What a program's loader and C library heed before its `main` runs.
_OF_LOADER = ("LD_", "GLIBC_", "MALLOC_")


@dataclass(frozen=True)
class Completed:
    """The end of a process, and its output. `status` is as in `subprocess.Popen.returncode` (negative: a signal).

    `seconds` is wall-clock time; `used` is processor time of the process and those that it waited for, None if it
    is not known: how much work a hit saves does not depend on what else the machine does.
    """

    status: int
    stdout: bytes
    stderr: bytes
    seconds: float = 0.0
    used: float | None = None

    @property
    def work(self) -> float:
        """Seconds of work, for the statistics."""
        return self.seconds if self.used is None else self.used


class _Process(subprocess.Popen[bytes]):
    """One whose processor time is known once it has ended."""

    used: float | None = None

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """As that of Popen, by another call."""
        try:
            pid, status, usage = os.wait4(self.pid, wait_flags)
        except ChildProcessError:
            return self.pid, 0
        if pid == self.pid:
            self.used = usage.ru_utime + usage.ru_stime
        return pid, status


@dataclass(frozen=True)
class Traced:
    """A process that was run; `observed`: the list of the paths that it asked for (`native/observer/observer.c`), or
    None, and `why` there is none."""

    ended: Completed
    observed: bytes | None
    why: str = ""


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Let handlers of signals wait until the end. One that unwinds while a process is being started would leave that
    one to nobody. (Blocked signals stay blocked in the new process; a handler does not reach it.)"""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread alone
        return
    came: list[int] = []
    handlers = {int(number): signal.getsignal(number) for number in SIGNALS}
    for number, handler in handlers.items():
        if callable(handler):
            signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)


def start_detached(argv: Sequence[str], *, env: Mapping[str, str], keep: Sequence[int]) -> None:
    """Start a process that outlives this one, in a session of its own, with no open file but those of `keep`: nobody
    who reads our output waits for its end. Raises OSError."""
    with signals_deferred():
        process = subprocess.Popen(
            argv,
            cwd="/",
            env=env,
            stdin=NO_STDIN,
            stdout=NO_STDIN,
            stderr=NO_STDIN,
            pass_fds=keep,
            start_new_session=True,
        )
    process.returncode = 0  # it is nobody's to wait for


def run_in_foreground(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a command on our own standard streams; its exit status, as a shell gives it (128 + signal).

    SIGINT and SIGQUIT of the terminal reach the command, too, so that it ends in its own way; SIGTERM and SIGHUP are
    handed on. Raises OSError if it cannot be started.
    """
    came: list[int] = []
    process: subprocess.Popen[bytes] | None = None

    def hand_on(number: int, _: object) -> None:
        if process is None:
            came.append(number)
        elif number in _HANDED_ON:
            process.send_signal(number)

    # Functions, and never SIG_IGN, which the command would inherit.
    own = {number: signal.signal(number, hand_on) for number in (*_HANDED_ON, signal.SIGINT, signal.SIGQUIT)}
    try:
        process = subprocess.Popen(argv, env=env)
        for number in came:
            process.send_signal(number)
        status = process.wait()
    finally:
        for number, handler in own.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status


class ForkServers:
    """The loaded programs of one compile, which begin anew for each command (`native/observer/fork_server.c`).

    `repeats(argv)`: will `argv[0]` surely be started again in this compile? Then it is loaded at its first start,
    others at their second."""

    def __init__(self, repeats: Callable[[Sequence[str]], bool]) -> None:
        self._repeats = repeats
        self._starts = Counter[object]()
        self._found: dict[object, ForkServer | None] = {}
        self._made: list[ForkServer] = []
        self._closed = False
        self._lock = threading.Lock()

    def of(self, argv: Sequence[str], directory: str, environ: Mapping[str, str]) -> ForkServer | None:
        """The server of `argv[0]`, loaded now if it is due. None without an absolute path, if it cannot be, or if the
        user has the loader bring more in (LD_PRELOAD, LD_AUDIT ...), which may not bear a fork."""
        of_loader = [item for item in environ.items() if item[0].startswith(_OF_LOADER)]
        if not argv[0].startswith("/") or tells_loader(environ):
            return None
        key = argv[0], directory, *of_loader
        with self._lock:
            self._starts[key] += 1
            if key not in self._found and not self._closed and (self._starts[key] > 1 or self._repeats(argv)):
                self._found[key] = None
                try:
                    self._found[key] = server = ForkServer(argv[0], directory, environ)
                    self._made.append(server)
                except (OSError, LibraryError):
                    pass  # the program is started each time
            return self._found.get(key)

    def drop(self, server: ForkServer) -> None:
        """Ask it no more: a process that it was asked for did not begin. Those that it began go on."""
        with self._lock:
            self._found = {key: None if found is server else found for key, found in self._found.items()}

    def close(self) -> None:
        """Ends the servers, and what they began and still runs: for when nothing of it is wanted."""
        with self._lock:
            self._closed = True
            self._found = {}
            while self._made:
                self._made.pop().close()


class Killed(Exception):
    """`kill` was called: no process is started any more."""


class Runner(Protocol):
    """Starts a process and waits for it. Tests give a small fake."""

    def run(
        self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Completed: ...

    def until(
        self,
        wanted: Callable[[tuple[str, ...]], bool],
        program: str,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        ignore: Path,
    ) -> Reached | str:
        """Run `program` until it, or a process that it starts, becomes a program with a wanted argv; in words why that
        cannot be done."""
        ...

    def trace(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int = NO_STDIN,
        program: str = "",
        stderr: int = PIPE,
    ) -> Traced:
        """As `run`; and tell what it looked at, if that can be done. `program`: its path, if the first word has
        none."""
        ...

    def kill(self) -> None:
        """End the running processes and start no more."""
        ...

    def check(self) -> None:
        """Raises Killed after `kill`: for one who waits before there is a process."""
        ...

    def group(self, servers: ForkServers | None = None) -> Runner:
        """A runner for one compile, whose `kill` ends that one's processes alone. `servers`: those that start its
        programs (None: this runner's)."""
        ...


class SubprocessRunner:
    """Real processes. `kill` may be called from any thread, and where a signal handler unwinds."""

    def __init__(self, servers: ForkServers | None = None) -> None:
        self._servers = servers
        self._running: set[subprocess.Popen[bytes]] = set()
        self._traced: set[Observing] = set()
        self._groups: WeakSet[SubprocessRunner] = WeakSet()
        self._lock = threading.Lock()
        self._killed = False

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int = NO_STDIN,
        stderr: int = PIPE,
    ) -> Completed:
        """Run `argv`. `stdin`: a descriptor (default: /dev/null). Raises OSError if it cannot be started, Killed after
        `kill`."""
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            # Nobody would be told how it ended, and `subprocess` takes that for success.
            raise OSError(errno.ECHILD, "SIGCHLD is ignored")
        if self._servers and cwd and env is not None and (server := self._servers.of(argv, str(cwd), env)):
            forked = self._natively(argv[0], argv, cwd, env, (stdin, stderr), server, observed=False)
            if isinstance(forked, Traced):
                return forked.ended
        start = time.monotonic()
        with self._lock:
            if self._killed:
                raise Killed
            with signals_deferred():
                process = _Process(argv, cwd=cwd, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr)
                self._running.add(process)
        try:
            stdout, said = process.communicate()
        except BaseException:
            process.kill()  # a signal handler that unwinds: once it is taken off the list, `kill` does not know it
            raise
        finally:
            with self._lock:
                self._running.discard(process)
        if self._killed:
            raise Killed
        return Completed(process.returncode, stdout, said or b"", time.monotonic() - start, process.used)

    def trace(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int = NO_STDIN,
        program: str = "",
        stderr: int = PIPE,
    ) -> Traced:
        path = program or argv[0]
        if "/" not in path:
            return Traced(self.run(argv, cwd=cwd, env=env, stdin=stdin, stderr=stderr), None, "it has no path")
        server = self._servers.of(argv, str(cwd), env) if self._servers and not program else None
        traced = self._natively(path, argv, cwd, env, (stdin, stderr), server, observed=True)
        if isinstance(traced, Traced):
            return traced
        return Traced(self.run(argv, cwd=cwd, env=env, stdin=stdin, stderr=stderr), None, traced)

    def _natively(
        self,
        program: str,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        streams: tuple[int, int],
        server: ForkServer | None,
        *,
        observed: bool,
    ) -> Traced | str:
        """Run it by native code, under the observer if it is `observed`; in words why it was not run. `streams`: its
        standard input and error. A `server` that fails is dropped."""
        # Signals are heard in the main thread alone, and not while native code holds it.
        size = interruptible.LARGE if threading.current_thread() is threading.main_thread() else 0
        attempt = partial(self._attempt, program, argv, cwd, env, *streams, observed=observed)
        ended = interruptible.run(partial(attempt, server), size=size)
        if server and self._servers and isinstance(ended, str):
            self._servers.drop(server)
            return interruptible.run(partial(attempt, None), size=size)
        return ended

    def _attempt(
        self,
        program: str,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        stdin: int,
        stderr: int,
        server: ForkServer | None,
        *,
        observed: bool,
    ) -> Traced | str:
        """See `_natively`."""
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            return "SIGCHLD is ignored"
        observing = Observing()
        begun = time.monotonic()
        with ExitStack() as opened:
            try:
                streams = (os.memfd_create("out"), os.memfd_create("err"))
            except OSError as error:
                return f"no files in memory: {error.strerror}"
            for stream in streams:
                opened.callback(os.close, stream)
            with self._lock:
                if self._killed:
                    raise Killed
                self._traced.add(observing)
            try:
                out_and_err = streams if stderr == PIPE else (streams[0], stderr)
                status, used, seen, why = observing.run(
                    program, argv, str(cwd), env, (stdin, *out_and_err), server=server, observed=observed
                )
            except OSError as error:
                return f"it cannot be started so: {error.strerror}"
            finally:
                with self._lock:
                    self._traced.discard(observing)
            if self._killed:
                raise Killed
            out, err = (os.pread(stream, os.fstat(stream).st_size, 0) for stream in streams)
        ended = Completed(os.waitstatus_to_exitcode(status), out, err, time.monotonic() - begun, used)
        return Traced(ended, None if why or not observed else seen, why)

    def until(
        self,
        wanted: Callable[[tuple[str, ...]], bool],
        program: str,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        ignore: Path,
    ) -> Reached | str:
        return observe.until(wanted, program, argv, cwd=str(cwd), env=env, ignore=str(ignore))

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            running, traced, groups = list(self._running), list(self._traced), list(self._groups)
        for observing in traced:
            observing.kill()
        for group in groups:
            group.kill()
        for process in running:
            if process.returncode is not None:
                continue
            try:
                os.kill(process.pid, 9)
            except ProcessLookupError:
                continue

    def check(self) -> None:
        if self._killed:
            raise Killed

    def group(self, servers: ForkServers | None = None) -> SubprocessRunner:
        group = SubprocessRunner(servers or self._servers)
        with self._lock:
            self._groups.add(group)
            group._killed = self._killed
        return group
