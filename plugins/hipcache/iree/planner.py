"""An iree-compile command: one observed action that makes one module.

Its key has the words as typed (the module contains the name of the input), the compiler with its libraries, variables
and the processor. Everything else is in the trace: the input, bitcode, tuning specifications, parameter archives.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from hipcache.direct import variables
from hipcache.errors import PassThrough
from hipcache.execution.session import Session
from hipcache.inputs.keys import digest_bytes
from hipcache.inputs.memos import Memos
from hipcache.iree import process, script, targets
from hipcache.iree.command import STANDARD_INPUT, positional, standard_input, without_output
from hipcache.model import Action, Cache, Delivery, Graph, Inputs, Output, Policy, Ran, Step, Unit
from hipcache.planners import Planned
from hipcache.planning.answers import VOLATILE

_NAME = "iree-compile"
# The name that `hipcache verify` knows (`cache/references`).
_MODULE = "object"
# Their effects are seen otherwise: the observer sees programs that are looked for, the output names the directory.
_SEEN = frozenset(["PATH", "PWD"])
_CPUINFO = "/proc/cpuinfo"
_LINES = (b"model name", b"flags", b"Features", b"CPU part")


def plan(session: Session, columns: int | None) -> Planned:
    command = session.command
    path = command.path(command.output)
    if os.path.islink(path):
        raise PassThrough("linked_output", command.output)
    told = targets.target_of(command.arguments)
    program = script.find(session.engine, command.compiler, command.cwd, session.jobs.runner)
    words = without_output(command.arguments)

    given, digest = standard_input() if command.source == STANDARD_INPUT else (None, "")

    def compile(_: Inputs) -> Ran:
        made = session.jobs.scratch("module")
        stdin = session.jobs.scratch("input", given) if given is not None else None
        argv = [program, "-o", str(made), *words]
        return process.run(session, _NAME, argv, (_MODULE, made), _places(session), stdin)

    source = (("text of the source", digest),) if digest else ()
    compiler = session.tool(program)
    engine = session.engine
    surroundings = _surroundings(engine.environ, session.identities.contents(), engine.memos)
    action = Action(
        id=_NAME,
        kind="iree module",
        label=_NAME,
        work=Step(compile),
        parts=(("compiler", compiler), *(("option", word) for word in words), *surroundings, *source),
        outputs=(_MODULE,),
        policy=Policy(Cache.OBSERVED),
        missing="nothing is stored for this command",
    )
    unit = Unit(_NAME, told, (f"iree {told}",))
    graph = Graph((action,), (Delivery(path, Output(_NAME, _MODULE), through_links=True),), (unit,), path)
    return Planned(graph, tuple(positional(command.arguments)))


def _places(session: Session) -> tuple[str, ...]:
    """The directories that a relative name may have become."""
    cwd = session.command.cwd
    source = os.path.dirname(os.path.normpath(session.command.path(session.command.source)))
    named = {cwd, os.path.realpath(cwd), session.engine.environ.get("PWD", ""), session.files.basedir.path}
    if not session.command.source.startswith("/"):
        named |= {source, os.path.realpath(source)}
    return tuple(sorted(place for place in named if len(place) > 1))


def _surroundings(
    environ: Mapping[str, str], tools: Mapping[str, tuple[str, ...]], memos: Memos
) -> Iterator[tuple[str, str]]:
    """Parts of a key that are neither words of the command nor files: variables, if iree-compile can read them by name
    (`direct/variables`), and the processor. It matters for `--iree-llvmcpu-target-cpu=host`, and for constants that are
    computed on it during compilation. `tools`: digest -> files. Raises PassThrough."""
    never = variables.never_asked(environ, tools, memos)
    for name in sorted(environ.keys() - never - VOLATILE - _SEEN):
        if not name.startswith("HIPCACHE_"):
            yield f"variable {name}", environ[name]
    yield "processor", _processor()


def _processor() -> str:
    """The description of the first processor; all of a machine are alike."""
    try:
        with open(_CPUINFO, "rb") as file:
            first = file.read().partition(b"\n\n")[0]
    except OSError as error:
        raise PassThrough("tool", f"'{_CPUINFO}': {error.strerror}") from error
    return digest_bytes(b"\n".join(line for line in first.splitlines() if line.startswith(_LINES)))
