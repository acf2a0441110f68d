"""A link as the driver plans it with clang-offload-bundler: its device links, and the program put together of them.

The jobs are the plan's own, run as they stand: objects taken apart, lld for each arch, the bundle, llvm-mc, and the
host's linker.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from hipcache.errors import PassThrough
from hipcache.inputs.keys import Key, digest_file, make_key
from hipcache.making import device_link, host_link
from hipcache.making.device_link import Linked, Unit
from hipcache.planning.link_plan import DeviceLink, LinkPlan
from hipcache.planning.plan import ToolJob
from hipcache.session import Damaged, Session, decode


def units(session: Session, plan: LinkPlan, sources: Mapping[str, str]) -> list[Unit]:
    """Take objects and libraries apart, and key each device link with all that goes in. `sources`: of temporary files
    that are there already. Raises JobFailed, PassThrough where something that goes in cannot be read."""
    _take_apart(session, plan)
    place, environ = Path(session.command.cwd), session.engine.environ
    return [
        Unit(
            one.arch,
            _key(session, plan, one, sources),
            (one.job.program, *one.job.arguments),
            place,
            environ,
            Path(session.command.path(one.code)),
        )
        for one in plan.devices
    ]


def _take_apart(session: Session, plan: LinkPlan) -> None:
    """The driver means to take each object apart twice, once for the host and once for the devices."""
    tasks: dict[int, Callable[[], None]] = {}
    first: dict[tuple[str, ...], tuple[str, ...]] = {}
    again: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    for number, one in enumerate(plan.unbundles):
        same = (one.job.program, *(word for word in one.job.arguments if "output=" not in word))
        if same in first:
            again.append((first[same], one.outputs))
        else:
            first[same] = one.outputs
            tasks[number] = partial(_run_silent, session, f"unbundling of '{one.source}'", one.job)
    session.side_by_side(tasks)
    for have, want in again:
        for source, destination in zip(have, want, strict=True):
            with suppress(OSError):
                os.unlink(session.command.path(destination))
            try:
                os.link(session.command.path(source), session.command.path(destination))
            except OSError:
                shutil.copyfile(session.command.path(source), session.command.path(destination))


def _key(session: Session, plan: LinkPlan, link: DeviceLink, sources: Mapping[str, str]) -> Key:
    try:
        inputs = [("linker", session.identities.digest(session.files.resolve(link.job.program)))]
    except OSError as error:
        raise PassThrough("tool", f"'{link.job.program}': {error}") from error
    for word in link.job.arguments:
        if word in link.inputs:
            inputs.append(_input(session, word, sources.get(word) or plan.origin(word)))
        else:
            inputs.append(("linker option", "code object" if word == link.code else word))
    return make_key("device link", inputs)


def _input(session: Session, name: str, origin: str) -> tuple[str, str]:
    try:
        if origin:
            return f"device code of '{os.path.basename(origin)}'", digest_file(session.files.resolve(name))
        return f"content of {os.path.basename(name)}", session.files.named(name)
    except OSError as error:
        raise PassThrough("named_file", f"'{name}': {error.strerror}") from error


def finish(session: Session, plan: LinkPlan, codes: Sequence[Linked], messages: str, *, columns: int | None) -> str:
    """Write the program; what was said on the way to it, `messages` first. Raises Damaged, HostLinkFailed, JobFailed,
    PassThrough."""
    if not device_link.restore(session, codes):
        raise Damaged
    _run_silent(session, "bundler", plan.bundle)
    session.write(Path(session.command.path(plan.script_file)), os.fsencode(plan.script))
    _run_silent(session, "llvm-mc", plan.embed)
    return host_link.run(session, plan.host, messages, columns=columns)


def _run_silent(session: Session, name: str, job: ToolJob) -> None:
    done = session.run_now(name, [job.program, *job.arguments])
    if done.stderr:
        raise PassThrough("job_output", f"{name} said: {decode(done.stderr)[:200]}")
