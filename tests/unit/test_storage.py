"""What every storage must do: one contract for each of the three protocols, over each implementation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hipcache.base.keys import digest_bytes
from hipcache.build.action import Digest
from hipcache.build.storage import ActionCache, ContentStore, LocalActions, LocalContents, LocalFlight, SingleFlight
from hipcache.store.local import LocalStore
from memory_storage import MemoryActions, MemoryContents, MemoryFlight

KEY, OTHER = "0123456789abcdef" * 4, "f" * 64
CONTENT = bytes(range(256)) * 64


def store(tmp_path: Path, name: str = "store") -> LocalStore:
    return LocalStore(tmp_path / name, max_bytes=0)


ACTIONS: dict[str, Callable[[Path], ActionCache]] = {
    "local": lambda path: LocalActions(store(path)),
    "memory": lambda _: MemoryActions(),
}
CONTENTS: dict[str, Callable[[Path], ContentStore]] = {
    "local": lambda path: LocalContents(store(path)),
    "memory": lambda _: MemoryContents(),
}
FLIGHTS: dict[str, Callable[[Path], SingleFlight]] = {
    "local": lambda path: LocalFlight(store(path)),
    "memory": lambda _: MemoryFlight(),
}


@pytest.fixture(params=ACTIONS)
def actions(request: pytest.FixtureRequest, tmp_path: Path) -> ActionCache:
    return ACTIONS[request.param](tmp_path)


@pytest.fixture(params=CONTENTS)
def contents(request: pytest.FixtureRequest, tmp_path: Path) -> ContentStore:
    return CONTENTS[request.param](tmp_path)


@pytest.fixture(params=FLIGHTS)
def flight(request: pytest.FixtureRequest, tmp_path: Path) -> SingleFlight:
    return FLIGHTS[request.param](tmp_path)


def test_one_question_gets_the_records_that_are_there(actions: ActionCache) -> None:
    actions.put(KEY, b"record")
    assert actions.get([KEY, OTHER]) == {KEY: b"record"}
    assert actions.get([]) == {}


def test_a_later_record_takes_the_place_of_an_earlier_one(actions: ActionCache) -> None:
    actions.put(KEY, b"old")
    actions.put(KEY, b"new")
    assert actions.get([KEY]) == {KEY: b"new"}


def test_a_content_is_named_by_its_digest(contents: ContentStore, tmp_path: Path) -> None:
    digest = contents.write(CONTENT)
    assert digest == Digest(digest_bytes(CONTENT), len(CONTENT))
    assert contents.sizes([digest.hash, OTHER]) == {digest.hash: len(CONTENT)}
    assert contents.read(digest.hash) == CONTENT
    assert contents.copy(digest.hash, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == CONTENT


def test_a_content_that_is_not_there_is_none(contents: ContentStore, tmp_path: Path) -> None:
    assert contents.sizes([OTHER]) == {}
    assert contents.read(OTHER) is None
    assert not contents.copy(OTHER, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_empty_content_is_a_content(contents: ContentStore) -> None:
    digest = contents.write(b"")
    assert contents.sizes([digest.hash]) == {digest.hash: 0}
    assert contents.read(digest.hash) == b""


def test_one_at_a_time_holds_a_key(flight: SingleFlight) -> None:
    order: list[str] = []
    begun = threading.Event()

    def second() -> None:
        begun.set()
        with flight.alone(KEY):
            order.append("second")

    other = threading.Thread(target=second)
    with flight.alone(KEY):
        other.start()
        assert begun.wait(60)
        with flight.alone(OTHER):
            order.append("first")
    other.join(60)
    assert order == ["first", "second"]


def test_a_key_is_free_after_a_failure(flight: SingleFlight) -> None:
    with pytest.raises(ValueError, match="failed"), flight.alone(KEY):
        raise ValueError("failed")
    with flight.alone(KEY):
        pass


@pytest.mark.parametrize("damage", [b"", b"!", CONTENT[:-1], CONTENT + b"!"])
def test_a_damaged_content_in_memory_is_dropped(damage: bytes) -> None:
    contents = MemoryContents()
    digest = contents.write(CONTENT)
    contents.contents[digest.hash] = damage
    assert contents.read(digest.hash) is None
    assert contents.sizes([digest.hash]) == {}
