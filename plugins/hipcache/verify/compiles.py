"""Stored compiles of a build, made anew and compared: those that its compile_commands.json lists.

Nothing is written into the build tree or the store: the compiler writes into a directory of its own (`redirected`),
and the store is only read. So a compile that writes files beside its object, which the object names, is left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from hipcache.engine import Engine
from hipcache.errors import JobFailed, PassThrough
from hipcache.execution import Executor
from hipcache.execution.session import Session
from hipcache.loop.build import build
from hipcache.loop.world import world_of
from hipcache.model import Bound, Inputs, Pass, Process, Ran, Step
from hipcache.planners import source
from hipcache.planning import auxiliary
from hipcache.planning.command import Command
from hipcache.planning.driver_options import SEPARATE
from hipcache.planning.plan import Plan
from hipcache.report.outcome import DIFFERENT, SAME, VARYING
from hipcache.values import dataclass, replace
from hipcache.verify import fresh
from hipcache.verify.difference import Difference, archs_of

NOT_STORED, NOT_COMPARED = "not stored", "not compared"
ENDS = (SAME, DIFFERENT, VARYING, NOT_STORED, NOT_COMPARED)
_OUTPUT = ("-o", "--output")
_RULE = ("-MF",)


@dataclass(frozen=True)
class Compared:
    """`end`: of ENDS; `why`: in words, if it was not compared; `difference`: if there is one."""

    output: str
    end: str
    why: str = ""
    difference: Difference | None = None


def compare(engine: Engine, command: Command, scratch: Path) -> Compared:
    """Compare what the store would serve for `command` with what the compiler makes. `scratch`: an empty directory;
    `engine`: one whose store is only read."""
    name = command.path(command.output or command.source)
    if command.links or command.makes_program or command.assembles:
        return Compared(name, NOT_COMPARED, "it links, or is a source of the assembler")
    try:
        how, engine, command = fresh.prepare(engine, command)
        assert how.plan
        jobs = [*(device.compile for device in how.plan.devices), *([how.plan.host] if how.plan.host else [])]
        if len(how.outputs) != 1 or any(map(auxiliary.of, jobs)):
            return Compared(name, NOT_COMPARED, "it writes several files")
        served = _served(engine, command, how.plan, scratch / "served.o")
        if isinstance(served, str):
            return Compared(name, NOT_STORED, served)
        made = [_made(engine, how, scratch / "1.o")]
        if made[0] != served:
            made.append(_made(engine, how, scratch / "2.o"))
    except (PassThrough, JobFailed) as error:
        return Compared(name, NOT_COMPARED, str(error))
    if made[0] == served:
        return Compared(name, SAME)
    if made[1] != made[0]:
        return Compared(name, VARYING)
    words = (command.compiler, *how.words)
    found = Difference(how.outputs[0], words, command.cwd, archs_of(command.arguments), served, made[0])
    return Compared(name, DIFFERENT, "", found)


def _made(engine: Engine, how: fresh.Fresh, output: Path) -> bytes:
    """Raises JobFailed, PassThrough."""
    command = how.command
    cuid = how.words[: len(how.words) - len(command.argv) + 1]
    with Session(engine, command) as session:
        status = how.run(session, [*cuid, *redirected(command.arguments, output)])
    if status != 0:
        raise JobFailed("the compiler", status)
    try:
        return output.read_bytes()
    except OSError as error:
        raise PassThrough("job_output", f"the compiler wrote no '{output}'") from error


def redirected(arguments: Sequence[str], output: Path) -> list[str]:
    """The words with another output, and the dependency file beside that."""
    rule = os.fspath(output.with_suffix(".d"))
    words = ["-o", os.fspath(output)]
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            return [*words, word, *rest]
        if word in _OUTPUT or word in _RULE:
            next(rest, None)
            words += ["-MF", rule] if word in _RULE else []
        elif word.startswith("-MF"):
            words += ["-MF", rule]
        elif word.startswith("--output=") or (word.startswith("-o") and not word.startswith(("-object", "-objc"))):
            continue
        else:
            words += [word, *([next(rest, "")] if word in SEPARATE or word.startswith("-Xarch_") else [])]
    return words


def _served(engine: Engine, command: Command, plan: Plan, path: Path) -> bytes | str:
    """The object that the store serves: the graph of its source, built only from stored results; or, in words, why it
    serves none."""
    with Session(engine, command) as session:
        graph = source.graph(source.source_graph(session, plan))
        delivered = tuple(replace(one, path=str(path)) for one in graph.deliveries)
        world = world_of(session)
        nothing_new = _StoredOnly(world.executors)
        try:
            build(
                replace(graph, deliveries=delivered, rules=()),
                replace(world, executors=dict.fromkeys((Pass, Process, Step), nothing_new)),
            )
        except _NotStored as error:
            return str(error)
    return path.read_bytes()


class _NotStored(Exception):
    """The text says why the store does not serve it."""


@dataclass(frozen=True)
class _StoredOnly:
    """Puts together what is stored, and makes nothing of it anew."""

    executors: Mapping[type, Executor]

    def run(self, bound: Bound, inputs: Inputs) -> Ran:
        action = bound.action
        if action.policy.slot and isinstance(action.work, (Process, Pass)):
            raise _NotStored(bound.why)
        return self.executors[type(action.work)].run(bound, inputs)
