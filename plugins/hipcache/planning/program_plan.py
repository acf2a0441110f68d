"""The plan of a program that one command compiles and links: text of `-###` -> jobs -> their shape.

    for each HIP source:    the jobs of a compile (`plan`), whose output is a temporary object
        for each arch and library that -L and -l name:
                            clang-offload-bundler -unbundle, whose output the device's lld reads
    for each other source:  cc1                            -> a temporary object
    ld (of the new driver: clang-linker-wrapper)           -> program or shared library

The driver compiles the sources one after the other, each from the first device pass to the host's.
"""

from __future__ import annotations

from itertools import pairwise

from hipcache.errors import PassThrough
from hipcache.planning import plan
from hipcache.planning.cc1 import Option, Role
from hipcache.planning.driver_options import Side
from hipcache.planning.link_plan import Unbundle, unbundle, value_after
from hipcache.planning.plan import Cc1Job, Plan, ToolJob
from hipcache.values import dataclass, replace


@dataclass(frozen=True)
class Other:
    """The compile of a source that is no HIP, to the temporary `object`."""

    job: ToolJob
    object: str


@dataclass(frozen=True)
class ProgramPlan:
    """A program as the driver means to make it. `compiles`: one for each source, in the driver's order; `link` reads
    what they write. Device links are without `libraries`, in which there must be no device code for them. `messages`:
    what the driver itself said."""

    compiles: tuple[Plan | Other, ...]
    libraries: tuple[Unbundle, ...]
    link: ToolJob
    output: str
    messages: str


def parse(text: str, side: Side = Side.BOTH) -> ProgramPlan:
    """Raises PassThrough where the jobs do not have the shape above."""
    jobs, messages = plan.split(text)
    version = plan.clang_version(text)
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
    objects = [object_of(one) for one in compiles]
    if not any(isinstance(one, Plan) for one in compiles) or any(link.arguments.count(one) != 1 for one in objects):
        raise PassThrough("plan", "a link of what no job compiles")
    return ProgramPlan(tuple(compiles), tuple(libraries), link, value_after(link, "-o"), messages)


def object_of(one: Plan | Other) -> str:
    """The temporary object that a compile writes."""
    return one.object if isinstance(one, Other) else one.outputs[0]


def _without(archives: set[str], words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in archives)


def _compile(jobs: list[tuple[str, ...]], side: Side, version: int) -> Plan | Other:
    host = jobs[-1]
    if ("-x", "hip") in pairwise(host):
        found = plan.of_jobs(jobs, side, "", version)
        if found.bundle and not found.embeds:
            raise PassThrough("plan", "the link reads what a bundler writes")
        return found
    if len(jobs) != 1:
        raise PassThrough("plan", "a source that is no HIP, and has several jobs")
    job = ToolJob(host[0], host[1:])
    if "-dependency-file" in host:
        raise PassThrough("several_sources", "a dependency file of HIP and other sources")
    return Other(job, value_after(job, "-o"))


def with_cuid(found: Plan, cuid: str) -> Plan:
    """The plan with another CUID, where it has one."""

    def other(job: Cc1Job) -> Cc1Job:
        option = Option(Role.CUID, "-cuid=", cuid, (f"-cuid={cuid}",))
        return replace(job, options=tuple(option if one.role is Role.CUID else one for one in job.options))

    devices = tuple(replace(one, compile=other(one.compile)) for one in found.devices)
    return replace(found, devices=devices, host=other(found.host) if found.host else None)
