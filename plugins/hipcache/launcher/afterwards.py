"""After a successful compile: print its messages, count it, store its direct record, and perhaps verify it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hipcache import config as settings
from hipcache.launcher.call import Call
from hipcache.launcher.ending import become_again
from hipcache.planning.command import Command
from hipcache.report import telling
from hipcache.report.outcome import HIT

if TYPE_CHECKING:
    from hipcache.direct.provenance import Indirect, Provenance
    from hipcache.engine import Engine
    from hipcache.loop.account import Compiled


def tell(call: Call, commands: Sequence[Command], done: Sequence[Compiled]) -> None:
    """Say what the passes said, and count. If nobody reads it, or the disk is full, the compiler knows how it ends
    then."""
    try:
        if said := b"".join(one.said for one in done):
            telling.say(said)
    except (OSError, ValueError):
        become_again(call.argv, [one.record.object for one in done])
    for command, one in zip(commands, done, strict=True):
        telling.record(call.config, one.outcome, command.typed, call.cwd, one.record)


def remember(
    engine: Engine, provenance: Provenance | Indirect | None, done: Sequence[Compiled], call: Call, *, terminal: bool
) -> None:
    """Everything is written and counted: store the direct record, or say why not."""
    try:
        why = _remember(engine, provenance, done, call, terminal=terminal)
        for one in done:
            telling.indirect(call.config, one.record, why)
    except Exception as error:  # the compile is done, so no error here may fail it
        telling.log_fault(call.config, error)


def _remember(
    engine: Engine, provenance: Provenance | Indirect | None, done: Sequence[Compiled], call: Call, *, terminal: bool
) -> str:
    """Gives in words why there is no record."""
    if provenance is None:
        return ""
    from hipcache.direct.provenance import Indirect
    from hipcache.direct.remember import remember
    from hipcache.report.history import History

    if isinstance(provenance, Indirect):
        return provenance.why

    return remember(
        engine,
        call.argv,
        call.cwd,
        call.environ,
        provenance,
        messages=b"".join(one.said for one in done),
        terminal=terminal,
        ended=[one.outcome for one in done],
        history=[History.name(one.record) for one in done],
        settings=settings.watched_paths(call.config, call.environ),
        system=call.config.system_paths,
    )


def verify(engine: Engine, commands: tuple[Command, ...], done: Sequence[Compiled], call: Call) -> int:
    """If all was a hit and it is this compile's turn, compare it with what the compiler makes."""
    if call.config.verify and all(one.outcome.outcome == HIT for one in done) and call.config.is_drawn():
        from hipcache.launcher import checking

        return checking.compare(engine, commands, call)
    return 0
