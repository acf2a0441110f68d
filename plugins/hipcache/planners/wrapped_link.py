"""A link with the new offload driver: its device links, and then the program.

clang-linker-wrapper runs each device link, with inputs that contain only that arch's images (`embedded`), a host linker
that does nothing, and a path for clang to write the code object to. Then the user's own command runs with the code
objects: the wrapper bundles, registers and links them as it would its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial

from hipcache.errors import PassThrough
from hipcache.execution import wrapper_link
from hipcache.execution.session import Session
from hipcache.execution.wrapper_link import INPUT
from hipcache.inputs.keys import digest_bytes
from hipcache.model import Action, Graph, Literal, Ref, Source, Word
from hipcache.planners import device_images, device_link, wrapper_tools
from hipcache.planners.device_images import File
from hipcache.planners.device_link import CODE
from hipcache.planning import lld
from hipcache.planning.wrapper_plan import WrapperPlan


def graph(session: Session, plan: WrapperPlan, sources: Mapping[str, str], columns: int | None) -> Graph:
    """The device link of each arch, keyed with the images that go in, and the link. `sources`: of temporary objects.
    Raises PassThrough."""
    for word in plan.options:
        named = lld.value_of(word)
        if named and session.files.exists(
            named
        ):  # by a path that device links, in a directory of their own, may not have
            raise PassThrough("linker_option", f"{word} names a file")
    files = device_images.read(session, plan)
    triples = device_images.triples_of(files)
    arch, triple = next(iter(triples.items()))
    tools = wrapper_tools.keyed(session, plan, arch.partition(":")[0], triple)
    nothing = wrapper_tools.nothing(session)
    links = {arch: _device_link(plan, arch, files, sources, tools, nothing) for arch in triples}
    units = tuple(device_link.unit(arch, link, several=bool(sources)) for arch, link in links.items())
    codes = {arch: device_link.output(link) for arch, link in links.items()}
    program = wrapper_link.action(session, plan, codes, columns)
    return Graph((*links.values(), program), (), units, session.command.path(plan.output), plan.messages)


def _device_link(
    plan: WrapperPlan,
    arch: str,
    files: list[File],
    sources: Mapping[str, str],
    tools: list[tuple[str, str]],
    nothing: str,
) -> Action:
    parts: list[tuple[str, Word]] = [*tools, *(("option", word) for word in plan.options), ("arch", arch)]
    command: list[Word] = [plan.job.program, *plan.options, f"--linker-path={nothing}"]
    # Where clang writes: lld's last word until 19, clang's since (the driver puts lld's own in the end).
    chooser = "--device-compiler=-o" if plan.by_compiler else "--device-linker=-o"
    command += [(chooser, Ref(CODE)), "-o", os.path.basename(plan.output)]
    inputs: list[tuple[str, Source]] = []
    for number, file in enumerate(files):
        content = file.of(arch)
        if content:
            base = os.path.basename(sources.get(file.path, file.path))
            name = f"{arch}/{INPUT}{number}/{base}"
            what = f"device code of library '{base}'" if file.is_lazy else f"device code of '{base}'"
            inputs.append((name, Literal(digest_bytes(content), partial(file.of, arch))))
            parts.append((what, (Ref(name),)))
            command.append((Ref(name),))
    return device_link.action(arch, tuple(command), f"{arch}/{CODE}", parts, inputs, root=arch)
