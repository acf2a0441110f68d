"""Which planner a command is for. Each is imported when it is needed: the launcher starts a process for one command."""

from __future__ import annotations

from collections.abc import Callable

from hipcache.planners import Planner
from hipcache.planning import tools
from hipcache.planning.command import Command


def _assembler() -> Planner:
    from hipcache.planners.assembler import plan

    return plan


def _iree() -> Planner:
    from hipcache.planners.iree import plan

    return plan


def _link() -> Planner:
    from hipcache.planners.link import plan

    return plan


def _object() -> Planner:
    from hipcache.planners.object import plan

    return plan


KINDS: tuple[tuple[Callable[[Command], bool], Callable[[], Planner]], ...] = (
    (lambda command: tools.is_iree_compile(command.compiler), _iree),
    (lambda command: command.links, _link),
    (lambda command: command.assembles, _assembler),
    (lambda command: True, _object),
)


def of(command: Command) -> Planner:
    return next(planner() for claims, planner in KINDS if claims(command))
