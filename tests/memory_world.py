"""A world in memory, and the actions that are run in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hipcache.base.values import dataclass, field
from hipcache.build.action import Action, ActionId, ActionOutput, Cache, Held, Inputs, Policy, Ran, Ref, Source, Step
from hipcache.build.graph import Delivery, Graph
from hipcache.build.loop import InProcess, World, build
from hipcache.cache.content import ContentCache, Shelf
from memory_storage import MemoryActions, MemoryContents, MemoryFlight

STORED, NEVER = Policy(), Policy(Cache.NEVER)
Call = Callable[[Mapping[str, bytes]], Mapping[str, bytes]]


@dataclass
class Memory:
    """A world in memory, and the actions that were run in it, in their order."""

    actions: MemoryActions = field(default_factory=MemoryActions)
    contents: MemoryContents = field(default_factory=MemoryContents)
    flight: MemoryFlight = field(default_factory=MemoryFlight)
    ran: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def world(self) -> World:
        def stop(turn: int) -> None:
            self.stopped.set()

        cache = ContentCache(Shelf(self.actions, self.contents, self.notes.append))
        return World(cache, self.contents, self.flight, {Step: InProcess()}, lambda turn: None, stop)

    def action(
        self, name: str, inputs: Mapping[str, Source] | None = None, call: Call | None = None, policy: Policy = STORED
    ) -> Action:
        """One whose output is its name with all its inputs in brackets, keyed by them."""

        given = inputs or {}

        def work(found: Inputs) -> Ran:
            contents = {one: found.of(one).read() for one in given}
            self.ran.append(name)
            made = call(contents) if call else {}
            return made_of({"out": name.encode() + b"(" + b",".join(contents.values()) + b")", **made})

        parts = [("action", name), *((f"input {one}", (Ref(one),)) for one in given)]
        return Action(
            id=ActionId(name),
            kind="test",
            label=name,
            work=Step(work),
            parts=tuple(parts),
            inputs=tuple(given.items()),
            outputs=("out",),
            policy=policy,
            missing="new",
        )

    def build(self, path: Path, *actions: Action) -> bytes:
        """What the last of the actions makes, delivered to `path`."""
        self.ran.clear()
        build(Graph(actions, (Delivery(str(path), ActionOutput(actions[-1].id, "out")),), (), ""), self.world)
        return path.read_bytes()


def made_of(contents: Mapping[str, bytes]) -> Ran:
    """The run of a step that made these outputs."""
    return Ran({name: Held(content=content) for name, content in contents.items()}, "", 0.0)


def of(name: str) -> ActionOutput:
    return ActionOutput(ActionId(name), "out")


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out"
