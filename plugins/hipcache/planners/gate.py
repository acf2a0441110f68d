"""Selects the pass that the others wait for: one that is likely to fail, so that no other runs for nothing."""

from __future__ import annotations

from collections.abc import Sequence

from hipcache.cache.manifest import NEVER
from hipcache.model import Bound, Pass
from hipcache.planners.source import SourceGraph
from hipcache.report.outcome import FAILED


def of(source: SourceGraph, missing: Sequence[Bound]) -> Bound | None:
    """The pass that must end before those behind it start, because it is likely to fail: the one that failed last time,
    or the first one after an edit. (On two cores this costs nothing if the number of passes is odd; otherwise one front
    end's time, once, and only after a correct edit.)"""
    passes = sorted((one for one in missing if isinstance(one.action.work, Pass)), key=lambda one: one.action.turn)
    if len(passes) < 2:
        return None
    session, plan = source.session, source.plan
    last = session.engine.last(session.command.path(plan.outputs[0]))
    if last and last.outcome == FAILED:
        for one in passes:
            if one.action.turn < len(plan.devices) and last.detail.startswith(f"{one.action.label} "):
                return one
    first = passes[0]
    is_edit = len(passes) == len(source.slots) and first.why != NEVER
    return first if is_edit and isinstance(first.action.work, Pass) and first.action.work.bitcode else None
