"""One command from its plan to its report (the numbered steps of ARCHITECTURE.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hipcache.app import kinds
from hipcache.base.errors import CommandFailed, HostLinkFailed, JobFailed, PassThrough
from hipcache.base.values import dataclass, replace
from hipcache.build import ActionId, End, Graph, Unit
from hipcache.build.context import Context
from hipcache.build.loop import build
from hipcache.clang import tools
from hipcache.clang.command import Command
from hipcache.direct import provenance
from hipcache.direct.provenance import Indirect, Provenance, provenance_of
from hipcache.execution import Planned
from hipcache.execution.session import Session
from hipcache.execution.world import world_of
from hipcache.inputs.identity import is_script
from hipcache.processes import encode
from hipcache.report.history import VARIABLES, Record, UnitRecord
from hipcache.report.outcome import HIT, MISS, PARTIAL, CompileOutcome, UnitOutcome


def make(context: Context, command: Command, columns: int | None) -> Compiled:
    """Do what the command asks for. `columns`: the width of the terminal for the messages, or None without a terminal.

    Raises PassThrough or StoreError if the user's own command must run instead, and JobFailed if it must run because it
    fails. In each case nothing has been written, except by a program's compiles and its linker."""
    kind = kinds.of(command)
    if kind.script and is_script(tools.which(command.compiler, command.cwd, context.environ)):
        from hipcache.clang import script

        command, context = script.through_script(context, command)
        kind = kinds.of(command)
    with Session(context, command) as session:
        stages, ends = [kind.planner(session, columns)], dict[ActionId, End]()  # 1.
        _build(stages[0], session, ends)
        while following := stages[-1].then(ends):
            stages.append(following)
            _build(following, session, ends)
        planned, graph = stages[-1], stages[-1].graph
        record, outcome = account(session, [stage.graph for stage in stages], ends, graph.path)  # 7.
        files = (*planned.files, *graph.read(ends))
        direct = provenance_of(session, planned, ends)
        return Compiled(outcome, graph.said(ends), record, direct, files, planned.jobs, bool(graph.messages))


def _build(planned: Planned, session: Session, ends: dict[ActionId, End]) -> None:
    try:
        build(planned.graph, world_of(session), ends)  # 2. to 6.
    except HostLinkFailed as failed:
        raise HostLinkFailed(failed.status, planned.graph.said(ends) + failed.text) from failed
    except JobFailed as failed:
        raise planned.failed(failed, ends) from failed


def make_each(
    context: Context, commands: Sequence[Command], columns: int | None
) -> tuple[list[Compiled], Provenance | Indirect | None]:
    """The result of each of `commands` (one per source of the user's command), and what a direct hit of all of them
    needs, or why there can be none. Raises as `front.make`; the user's own command then overwrites the outputs written
    so far."""
    if len(commands) > 1:
        return _make_several(context, commands, columns)
    done = make(context, commands[0], columns)
    return [done], done.provenance


def _make_several(
    context: Context, commands: Sequence[Command], columns: int | None
) -> tuple[list[Compiled], Provenance | Indirect | None]:
    from hipcache.clang import driver, dry_run
    from hipcache.inputs import watched

    first = commands[0]
    if is_script(tools.which(first.compiler, first.cwd, context.environ)):
        raise PassThrough("several_sources", "for a script in place of the compiler")
    jobs, looked = dry_run.count_jobs(first.part_of, first.cwd, context)
    if first.output:
        raise PassThrough("several_sources", "they have one output")
    done: list[Compiled] = []
    try:
        for command in commands:
            if command.assembles:
                raise PassThrough("not_hip", command.source)
            done.append(make(context, command, columns))
    except CommandFailed as failed:  # that of one source, behind which the driver goes on with the others
        raise JobFailed(failed.job, failed.status) from failed
    if sum(compiled.jobs for compiled in done) != jobs or any(compiled.has_messages for compiled in done):
        raise PassThrough("several_sources", "the driver plans all of them differently")
    if not looked:
        return done, Indirect(driver.why_unknown(first.part_of))
    return done, provenance.together([compiled.provenance for compiled in done], map(watched.of_observation, looked))


@dataclass(frozen=True)
class Compiled:
    """A compile that hipcache did. `messages`: what plain clang would have printed on standard error. `provenance`: for
    a direct hit, or why there is none (see `Planned`); `files`: all that its passes read, as clang names them;
    `jobs`: how many processes the driver would run for a compile; `has_messages`: did the driver say something
    itself?"""

    outcome: CompileOutcome
    messages: str
    record: Record
    provenance: Provenance | Indirect | None
    files: tuple[str, ...]
    jobs: int = 0
    has_messages: bool = False

    @property
    def said(self) -> bytes:
        """Raises ValueError if the messages are none of a compiler."""
        return encode(self.messages)


@dataclass(frozen=True)
class Ended:
    """A unit that is counted under `names`. `hit`: was all of it served? `missed`: why not; empty for a hit."""

    unit: UnitRecord
    names: tuple[str, ...]
    hit: bool
    missed: str
    seconds: float


def account(
    session: Session, graphs: Sequence[Graph], ends: Mapping[ActionId, End], path: str
) -> tuple[Record, CompileOutcome]:
    """`graphs`: all that belong to the object or program at `path`."""
    return _account(session, [_ended(unit, ends) for graph in graphs for unit in graph.units], path)


def _account(session: Session, units: Sequence[Ended], path: str) -> tuple[Record, CompileOutcome]:
    """The outcome of each unit, and why it missed, compared with the last compile of this object or program."""
    old = session.context.compared(path) if any(unit_end.missed for unit_end in units) else None
    told = [_explained(session, unit_end, old) for unit_end in units]
    hits, jobs = sum(unit.hit for unit in told), sum(bool(unit.frontend) for unit in told)
    end = HIT if all(unit_end.hit for unit_end in units) else PARTIAL if hits or jobs else MISS
    if linked := [unit_end.unit.name for unit_end in units if not (unit_end.hit or unit_end.missed)]:
        session.serve(f"linked again, from stored device code: {', '.join(linked)}")
    record = _record(session, path, end, told)
    outcomes = tuple(
        UnitOutcome(name, unit.hit, unit.frontend, unit.backend, unit.why, unit_end.seconds)
        for unit, unit_end in zip(told, units, strict=True)
        for name in unit_end.names
    )
    saved = sum(unit_end.seconds for unit_end in units if unit_end.hit)
    preambles = tuple(sorted(Counter(session.preambles).items()))
    outcome = CompileOutcome(end, units=outcomes, seconds_saved=saved, notes=record.notes, preambles=preambles)
    return record, replace(outcome, reason="unobserved") if session.unobserved else outcome


def _record(session: Session, path: str, end: str, units: Sequence[UnitRecord]) -> Record:
    """The record of this compile of `path`."""
    context, command = session.context, session.command
    notes = dict.fromkeys([*session.notes, *session.served])
    variables = {name: context.environ[name] for name in VARIABLES if name in context.environ}
    made, seals = context.clock(), (context.seal.namespace, context.seal.key)
    return Record(path, made, command.typed, command.cwd, end, "", "", tuple(notes), variables, tuple(units), *seals)


def _ended(unit: Unit, ends: Mapping[ActionId, End]) -> Ended:
    """A unit is a hit if everything that makes its code was found. Its back end is a hit if the code or object was."""
    last = ends[unit.action]
    passes = [ends[id] for id in unit.passes if id in ends and not ends[id].missing]
    makers = [ends[id] for id in unit.makers if id in ends and not ends[id].missing] or [last]
    missed = [end.why for end in (*passes, *makers, last) if not end.hit]
    front = all(end.hit for end in passes) if passes else None
    found = last.hit and makers[0].hit
    back = any(end.hit for end in makers) if unit.backend else None
    counted = {end.bound.action.id: end for end in (*passes, *makers[:1], last)}
    seconds = sum(end.result.seconds for end in counted.values())
    record = UnitRecord(
        unit.label,
        found or back is True,
        front,
        back,
        (),
        unit.inputs or last.bound.key.inputs,
        passes[0].result.reads if passes else "",
        round(seconds, 3),
    )
    why = missed[0] if missed and not (front and back) else ""
    return Ended(record, unit.names, found, why, seconds)


def _explained(session: Session, unit: Ended, old: Record | None) -> UnitRecord:
    if not unit.missed:
        return unit.unit
    from hipcache.report.causes import RECACHED, why

    context = session.context
    if context.recache:
        return replace(unit.unit, why=(RECACHED,))
    seals = context.seal.namespace, context.seal.key
    return replace(unit.unit, why=why(unit.unit, unit.missed, old, context.environ, session.shelves.reads.get, *seals))
