"""Which pass the others wait for: one that may well fail, so that no other runs in vain."""

from __future__ import annotations

from collections.abc import Sequence

from hipcache.making import passes
from hipcache.making.device import Missing, Product
from hipcache.outcome import FAILED
from hipcache.planning.plan import Plan
from hipcache.planning.units import Units
from hipcache.session import Session


def of(session: Session, plan: Plan, cut: Units, found: Sequence[Product | Missing]) -> int | None:
    """The number of the unit whose front end is to be through before those behind it begin, since it may well fail: the
    one that failed last time, or the first after an edit. (On two cores nothing is lost by that where the number of
    passes is odd; otherwise one front end's time, once, and only for an edit that is right.)"""
    missing = [number for number, one in enumerate(found) if isinstance(one, Missing)]
    if len(missing) < 2:
        return None
    last = session.last(session.command.path(plan.outputs[0]))
    if last and last.outcome == FAILED:
        for number, unit in enumerate(cut.devices):
            if number in missing and last.detail.startswith(f"{unit.arch}-"):
                return number
    first = found[0]
    is_edit = len(missing) == len(found) and isinstance(first, Missing) and first.why != passes.NEVER
    in_one_step = not cut.devices or cut.devices[0].in_one_step or (isinstance(first, Missing) and first.talked)
    return 0 if is_edit and not in_one_step else None
