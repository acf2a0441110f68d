"""All that a compile depended on but what its passes have read: its programs, response files, and named files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from hipcache.clang import tools
from hipcache.clang.cc1 import Role
from hipcache.clang.command import Command, Unwrapped
from hipcache.clang.driver import why_unknown
from hipcache.clang.dry_run import Asked, AskedToAssemble
from hipcache.clang.responses import expand
from hipcache.direct import variables
from hipcache.errors import PassThrough
from hipcache.execution.session import Session
from hipcache.inputs import watched
from hipcache.inputs.readset import status_of
from hipcache.inputs.trace import Untraceable
from hipcache.inputs.watched import ABSENT, FILE, LINK, Watched

# Of the host, where no option names one; "generic" is that of AArch64.
_USUAL = ("", "x86-64", "generic")


def of(session: Session, asked: Asked | AskedToAssemble) -> Iterator[Watched]:
    """Raises Untraceable."""
    command, environ = session.command, session.engine.environ
    if session.notes or not asked.observations:
        raise Untraceable(next(iter(session.notes), why_unknown(command.arguments)))
    yield from _response_files(command)
    for one in (*command.unwrapped, Unwrapped(command.compiler, asked.program, asked.observations)):
        yield from _program(one, command, environ)
        yield from map(watched.of_observation, one.observations)
    yield from session.files.watched()
    yield from session.identities.watched()


def _response_files(command: Command) -> Iterator[Watched]:
    """Those of the command, which must say what they said when it was read: the driver read them later, and what it
    saw then is watched too."""
    if not {word for word in command.typed if word.startswith("@")} <= set(command.argv):
        raise Untraceable("a script read a response file")
    read: dict[str, os.stat_result] = {}
    try:
        same = expand(command.argv[1:], command.cwd, read) == command.arguments
    except PassThrough as left:
        raise Untraceable(left.detail) from left
    if not same:
        raise Untraceable("a response file changed")
    for path, found in read.items():
        yield Watched(FILE, path, status_of(found))


def _program(one: Unwrapped, command: Command, environ: Mapping[str, str]) -> Iterator[Watched]:
    """The places where a program is looked for, up to the one where it is."""
    name, program = one.name, one.program
    if tools.which(name, command.cwd, environ) != program:
        raise Untraceable("the compiler changed meanwhile")
    if "/" not in name:
        for directory in environ.get("PATH", os.defpath).split(":"):
            path = os.path.join(command.cwd, directory, name)
            if path == program:
                break
            yield Watched(FILE if os.path.lexists(path) else ABSENT, path)
    yield Watched(FILE, program)
    yield Watched(LINK, program)


def tools_of(session: Session, asked: Asked | AskedToAssemble) -> Mapping[str, tuple[str, ...]]:
    """The tools that ran (digest -> files); none if there may have been others."""
    found = session.identities.contents()
    own = {os.path.realpath(files[0]) for files in found.values()}
    known = os.path.realpath(asked.program) in own and not session.command.unwrapped
    return found if known and all(map(variables.is_native, own)) else {}


def is_of_any_machine(session: Session, asked: Asked | AskedToAssemble) -> bool:
    """Does the plan follow from the command and from files alone? Not where the driver has looked at the processor
    (`-march=native`) or at the GPUs that are there: so each offload arch, and a processor that is not the usual one,
    must be named by the command or a variable."""
    if not isinstance(asked, Asked) or session.command.unwrapped:
        return False
    plan, command = asked.plan, session.command
    told = [*command.typed, *command.arguments, *session.engine.environ.values()]
    processor = plan.host.value(Role.PLAIN, "-target-cpu") if plan.host else ""
    named = [*(device.arch for device in plan.devices), *([] if processor in _USUAL else [processor])]
    return not any("=native" in word for word in told) and all(any(one in word for word in told) for one in named)
