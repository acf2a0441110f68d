"""One compile under way: the engine, the command, and what has been learnt so far."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from hipcache import native
from hipcache.engine import Engine
from hipcache.errors import JobFailed, PassThrough, StoreError, StoreFull
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.identity import Identities
from hipcache.inputs.keys import digest_bytes
from hipcache.inputs.readset import ReadSet
from hipcache.inputs.scans import Scans
from hipcache.inputs.trace import Files
from hipcache.planning.command import Command
from hipcache.planning.spelling import Spelling
from hipcache.processes.runner import Completed, Runner, Traced
from hipcache.processes.together import in_order
from hipcache.report.history import VARIABLES, Record, UnitRecord
from hipcache.store import space
from hipcache.values import dataclass, field

Result = TypeVar("Result")

# An entry that is damaged is dropped when it is read: the next try does not find it. The first may find the object
# damaged, the second what it is made of, the third reads only what it has made itself (and other processes).
_TRIES = 5
# Seconds for the other threads of a compile that ends early.
_PATIENCE = 1.0


class Damaged(Exception):
    """An entry of the store turned out to be damaged, and is gone now: what needed it must look again."""


@dataclass
class Session:
    """One compile under way. `began`: when, in seconds of the epoch; `notes`: what went wrong without harm, and why
    something was not kept; `translated`: read sets of other spellings, by their digest and the spelling that they are
    in here; `everywhere`: digests of read sets for every spelling (empty: there is none), by what they were made
    from; `unobserved`: was something not kept because no pass can be observed here?"""

    engine: Engine
    command: Command
    began: float = field(init=False)
    files: Files = field(init=False)
    identities: Identities = field(init=False)
    notes: list[str] = field(default_factory=list)
    translated: dict[tuple[str, Spelling], ReadSet | None] = field(default_factory=dict)
    everywhere: dict[tuple[object, ...], str] = field(default_factory=dict)
    unobserved: bool = False
    _scans: Scans = field(init=False)
    _read_sets: dict[str, ReadSet | None] = field(default_factory=dict)
    _resources: ExitStack = field(default_factory=ExitStack)
    _workdir: Path | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _runner: Runner = field(init=False)
    _of_thread: threading.local = field(default_factory=threading.local)

    def __post_init__(self) -> None:
        self.began = now = self.engine.clock()
        self._scans = Scans(self.action, self.engine.keep_for_speed)
        basedir, epoch = Basedir(self.engine.basedir), self.engine.environ.get("SOURCE_DATE_EPOCH", "")
        self.files = Files(self.command.cwd, now, basedir, self._scans, racy=self.engine.racy, epoch=epoch)
        self._runner = self.engine.runner.group()
        self.identities = Identities(self._runner, self.engine.environ, self.engine.memos, now, racy=self.engine.racy)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self._resources.close()
        if kind is None:
            self._scans.save()

    @property
    def runner(self) -> Runner:
        """That of the task which this thread is at (see `side_by_side`), else of the whole compile."""
        found: Runner = getattr(self._of_thread, "runner", self._runner)
        return found

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

    def read_set(self, digest: str) -> ReadSet | None:
        """A read set of the store; None if it is not there."""
        if digest not in self._read_sets:
            packed = self.engine.store.get_blob(digest)
            try:
                self._read_sets[digest] = ReadSet.unpack(packed) if packed else None
            except ValueError:
                self._read_sets[digest] = None
        return self._read_sets[digest]

    def keep_read_set(self, reads: ReadSet) -> str:
        digest = self.keep(reads.pack())
        self._read_sets[digest] = reads
        return digest

    def keep(self, content: bytes) -> str:
        """Put a blob into the store, if that can be done; its digest either way."""
        try:
            return self.engine.store.put_blob(content)
        except StoreError as error:
            self.notes.append(f"not stored: {error.message}")
            return digest_bytes(content)

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

    def keep_action(self, key: str, record: bytes) -> None:
        changed = self.changed()
        if changed:
            self.notes.append(f"not stored: {changed}")
            return
        try:
            self.engine.store.put_action(key, record)
        except StoreError as error:
            self.notes.append(f"not stored: {error.message}")

    def action(self, key: str) -> bytes | None:
        return None if self.engine.recache else self.engine.store.get_action(key)

    @contextmanager
    def alone(self, key: str) -> Iterator[bool]:
        """Hold `key` against others that would do the same work; True if another one may have done it meanwhile (also
        without a wait: it may have ended between our look and our lock)."""
        with self.engine.store.lock(key):
            yield not self.engine.recache

    def side_by_side(
        self,
        tasks: Mapping[int, Callable[[], Result]],
        results: dict[int, Result],
        *,
        kind: type[Exception],
        gate: int | None = None,
    ) -> None:
        """Put what each task comes to into `results`. If one fails, what the others have started is ended; by a failure
        of that `kind`, only what those behind it have (see `together.in_order`). No task behind `gate` begins before
        that one says `is_through`, or has ended."""
        through = threading.Event()
        if gate not in tasks:
            through.set()
        runners = {number: self._runner.group() for number in tasks}

        def begin(number: int) -> Result:
            self._of_thread.runner = runners[number]
            if gate is not None and number > gate:
                through.wait()
                self.runner.check()
            self._of_thread.through = through if number == gate else None
            result = tasks[number]()
            if number == gate:
                through.set()
            return result

        def stop(first: int) -> None:
            if first < 0:
                self._runner.kill()
            for number, runner in runners.items():
                if number > first:
                    runner.kill()
            through.set()

        begun = {number: partial(begin, number) for number in tasks}
        in_order(begun, results, kind=kind, stop=stop, patience=_PATIENCE)

    def is_through(self) -> None:
        """The task which this thread is at has done what others wait for."""
        through: threading.Event | None = getattr(self._of_thread, "through", None)
        if through:
            through.set()

    def last(self, path: str) -> Record | None:
        """How `path` was made before."""
        return self.engine.history.load(path) if self.engine.history else None

    def variables(self) -> dict[str, str]:
        """Those of the environment that are told of."""
        return {name: self.engine.environ[name] for name in VARIABLES if name in self.engine.environ}

    def record(self, path: str, end: str, units: Iterable[UnitRecord]) -> Record:
        """How `path` was made this time."""
        outdated = [native.OUTDATED] if native.is_outdated() else []
        command, notes = self.command, tuple(dict.fromkeys([*self.notes, *outdated]))
        now, variables = self.engine.clock(), self.variables()
        return Record(path, now, command.typed, command.cwd, end, "", "", notes, variables, tuple(units))

    def write(self, path: Path, content: bytes) -> Path:
        path.write_bytes(content)
        return path


def in_session(engine: Engine, command: Command, story: Callable[[Session], Result]) -> Result:
    """Tell the story in a session, from the beginning where an entry of the store turns out to be damaged."""
    for _ in range(_TRIES):
        # A session each: what ends one try kills its processes for good.
        with suppress(Damaged), Session(engine, command) as session:
            return story(session)
    raise PassThrough("store", "its entries are damaged again and again")


def decode(output: bytes) -> str:
    return os.fsdecode(output)
