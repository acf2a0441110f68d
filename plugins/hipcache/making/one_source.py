"""One source: the units of its plan, found or made."""

from __future__ import annotations

import os
from collections.abc import Callable

from hipcache.making import assembly, device, gate, host
from hipcache.making.device import Missing, Product
from hipcache.making.passes import PassFailed
from hipcache.planning import units
from hipcache.planning.cuid import make_cuid
from hipcache.planning.plan import Plan
from hipcache.planning.units import Units
from hipcache.session import Session
from hipcache.values import dataclass


@dataclass(frozen=True)
class Made:
    """One source compiled: the driver's plan for it, its units, and what each came to (the devices', then the host's
    where there is one)."""

    plan: Plan
    cut: Units
    products: list[Product]

    @property
    def messages(self) -> str:
        """What the driver and the passes said."""
        return self.plan.messages + "".join(product.text for product in self.products)

    @property
    def files(self) -> tuple[str, ...]:
        """All that the passes read."""
        return tuple(dict.fromkeys(file.path for product in self.products for file in product.dependencies))

    @property
    def names(self) -> list[str]:
        """Of the units: an offload arch, or "host"."""
        return [*(unit.arch for unit in self.cut.devices), *(["host"] if self.cut.host else [])]


def cuid_of(session: Session, source: str, output: str) -> str:
    """`output` as the command names it; empty where the compiler does."""
    output = output or os.path.splitext(os.path.basename(source))[0] + ".o"
    path, basedir, exists = session.command.path, session.engine.basedir, session.files.is_there
    return make_cuid(path(source), path(output), session.command.macros, basedir=basedir, exists=exists)


def make(session: Session, plan: Plan) -> Made:
    """The units of `plan`, found or made."""
    # 2. Cut the plan into units, and key each with everything that can change its output.
    cut = units.cut(plan, session.identities, session.files, session.engine.environ)
    # 3. Look up each unit; 4. run what is missing, side by side (last a host's pass that takes what the others made).
    return Made(plan, *_products(session, plan, cut))


def find(session: Session, plan: Plan) -> Made | str:
    """The units of `plan` as the store has them, nothing made; in words why one of them is not there."""
    cut = units.cut(plan, session.identities, session.files, session.engine.environ)
    found = _look_up(session, cut.without_host if cut.host_is_last else cut)
    products = [one for one in found if isinstance(one, Product)]
    if cut.host_is_last and len(products) == len(found):
        cut = cut.with_codes([product.digest for product in products])
        assert cut.host
        found.append(host.find(session, cut.host))
    missing = next((one for one in found if isinstance(one, Missing)), None)
    return missing.why if missing else Made(plan, cut, [one for one in found if isinstance(one, Product)])


def _products(session: Session, plan: Plan, cut: Units) -> tuple[Units, list[Product]]:
    """The units, now each with its key, and one product for each device unit in the plan's order, the host's last."""
    if not cut.host_is_last:
        return cut, _make_missing(session, plan, cut, _look_up(session, cut))
    devices, bundle = cut.without_host, cut.object
    products = _make_missing(session, plan, devices, _look_up(session, devices))
    cut = cut.with_codes([product.digest for product in products])
    unit = cut.host
    assert unit and bundle
    found = host.find(session, unit)
    if isinstance(found, Missing):
        missing, fat_binary = found, assembly.fat_binary(session, bundle, products)
        number = len(products)
        tasks = {number: lambda: host.make(session, unit, missing, fat_binary)}
        return cut, _side_by_side(session, tasks, dict(enumerate(products)))
    return cut, [*products, found]


def _look_up(session: Session, cut: Units) -> list[Product | Missing]:
    """One for each device unit in the plan's order, the host's last (where there is one)."""
    found = [device.find(session, unit) for unit in cut.devices]
    return [*found, host.find(session, cut.host)] if cut.host else found


def _make_missing(session: Session, plan: Plan, cut: Units, found: list[Product | Missing]) -> list[Product]:
    tasks: dict[int, Callable[[], Product]] = {}
    for number, product in enumerate(found):
        if isinstance(product, Missing):
            tasks[number] = _task(session, cut, number, product)
    # In threads also where it is only one: signals reach the main thread, which must not hold one of make's tokens.
    # What is ended removes its files and gives its slots (make's tokens) back; only who waits for another process, and
    # has neither, may take longer than our patience.
    there = {number: one for number, one in enumerate(found) if isinstance(one, Product)}
    return _side_by_side(session, tasks, there, gate.of(session, plan, cut, found))


def _side_by_side(
    session: Session, tasks: dict[int, Callable[[], Product]], products: dict[int, Product], first: int | None = None
) -> list[Product]:
    """`products`: those of the units that are there, to which the tasks add the others."""
    count = len(products) + len(tasks)
    try:
        session.side_by_side(tasks, products, kind=PassFailed, gate=first)
    except PassFailed as failed:
        number = next(number for number in range(count) if number not in products)
        failed.before = [(products[before].text, products[before].dependencies) for before in range(number)]
        raise
    return [products[number] for number in range(count)]


def _task(session: Session, cut: Units, number: int, missing: Missing) -> Callable[[], Product]:
    front = cut.host
    if front and number == len(cut.devices):
        return lambda: host.make(session, front, missing)
    return lambda: device.make(session, cut.devices[number], missing)
