"""A program: compiled and linked by one command, or linked of objects with relocatable device code.

Of one command: text of `-###` -> jobs -> their shape -> two graphs.

    for each HIP source:    the jobs of a compile (`plan`), whose output is a temporary object
        for each arch and library that -L and -l name:
                            clang-offload-bundler -unbundle, whose output the device's lld reads
    for each other source:  cc1                            -> a temporary object
    ld (of the new driver: clang-linker-wrapper)           -> program or shared library

The driver compiles the sources one after the other, each from the first device pass to the host's.

With -fgpu-rdc and the new driver that is the same, and the wrapper links the device code (`wrapper`). By the old
one no bundle is made only to be taken apart again, and the jobs have another order:

    for each source:        cc1 (host)                     -> a temporary object
    for each offload arch:  for each HIP source: cc1 (device) -> temporary bitcode
                            lld, and all else of a link (`bundler`), which reads those objects and that bitcode
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from hipcache.base.errors import JobFailed, PassThrough
from hipcache.base.values import dataclass, replace
from hipcache.build import Action, ActionId, Cache, Delivery, Graph, Policy, Process, Slot
from hipcache.build.context import Context
from hipcache.clang import colours, driver, dry_run, tools
from hipcache.clang.cc1 import Option, Role
from hipcache.clang.command import Command, is_relocatable
from hipcache.clang.cuid import clangs_hash
from hipcache.clang.driver_options import Side, chooses_cuid, why_passed_through_in_link, why_passed_through_in_program
from hipcache.clang.dry_run import DryRuns, is_wrapper
from hipcache.clang.jobs import ToolJob, clang_version, output_of, split
from hipcache.clang.plan import Flat, Plan, of_jobs, with_cuid, with_option
from hipcache.execution import Ends, Planned, refuse_script
from hipcache.execution.object import cuid_of
from hipcache.execution.session import Session
from hipcache.execution.source import SourceGraph, dependency_rules, source_graph
from hipcache.link import bundler, steps, wrapper
from hipcache.link.bundler import LinkPlan, Unbundle, unbundle
from hipcache.link.steps import CODE
from hipcache.link.wrapper import WrapperPlan


@dataclass(frozen=True)
class Other:
    """The compile of a source that is no HIP, to the temporary `object`."""

    job: ToolJob
    object: str

    @property
    def source(self) -> str:
        return self.job.arguments[-1]


@dataclass(frozen=True)
class ProgramPlan:
    """A program as the driver means to make it. `compiles`: one for each source, in the driver's order; `link` reads
    what they write. Device links are without `libraries`, in which there must be no device code for them. `messages`:
    what the driver itself said; `order`: what jobs write, in the order in which the driver runs them. `own_cuid`: the
    user has chosen it, elsewhere than in the command. `added`: as of `Asked`."""

    compiles: tuple[Plan | Other, ...]
    libraries: tuple[Unbundle, ...]
    link: ToolJob | LinkPlan | WrapperPlan
    output: str
    messages: str
    order: tuple[str, ...]
    own_cuid: bool = False
    added: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[Plan, ...]:
        """The compiles of HIP."""
        return tuple(job for job in self.compiles if isinstance(job, Plan))

    @property
    def links_host(self) -> bool:
        """Is the link the host's alone, one job?"""
        return isinstance(self.link, ToolJob)


def parse(text: str, side: Side = Side.BOTH, flat: Flat = list) -> ProgramPlan:
    """`flat`: as `dry_run.flat`. Raises PassThrough if the jobs do not have the shape above."""
    jobs, messages = split(text)
    jobs = [*flat(jobs)]
    version = clang_version(text)
    compiles: list[Plan | Other] = []
    libraries: list[Unbundle] = []
    together: list[tuple[str, ...]] = []
    for words in jobs[:-1]:
        if "-unbundle" in words:
            libraries.append(unbundle(ToolJob(words[0], words[1:])))
            continue
        together.append(words)
        if words[1:2] == ("-cc1",) and "-fcuda-is-device" not in words:
            archives = {name for library in libraries for name in library.outputs}
            compiles.append(_compile([_without(archives, job) for job in together], side, version))
            together = []
    program, *arguments = jobs[-1] if jobs else ("",)
    link = ToolJob(program, tuple(arguments))
    if not jobs or link.arguments[:1] in (("-cc1",), ("-cc1as",)):
        raise PassThrough("plan", "a program that no job links")
    if together:
        raise PassThrough("plan", f"a program with {len(together)} jobs between its compiles and its link")
    _check_inputs(compiles, link.arguments)
    return ProgramPlan(tuple(compiles), tuple(libraries), link, output_of(link), messages, _outputs_in_order(jobs))


def parse_relocatable(text: str, side: Side = Side.BOTH) -> ProgramPlan:
    """The same of relocatable device code."""
    jobs, script, messages = bundler.split_script(text)
    version = clang_version(text)
    if jobs and is_wrapper(jobs[-1][0]):
        found = parse(text, side)
        assert isinstance(found.link, ToolJob)
        return replace(found, link=wrapper.of_job(found.link, found.messages, version))
    compiles: dict[str, list[tuple[str, ...]]] = {}
    rest = []
    for words in jobs:
        if words[1:2] == ("-cc1",):
            compiles.setdefault(words[-1], []).append(words)
        else:
            rest.append(words)
    link = bundler.of_jobs(rest, script, messages)
    sources = tuple(_compile(passes, side, version, unbundled=True) for passes in compiles.values())
    _check_inputs(sources, [*link.host.arguments, *(name for device in link.devices for name in device.inputs)])
    if any(isinstance(source, Plan) and len(source.devices) != len(link.devices) for source in sources):
        raise PassThrough("plan", "a source without a pass for each device link")
    return ProgramPlan(sources, (), link, link.output, messages, _outputs_in_order(jobs))


def outputs_of(plan: Plan | Other) -> tuple[str, ...]:
    """The temporary files that a compile writes for the link."""
    return (plan.object,) if isinstance(plan, Other) else plan.outputs


def _without(archives: set[str], words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in archives)


def _compile(jobs: list[tuple[str, ...]], side: Side, version: int, *, unbundled: bool = False) -> Plan | Other:
    """`unbundled`: as of `plan.of_jobs`."""
    host = jobs[-1]
    if ("-x", "hip") in pairwise(host):
        found = of_jobs(jobs, side, "", version, unbundled=unbundled)
        if found.bundle and not found.embeds:
            raise PassThrough("plan", "the link reads a bundler's output")
        return found
    if len(jobs) != 1:
        raise PassThrough("plan", "a source that is not HIP and has several jobs")
    job = ToolJob(host[0], host[1:])
    if "-dependency-file" in host:
        raise PassThrough("several_sources", "a dependency file for both HIP and other sources")
    return Other(job, output_of(job))


def _check_inputs(compiles: Iterable[Plan | Other], read: Iterable[str]) -> None:
    """`read`: the words of all jobs that link."""
    words = list(read)
    made = [name for job in compiles for name in outputs_of(job)]
    if not any(isinstance(job, Plan) for job in compiles) or any(words.count(name) != 1 for name in made):
        raise PassThrough("plan", "a link whose input no job compiles")


def _outputs_in_order(jobs: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(words[words.index("-o") + 1] for words in jobs if "-o" in words[:-1])


def moved(found: ProgramPlan, places: Mapping[str, str]) -> ProgramPlan:
    """The plan with its temporary objects under other names. (The link is one job.)"""

    def elsewhere(job: ToolJob) -> ToolJob:
        return replace(job, arguments=tuple(places.get(word, word) for word in job.arguments))

    compiles: list[Plan | Other] = []
    for compile in found.compiles:
        if isinstance(compile, Other):
            compiles.append(Other(elsewhere(compile.job), places[compile.object]))
        else:
            assert compile.host
            output = places[compile.outputs[0]]
            host = with_option(compile.host, Option(Role.OUTPUT, "-o", output, ("-o", output)))
            compiles.append(replace(compile, host=host))
    assert isinstance(found.link, ToolJob)
    order = tuple(places.get(name, name) for name in found.order)
    return replace(found, compiles=tuple(compiles), link=elsewhere(found.link), order=order)


def with_cuids(found: ProgramPlan, cuid_of: Mapping[str, str]) -> ProgramPlan:
    """The plan with other CUIDs, if it has some. `cuid_of`: by source. Raises PassThrough."""
    compiles: list[Plan | Other] = []
    hashes: dict[str, str] = {}
    for job in found.compiles:
        if isinstance(job, Other):
            compiles.append(job)
            continue
        old, new = job.first.value(Role.CUID), cuid_of[job.first.source]
        hashes |= {clangs_hash(old): clangs_hash(new)} if old else {}
        compiles.append(with_cuid(job, new))
    link = found.link
    if isinstance(link, LinkPlan):
        link = replace(link, script=bundler.rename_in_script(link.script, hashes))
    return replace(found, compiles=tuple(compiles), link=link)


# More than a source has passes.
_TURNS = 1000


def plan(session: Session, columns: int | None) -> Planned:
    """The planner of commands that link. The host linker writes the program, as in the driver's plan."""
    refuse_script(session, "links")
    if session.command.makes_program:
        return _plan_program(session, columns)
    return Planned(_link_graph(session, _ask_link(session, columns), {}, columns))


def _plan_program(session: Session, columns: int | None) -> Planned:
    """A graph with a compile for each source, into a directory of hipcache's, and then one of the link.

    One graph would not do: the inputs and archs of the link are known only when the objects exist. As with the driver,
    the dependency files exist when the link begins, however it ends.
    """
    program = _ask_program(session, columns)
    for library in program.libraries:
        bundler.check_without_device_code(session, library)
    sources = [
        source_graph(session, source, f"source {number}", several=len(program.sources) > 1, turn=number * _TURNS)
        for number, source in enumerate(program.sources)
    ]
    return PlannedProgram(_compiles(session, program, sources), session, program, sources, columns)


@dataclass(frozen=True)
class PlannedProgram(Planned):
    """The compiles of a program."""

    session: Session
    program: ProgramPlan
    sources: list[SourceGraph]
    columns: int | None

    def then(self, ends: Ends) -> Planned:
        program = self.program
        files = {name: source.first.source for source in program.sources for name in source.outputs}
        graph = _link_graph(self.session, program.link, files, self.columns)
        printed = _printed(self.session, program, self.sources, graph)
        return Planned(replace(graph, messages=program.messages, printed=printed))


def _link_graph(
    session: Session, plan: ToolJob | LinkPlan | WrapperPlan, sources: Mapping[str, str], columns: int | None
) -> Graph:
    """`sources`: of the temporary files that the command itself compiled. A `plan` with one job is only the host
    link."""
    if isinstance(plan, ToolJob):
        path = session.command.path(output_of(plan))
        return Graph((steps.host_link(session, plan, {}, columns),), (), (), path)
    if isinstance(plan, WrapperPlan):
        return wrapper.graph(session, plan, sources, columns)
    return bundler.graph(session, plan, sources, columns)


def _ask_link(session: Session, columns: int | None) -> LinkPlan | WrapperPlan:
    """The plan for a link, whose temporary files lie in this session's directory. Raises PassThrough, JobFailed."""
    text = _ask_anew(session, columns, why_passed_through_in_link)
    return wrapper.parse(text) or bundler.parse(text)


def _ask_anew(session: Session, columns: int | None, why: Callable[[str], str]) -> str:
    """What the driver prints, in a plan that is asked for each time. `why` an option of its own passes through."""
    command, context, runner = session.command, session.context, session.jobs.runner
    scratch = session.jobs.workdir
    messages_as = colours.ask(command, context, runner, columns=columns, scratch=lambda: scratch)
    program = tools.find(command.compiler, command.cwd, context.environ)

    def ask(options: Sequence[str]) -> str:
        def plan(*more: str) -> str:
            words = driver.words_for(command, [*options, *more])
            return driver.run(program, words, context, runner, Path(command.cwd), scratch).text

        try:
            return plan(bundler.DUMP_SCRIPT)
        except JobFailed:  # Clang 24 has no such script, nor the option.
            return plan()

    text = ask(messages_as.options)
    kept = driver.kept_options(messages_as.options, text, context.environ)
    if kept != [*messages_as.options]:
        text = ask(kept)
    driver.check_options(text, context.environ, why)
    return text


def _ask_program(session: Session, columns: int | None) -> ProgramPlan:
    """The plan, with temporary files in this session's directory, and with the CUIDs of objects that are compiled
    separately and named by the compiler."""
    command = session.command
    plan = _ask_driver(session, columns)
    if plan.links_host:
        # It may be one of before. A linker that names an object in a message names another one each time anyway.
        names = [name for job in plan.compiles for name in outputs_of(job)]
        plan = moved(plan, {name: str(session.jobs.workdir / os.path.basename(name)) for name in names})
    if command.own_cuid or plan.own_cuid:
        return plan
    return with_cuids(plan, _cuids(session, plan))


def _ask_driver(session: Session, columns: int | None) -> ProgramPlan:
    """The plan for a program that is compiled and linked at once, with the driver's own CUIDs. As `dry_run.ask`; with
    relocatable device code as `_ask_link`."""
    command, context, runner = session.command, session.context, session.jobs.runner
    if is_relocatable(command.arguments):
        text = _ask_anew(session, columns, why_passed_through_in_program)
        return _with_options(parse_relocatable(text, command.side), text, command, context)

    def scratch() -> Path:
        return session.jobs.workdir

    messages_as = colours.ask(command, context, runner, columns=columns, scratch=scratch)
    _, words, found = driver.answer_with(messages_as.options, command, context, runner, scratch)
    driver.check_options(found.text, context.environ, why_passed_through_in_program)
    flat = partial(dry_run.flat, asked=DryRuns(context, runner, command.cwd, scratch))
    plan = parse(driver.as_typed(found.text, words, command), command.side, flat)
    return _with_options(plan, found.text, command, context)


def _with_options(plan: ProgramPlan, text: str, command: Command, context: Context) -> ProgramPlan:
    """The plan with options that are not in the command."""
    own_cuid = any(map(chooses_cuid, driver.added_options(text, context.environ)))
    return replace(plan, own_cuid=own_cuid, added=driver.counted_options(text, context.environ, command.cwd))


def _cuids(session: Session, plan: ProgramPlan) -> dict[str, str]:
    """By source; two are the same only for one file."""
    # What links again later has a name of its own.
    output = session.command.output if "-r" in session.command.arguments else ""
    files: dict[str, str] = {}
    cuids: dict[str, str] = {}
    for source in (job.first.source for job in plan.sources):
        file = os.path.realpath(session.command.path(source))
        more: tuple[str, ...] = ()
        while files.setdefault(cuid := cuid_of(session, source, output, (*plan.added, *more)), file) != file:
            more = (*more, "another source")
        cuids[source] = cuid
    return cuids


def _compiles(session: Session, plan: ProgramPlan, sources: list[SourceGraph]) -> Graph:
    """All sources; the link reads their objects."""
    others = [_other(job) for job in plan.compiles if isinstance(job, Other)]
    delivered = [
        Delivery(session.command.path(name), output)
        for source in sources
        for name, output in zip(source.plan.outputs, source.outputs, strict=True)
    ]
    rules = [rule for together in _by_dependency_file(sources) for rule in dependency_rules(session, together)]
    return Graph(
        (*others, *(action for source in sources for action in source.actions())),
        tuple(delivered),
        tuple(unit for source in sources for unit in source.units()),
        "",
        grow=lambda end: [action for source in sources for action in source.following(end)],
        printed=tuple(slot for source in sources for slot in source.texts.values()),
        rules=tuple(rules),
    )


def _other(job: Other) -> Action:
    """The compile of a source that is not HIP, as the driver would run it."""
    work = Process((job.job.program, *job.job.arguments))
    return Action(ActionId("compile", job.object), "", f"compile of '{job.source}'", work, policy=Policy(Cache.NEVER))


def _by_dependency_file(sources: list[SourceGraph]) -> list[list[SourceGraph]]:
    """The sources by dependency file: each has its own, or all share the one that is named after the program."""
    found: dict[str, list[SourceGraph]] = {}
    for source in sources:
        found.setdefault(source.plan.dependency_file, []).append(source)
    return list(found.values())


def _printed(session: Session, plan: ProgramPlan, sources: list[SourceGraph], linking: Graph) -> tuple[Slot, ...]:
    """The passes and links whose texts the user reads, in the order of the driver's jobs. Those that are no job of the
    driver (a link within the linker wrapper, the host link) come last."""
    written: dict[str, Slot] = {
        job.object: (ActionId("compile", job.object),) for job in plan.compiles if isinstance(job, Other)
    }
    for source in sources:
        written |= source.texts
    written |= {_written_by(session, action): (action.id,) for action in linking.actions}
    return tuple(written[name] for name in dict.fromkeys([*plan.order, *written]) if name in written)


def _written_by(session: Session, action: Action) -> str:
    """The file of the driver's plan that a device link writes, or else its name."""
    places = dict(action.work.places) if isinstance(action.work, Process) else {}
    return str(session.jobs.scratch(places[CODE])) if CODE in places else str(action.id)
