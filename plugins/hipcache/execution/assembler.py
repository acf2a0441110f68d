"""A source of the GPU's assembler: one action.

The assembler writes into an existing output file, also through a symbolic link, and does not report the files that it
read.
"""

from __future__ import annotations

import os
from pathlib import Path

from hipcache.base.errors import PassThrough
from hipcache.base.keys import digest_bytes
from hipcache.base.values import dataclass
from hipcache.build import (
    Action,
    ActionId,
    ActionOutput,
    Delivery,
    Diagnostics,
    File,
    Graph,
    Policy,
    Process,
    Ref,
    Unit,
)
from hipcache.clang import assembler, dry_run
from hipcache.clang.assembler import AssemblerJob
from hipcache.clang.dry_run import AskedToAssemble
from hipcache.execution import Planned, refuse_script
from hipcache.execution.session import Session
from hipcache.inputs.file_manager import Untraceable

_NAME = "assembler"
_ID = ActionId(_NAME)
_CODE = "code"


def plan(session: Session, columns: int | None) -> Planned:
    command = session.command
    refuse_script(session, "assembles", unwrapped=True)
    asked = dry_run.ask_assembler(command, session.context, session.jobs.runner, lambda: session.jobs.workdir)
    job = asked.job
    path = command.path(job.output)
    if os.path.islink(path):
        raise PassThrough("linked_output", job.output)
    output = ActionOutput(_ID, _CODE)
    graph = Graph(
        (_action(session, job),),
        (Delivery(path, output, through_links=True),),
        (Unit(_ID, job.arch, (job.arch,), True),),
        path,
    )
    return PlannedAssembly(graph, asked)


@dataclass(frozen=True)
class PlannedAssembly(Planned):
    """The code of one assembler source for one architecture."""

    asked: AskedToAssemble

    @property
    def files(self) -> tuple[str, ...]:
        return (self.asked.job.source,)

    @property
    def answer(self) -> AskedToAssemble:
        return self.asked


def _action(session: Session, job: AssemblerJob) -> Action:
    """The key has everything that can change the output. Messages contain the spelling of the source, and look
    different on a terminal, so an assembler that prints messages is not cached."""
    try:
        content = Path(session.files.resolve(job.source)).read_bytes()
        digest = session.files.named(job.source)
    except (OSError, Untraceable) as error:
        raise PassThrough("named_file", f"'{job.source}': {error}") from error
    if digest_bytes(content) != digest:
        raise PassThrough("named_file", f"'{job.source}' changed while hipcache read it")
    if assembler.may_read_files(content):
        raise PassThrough("assembler_files", job.source)
    return Action(
        id=_ID,
        kind=_NAME,
        label=_NAME,
        work=Process((*job.command, "-o", (Ref(_CODE),), (Ref("source"),))),
        parts=(("compiler", session.tool(job.program)), *job.inputs(content, digest)),
        inputs=(("source", File(job.source)),),
        outputs=(_CODE,),
        policy=Policy(diagnostics=Diagnostics.REFUSED),
        missing="nothing is stored for this command",
    )
