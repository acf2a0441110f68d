"""The loop: what it looks up, runs, stores and delivers, and in which order. No process runs here."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from hipcache.base.errors import JobFailed, PassThrough
from hipcache.base.keys import digest_bytes
from hipcache.build.action import Action, ActionId, Literal, Source, Step
from hipcache.build.graph import Delivery, Graph
from hipcache.build.loop import InProcess, World, build
from hipcache.cache.content import ContentCache, Shelf
from memory_storage import MemoryActions, MemoryContents, MemoryFlight
from memory_world import NEVER, Memory, made_of, memory, of, path

__all__ = ["memory", "path"]


def test_what_is_missing_runs_and_what_is_stored_does_not(memory: Memory, path: Path) -> None:
    front, back = memory.action("front"), memory.action("back", {"code": of("front")})
    assert memory.build(path, front, back) == b"back(front())"
    assert memory.ran == ["front", "back"]
    assert memory.build(path, front, back) == b"back(front())"
    assert memory.ran == []


def test_actions_may_be_named_in_any_order(memory: Memory, path: Path) -> None:
    late = memory.action("late", {"code": of("early")})
    graph = Graph((late, memory.action("early")), (Delivery(str(path), of("late")),), (), "")
    assert {end.kind for end in build(graph, memory.world)} == {"late", "early"}


def test_an_output_that_is_the_same_as_before_stops_the_rebuild(memory: Memory, path: Path) -> None:
    """Early cut-off: keys hold the digests of what earlier actions made."""

    def source(text: bytes) -> dict[str, Source]:
        return {"source": Literal(digest_bytes(text), lambda: text)}

    def graph(text: bytes) -> list[Action]:
        front = memory.action("front", source(text), lambda _: {"out": b"bitcode"})
        return [front, memory.action("back", {"code": of("front")})]

    memory.build(path, *graph(b"one"))
    memory.build(path, *graph(b"two"))
    assert memory.ran == ["front"]


def test_an_input_that_no_part_names_is_a_hint(memory: Memory, path: Path) -> None:
    """As a preamble is: another one makes no other key."""

    def graph(hint: bytes) -> Action:
        action = memory.action("one", {"hint": Literal(digest_bytes(hint), lambda: hint)})
        return Action(**{**vars(action), "parts": (("action", "one"),)})

    memory.build(path, graph(b"hint"))
    memory.build(path, graph(b"other"))
    assert memory.ran == []


def test_a_key_is_free_when_its_readers_are_found(memory: Memory, path: Path) -> None:
    """While the loop waits for something else: two processes would wait for each other's keys."""

    def graph(text: bytes, *more: Action) -> list[Action]:
        source = Literal(digest_bytes(text), lambda: text)
        early = memory.action("early", {"source": source}, lambda _: {"out": b"object"})
        passing = Action(**{**vars(early), "passing": ("out",)})
        return [passing, *more, memory.action("late", {"code": of("early")})]

    def wait(_: Mapping[str, bytes]) -> Mapping[str, bytes]:
        for _ in range(500):
            held = [key for key, lock in memory.flight.locks.items() if lock.locked()]
            if "early" in memory.ran and len(held) == 1:  # that of this action
                return {}
            time.sleep(0.01)
        raise AssertionError("the key is not free")

    memory.build(path, *graph(b"one"))
    memory.build(path, *graph(b"two", memory.action("other", call=wait)))
    assert sorted(memory.ran) == ["early", "other"]


def test_no_action_waits_for_one_that_it_does_not_need(memory: Memory, path: Path) -> None:
    slow_may_end = threading.Event()

    def slow(_: Mapping[str, bytes]) -> Mapping[str, bytes]:
        assert slow_may_end.wait(60), "the other architecture waited for this one"
        return {}

    def release(_: Mapping[str, bytes]) -> Mapping[str, bytes]:
        slow_may_end.set()
        return {}

    made = memory.build(
        path,
        memory.action("front of a", call=slow),
        memory.action("front of b"),
        memory.action("back of b", {"code": of("front of b")}, release),
        memory.action("bundle", {"a": of("front of a"), "b": of("back of b")}),
    )
    assert made == b"bundle(front of a(),back of b(front of b()))"


def test_the_first_failure_ends_the_rest(memory: Memory, path: Path) -> None:
    def fail(_: Mapping[str, bytes]) -> Mapping[str, bytes]:
        raise JobFailed("one", 1)

    def wait(_: Mapping[str, bytes]) -> Mapping[str, bytes]:
        assert memory.stopped.wait(60)
        return {}

    with pytest.raises(JobFailed):
        memory.build(path, memory.action("waits", call=wait), memory.action("fails", call=fail))
    assert memory.stopped.is_set()
    assert not path.exists()


def test_all_that_is_ready_is_looked_up_in_one_question(memory: Memory, path: Path) -> None:
    asked: list[int] = []

    class Counting(MemoryActions):
        def get(self, keys: Iterator[str]) -> dict[str, bytes]:  # type: ignore[override]
            wanted = list(keys)
            asked.append(len(wanted))
            return super().get(wanted)

    fronts = [memory.action(f"front {number}") for number in range(22)]
    bundle = memory.action("bundle", {one.label: of(one.label) for one in fronts})
    memory.build(path, *fronts, bundle)
    memory.actions = Counting(memory.actions.records)
    memory.build(path, *fronts, bundle)
    assert asked == [22, 1]


def test_who_waited_for_another_process_looks_again(memory: Memory, path: Path) -> None:
    action = memory.action("one")
    stored = Memory()
    stored.build(path, stored.action("one"))

    class Meanwhile(MemoryFlight):
        @contextmanager
        def alone(self, key: str) -> Iterator[None]:
            memory.actions.records.update(stored.actions.records)
            memory.contents.contents.update(stored.contents.contents)
            yield

    memory.flight = Meanwhile()
    assert memory.build(path, action) == b"one()"
    assert memory.ran == []


def lose(memory: Memory, content: bytes, how: str) -> None:
    hash = digest_bytes(content)
    if how == "damaged":
        memory.contents.contents[hash] = b"!"
    else:
        del memory.contents.contents[hash]


@pytest.mark.parametrize("how", ["lost", "damaged"])
def test_an_output_that_cannot_be_delivered_makes_its_one_action_run_again(
    memory: Memory, path: Path, how: str
) -> None:
    actions = [memory.action("front"), memory.action("back", {"code": of("front")})]
    memory.build(path, *actions)
    lose(memory, b"back(front())", how)
    assert memory.build(path, *actions) == b"back(front())"
    assert memory.ran == ["back"]
    assert memory.build(path, *actions) == b"back(front())"
    assert memory.ran == []


def test_an_input_that_is_damaged_makes_its_one_producer_run_again(memory: Memory, path: Path) -> None:
    fronts = [memory.action(name) for name in ("a", "b", "c")]
    bundle = memory.action("bundle", {one.label: of(one.label) for one in fronts})
    memory.build(path, *fronts, bundle)
    lose(memory, b"b()", "damaged")
    lose(memory, b"bundle(a(),b(),c())", "lost")
    assert memory.build(path, *fronts, bundle) == b"bundle(a(),b(),c())"
    assert sorted(memory.ran) == ["b", "bundle"]


def test_a_store_that_drops_all_that_it_is_given_serves_nobody_and_loses_nothing(memory: Memory, path: Path) -> None:
    action = memory.action("one")
    memory.build(path, action)

    class Empty(MemoryContents):
        def copy(self, hash: str, destination: Path) -> bool:
            return False

    memory.contents = Empty(memory.contents.contents)
    assert memory.build(path, action) == b"one()"
    assert memory.ran == ["one"]


def test_what_is_never_stored_runs_each_time(memory: Memory, path: Path) -> None:
    for _ in range(2):
        assert memory.build(path, memory.action("link", policy=NEVER)) == b"link()"
        assert memory.ran == ["link"]
    assert not memory.actions.records


def test_a_refusal_and_a_full_store_are_noted(memory: Memory, path: Path) -> None:
    world = World(
        ContentCache(Shelf(memory.actions, memory.contents, memory.notes.append, lambda: "'clang' changed")),
        memory.contents,
        memory.flight,
        {Step: InProcess()},
        print,
        print,
    )
    build(Graph((memory.action("one"),), (Delivery(str(path), of("one")),), (), ""), world)
    assert memory.notes == ["not stored: 'clang' changed"]
    assert not memory.actions.records


def test_an_action_that_needs_one_that_is_not_there_is_refused(memory: Memory, path: Path) -> None:
    with pytest.raises(PassThrough, match="internal"):
        memory.build(path, memory.action("one", {"code": of("none")}))


# A new kind


def test_a_new_kind_is_one_module_and_a_line_of_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hip import COMPILERS, LLVM
    from hipcache.app import front, kinds
    from hipcache.app.kinds import Kind
    from hipcache.build.context import open_context
    from hipcache.clang.command import parse
    from hipcache.config import Config
    from hipcache.execution import Planned
    from hipcache.execution.session import Session

    def plan(session: Session, columns: int | None) -> Planned:
        path = session.command.path(session.command.output)
        nothing = Action(
            *(ActionId("nothing"), "nothing", "nothing", Step(lambda _: made_of({"out": b"nothing"}))),
            *((("kind", "no-op"),), (), ("out",)),
        )
        return Planned(Graph((nothing,), (Delivery(path, of("nothing")),), (), path))

    module = ModuleType("hipcache.execution.nothing")
    module.plan = plan  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    line = Kind(module.__name__, lambda command: command.source.endswith(".nothing.hip"))
    monkeypatch.setattr(kinds, "KINDS", (line, *kinds.KINDS))
    (tmp_path / "k.nothing.hip").touch()
    words = (str(LLVM[COMPILERS[0]] / "bin/clang++"), "-x", "hip", "-c", "k.nothing.hip", "-o", "out.o")
    environ: Sequence[tuple[str, str]] = [("PATH", "/usr/bin:/bin")]
    context = open_context(Config(dir=tmp_path / "store"), dict(environ))
    (done,), _ = front.make_each(context, [parse(words, str(tmp_path), dict(environ))], None)
    assert (tmp_path / "out.o").read_bytes() == b"nothing"
    assert done.outcome.outcome == "hit", "no unit of it has missed"
