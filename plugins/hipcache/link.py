"""The story of one link with relocatable device code: as `compile`, in the numbered steps of ARCHITECTURE.md.

Only the device links (the LTO of each arch) are kept. All else is run each time, as the driver's plan has it: taking
objects apart, the bundle, and the host's linker, which has the last word on what the program is.
"""

from __future__ import annotations

from hipcache.compile import Compiled
from hipcache.engine import Engine
from hipcache.errors import PassThrough
from hipcache.inputs.identity import is_script
from hipcache.making import account, relocatable
from hipcache.planning import driver, tools
from hipcache.planning.command import Command
from hipcache.session import Session, in_session


def link(engine: Engine, command: Command, columns: int | None) -> Compiled:
    """Make the program of `command`. Raises as `compile` does; what the host's linker has written by then is what it
    would have written for the compiler, too."""
    if is_script(tools.which(command.compiler, command.cwd, engine.environ)):
        raise PassThrough("wrapper", "a script that links may do more than that")
    return in_session(engine, command, lambda session: _link(session, columns))


def _link(session: Session, columns: int | None) -> Compiled:
    # 1. Ask the driver for its plan.
    plan = driver.ask_link(session.command, session.engine, session.runner, columns=columns, scratch=session.workdir)
    # 2. to 4. The code object of each arch, found or linked.
    codes = relocatable.link_devices(session, plan, {})
    # 5. Put the fat binary together; 6. have the host's linker write the program.
    messages = plan.messages + "".join(code.text for code in codes)
    messages = relocatable.finish(session, plan, codes, messages, columns=columns)
    # 7. Say what happened.
    record, outcome = account.of(session, [], codes, session.command.path(plan.output))
    return Compiled(outcome, messages, record, None, (), None)
