"""A compile of one HIP source: the graph of that source, and how it ends where it fails.

A failing compile ends exactly like plain clang's: its text, its status, and the outputs that it leaves. The driver runs
its jobs in order and stops at the first failure (clang/lib/Driver/Compilation.cpp: `ActionFailed`). So the user reads
the messages of the passes before it, then those of the failing pass, and gets its status. For all other failures (back
end, linker, crash) the user's own command runs again and prints the error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from hipcache.base.errors import CommandFailed, JobFailed, PassThrough, passing_through
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass, replace
from hipcache.build import ActionId, Bound, End, Slot, delivery, ended
from hipcache.cache.manifest import NEVER
from hipcache.clang import colours, driver, dry_run
from hipcache.clang.cc1 import Role
from hipcache.clang.command import messages_file
from hipcache.clang.cuid import make_cuid, options, project_name
from hipcache.clang.dry_run import Asked
from hipcache.clang.frontend import Pass, pass_of
from hipcache.clang.jobs import split
from hipcache.clang.plan import Plan, with_cuid
from hipcache.execution import Ends, Planned
from hipcache.execution.session import Session
from hipcache.execution.source import SourceGraph, dependency_rules, graph, source_graph
from hipcache.report.outcome import FAILED

if TYPE_CHECKING:
    from hipcache.execution.passes import PassFailed

# A word with such a path (see `base/paths`).
_OF_KERNEL = pattern(rb"/dev/(?!shm/)|/proc/|/dev/shm/.*\.\.")


def plan(session: Session, columns: int | None) -> Planned:
    """The plan, with a CUID that does not depend on the archs."""
    asked = ask(session, columns)
    _refuse_links(session, asked.plan)
    source = source_graph(session, asked.plan)
    made = replace(graph(source), gate=partial(gate_of, source))
    if columns is not None and any(option.name == "-fcolor-diagnostics" for option in asked.plan.first.options):
        made = replace(made, text=partial(_coloured, {name for device in source.devices for name in device.lto}))
    return PlannedObject(made, asked, source)


@dataclass(frozen=True)
class PlannedObject(Planned):
    """The compile of one source."""

    asked: Asked
    source: SourceGraph

    @property
    def jobs(self) -> int:
        return self.asked.plan.jobs

    @property
    def answer(self) -> Asked:
        return self.asked

    @property
    def slots(self) -> tuple[Slot, ...]:
        return self.source.slots

    @property
    def why_indirect(self) -> str:
        bundle, spirv = self.source.cut.object, self.asked.plan.spirv
        if bundle and not bundle.tools_beside:
            return "the bundler looks for the programs that it starts on PATH"
        return f"{spirv.arch} is compiled each time" if spirv else ""

    def failed(self, failed: JobFailed, ends: Ends) -> JobFailed:
        """The failure as plain clang reports it, with the outputs that clang leaves. Gives `failed` itself if the
        user's own command must run. Raises PassThrough if clang would have failed differently."""
        from hipcache.execution.passes import PassFailed  # a hit runs none

        source, session, planned = self.source, self.source.session, self.source.plan
        if not isinstance(failed, PassFailed) or not planned.in_order:
            return failed
        if session.command.unwrapped or not _has_read_all(session, failed):  # a script may have more to say
            return failed
        output = failed.front.job.value(Role.OUTPUT)
        slots = takewhile(lambda name: name != output, source.texts)
        before = [end for end in (ended(ends, source.texts[name]) for name in slots) if end]
        if output in planned.outputs:
            delivery.check_places([session.command.path(output)])
        # From clang 22 on, the device's passes write none.
        rule = failed.front.job.value(Role.DEPENDENCIES, "-dependency-file")
        if rule and failed.dependencies is not None:
            for wanted in dependency_rules(session, [source]):
                delivery.write_lists(wanted, [failed.dependencies, *(end.result.files for end in before)])
        elif rule:
            _remove_rule(session.command.path(rule))
        if output in planned.outputs:
            delivery.clean_up(session.command.path(output))
        text = planned.messages + "".join(end.result.text for end in before) + failed.text
        return CommandFailed(failed.job, failed.status, text)


def ask(session: Session, columns: int | None) -> Asked:
    """The driver's plan with a CUID of ours, if the user chose none. Raises as `dry_run.ask`, and CommandFailed."""
    command, jobs = session.command, session.jobs
    cuid = "" if command.own_cuid else cuid_of(session, command.source, command.output)
    try:
        asked = dry_run.ask(command, cuid, session.context, jobs.runner, columns=columns, scratch=lambda: jobs.workdir)
    except JobFailed as failed:
        raise _refused(session, failed, cuid, columns) from failed
    if not cuid or not asked.added or asked.plan.first.value(Role.CUID) != cuid:
        return asked
    cuid = cuid_of(session, command.source, command.output, asked.added)
    return replace(asked, plan=with_cuid(asked.plan, cuid))


def _coloured(links: set[ActionId], end: End) -> str:
    """The text of an action. The device's linker had no terminal here."""
    return colours.of_linker(end.result.text) if end.bound.action.id in links else end.result.text


def cuid_of(session: Session, source: str, output: str, added: Iterable[str] = ()) -> str:
    """`output`: as the command names it; empty if the compiler chooses the name. `added`: what counts beside the
    command's options."""
    command, files = session.command, session.files
    named = output or os.path.splitext(os.path.basename(source))[0] + ".o"
    counted = (*options(command.arguments, command.cwd), *added)
    return make_cuid(
        command.path(source),
        files.basedir.without_target(command.path(named)),
        [files.basedir.portable(files.basedir.without_target(text)) for text in counted],
        basedir=files.basedir.probe or session.context.basedir,
        cwd=command.cwd,
        exists=files.is_there,
        project=project_name,
        named_absolute=output.startswith("/"),
    )


def _refuse_links(session: Session, plan: Plan) -> None:
    """cc1 and lld replace their output file. The bundler writes into an existing file, also through a symbolic link,
    and llvm-objcopy then replaces that file: other names of it are left with nothing."""
    path = session.command.path(plan.outputs[0])
    if plan.bundle and not plan.embeds:
        has_other_names = os.path.isfile(path) and os.stat(path).st_nlink > 1
        if os.path.islink(path) or (has_other_names and not plan.in_place):
            raise PassThrough("linked_output", plan.outputs[0])


def gate_of(source: SourceGraph, missing: Sequence[Bound]) -> Bound | None:
    """The pass that must end before those behind it start, because it is likely to fail: the one that failed last time,
    or the first one after an edit. None if all of them can start at once: then a failure costs only idle cores, and
    after a correct edit nobody has waited. (With fewer slots the wait costs at most one front end's time.)"""
    passes = sorted(
        (bound for bound in missing if isinstance(bound.action.work, Pass)), key=lambda bound: bound.action.turn
    )
    session, plan = source.session, source.plan
    if len(passes) < 2 or _can_all_start(session, len(passes)):
        return None
    last = session.context.last(session.command.path(plan.outputs[0]))
    if last and last.outcome == FAILED:
        for bound in passes:
            if pass_of(bound).front.is_device and last.detail.startswith(f"{bound.action.label} "):
                return bound
    first = passes[0]
    is_edit = len(passes) == len(source.slots) and first.why != NEVER
    return first if is_edit and isinstance(first.action.work, Pass) and first.action.work.bitcode else None


def _can_all_start(session: Session, count: int) -> bool:
    slots = session.context.slots
    if count > slots.limit:
        return False
    with ExitStack() as held:
        for _ in range(count):
            slot = slots.attempt()
            if slot is None:
                return False
            held.enter_context(slot)
        return True


def _refused(session: Session, failed: JobFailed, cuid: str, columns: int | None) -> JobFailed:
    """The failure of a command that the driver refuses (an unknown option, no such file). It plans nothing then, and
    prints its message for `-###`, too, after its banner. Returns `failed` itself if the driver may print more for the
    command, or if the message is about an option that hipcache added."""
    try:
        jobs, text = split(os.fsdecode(failed.said))
    except PassThrough:
        return failed
    command = session.command
    known = failed.job == driver.DRIVER and failed.status == 1 and columns is None and not command.unwrapped
    ours = [str(session.jobs.workdir), *([cuid] if cuid else [])]
    if not known or jobs or ": error: " not in text or any(os.fsencode(line) in failed.said for line in ours):
        return failed
    # Without the source there are no inputs, which `-###` does not say; and messages in a file are none of the text.
    if "no such file or directory" in text or messages_file(command.argv)[1]:
        return failed
    return CommandFailed(failed.job, failed.status, text)


def _has_read_all(session: Session, failed: PassFailed) -> bool:
    """False if it may have read what the user's compiler has and it has not: standard input, or a file that can be
    read but once."""
    command = session.command
    try:
        texts = [os.fsencode(word) for word in command.arguments]
        if failed.dependencies is None:  # a header is missing, and nothing tells which others were read
            texts.append(Path(command.path(command.source)).read_bytes())
        if any(_OF_KERNEL.search(text) for text in texts):
            return False
        return all(os.path.isfile(session.files.resolve(dependency.path)) for dependency in failed.dependencies or ())
    except OSError:
        return False


def _remove_rule(path: str) -> None:
    """Do as clang does if a header is missing."""
    if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
        raise PassThrough("side_output", f"'{path}'")
    with passing_through("output", path):
        Path(path).unlink(missing_ok=True)
