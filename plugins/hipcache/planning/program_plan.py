"""The plan of a program that one command compiles and links: text of `-###` -> jobs -> their shape.

    for each HIP source:    the jobs of a compile (`plan`), whose output is a temporary object
        for each arch and library that -L and -l name:
                            clang-offload-bundler -unbundle, whose output the device's lld reads
    for each other source:  cc1                            -> a temporary object
    ld (of the new driver: clang-linker-wrapper)           -> program or shared library

The driver compiles the sources one after the other, each from the first device pass to the host's.

With -fgpu-rdc and the new driver that is the same, and the wrapper links the device code (`wrapper_plan`). By the old
one no bundle is made only to be taken apart again, and the jobs have another order:

    for each source:        cc1 (host)                     -> a temporary object
    for each offload arch:  for each HIP source: cc1 (device) -> temporary bitcode
                            lld, and all else of a link (`link_plan`), which reads those objects and that bitcode
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from hipcache.errors import PassThrough
from hipcache.planning import link_plan, plan, wrapper_plan
from hipcache.planning.cc1 import Option, Role
from hipcache.planning.cuid import clangs_hash
from hipcache.planning.driver_options import Side
from hipcache.planning.jobs import Cc1Job, ToolJob, clang_version, split
from hipcache.planning.link_plan import LinkPlan, Unbundle, unbundle, value_after
from hipcache.planning.plan import Flat, Plan
from hipcache.planning.wrapper_plan import WrapperPlan
from hipcache.values import dataclass, replace


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
        return tuple(one for one in self.compiles if isinstance(one, Plan))

    @property
    def links_host(self) -> bool:
        """Is the link the host's alone, one job?"""
        return isinstance(self.link, ToolJob)


def parse(text: str, side: Side = Side.BOTH, flat: Flat = list) -> ProgramPlan:
    """`flat`: see `offload_plan`. Raises PassThrough if the jobs do not have the shape above."""
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
            archives = {name for one in libraries for name in one.outputs}
            compiles.append(_compile([_without(archives, one) for one in together], side, version))
            together = []
    program, *arguments = jobs[-1] if jobs else ("",)
    link = ToolJob(program, tuple(arguments))
    if not jobs or link.arguments[:1] in (("-cc1",), ("-cc1as",)):
        raise PassThrough("plan", "a program that no job links")
    if together:
        raise PassThrough("plan", f"a program with {len(together)} jobs between its compiles and its link")
    _check_inputs(compiles, link.arguments)
    return ProgramPlan(
        tuple(compiles), tuple(libraries), link, value_after(link, "-o"), messages, _outputs_in_order(jobs)
    )


def parse_relocatable(text: str, side: Side = Side.BOTH) -> ProgramPlan:
    """The same of relocatable device code."""
    jobs, script, messages = link_plan.split_script(text)
    version = clang_version(text)
    if jobs and wrapper_plan.is_wrapper(jobs[-1][0]):
        found = parse(text, side)
        assert isinstance(found.link, ToolJob)
        return replace(found, link=wrapper_plan.of_job(found.link, found.messages, version))
    compiles: dict[str, list[tuple[str, ...]]] = {}
    rest = []
    for words in jobs:
        if words[1:2] == ("-cc1",):
            compiles.setdefault(words[-1], []).append(words)
        else:
            rest.append(words)
    link = link_plan.of_jobs(rest, script, messages)
    sources = tuple(_compile(one, side, version, unbundled=True) for one in compiles.values())
    _check_inputs(sources, [*link.host.arguments, *(name for one in link.devices for name in one.inputs)])
    if any(isinstance(one, Plan) and len(one.devices) != len(link.devices) for one in sources):
        raise PassThrough("plan", "a source without a pass for each device link")
    return ProgramPlan(sources, (), link, link.output, messages, _outputs_in_order(jobs))


def outputs_of(one: Plan | Other) -> tuple[str, ...]:
    """The temporary files that a compile writes for the link."""
    return (one.object,) if isinstance(one, Other) else one.outputs


def _without(archives: set[str], words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in archives)


def _compile(jobs: list[tuple[str, ...]], side: Side, version: int, *, unbundled: bool = False) -> Plan | Other:
    """`unbundled`: as of `plan.of_jobs`."""
    host = jobs[-1]
    if ("-x", "hip") in pairwise(host):
        found = plan.of_jobs(jobs, side, "", version, unbundled=unbundled)
        if found.bundle and not found.embeds:
            raise PassThrough("plan", "the link reads a bundler's output")
        return found
    if len(jobs) != 1:
        raise PassThrough("plan", "a source that is not HIP and has several jobs")
    job = ToolJob(host[0], host[1:])
    if "-dependency-file" in host:
        raise PassThrough("several_sources", "a dependency file for both HIP and other sources")
    return Other(job, value_after(job, "-o"))


def _check_inputs(compiles: Iterable[Plan | Other], read: Iterable[str]) -> None:
    """`read`: the words of all jobs that link."""
    words = list(read)
    made = [name for one in compiles for name in outputs_of(one)]
    if not any(isinstance(one, Plan) for one in compiles) or any(words.count(name) != 1 for name in made):
        raise PassThrough("plan", "a link whose input no job compiles")


def _outputs_in_order(jobs: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(words[words.index("-o") + 1] for words in jobs if "-o" in words[:-1])


def moved(found: ProgramPlan, places: Mapping[str, str]) -> ProgramPlan:
    """The plan with its temporary objects under other names. (The link is one job.)"""

    def elsewhere(job: ToolJob) -> ToolJob:
        return replace(job, arguments=tuple(places.get(word, word) for word in job.arguments))

    compiles: list[Plan | Other] = []
    for one in found.compiles:
        if isinstance(one, Other):
            compiles.append(Other(elsewhere(one.job), places[one.object]))
        else:
            assert one.host
            output = places[one.outputs[0]]
            host = _with_option(one.host, Option(Role.OUTPUT, "-o", output, ("-o", output)))
            compiles.append(replace(one, host=host))
    assert isinstance(found.link, ToolJob)
    order = tuple(places.get(name, name) for name in found.order)
    return replace(found, compiles=tuple(compiles), link=elsewhere(found.link), order=order)


def with_cuids(found: ProgramPlan, cuid_of: Mapping[str, str]) -> ProgramPlan:
    """The plan with other CUIDs, if it has some. `cuid_of`: by source. Raises PassThrough."""
    compiles: list[Plan | Other] = []
    hashes: dict[str, str] = {}
    for one in found.compiles:
        if isinstance(one, Other):
            compiles.append(one)
            continue
        old, new = one.first.value(Role.CUID), cuid_of[one.first.source]
        hashes |= {clangs_hash(old): clangs_hash(new)} if old else {}
        compiles.append(with_cuid(one, new))
    link = found.link
    if isinstance(link, LinkPlan):
        link = replace(link, script=link_plan.rename_in_script(link.script, hashes))
    return replace(found, compiles=tuple(compiles), link=link)


def with_cuid(found: Plan, cuid: str) -> Plan:
    """The plan with another CUID, if it has one."""
    option = Option(Role.CUID, "-cuid=", cuid, (f"-cuid={cuid}",))
    devices = tuple(replace(one, compile=_with_option(one.compile, option)) for one in found.devices)
    return replace(found, devices=devices, host=_with_option(found.host, option) if found.host else None)


def _with_option(job: Cc1Job, option: Option) -> Cc1Job:
    """The job with `option` in the place of the one of its role, if it has one."""
    return replace(job, options=tuple(option if one.role is option.role else one for one in job.options))
