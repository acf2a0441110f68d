"""The code of one offload arch, from the source: its passes, its back end and its link, as actions.

    front end -> back end -> device link    (the back end of any CUID, and the change to this one's, if it has one)
    one step  -> device link                where bitcode between would show

By device LTO (the new offload driver) the back end ends in optimized bitcode, and the link makes the code.

A back end that reads bitcode prints its messages (`-Wpass-failed`, remarks) without source lines. So if it prints
messages that the user reads, a pass in one step runs instead, which prints them and makes the object. If that pass
printed messages last time, it runs at once, without a front end. It also runs if the compiler would upgrade the bitcode
as it reads it (`execution/auto_upgrade`), which a compile in one step never does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from hipcache.inputs.keys import make_key
from hipcache.model import (
    BITCODE,
    NEUTRAL,
    OUTPUT,
    Action,
    Cache,
    Diagnostics,
    End,
    Held,
    Inputs,
    Lost,
    Output,
    Pass,
    Policy,
    Process,
    Ran,
    Ref,
    Slot,
    Step,
    Unit,
    Word,
)
from hipcache.patterns import pattern
from hipcache.planning.cc1 import Role
from hipcache.planning.cuid import clangs_hash
from hipcache.planning.units import DeviceUnit
from hipcache.values import dataclass

CODE, OBJECT = "code", "object"
_LOST = "the store no longer has its code object"
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
    def code(self) -> Output:
        """The code object."""
        if self.unit.link:
            return Output(f"device link of {self.name}", CODE)
        return Output(f"one step of {self.name}", OUTPUT)

    @property
    def lto(self) -> Slot:
        """The link, if it makes the code: what it says is the user's to read. (Another one has nothing to say.)"""
        return (self.code.action,) if self.unit.by_lto else ()

    @property
    def passes(self) -> Slot:
        """Its passes; the first that ended represents the others."""
        return tuple(f"{kind} of {self.name}" for kind in ("one step", "look-up of one step", "front end"))

    def counted(self, told: str) -> Unit:
        makers = (f"object of {self.name}", f"back end of {self.name}", *self.passes[:2])
        makers = self.lto or makers
        inputs = (*self.unit.front.key.inputs, *self.unit.inputs)
        backend = self.unit.link is not None
        return Unit(self.code.action, told, (self.unit.arch,), backend, self.passes, makers, inputs)

    @property
    def _is_in_steps(self) -> bool:
        return not self.unit.in_one_step

    def first(self) -> list[Action]:
        if self._is_in_steps:
            return [self._one_step(f"look-up of one step of {self.name}", run=False)]
        return [self._one_step(f"one step of {self.name}"), *self._link(f"one step of {self.name}", OUTPUT)]

    def following(self, end: End) -> list[Action]:
        """The actions that follow when one of its actions has ended."""
        kind, _, name = end.bound.action.id.rpartition(f" of {self.name}")
        if name or not self._is_in_steps:
            return []
        whole = f"one step of {self.name}"
        if kind == "look-up of one step":
            if end.missing and not end.missing.talked:
                return [self._front_end()]
            if not end.missing:
                return self._link(end.bound.action.id, OUTPUT)
        elif kind == "front end":
            if end.result.passing[BITCODE]:
                return list(self._back_end(end.result.passing[NEUTRAL]))
        elif kind == "object":
            if not self._is_heard(end.result.text):
                return self._link(end.bound.action.id, OBJECT)
        else:
            return []
        return [self._one_step(whole), *self._link(whole, OUTPUT)]

    def _is_heard(self, text: str) -> bool:
        """Does the user read this back end's messages?"""
        return bool(text) and not (self.unit.silent and _ONLY_WARNINGS.fullmatch(text))

    def _front_end(self) -> Action:
        front = self.unit.front
        return Action(
            id=f"front end of {self.name}",
            kind=front.key.kind,
            label=f"front end of {self.name}",
            work=Pass(front, f"{self.stem}-front", bitcode=True, shared=True),
            fixed=front.key,
            outputs=(BITCODE, NEUTRAL),
            passing=(BITCODE, NEUTRAL),
            policy=_PASS,
            missing=_LOST,
            turn=self.turn,
        )

    def _one_step(self, id: str, *, run: bool = True) -> Action:
        """The plan's own pass."""
        front = self.unit.front
        own = not self._is_in_steps
        return Action(
            id=id,
            kind=front.key.kind,
            label=f"one step of {self.name}",
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
        front, back = f"front end of {self.name}", f"back end of {self.name}"
        read, same, made = f"{self.stem}-front.bc", f"{self.stem}-neutral.bc", f"{self.stem}-neutral.o"
        source = (read, Output(front, BITCODE))
        if not neutral or self.unit.by_lto or self.unit.front.hides_paths(bitcode=True):
            yield self._compile(f"object of {self.name}", read, (Ref(read),), (source,), passing=(OBJECT,))
            return
        yield self._compile(back, read, (Ref(same),), (source, (same, Output(front, NEUTRAL))))
        mark = clangs_hash(self.unit.front.job.value(Role.CUID)).encode()
        yield Action(
            id=f"object of {self.name}",
            kind="object with CUID",
            label=f"CUID of {self.name}",
            work=Step(lambda inputs: _with_cuid(inputs, made, mark, back)),
            parts=(*self.unit.back, ("bitcode", (Ref(read),))),
            inputs=(source, (made, Output(back, OBJECT))),
            outputs=(OBJECT,),
            passing=(OBJECT,),
            missing=_LOST,
            turn=self.turn,
        )

    def _compile(
        self,
        id: str,
        read: str,
        bitcode: Word,
        inputs: tuple[tuple[str, Output], ...],
        passing: tuple[str, ...] = (),
    ) -> Action:
        """The back end. Its object is stored if it serves every CUID."""
        argv = self.unit.back_argv(Path(marked(read)), Path(marked(OBJECT)))
        return Action(
            id=id,
            kind="backend",
            label=f"back end of {self.name}",
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

    def _link(self, maker: str, output: str) -> list[Action]:
        if not self.unit.link:
            return []
        read = f"{self.stem}-link.o"
        argv = self.unit.link_argv(Path(marked(read)), Path(marked(CODE)))
        return [
            Action(
                id=f"device link of {self.name}",
                kind="code object",
                label=f"device link of {self.name}",
                work=Process(words(argv), places=((CODE, f"{self.stem}.out"),)),
                parts=(*self.unit.linking, ("object", (Ref(read),))),
                inputs=((read, Output(maker, output)),),
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
        ]


def _with_cuid(inputs: Inputs, name: str, mark: bytes, maker: str) -> Ran:
    """The object of a back end with another CUID, with this CUID patched in."""
    from hipcache.making import bitcode

    held = inputs.of(name)
    made = held.read()
    if held.path is None:  # not of this build
        other = bitcode.names_in_object(made)
        if not other or (other != mark and mark in made):
            raise Lost({maker})
        made = made.replace(other, mark)
    return Ran({OBJECT: Held(content=made)}, inputs.said(name), inputs.seconds(name))


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
