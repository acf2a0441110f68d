"""From a HIP source to the outputs of its compile: an object, or another end of the driver's plan.

    the code of each arch (`device_code`)    -> bundle --\\
    host pass, with a placeholder for the fat binary -----+-> splice -> object

If the host output is bitcode or assembly, the host pass runs last and takes the fat binary itself. If each pass has its
own output, these are delivered unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from hipcache import delivery
from hipcache.execution.session import Session
from hipcache.making import splice
from hipcache.model import (
    EACH_TIME,
    OUTPUT,
    Action,
    Cache,
    Delivery,
    Diagnostics,
    End,
    Graph,
    Held,
    Inputs,
    Literal,
    Output,
    Pass,
    Policy,
    Process,
    Ran,
    Ref,
    Rule,
    Slot,
    Source,
    Step,
    Unit,
    Word,
)
from hipcache.planners.device_code import DeviceCode, marked, words
from hipcache.planning import auxiliary, units
from hipcache.planning.cc1 import Role
from hipcache.planning.frontend import FrontEnd
from hipcache.planning.plan import Plan
from hipcache.planning.units import ObjectUnit, Units
from hipcache.report.outcome import HOST
from hipcache.values import dataclass

_HOST, _BUNDLE, _OBJECT = "host pass", "bundle", "object"
_PLACEHOLDER = Literal("", lambda: splice.PLACEHOLDER)


@dataclass(frozen=True)
class SourceGraph:
    """The actions of one source. `of`: the suffix of their names; `several`: are there other sources?"""

    session: Session
    plan: Plan
    cut: Units
    of: str
    several: bool
    turn: int = 0

    @property
    def devices(self) -> list[DeviceCode]:
        names = [(f"{unit.arch}{self.of}", f"{self._stem}{_file(unit.arch)}") for unit in self.cut.devices]
        return [
            DeviceCode(unit, *name, self._turn(unit.obj), self._turn(unit.code))
            for unit, name in zip(self.cut.devices, names, strict=True)
        ]

    @property
    def _stem(self) -> str:
        return f"{self.of.strip()}/".replace(" ", "-") if self.of else ""

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The passes in the plan's order."""
        return (*(device.passes for device in self.devices), *([(_HOST + self.of,)] if self.cut.host else []))

    @property
    def texts(self) -> dict[str, Slot]:
        """The passes and links whose text the user reads, by what they write, in the order of the driver's jobs."""
        written = {one.unit.code: one.lto for one in self.devices if one.lto}
        written |= {one.unit.obj: one.passes for one in self.devices}
        written |= {self.plan.host.value(Role.OUTPUT): self.slots[-1]} if self.plan.host else {}
        return dict(sorted(written.items(), key=lambda item: self._turn(item[0])))

    @property
    def outputs(self) -> list[Output]:
        """The outputs to deliver for the plan's outputs."""
        host = [Output(_HOST + self.of, OUTPUT)] if self.cut.host else []
        if self.cut.host_is_last:
            return host
        if self.cut.object:
            return [Output(_OBJECT + self.of, OUTPUT)]
        return [*(device.code for device in self.devices), *host]

    def actions(self) -> Iterator[Action]:
        for device in self.devices:
            yield from device.first()
        unit, codes = self.cut.object, {f"{one.stem}.code": one.code for one in self.devices}
        if unit and (unit.host or not self.cut.host):
            read = {**codes, **({f"{self._stem}host.part": Output(_HOST + self.of, OUTPUT)} if unit.host else {})}
            yield self._bundle(_OBJECT, unit, read, Policy(diagnostics=Diagnostics.REFUSED, slot=False))
        elif unit:
            yield self._bundle(_BUNDLE, unit, codes, EACH_TIME)
            if not self.cut.host_is_last:
                yield self._splice(unit, codes)
        if self.cut.host:
            yield self._host(self.cut.host, codes)

    def following(self, end: End) -> list[Action]:
        return [action for device in self.devices for action in device.following(end)]

    def _host(self, front: FrontEnd, codes: Mapping[str, Output]) -> Action:
        gpubinary = f"{self._stem}embedded.hipfb"
        parts: list[tuple[str, Word]] = list(front.key.inputs)
        inputs: dict[str, Source] = {gpubinary: _PLACEHOLDER}
        if self.cut.host_is_last:
            assert self.cut.object
            named = zip(self.cut.devices, codes, strict=True)
            parts += [(f"device code of {unit.arch}", (Ref(name),)) for unit, name in named]
            parts.append(("way of bundling", self.cut.object.way.digest))
            inputs = {**codes, gpubinary: Output(_BUNDLE + self.of, OUTPUT)}
        return Action(
            id=_HOST + self.of,
            kind=front.key.kind,
            label=HOST,
            work=Pass(front, f"{self._stem}host", gpubinary=gpubinary, shared=True),
            parts=tuple(parts),
            fixed=None if self.cut.host_is_last else front.key,
            inputs=tuple(inputs.items()),
            outputs=(OUTPUT, *(f"file {number}" for number in range(len(front.auxiliary)))),
            policy=Policy(Cache.MANIFEST),
            missing="the store no longer has its object",
            turn=self._last,
        )

    def _bundle(self, kind: str, unit: ObjectUnit, read: Mapping[str, Output], policy: Policy) -> Action:
        places = [Path(marked(name)) for name in read]
        host = places.pop() if unit.host else None
        command = words(unit.bundle_argv(places, host, Path(marked(OUTPUT))))
        return Action(
            id=kind + self.of,
            kind="object",
            label="bundler",
            work=Process(command, places=((OUTPUT, f"{self._stem}{kind}.hipfb"),)),
            parts=(*unit.way.inputs, *((f"input {number}", (Ref(name),)) for number, name in enumerate(read))),
            inputs=tuple(read.items()),
            outputs=(OUTPUT,),
            policy=policy,
            on_demand=kind == _BUNDLE,
            turn=self._last,
        )

    def _splice(self, unit: ObjectUnit, codes: Mapping[str, Output]) -> Action:
        """The object. It needs the bundle only if it is not stored and the source has kernels."""
        template, bundle = f"{self._stem}host.part", f"{self._stem}bundle"

        def work(inputs: Inputs) -> Ran:
            content = inputs.of(template).read()
            if splice.has_fat_binary(content):
                content = splice.splice(content, inputs.of(bundle).read())
            return Ran({OUTPUT: Held(content=content)}, "", 0.0)

        inputs = {**codes, template: Output(_HOST + self.of, OUTPUT)}
        return Action(
            id=_OBJECT + self.of,
            kind="object",
            label="object",
            work=Step(work),
            parts=(*unit.way.inputs, *((f"input {number}", (Ref(name),)) for number, name in enumerate(inputs))),
            inputs=(*inputs.items(), (bundle, Output(_BUNDLE + self.of, OUTPUT))),
            outputs=(OUTPUT,),
            turn=self._last,
        )

    def _turn(self, output: str) -> int:
        """That of the job which writes it. (A program's objects lie elsewhere than the driver's; they are the last.)"""
        order = self.plan.order
        return self.turn + (order.index(output) if output in order else len(order))

    @property
    def _last(self) -> int:
        return self._turn(self.plan.host.value(Role.OUTPUT) if self.plan.host else "")

    def units(self) -> Iterator[Unit]:
        of_source = f" of '{self.plan.first.source}'" if self.several else ""
        for device in self.devices:
            yield device.counted(device.unit.arch + of_source)
        if self.cut.host:
            yield Unit(_HOST + self.of, HOST + of_source, (HOST,), passes=(_HOST + self.of,))

    def beside(self) -> Iterator[Delivery]:
        """The files that passes write beside their outputs."""
        jobs = [*(one.compile for one in self.plan.devices), *([self.plan.host] if self.plan.host else [])]
        for slot, job in zip(self.slots, jobs, strict=True):
            for number, option in enumerate(auxiliary.of(job)):
                path = self.session.command.path(option.value)
                replaced = option.name == "-serialize-diagnostic-file"  # the driver removes an old one
                yield Delivery(path, Output(slot[0], f"file {number}"), through_links=not replaced)


def _file(arch: str) -> str:
    """A file's name for the target ID."""
    return arch.replace(":", "_")


def source_graph(session: Session, plan: Plan, of: str = "", *, several: bool = False, turn: int = 0) -> SourceGraph:
    cut = units.cut(plan, session.identities, session.files, session.engine.environ)
    return SourceGraph(session, plan, cut, of, several, turn)


def graph(source: SourceGraph) -> Graph:
    """The graph of a single source."""
    session, plan = source.session, source.plan
    paths = [session.command.path(name) for name in plan.outputs]
    named = zip(paths, source.outputs, strict=True)
    delivered = [Delivery(path, output, plan.links_alone, plan.in_place) for path, output in named]
    return Graph(
        tuple(source.actions()),
        (*source.beside(), *delivered),
        tuple(source.units()),
        paths[0],
        plan.messages,
        source.following,
        tuple(source.texts.values()),
        dependency_rules(session, [source]),
    )


def dependency_rules(session: Session, sources: list[SourceGraph]) -> tuple[Rule, ...]:
    """The dependency file, if requested: the union over all passes, the host's first. Clang's own file lists only the
    headers of the last source's host pass."""
    slots = [
        slot for one in reversed(sources) for slot in ((one.slots[-1], *one.slots[:-1]) if one.plan.host else one.slots)
    ]
    return delivery.rules_of(sources[-1].plan, tuple(slots), session.command.path)
