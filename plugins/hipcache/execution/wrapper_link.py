"""The last action of a link by the new offload driver: the program, with the code objects that are there."""

from __future__ import annotations

import os
from collections.abc import Mapping

from hipcache.errors import PassThrough
from hipcache.execution import holder, host_link
from hipcache.execution.local import place
from hipcache.execution.session import Session
from hipcache.model import Action, Inputs, Output, Ran
from hipcache.planning import colours
from hipcache.planning.jobs import ToolJob
from hipcache.planning.wrapper_plan import WrapperPlan

# Begins the names of a device link's inputs. What is said of them names no file of the user's.
INPUT = "hipcache-input-"


def action(session: Session, plan: WrapperPlan, codes: Mapping[str, Output], columns: int | None) -> Action:
    """`codes`: by arch."""
    inputs = {f"{arch}/code": code for arch, code in codes.items()}

    def link(read: Inputs) -> Ran:
        if any(INPUT in read.said(name) for name in inputs):
            raise PassThrough("job_output", "a device link printed a message about one of its inputs")
        paths = {arch: place(session, name, read) for arch, name in zip(codes, inputs, strict=True)}
        return _link(session, plan, paths, columns)

    return host_link.last(session, link, inputs)


def _link(session: Session, plan: WrapperPlan, codes: Mapping[str, str], columns: int | None) -> Ran:
    """Have the user's command (where it does nothing but link), the wrapper, or the host's linker write the program.
    `codes`: paths of code objects by arch. Raises HostLinkFailed, JobFailed, PassThrough."""
    if plan.bundles_by_elf or any(":" in arch for arch in codes):
        linker, *words = plan.host_link(str(holder.make(session, plan, codes)))
        message = f"{plan.job.program}: error: '{os.path.basename(linker)}' failed\n"
        return host_link.run(session, ToolJob(linker, tuple(words)), columns=columns, wrapper=message)
    images = [f"--override-image=hip={code}" for code in codes.values()]
    command = session.command
    if not command.links:
        return host_link.run(session, ToolJob(plan.job.program, (*images, *plan.job.arguments)), columns=columns)
    jobs = session.jobs
    messages_as = colours.ask(command, session.engine, jobs.runner, columns=columns, scratch=lambda: jobs.workdir)
    words = [command.compiler, *messages_as.options]
    for image in images:
        words += ["-Xlinker", image]
    # The driver speaks before the device links, the host's linker after them.
    return host_link.run_command(session, [*words, *command.argv[1:]], plan.messages)
