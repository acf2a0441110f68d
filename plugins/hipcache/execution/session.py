"""The current compile: the engine, the command, and what is known so far."""

from __future__ import annotations

from hipcache.cache.content import Shelves
from hipcache.clang.command import Command
from hipcache.engine import Engine
from hipcache.execution.jobs import Jobs
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.identity import Identities
from hipcache.inputs.scans import Scans
from hipcache.inputs.trace import Files
from hipcache.values import dataclass, field


@dataclass
class Session:
    """One compile under way. `began`: when, in seconds of the epoch; `notes`: what went wrong without harm, and why
    something was not kept; `served`: in words, what was had from elsewhere; `unobserved`: was something not kept
    because no pass can be observed here? `counted`: what became of precompiled headers, a name for each time (two
    threads may append to a list at once; to increase a number they may not)."""

    engine: Engine
    command: Command
    began: float = field(init=False)
    jobs: Jobs = field(init=False)
    files: Files = field(init=False)
    identities: Identities = field(init=False)
    shelves: Shelves = field(init=False)
    notes: list[str] = field(default_factory=list)
    served: dict[str, None] = field(default_factory=dict)
    unobserved: bool = False
    counted: list[str] = field(default_factory=list)
    _scans: Scans = field(init=False)

    def __post_init__(self) -> None:
        engine, cwd = self.engine, self.command.cwd
        self.began = now = engine.clock()
        self.jobs = Jobs(engine, cwd)
        self._scans = Scans(lambda key: None if engine.recache else engine.store.get_action(key), engine.keep_for_speed)
        basedir, epoch = Basedir(engine.basedir or engine.source_dir, cwd), engine.environ.get("SOURCE_DATE_EPOCH", "")
        self.files = Files(cwd, now, basedir, self._scans, racy=engine.racy, epoch=epoch)
        self.identities = Identities(self.jobs.runner, engine.environ, engine.memos, now, racy=engine.racy)
        self.shelves = Shelves(engine, self.notes.append, self.changed, self.serve)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.jobs.close()
        self.shelves.queue()
        if kind is None:
            self._scans.save()

    def serve(self, what: str) -> None:
        """Note in words that a result came from a remote or executor."""
        self.served[what] = None

    def changed(self) -> str:
        """The change of a tool, or of a file that an option names, in words; then no record may be stored. Empty if
        there is none."""
        changed = self.identities.changed() or self.files.named_changed()
        return f"'{changed}' changed while the compiler ran" if changed else ""

    def tool(self, program: str) -> str:
        """The digest of a program that the plan names, with all that is of it. Raises PassThrough."""
        return self.identities.tool(program, self.files.resolve(program))
