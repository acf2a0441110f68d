"""The story of one source of a GPU's assembler: as `compile`, in the numbered steps of ARCHITECTURE.md.

The assembler writes its object into the file that is there, also through a link, and tells of no file that it read.
"""

from __future__ import annotations

import os
from pathlib import Path

from hipcache.compile import Compiled
from hipcache.direct.record import Output
from hipcache.direct.remember import whole_of_assembly
from hipcache.engine import Engine
from hipcache.errors import PassThrough
from hipcache.inputs.identity import is_script
from hipcache.inputs.keys import Key, digest_bytes, make_key
from hipcache.inputs.recording import TICK
from hipcache.inputs.trace import Untraceable
from hipcache.making import delivery, records
from hipcache.making.assembly import Object
from hipcache.making.passes import CLOCK_SLACK, NEVER
from hipcache.making.records import BackRecord
from hipcache.outcome import HIT, MISS, CompileOutcome, UnitOutcome
from hipcache.planning import assembler, driver, tools
from hipcache.planning.assembler import AssemblerJob
from hipcache.planning.command import Command
from hipcache.report.history import Record, UnitRecord, why
from hipcache.session import Session, decode, in_session
from hipcache.values import dataclass, replace


@dataclass(frozen=True)
class Assembled:
    """The object, and the seconds of the assembler that it took (or saved, if it was found)."""

    object: Object
    seconds: float

    @property
    def hit(self) -> bool:
        return self.object.content is None


def assemble(engine: Engine, command: Command, columns: int | None) -> Compiled:
    """Make the object of `command`. Raises as `compile` does; nothing has been written by then."""
    if command.unwrapped or is_script(tools.which(command.compiler, command.cwd, engine.environ)):
        raise PassThrough("wrapper", "a script that assembles may do more than that")
    return in_session(engine, command, _assemble)


def _assemble(session: Session) -> Compiled:
    command = session.command
    # 1. Ask the driver for its plan.
    asked = driver.ask_assembler(command, session.engine, session.runner, lambda: session.workdir)
    job = asked.job
    path = command.path(job.output)
    if os.path.islink(path):
        raise PassThrough("linked_output", job.output)
    # 2. Key the job with everything that can change its output.
    key = _key(session, job)
    # 3. Look it up; 4. run it if it is missing.
    made = _find(session, key) or _make(session, job, key)
    # 6. Write the object.
    delivery.check_places(session, [job.output])
    delivery.write_object(session, made.object, Path(path))
    # 7. Say what happened.
    record, outcome = _tell(session, job, key, made, path)
    whole = whole_of_assembly(session, asked, key.digest, Output(path, made.object.digest))
    return Compiled(outcome, "", record, whole, (job.source,), None)


def _key(session: Session, job: AssemblerJob) -> Key:
    try:
        content = Path(session.files.resolve(job.source)).read_bytes()
        digest = session.files.named(job.source)
    except (OSError, Untraceable) as error:
        raise PassThrough("named_file", f"'{job.source}': {error}") from error
    if digest_bytes(content) != digest:
        raise PassThrough("named_file", f"'{job.source}' changed while it was read")
    if assembler.may_read_files(content):
        raise PassThrough("assembler_files", job.source)
    try:
        tool = session.identities.digest(session.files.resolve(job.program))
    except OSError as error:
        raise PassThrough("tool", f"'{job.program}': {error}") from error
    return make_key("assembler", [("compiler", tool), *job.inputs(content, digest)])


def _find(session: Session, key: Key) -> Assembled | None:
    record = records.unpack_back(session.action(key.digest))
    if record is None or not session.engine.store.has_blob(record.code):
        return None
    return Assembled(Object(record.code, None), record.seconds)


def _make(session: Session, job: AssemblerJob, key: Key) -> Assembled:
    """Raises JobFailed, PassThrough, StoreError."""
    with session.alone(key.digest) as waited:
        found = _find(session, key) if waited else None
        if found:
            return found
        output = session.workdir / "assembled.o"
        with session.engine.slots.hold(session.runner.check):
            started = session.engine.clock()
            done = session.run_now("assembler", job.argv(str(output)))
            set_back = session.engine.clock() - started < done.seconds - CLOCK_SLACK
        if done.stderr:
            # It names the source as spelled, and looks another way on a terminal.
            raise PassThrough("job_output", f"the assembler said: {decode(done.stderr)[:200]}")
        content = output.read_bytes()
        # Nobody can set the change time back.
        if set_back or session.files.status(job.source)[4] >= (started - TICK) * 1e9:
            session.notes.append(f"not stored: '{job.source}' changed while the compiler ran, or just before")
            return Assembled(Object(digest_bytes(content), content), done.seconds)
        digest = session.keep(content)
        session.keep_action(key.digest, records.pack_back(BackRecord(digest, False, done.seconds)))
        return Assembled(Object(digest, content), done.seconds)


def _tell(session: Session, job: AssemblerJob, key: Key, made: Assembled, path: str) -> tuple[Record, CompileOutcome]:
    unit = UnitRecord(job.arch, made.hit, None, made.hit, (), key.inputs, "")
    if not made.hit:
        unit = replace(unit, why=why(unit, NEVER, session.last(path), session.variables(), session.read_set))
    end = HIT if made.hit else MISS
    record = session.record(path, end, [unit])
    told = UnitOutcome(unit.name, unit.hit, None, unit.backend, unit.why, made.seconds)
    saved = made.seconds if made.hit else 0.0
    return record, CompileOutcome(end, units=(told,), seconds_saved=saved, notes=record.notes)
