"""From a HIP source to the outputs of its compile: an object, or another end of the driver's plan.

    the code of each arch (`DeviceCode`)     -> bundle --\\
    host pass, with a placeholder for the fat binary -----+-> splice -> object

If the host output is bitcode or assembly, the host pass runs last and takes the fat binary itself. If each pass has its
own output, these are delivered unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hipcache.base.errors import PassThrough
from hipcache.base.keys import make_key
from hipcache.base.paths import is_stream
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass, replace
from hipcache.build import (
    EACH_TIME,
    Action,
    ActionId,
    ActionOutput,
    Cache,
    Delivery,
    DependencyRule,
    Diagnostics,
    End,
    Graph,
    Held,
    Inputs,
    Literal,
    Lost,
    Policy,
    Process,
    Ran,
    Ref,
    Slot,
    Source,
    Step,
    Unit,
    Word,
    depfile,
)
from hipcache.clang import plan, units
from hipcache.clang.cc1 import Role
from hipcache.clang.cuid import clangs_hash
from hipcache.clang.frontend import BITCODE, NEUTRAL, OUTPUT, FrontEnd, Pass
from hipcache.clang.plan import Plan, SpirvPass
from hipcache.clang.units import DeviceUnit, ObjectUnit, Units
from hipcache.execution.session import Session
from hipcache.report.outcome import HOST

# The code of one offload arch, from the source: its passes, its back end and its link, as actions.
#
#     front end -> back end -> device link    (each of any CUID, and the change to this one's, if it has one)
#     one step  -> device link                where bitcode between would show
#
# By device LTO (the new offload driver) the back end ends in optimized bitcode, and the link makes the code.
#
# A back end that reads bitcode prints its messages (`-Wpass-failed`, remarks) without source lines. So if it prints
# messages that the user reads, a pass in one step runs instead, which prints them and makes the object. If that pass
# printed messages last time, it runs at once, without a front end. It also runs if the compiler would upgrade the
# bitcode as it reads it (`execution/auto_upgrade`), which a compile in one step never does.

# The actions:
FRONT_END, BACK_END, ONE_STEP, LOOK_UP = "front end", "back end", "one step", "look-up of one step"
CHANGED_CUID, LINK_OF_ANY_CUID, DEVICE_LINK = "CUID", "link", "device link"

CODE, OBJECT = "code", "object"
_LOST = "the store has no code object for it"
_PASS = Policy(Cache.MANIFEST)
# The messages of a back end that `-w` would silence. (By one of -Wbackend-plugin, a reader drops debug information that
# it finds invalid.)
_ONLY_WARNINGS = pattern(r"(warning: .*\[-W(?!backend-plugin)[^]]*\]\n|[0-9]+ warnings? generated\.\n)+")
# Marks the names of inputs and outputs in the words of a command.
_MARK = "\0"


@dataclass(frozen=True)
class DeviceCode:
    """`name`: of the unit among all of the graph; `stem`: how its files in the scratch begin; `turn`: see `Action`;
    `link_turn`: the same of its link."""

    unit: DeviceUnit
    name: str
    stem: str
    turn: int
    link_turn: int

    @property
    def code(self) -> ActionOutput:
        """The code object."""
        if self.unit.link:
            return ActionOutput(self._id(DEVICE_LINK), CODE)
        return ActionOutput(self._id(ONE_STEP), OUTPUT)

    def _id(self, kind: str) -> ActionId:
        return ActionId(kind, self.name)

    @property
    def lto(self) -> Slot:
        """The link, if it makes the code: what it says is the user's to read. (Another one has nothing to say.)"""
        return (self.code.action,) if self.unit.by_lto else ()

    @property
    def passes(self) -> Slot:
        """Its passes; the first that ended represents the others."""
        return tuple(map(self._id, (ONE_STEP, LOOK_UP, FRONT_END)))

    def counted(self, told: str) -> Unit:
        makers = (self._id(CHANGED_CUID), self._id(BACK_END), *self.passes[:2])
        makers = self.lto or makers
        inputs = (*self.unit.front.key.inputs, *self.unit.inputs)
        backend = self.unit.link is not None
        return Unit(self.code.action, told, (self.unit.arch,), backend, self.passes, makers, inputs)

    @property
    def _is_in_steps(self) -> bool:
        return not self.unit.in_one_step

    def first(self) -> list[Action]:
        if self._is_in_steps:
            return [self._one_step(LOOK_UP, run=False)]
        return self._in_one_step()

    def _in_one_step(self) -> list[Action]:
        return [self._one_step(ONE_STEP), *self._link(ONE_STEP, OUTPUT)]

    def following(self, end: End) -> list[Action]:
        """The actions that follow when one of its actions has ended. The back end follows the front end. One for any
        CUID is on demand: it runs once `_with_cuid` finds no object of it, and raises Lost."""
        kind, name = end.bound.action.id
        if name != self.name or not self._is_in_steps:
            return []
        if kind == LOOK_UP:
            if end.missing and not end.missing.talked:
                return [self._front_end()]
            if not end.missing:
                return self._link(LOOK_UP, OUTPUT)
        elif kind == FRONT_END:
            if end.result.passing[BITCODE]:  # else the pass in one step is to run
                return list(self._back_end(end.result.passing[NEUTRAL]))
        elif kind == CHANGED_CUID or (kind == BACK_END and not end.bound.action.on_demand):
            if not self._is_heard(end.result.text):
                neutral = kind == CHANGED_CUID and self.unit.links_any_cuid
                return self._link(kind, OBJECT, self._neutral if neutral else None)
        else:
            return []
        return self._in_one_step()

    def _is_heard(self, text: str) -> bool:
        """Does the user read this back end's messages?"""
        return bool(text) and not (self.unit.silent and _ONLY_WARNINGS.fullmatch(text))

    def _front_end(self) -> Action:
        front = self.unit.front
        return Action(
            id=self._id(FRONT_END),
            kind=front.key.kind,
            label=str(self._id(FRONT_END)),
            work=Pass(front, f"{self.stem}-front", bitcode=True, shared=True),
            fixed=front.key,
            outputs=(BITCODE, NEUTRAL),
            passing=(BITCODE, NEUTRAL),
            policy=_PASS,
            missing=_LOST,
            turn=self.turn,
        )

    def _one_step(self, kind: str, *, run: bool = True) -> Action:
        """The plan's own pass."""
        front = self.unit.front
        own = not self._is_in_steps
        return Action(
            id=self._id(kind),
            kind=front.key.kind,
            label=str(self._id(ONE_STEP)),
            work=Pass(front, f"{self.stem}-whole"),
            fixed=front.key if own else make_key("one step", [("pass", front.key.digest)]),
            outputs=(OUTPUT, *(f"file {number}" for number in range(len(front.auxiliary)))),
            passing=(OUTPUT,) if self.unit.link else (),
            policy=Policy(Cache.MANIFEST, run=run),
            missing=_LOST,
            turn=self.turn,
        )

    def _back_end(self, neutral: str) -> Iterator[Action]:
        """From bitcode to the object. Compressed debug information may contain the CUID invisibly. (By LTO the link
        takes the time, and reads the CUID.)"""
        read, same, made = f"{self.stem}-front.bc", f"{self.stem}-neutral.bc", f"{self.stem}-neutral.o"
        source = (read, ActionOutput(self._id(FRONT_END), BITCODE))
        if not neutral or self.unit.by_lto or self.unit.front.hides_paths(bitcode=True):
            yield self._compile(read, (Ref(read),), (source,), passing=(OBJECT,))
            return
        yield self._compile(read, (Ref(same),), (source, (same, self._neutral)))
        back = self._id(BACK_END)
        yield Action(
            id=self._id(CHANGED_CUID),
            kind="object with CUID",
            label=str(self._id(CHANGED_CUID)),
            work=Step(lambda inputs: _with_cuid(inputs, made, OBJECT, self._mark, back)),
            parts=(*self.unit.back, ("bitcode", (Ref(read),))),
            inputs=(source, (made, ActionOutput(back, OBJECT))),
            outputs=(OBJECT,),
            passing=(OBJECT,),
            missing=_LOST,
            turn=self.turn,
        )

    def _compile(
        self,
        read: str,
        bitcode: Word,
        inputs: tuple[tuple[str, ActionOutput], ...],
        passing: tuple[str, ...] = (),
    ) -> Action:
        """The back end. Its object is stored if it serves every CUID."""
        argv = self.unit.back_argv(Path(marked(read)), Path(marked(OBJECT)))
        return Action(
            id=self._id(BACK_END),
            kind="backend",
            label=str(self._id(BACK_END)),
            work=Process(words(argv), places=((OBJECT, f"{self.stem}-front.o"),)),
            parts=(*self.unit.back, ("bitcode", bitcode)),
            inputs=inputs,
            outputs=(OBJECT,),
            # A worker may answer a GPU's code alone, and with LTO this ends in bitcode.
            policy=Policy(remote=not self.unit.by_lto, assembles=True),
            missing=_LOST,
            turn=self.turn,
            passing=passing,
            on_demand=not passing,
        )

    def _link(self, maker: str, output: str, neutral: ActionOutput | None = None) -> list[Action]:
        """From the object of `maker` to the code object. `neutral`: of its bitcode, if the link serves every CUID."""
        if not self.unit.link:
            return []
        read, same, made = f"{self.stem}-link.o", f"{self.stem}-neutral.bc", f"{self.stem}-neutral.out"
        argv = self.unit.link_argv(Path(marked(read)), Path(marked(CODE)))
        whole = Action(
            id=self.code.action,
            kind="code object",
            label=str(self.code.action),
            work=Process(words(argv), places=((CODE, f"{self.stem}.out"),)),
            parts=(*self.unit.linking, ("object", (Ref(read),))),
            inputs=((read, ActionOutput(self._id(maker), output)),),
            outputs=(CODE,),
            # Without LTO a link takes no longer than sending it to another machine.
            policy=Policy(
                diagnostics=Diagnostics.KEPT if self.lto else Diagnostics.REFUSED,
                remote=self.unit.by_lto,
                assembles=True,
            ),
            missing=_LOST,
            turn=self.link_turn,
        )
        if not neutral:
            return [whole]
        link = replace(
            whole,
            id=self._id(LINK_OF_ANY_CUID),
            parts=(*self.unit.back, *self.unit.linking, ("bitcode", (Ref(same),))),
            inputs=(*whole.inputs, (same, neutral)),
            on_demand=True,
        )
        work = Step(lambda inputs: _with_cuid(inputs, made, CODE, self._mark, link.id))
        inputs = (*whole.inputs, (made, ActionOutput(link.id, CODE)))
        return [link, replace(whole, work=work, inputs=inputs, policy=Policy())]

    @property
    def _neutral(self) -> ActionOutput:
        """Its bitcode, named without the CUID."""
        return ActionOutput(self._id(FRONT_END), NEUTRAL)

    @property
    def _mark(self) -> bytes:
        """The hash of its CUID."""
        return clangs_hash(self.unit.front.job.value(Role.CUID)).encode()


def _with_cuid(inputs: Inputs, name: str, output: str, mark: bytes, maker: ActionId) -> Ran:
    """An object or code object that was made with another CUID, with this one in its place. Raises Lost if `maker` has
    to make it for this one."""
    held = inputs.of(name)
    made: bytes | None = held.read()
    if held.path is None and made is not None:  # not of this build
        from hipcache.clang import bitcode, code_object, host_object

        other = bitcode.names_in_object(made)
        if other != mark:
            rename = host_object.renamed if output == OBJECT else code_object.renamed
            made = rename(made, other, mark)
    if made is None:
        raise Lost({maker})
    return Ran({output: Held(content=made)}, inputs.said(name), inputs.seconds(name))


def marked(name: str) -> str:
    """A placeholder for an input or output in a command, which `words` replaces."""
    return f"{_MARK}{name}{_MARK}"


def words(argv: Iterable[str]) -> tuple[Word, ...]:
    return tuple(map(_word, argv))


def _word(text: str) -> Word:
    parts = text.split(_MARK)
    if len(parts) == 1:
        return text
    return tuple(Ref(part) if number % 2 else part for number, part in enumerate(parts) if part)


def _job_of_spirv(number: int, unit: str) -> ActionId:
    return ActionId(f"job {number}", unit)


def _spirv(made: SpirvPass, stem: str, unit: str, turn: int) -> Iterator[Action]:
    """Its jobs, each time: a bitcode that holds its own command is no other command's."""
    for number, (job, (read, _)) in enumerate(zip(made.jobs, made.files, strict=True)):
        # clang tells bitcode by the suffix.
        source, target = f"{stem}spirv-{number}.bc", f"{stem}spirv-{number + 1}.bc"
        inputs = ((source, ActionOutput(_job_of_spirv(number - 1, unit), CODE)),) if number else ()
        # An input and the output may have the same name in the plan.
        at = job.arguments.index("-o") + 1
        argv = [marked(source) if number and word == read else word for word in job.arguments]
        argv[at] = marked(CODE)
        yield Action(
            id=_job_of_spirv(number, unit),
            kind="SPIR-V",
            label=f"'{os.path.basename(job.program)}' for {made.arch}",
            work=Process((job.program, *words(argv)), places=((CODE, target),)),
            inputs=inputs,
            outputs=(CODE,),
            policy=Policy(Cache.NEVER, Diagnostics.REFUSED if number else Diagnostics.KEPT),
            turn=turn,
        )


_HOST, _BUNDLE, _OBJECT = "host pass", "bundle", "object"


def _placeholder() -> bytes:
    from hipcache.clang import host_object

    return host_object.PLACEHOLDER


_PLACEHOLDER = Literal("", _placeholder)


@dataclass(frozen=True)
class SourceGraph:
    """The actions of one source. `name`: of this one among several in the graph; `several`: are there other
    sources?"""

    session: Session
    plan: Plan
    cut: Units
    name: str
    several: bool
    turn: int = 0

    @property
    def devices(self) -> list[DeviceCode]:
        names = [(self._unit(unit.arch), f"{self._stem}{_file(unit.arch)}") for unit in self.cut.devices]
        return [
            DeviceCode(unit, *name, self._turn(unit.obj), self._turn(unit.code))
            for unit, name in zip(self.cut.devices, names, strict=True)
        ]

    def _unit(self, arch: str) -> str:
        """The name of a unit among all of the graph."""
        return f"{arch} of {self.name}" if self.name else arch

    def _id(self, kind: str) -> ActionId:
        return ActionId(kind, self.name)

    @property
    def _stem(self) -> str:
        return f"{self.name}/".replace(" ", "-") if self.name else ""

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The passes in the plan's order."""
        return (*(device.passes for device in self.devices), *([(self._id(_HOST),)] if self.cut.host else []))

    @property
    def texts(self) -> dict[str, Slot]:
        """The passes and links whose text the user reads, by what they write, in the order of the driver's jobs."""
        written = {device.unit.code: device.lto for device in self.devices if device.lto}
        written |= {device.unit.obj: device.passes for device in self.devices}
        if spirv := self.plan.spirv:
            written[spirv.files[0][1]] = (_job_of_spirv(0, self._unit(spirv.arch)),)
        written |= {self.plan.host.value(Role.OUTPUT): self.slots[-1]} if self.plan.host else {}
        return dict(sorted(written.items(), key=lambda item: self._turn(item[0])))

    @property
    def outputs(self) -> list[ActionOutput]:
        """The outputs to deliver for the plan's outputs."""
        host = [ActionOutput(self._id(_HOST), OUTPUT)] if self.cut.host else []
        if self.cut.host_is_last:
            return host
        if self.cut.object:
            return [ActionOutput(self._id(_OBJECT), OUTPUT)]
        return [*(device.code for device in self.devices if device.unit.code in self.plan.outputs), *host]

    def actions(self) -> Iterator[Action]:
        for device in self.devices:
            yield from device.first()
        unit, codes = self.cut.object, {f"{device.stem}.code": device.code for device in self.devices}
        if spirv := self.plan.spirv:
            yield from _spirv(spirv, self._stem, self._unit(spirv.arch), self._turn(spirv.files[0][1]))
            codes[f"{self._stem}{spirv.arch}.code"] = ActionOutput(self._last_of_spirv(spirv), CODE)
        if unit and (unit.host or not self.cut.host):
            read = {**codes, **({f"{self._stem}host.part": ActionOutput(self._id(_HOST), OUTPUT)} if unit.host else {})}
            yield self._bundle(_OBJECT, unit, read, Policy(diagnostics=Diagnostics.REFUSED, slot=False))
        elif unit:
            yield self._bundle(_BUNDLE, unit, codes, EACH_TIME)
            if not self.cut.host_is_last:
                yield self._splice(unit, codes)
        if self.cut.host:
            yield self._host(self.cut.host, codes)

    def _last_of_spirv(self, made: SpirvPass) -> ActionId:
        return _job_of_spirv(len(made.jobs) - 1, self._unit(made.arch))

    def following(self, end: End) -> list[Action]:
        return [action for device in self.devices for action in device.following(end)]

    def _host(self, front: FrontEnd, codes: Mapping[str, ActionOutput]) -> Action:
        gpubinary = f"{self._stem}embedded.hipfb"
        parts: list[tuple[str, Word]] = list(front.key.inputs)
        inputs: dict[str, Source] = {gpubinary: _PLACEHOLDER}
        if self.cut.host_is_last:
            assert self.cut.object
            named = zip(self.cut.devices, codes, strict=True)
            parts += [(f"device code of {unit.arch}", (Ref(name),)) for unit, name in named]
            parts.append(("way of bundling", self.cut.object.way.digest))
            inputs = {**codes, gpubinary: ActionOutput(self._id(_BUNDLE), OUTPUT)}
        return Action(
            id=self._id(_HOST),
            kind=front.key.kind,
            label=HOST,
            work=Pass(front, f"{self._stem}host", gpubinary=gpubinary, shared=True),
            parts=tuple(parts),
            fixed=None if self.cut.host_is_last else front.key,
            inputs=tuple(inputs.items()),
            outputs=(OUTPUT, *(f"file {number}" for number in range(len(front.auxiliary)))),
            policy=Policy(Cache.MANIFEST),
            missing="the store has no object for it",
            turn=self._last,
        )

    def _bundle(self, kind: str, unit: ObjectUnit, read: Mapping[str, ActionOutput], policy: Policy) -> Action:
        places = [Path(marked(name)) for name in read]
        host = places.pop() if unit.host else None
        command = words(unit.bundle_argv(places, host, Path(marked(OUTPUT))))
        return Action(
            id=self._id(kind),
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

    def _splice(self, unit: ObjectUnit, codes: Mapping[str, ActionOutput]) -> Action:
        """The object. It needs the bundle only if it is not stored and the source has kernels."""
        template, bundle = f"{self._stem}host.part", f"{self._stem}bundle"

        def work(inputs: Inputs) -> Ran:
            from hipcache.clang import host_object

            content = inputs.of(template).read()
            if host_object.has_fat_binary(content):
                content = host_object.splice(content, inputs.of(bundle).read())
            return Ran({OUTPUT: Held(content=content)}, "", 0.0)

        inputs = {**codes, template: ActionOutput(self._id(_HOST), OUTPUT)}
        return Action(
            id=self._id(_OBJECT),
            kind="object",
            label="object",
            work=Step(work),
            parts=(*unit.way.inputs, *((f"input {number}", (Ref(name),)) for number, name in enumerate(inputs))),
            inputs=(*inputs.items(), (bundle, ActionOutput(self._id(_BUNDLE), OUTPUT))),
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
        if spirv := self.plan.spirv:
            yield Unit(self._last_of_spirv(spirv), spirv.arch + of_source, (spirv.arch,))
        if self.cut.host:
            yield Unit(self._id(_HOST), HOST + of_source, (HOST,), passes=(self._id(_HOST),))

    def beside(self) -> Iterator[Delivery]:
        """The files that passes write beside their outputs."""
        for slot, job in zip(self.slots, self.plan.passes, strict=True):
            for number, option in enumerate(plan.side_outputs(job)):
                path = self.session.command.path(option.value)
                replaced = option.name == "-serialize-diagnostic-file"  # the driver removes an old one
                yield Delivery(path, ActionOutput(slot[0], f"file {number}"), through_links=not replaced)


def _file(arch: str) -> str:
    """A file's name for the target ID."""
    return arch.replace(":", "_")


def source_graph(session: Session, plan: Plan, name: str = "", *, several: bool = False, turn: int = 0) -> SourceGraph:
    cut = units.cut(plan, session.identities, session.files, session.context.environ)
    return SourceGraph(session, plan, cut, name, several, turn)


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


def dependency_rules(session: Session, sources: list[SourceGraph]) -> tuple[DependencyRule, ...]:
    """The dependency file, if requested: the union over all passes, the host's first. Clang's own file lists only the
    headers of the last source's host pass. Raises PassThrough."""
    slots = [
        slot
        for source in reversed(sources)
        for slot in ((source.slots[-1], *source.slots[:-1]) if source.plan.host else source.slots)
    ]
    last = sources[-1].plan
    options = [option for option in last.first.options if option.role is Role.DEPENDENCIES]
    name = last.dependency_file
    if not name:
        return ()
    whole = session.command.path(name)
    if name == "-" or (is_stream(whole) and os.path.realpath(whole) != os.devnull):
        raise PassThrough("standard_streams", f"-MF {name}")  # a rule for each pass
    targets = [o.value if o.name == "-MT" else depfile.quote(o.value) for o in options if o.name in ("-MT", "-MQ")]
    everything = any(option.role is Role.DEPENDENCY_STYLE for option in last.first.options)
    phony = any(option.name == "-MP" for option in options)
    return (DependencyRule(whole, tuple(targets), tuple(slots), everything, phony, last.clang),)
