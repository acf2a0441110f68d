"""The current compile: the context, the command, its processes with their directory, and what is known so far."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from hipcache.base.errors import JobFailed, PassThrough, StoreFull
from hipcache.base.values import dataclass, field
from hipcache.build.context import Context
from hipcache.cache.content import Shelves
from hipcache.clang.command import Command
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.file_manager import FileManager
from hipcache.inputs.identity import Identities
from hipcache.inputs.scans import Scans
from hipcache.processes.runner import NO_STDIN, Completed, ForkServers, Runner, Traced
from hipcache.store import faults

Kind = TypeVar("Kind")


@dataclass
class Session:
    """One compile under way. `began`: when, in seconds of the epoch; `notes`: what went wrong without harm, and why
    something was not kept; `served`: in words, how else than by a look-up here something was had; `unobserved`: was
    something not kept because no pass can be observed here? `preambles`: what became of precompiled headers, a name for
    each time (two threads may append to a list at once; to increase a number they may not)."""

    context: Context
    command: Command
    began: float = field(init=False)
    jobs: Jobs = field(init=False)
    files: FileManager = field(init=False)
    identities: Identities = field(init=False)
    shelves: Shelves = field(init=False)
    notes: list[str] = field(default_factory=list)
    served: dict[str, None] = field(default_factory=dict)
    unobserved: bool = False
    preambles: list[str] = field(default_factory=list)
    _scans: Scans = field(init=False)
    _once: dict[Any, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        context, cwd = self.context, self.command.cwd
        self.began = now = context.clock()
        self.jobs = Jobs(context, cwd)
        self._scans = Scans(
            lambda key: None if context.recache else context.store.get_action(key), context.keep_for_speed
        )
        basedir, epoch = (
            Basedir(context.basedir or context.source_dir, cwd),
            context.environ.get("SOURCE_DATE_EPOCH", ""),
        )
        self.files = FileManager(cwd, now, basedir, self._scans, racy=context.racy, epoch=epoch)
        self.identities = Identities(self.jobs.runner, context.environ, context.memos, now, racy=context.racy)
        self.shelves = Shelves(context, self.notes.append, self.changed, self.serve)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.jobs.close()
        self.shelves.queue()
        if kind is None:
            self._scans.save()

    def once(self, kind: Callable[[Session], Kind]) -> Kind:
        """What `kind` gives for this compile, the same each time."""
        with self._lock:
            if kind not in self._once:
                self._once[kind] = kind(self)
            found: Kind = self._once[kind]
            return found

    def serve(self, what: str) -> None:
        """Note in words how a result was had: from a remote or executor, say."""
        self.served[what] = None

    def changed(self) -> str:
        """The change of a tool, or of a file that an option names, in words; then no record may be stored. Empty if
        there is none."""
        changed = self.identities.changed() or self.files.named_changed()
        return f"'{changed}' changed while the compiler ran" if changed else ""

    def tool(self, program: str) -> str:
        """The digest of a program that the plan names, with all that is of it. Raises PassThrough."""
        return self.identities.tool(program, self.files.resolve(program))


# The wall clock may fall behind the monotonic one so far in a pass: less than a tick of file times, more than what
# ntpd's slewing takes from a long pass.
CLOCK_SLACK = 0.005
# glibc (2.35 and later) then asks for huge pages for its heap, if the kernel gives them to who asks: half as many page
# faults, 2 to 6 % less CPU time for passes and back ends, 1 % more memory. Others take no notice.
_TUNABLES, _HUGE_PAGES = "GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"


@dataclass
class Jobs:
    """Jobs of a plan, run in directory `cwd`, with the context's environment and glibc's huge pages where nothing else
    is said. Each ends with the turn that it belongs to (`Action.turn`). `plain`: of programs without a fork
    server."""

    context: Context
    cwd: str
    _resources: ExitStack = field(default_factory=ExitStack)
    _workdir: Path | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    plain: Runner = field(init=False)
    _runner: Runner = field(init=False)
    _environ: Mapping[str, str] = field(init=False)
    _runners: dict[int, Runner] = field(default_factory=dict)
    _stopped: list[int] = field(default_factory=list)
    _of_thread: threading.local = field(default_factory=threading.local)

    def __post_init__(self) -> None:
        servers = ForkServers(lambda argv: argv[1:2] == ["-cc1"])
        self._resources.callback(servers.close)
        self.plain = self.context.runner.group()
        self._runner = self.plain.group(servers)
        self._environ = {_TUNABLES: _HUGE_PAGES, **self.context.environ}

    def close(self) -> None:
        self._resources.close()

    def environ_here(self) -> Mapping[str, str]:
        """The environment of a process whose own temporary files lie among the intermediate ones. Raises StoreError."""
        return {**self._environ, "TMPDIR": str(self.workdir)}

    @property
    def runner(self) -> Runner:
        """That of the turn which this thread is at, else of the whole compile."""
        found: Runner = getattr(self._of_thread, "runner", self._runner)
        return found

    def at(self, turn: int) -> None:
        """This thread works for that turn: `stop` of an earlier one ends what it runs."""
        with self._lock:
            if turn not in self._runners:
                self._runners[turn] = self._runner.group()
                if self._stopped and turn > min(self._stopped):
                    self._runners[turn].kill()
            self._of_thread.runner = self._runners[turn]

    def stop(self, behind: int) -> None:
        """End what runs for all turns behind that one; below 0 for all that there is."""
        with self._lock:
            self._stopped.append(behind)
            ended = [runner for turn, runner in self._runners.items() if turn > behind]
        for runner in [self.plain] if behind < 0 else ended:
            runner.kill()

    @property
    def workdir(self) -> Path:
        """The directory for intermediate files: made when it is first needed, removed at the end. Raises StoreError."""
        with self._lock:
            if self._workdir is None:
                self._workdir = self._resources.enter_context(self.context.store.workdir())
            return self._workdir

    def scratch(self, name: str, content: bytes | None = None) -> Path:
        """The place in the directory for intermediate files that `name` stands for; with the content, if one is
        given."""
        path = self.workdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_bytes(content)
        return path

    def close_at_end(self, fd: int) -> None:
        with self._lock:
            self._resources.callback(os.close, fd)

    def name(self, path: str) -> str:
        """The reverse, for a path there; a path elsewhere is its own name."""
        return path.removeprefix(f"{self.workdir}/")

    def run(self, name: str, argv: list[str]) -> Completed:
        """Run a job of the plan in a slot. Raises JobFailed, and PassThrough if it prints to standard output."""
        with self.context.slots.hold(self.runner.check):
            return self.run_now(name, argv)

    def run_now(
        self, name: str, argv: list[str], *, directory: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> Completed:
        """The same for one who holds a slot."""
        return self.ended_well(name, self.attempt(argv, directory=directory, environ=environ))

    def attempt(
        self, argv: list[str], *, directory: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> Completed:
        """The same, however it ends."""
        try:
            return self.runner.run(argv, cwd=directory or Path(self.cwd), env=environ or self._environ)
        except OSError as error:
            raise PassThrough("tool", f"'{argv[0]}': {error}") from error

    def trace(
        self, name: str, argv: list[str], *, environ: Mapping[str, str] | None = None, stdin: Path | None = None
    ) -> Traced:
        """As `run_now`; and the paths that the job looked at, if they can be observed. `stdin`: a file of its own."""
        environ = environ or self._environ
        try:
            with stdin.open("rb") if stdin else nullcontext() as file:
                given = file.fileno() if file else NO_STDIN
                traced = self.runner.trace(argv, cwd=Path(self.cwd), env=environ, stdin=given)
        except OSError as error:
            raise PassThrough("tool", f"'{argv[0]}': {error}") from error
        self.ended_well(name, traced.ended)
        return traced

    def was_set_back(self, started: float, done: Completed) -> bool:
        """Was the clock, while the job ran that began at `started`?"""
        return self.context.clock() - started < done.seconds - CLOCK_SLACK

    def ended_well(self, name: str, done: Completed) -> Completed:
        """Raises as `run`; StoreFull if the disk has no room for what the job writes."""
        if done.status != 0 and self._workdir is not None:
            lacking = faults.lacking(str(self._workdir))
            if lacking or faults.tells_of_full_disk(done.stderr):
                raise StoreFull(f"{name} had no room in '{self._workdir.parent}'{lacking and f': {lacking}'}")
        if done.status != 0:
            raise JobFailed(name, done.status, b"" if done.stdout else done.stderr)
        if done.stdout:
            raise PassThrough("job_output", f"{name} printed to standard output")
        return done
