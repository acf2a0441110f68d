"""A link that the driver plans with clang-offload-bundler: one action per job of the plan.

The bundler unbundles the objects, lld links each arch, and the bundler, llvm-mc and the host linker make the program.
Only device links are stored. All other jobs run every time, unchanged, because the host linker decides what the program
is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from hipcache.errors import PassThrough
from hipcache.execution import host_link
from hipcache.execution.session import Session
from hipcache.inputs import assembly, linked
from hipcache.inputs.keys import digest_bytes, digest_file
from hipcache.model import EACH_TIME, Action, Graph, Literal, Output, Process, Ref, Source, Word
from hipcache.planners import device_link
from hipcache.planners.device_link import CODE
from hipcache.planning import lld
from hipcache.planning.jobs import ToolJob
from hipcache.planning.link_plan import DeviceLink, LinkPlan, value_after


def graph(session: Session, plan: LinkPlan, sources: Mapping[str, str], columns: int | None) -> Graph:
    """`sources`: of temporary files that exist already. Raises PassThrough if an input cannot be read."""
    made: dict[str, Output] = {}
    unbundles = list(_unbundles(session, plan, made))
    links = [_device_link(session, plan, one, sources, made) for one in plan.devices]
    pairs = list(zip(plan.devices, links, strict=True))
    units = [device_link.unit(one.arch, link, several=bool(sources)) for one, link in pairs]
    codes = {session.jobs.name(one.code): device_link.output(link) for one, link in pairs}
    bundle = _job(session, "bundler", plan.bundle, codes, _bundled(plan.bundle))
    content = os.fsencode(plan.script)
    script = Literal(digest_bytes(content), lambda: content)
    read: dict[str, Source] = {**outputs(bundle), session.jobs.name(plan.script_file): script}
    embed = _job(session, "llvm-mc", plan.embed, read, [value_after(plan.embed, "-o")])
    host = host_link.action(session, plan.host, {**made, **outputs(embed)}, columns)
    path = session.command.path(plan.output)
    return Graph((*unbundles, *links, bundle, embed, host), (), tuple(units), path, plan.messages)


def _unbundles(session: Session, plan: LinkPlan, made: dict[str, Output]) -> Iterator[Action]:
    """Adds the outputs to `made`. The driver's plan unbundles each object twice, for the host and for the devices."""
    first: dict[tuple[str, ...], Action] = {}
    for one in plan.unbundles:
        same = (one.job.program, *(word for word in one.job.arguments if "output=" not in word))
        if same not in first:
            action = first[same] = _job(session, f"unbundling of '{one.source}'", one.job, {}, one.outputs)
            yield action
        names = map(session.jobs.name, one.outputs)
        made |= dict(zip(names, outputs(first[same]).values(), strict=True))


def _job(session: Session, label: str, job: ToolJob, inputs: Mapping[str, Source], written: Iterable[str]) -> Action:
    """A job of the plan, run unchanged: it names files in the scratch by path."""
    names = tuple(map(session.jobs.name, written))
    work = Process((job.program, *job.arguments))
    return Action(" ".join([label, *names]), "", label, work, (), tuple(inputs.items()), names, EACH_TIME)


def outputs(action: Action) -> dict[str, Output]:
    return {name: Output(action.id, name) for name in action.outputs}


def _bundled(job: ToolJob) -> list[str]:
    return [value for name, _, value in (word.partition("=") for word in job.arguments) if name.lstrip("-") == "output"]


def _device_link(
    session: Session, plan: LinkPlan, link: DeviceLink, sources: Mapping[str, str], made: Mapping[str, Output]
) -> Action:
    parts: list[tuple[str, Word]] = [("linker", session.tool(link.job.program))]
    inputs = {}
    for word in link.job.arguments:
        name = session.jobs.name(word)
        if word not in link.inputs:
            parts.append(("linker option", "code object" if word == link.code else word))
            named = lld.value_of(word)
            if named and session.files.exists(named):
                parts.append(_content(session, named))
        elif name in made:
            inputs[name] = made[name]
            parts.append((f"device code of '{os.path.basename(plan.origin(word))}'", (Ref(name),)))
        else:
            parts.append(_file(session, word, sources.get(word, "")))
    names = {word: session.jobs.name(word) for word in link.inputs}
    refs = {word: name for word, name in names.items() if name in inputs} | {link.code: CODE}
    command = (link.job.program, *((Ref(refs[word]),) if word in refs else word for word in link.job.arguments))
    stored = not any(assembly.reads_files(session.files.resolve(word)) for word in link.inputs if word not in refs)
    place = session.jobs.name(link.code)
    return device_link.action(link.arch, command, place, parts, tuple(inputs.items()), stored=stored)


def _file(session: Session, name: str, source: str) -> tuple[str, str]:
    if not source:
        linked.check(name, session.files.resolve(name))
        return _content(session, name)
    try:
        return f"device code of '{os.path.basename(source)}'", digest_file(session.files.resolve(name))
    except OSError as error:
        raise PassThrough("named_file", f"'{name}': {error.strerror}") from error


def _content(session: Session, name: str) -> tuple[str, str]:
    try:
        return f"content of {os.path.basename(name)}", session.files.named(name)
    except OSError as error:
        raise PassThrough("named_file", f"'{name}': {error.strerror}") from error
