"""An iree-compile command: one observed action that makes one module.

Its key has the words as typed (the module contains the name of the input), the compiler with its libraries, variables
and the processor (`iree/surroundings`). Everything else is in the trace: the input, bitcode, tuning
specifications, parameter archives.
"""

from __future__ import annotations

import os

from hipcache.errors import PassThrough
from hipcache.execution.session import Session
from hipcache.iree import process, script, standard_input, surroundings, targets
from hipcache.iree.command import STANDARD_INPUT, positional, without_output
from hipcache.model import Action, Cache, Delivery, Graph, Inputs, Output, Policy, Ran, Step, Unit
from hipcache.planners import Planned

_NAME = "iree-compile"
# The name that `hipcache verify` knows (`verify/named`).
_MODULE = "object"


def plan(session: Session, columns: int | None) -> Planned:
    command = session.command
    path = command.path(command.output)
    if os.path.islink(path):
        raise PassThrough("linked_output", command.output)
    told = targets.target_of(command.arguments)
    program = script.find(session.engine, command.compiler, command.cwd, session.jobs.runner)
    words = without_output(command.arguments)

    given, digest = standard_input.content() if command.source == STANDARD_INPUT else (None, "")

    def compile(_: Inputs) -> Ran:
        made = session.jobs.scratch("module")
        stdin = session.jobs.scratch("input", given) if given is not None else None
        argv = [program, "-o", str(made), *words]
        return process.run(session, _NAME, argv, (_MODULE, made), _places(session), stdin)

    source = (("text of the source", digest),) if digest else ()
    compiler = session.tool(program)
    engine = session.engine
    variables = surroundings.parts(engine.environ, session.identities.contents(), engine.memos)
    action = Action(
        id=_NAME,
        kind="iree module",
        label=_NAME,
        work=Step(compile),
        parts=(("compiler", compiler), *(("option", word) for word in words), *variables, *source),
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
