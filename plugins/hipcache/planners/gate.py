"""Selects the pass that the others wait for: one that is likely to fail, so that no other runs for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from hipcache.cache.manifest import NEVER
from hipcache.model import Bound, Pass, pass_of
from hipcache.planners.source import SourceGraph
from hipcache.processes.slots import Slots
from hipcache.report.outcome import FAILED


def of(source: SourceGraph, missing: Sequence[Bound]) -> Bound | None:
    """The pass that must end before those behind it start, because it is likely to fail: the one that failed last time,
    or the first one after an edit. None if all of them can start at once: then a failure costs only idle cores, and
    after a correct edit nobody has waited. (With fewer slots the wait costs at most one front end's time.)"""
    passes = sorted((one for one in missing if isinstance(one.action.work, Pass)), key=lambda one: one.action.turn)
    session, plan = source.session, source.plan
    if len(passes) < 2 or _can_all_start(session.engine.slots, len(passes)):
        return None
    last = session.engine.last(session.command.path(plan.outputs[0]))
    if last and last.outcome == FAILED:
        for one in passes:
            if pass_of(one).front.is_device and last.detail.startswith(f"{one.action.label} "):
                return one
    first = passes[0]
    is_edit = len(passes) == len(source.slots) and first.why != NEVER
    return first if is_edit and isinstance(first.action.work, Pass) and first.action.work.bitcode else None


def _can_all_start(slots: Slots, count: int) -> bool:
    if count > slots.limit:
        return False
    with ExitStack() as held:
        for _ in range(count):
            slot = slots.attempt()
            if slot is None:
                return False
            held.enter_context(slot)
        return True
