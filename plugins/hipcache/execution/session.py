"""One compile under way: the engine, the command, and what has been learnt so far."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path

from hipcache import native
from hipcache.cache import ResultCache
from hipcache.cache.content import Shelf
from hipcache.cache.read_sets import ReadSets
from hipcache.engine import Engine
from hipcache.errors import JobFailed, PassThrough, StoreFull
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.identity import Identities
from hipcache.inputs.recording import CLOCK_SLACK
from hipcache.inputs.scans import Scans
from hipcache.inputs.trace import Files
from hipcache.planning.command import Command
from hipcache.processes.runner import Completed, Runner, Traced
from hipcache.report.history import VARIABLES, Record, UnitRecord
from hipcache.storage import ActionCache
from hipcache.storage.local import LocalActions, LocalContents
from hipcache.storage.noted import NotedActions
from hipcache.store import space
from hipcache.values import dataclass, field, replace


@dataclass
class Session:
    """One compile under way. `began`: when, in seconds of the epoch; `notes`: what went wrong without harm, and why
    something was not kept; `shelf`, `reads`: the store, for results and for read sets; `unobserved`: was something not
    kept because no pass can be observed here? `noted`: the records that were put and asked for, where a remote is to
    have them; `counted`: what became of precompiled preambles."""

    engine: Engine
    command: Command
    began: float = field(init=False)
    files: Files = field(init=False)
    identities: Identities = field(init=False)
    notes: list[str] = field(default_factory=list)
    shelf: Shelf = field(init=False)
    reads: ReadSets = field(init=False)
    unobserved: bool = False
    noted: NotedActions | None = None
    counted: Counter[str] = field(default_factory=Counter)
    _scans: Scans = field(init=False)
    _resources: ExitStack = field(default_factory=ExitStack)
    _workdir: Path | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _runner: Runner = field(init=False)
    _runners: dict[int, Runner] = field(default_factory=dict)
    _served: dict[str, None] = field(default_factory=dict)
    _stopped: list[int] = field(default_factory=list)
    _of_thread: threading.local = field(default_factory=threading.local)

    def __post_init__(self) -> None:
        self.began = now = self.engine.clock()
        store, recache = self.engine.store, self.engine.recache
        actions: ActionCache = LocalActions(store)
        if self.engine.remote:
            actions = self.noted = NotedActions(actions)
        contents = LocalContents(store)
        self.shelf = Shelf(actions, contents, self.notes.append, self.changed, recache)
        self.reads = ReadSets(self.shelf)
        self._scans = Scans(lambda key: None if recache else store.get_action(key), self.engine.keep_for_speed)
        basedir = Basedir(self.engine.basedir, self.command.cwd)
        epoch = self.engine.environ.get("SOURCE_DATE_EPOCH", "")
        self.files = Files(self.command.cwd, now, basedir, self._scans, racy=self.engine.racy, epoch=epoch)
        self._runner = self.engine.runner.group()
        self.identities = Identities(self._runner, self.engine.environ, self.engine.memos, now, racy=self.engine.racy)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self._resources.close()
        if self.engine.remote and self.noted and self.noted.put_keys:
            self.engine.remote().queue(list(self.noted.put_keys), list(self.noted.got_keys))
        if kind is None:
            self._scans.save()

    @property
    def near(self) -> Shelf:
        """The local store alone, of which no remote is told."""
        return replace(self.shelf, actions=LocalActions(self.engine.store))

    def shared(self, near: ResultCache) -> ResultCache:
        """With what a remote has, where there is one."""
        remote, noted = self.engine.remote, self.noted
        if not (remote and noted) or self.engine.recache:
            return near
        from hipcache.cache.shared import SharedCache

        def fetch(keys: Sequence[str]) -> bool:
            fetched = remote().fetch(keys)
            if fetched:
                self._served[f"results were fetched from remote '{remote().served_by}'"] = None
            return fetched

        return SharedCache(near, noted, fetch)

    def was_run_by(self, executor: str) -> None:
        self._served[f"some of it was compiled by executor '{executor}'"] = None

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
        for runner in [self._runner] if behind < 0 else ended:
            runner.kill()

    @property
    def workdir(self) -> Path:
        """For intermediate files; made when it is first needed, removed at the end. Raises StoreError."""
        with self._lock:
            if self._workdir is None:
                self._workdir = self._resources.enter_context(self.engine.store.workdir())
            return self._workdir

    def scratch(self, name: str) -> Path:
        """The place in the directory for intermediate files that `name` stands for."""
        path = self.workdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def name(self, path: str) -> str:
        """The reverse, for a path there; a path elsewhere is its own name."""
        return path.removeprefix(f"{self.workdir}/")

    def run(
        self, name: str, argv: list[str], *, directory: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> Completed:
        """Run a job of the plan in a slot. `directory` and `environ` are the command's where nothing else is said.
        Raises JobFailed, and PassThrough if it prints to standard output."""
        with self.engine.slots.hold(self.runner.check):
            return self.run_now(name, argv, directory=directory, environ=environ)

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
            return self.runner.run(argv, cwd=directory or Path(self.command.cwd), env=environ or self.engine.environ)
        except OSError as error:
            raise PassThrough("tool", f"'{argv[0]}': {error}") from error

    def trace(
        self, name: str, argv: list[str], *, environ: Mapping[str, str] | None = None, stdin: Path | None = None
    ) -> Traced:
        """As `run_now`; and what the job looked at, where that can be observed. `stdin`: a file of its own."""
        environ = environ or self.engine.environ
        try:
            with stdin.open("rb") if stdin else nullcontext() as file:
                given = {"stdin": file.fileno()} if file else {}
                traced = self.runner.trace(argv, cwd=Path(self.command.cwd), env=environ, **given)
        except OSError as error:
            raise PassThrough("tool", f"'{argv[0]}': {error}") from error
        self.ended_well(name, traced.ended)
        return traced

    def was_set_back(self, started: float, done: Completed) -> bool:
        """Was the clock, while the job ran that began at `started`?"""
        return self.engine.clock() - started < done.seconds - CLOCK_SLACK

    def ended_well(self, name: str, done: Completed) -> Completed:
        """Raises as `run`; StoreFull where the disk has no room for what the job writes."""
        if done.status != 0 and self._workdir is not None:
            lacking = space.lacking(str(self._workdir))
            if lacking or space.tells_of_full_disk(done.stderr):
                raise StoreFull(f"{name} had no room in '{self._workdir.parent}'{lacking and f': {lacking}'}")
        if done.status != 0:
            raise JobFailed(name, done.status, b"" if done.stdout else done.stderr)
        if done.stdout:
            raise PassThrough("job_output", f"{name} printed to standard output")
        return done

    def changed(self) -> str:
        """In words, whether a tool or a file that an option names has changed; then no record may be stored."""
        changed = self.identities.changed() or self.files.named_changed()
        return f"'{changed}' changed while the compiler ran" if changed else ""

    def tool(self, program: str) -> str:
        """The digest of a program that the plan names, with all that is of it. Raises PassThrough."""
        try:
            return self.identities.digest(self.files.resolve(program))
        except OSError as error:
            raise PassThrough("tool", f"'{program}': {error}") from error

    def last(self, path: str) -> Record | None:
        """How `path` was made before."""
        return self.engine.history.load(path) if self.engine.history else None

    def variables(self) -> dict[str, str]:
        """Those of the environment that are told of."""
        return {name: self.engine.environ[name] for name in VARIABLES if name in self.engine.environ}

    def record(self, path: str, end: str, units: Iterable[UnitRecord]) -> Record:
        """How `path` was made this time."""
        outdated = [native.OUTDATED] if native.is_outdated() else []
        command, notes = self.command, tuple(dict.fromkeys([*self.notes, *self._served, *outdated]))
        now, variables = self.engine.clock(), self.variables()
        return Record(path, now, command.typed, command.cwd, end, "", "", notes, variables, tuple(units))

    def write(self, path: Path, content: bytes) -> Path:
        path.write_bytes(content)
        return path


def decode(output: bytes) -> str:
    return os.fsdecode(output)
