"""The story of one compile, from the command to its outcome: the numbered steps of ARCHITECTURE.md."""

from __future__ import annotations

import os

from hipcache.compiled import Compiled
from hipcache.direct.remember import whole_of
from hipcache.engine import Engine
from hipcache.errors import JobFailed, PassThrough
from hipcache.making import account, assembly, delivery, failing, one_source
from hipcache.making.passes import PassFailed
from hipcache.planning import driver, wrapper
from hipcache.planning.command import Command
from hipcache.planning.plan import Plan
from hipcache.session import Session, in_session


def compile(engine: Engine, command: Command, columns: int | None) -> Compiled:
    """Make the object of `command`, and its dependency file.

    `columns`: width of the terminal that will show the messages, None where there is none.

    Raises PassThrough or StoreError where the user's own command must be run instead, and JobFailed where
    it must be run because it fails; in each case nothing has been written. Raises CommandFailed where it has failed as
    the compiler would have, and left what that would have left.
    """
    if command.assembles:  # among other sources
        raise PassThrough("not_hip", command.source)
    command, engine = wrapper.through_script(engine, command)
    return in_session(engine, command, lambda session: _compile(session, columns))


def _compile(session: Session, columns: int | None) -> Compiled:
    # 1. Ask the driver for its plan, with a CUID that does not depend on the archs.
    command, runner = session.command, session.runner
    cuid = "" if command.own_cuid else one_source.cuid_of(session, command.source, command.output)
    try:
        asked = driver.ask(command, cuid, session.engine, runner, columns=columns, scratch=lambda: session.workdir)
    except JobFailed as failed:
        raise failing.refused(session, failed, cuid, columns) from failed
    plan = asked.plan
    _refuse_links(session, plan)
    # 2. Cut the plan into units, and key each; 3. look up each; 4. run what is missing, side by side.
    try:
        made = one_source.make(session, plan)
    except PassFailed as failed:
        raise failing.told(session, plan, failed) from failed
    # 5. Put the object together (or, where each pass has an output of its own, leave them as they are).
    objects = assembly.assemble(session, made.cut, made.products)
    # 6. Write the dependency file, what passes write besides, and the object, each whole or not at all.
    outputs = delivery.deliver(session, made, objects)
    # 7. Say what happened, and what all of it depended on: while none of that changes, the next one is a direct hit.
    record, outcome = account.of(session, [made], command.path(plan.outputs[0]))
    whole = whole_of(session, asked, made.cut, made.products, outputs)
    return Compiled(outcome, made.messages, record, whole, made.files, plan)


def _refuse_links(session: Session, plan: Plan) -> None:
    """cc1 and lld put a new file in the place of their output; the bundler writes into the file that is there, also
    through a link, and llvm-objcopy then replaces that."""
    if plan.bundle and not plan.embeds and os.path.islink(session.command.path(plan.outputs[0])):
        raise PassThrough("linked_output", plan.outputs[0])
