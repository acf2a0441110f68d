"""The system's files behind records from a remote: the first one served finds their state, others begin with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from hip import Ended, Lab, kernel, rewrite, settle
from hipcache.store.layout import unpack_action
from hipcache.store.local import LocalStore
from hipcache.store.seal import Seal
from remote_lab import uploaded
from remote_team import web
from resident_lab import CANNOT_SAY, HOLDS, Fake, home
from test_prefetch import ARCHES, Machines, ahead, webbed
from test_remote_asked import UNSERVED, alone

__all__ = ["home", "web", "webbed"]

_UNKNOWN = bytes(32)


@dataclass
class Come:
    """A machine to which both compiles of a build have come, and that has a header of the system's."""

    lab: Lab
    native: str
    words: list[list[str]]
    objects: list[bytes]
    header: Path

    def ask(self, number: int, home: Path | None = None) -> Ended:
        """By the native program alone. `home`: with the resident there."""
        more = {"HIPCACHE_RESIDENT": "1", "XDG_RUNTIME_DIR": str(home)} if home else {}
        return self.lab.run([self.native, *self.words[number]], env=more)

    def is_served(self, number: int, home: Path | None = None) -> bool:
        ended = self.ask(number, home)
        assert ended.status in (0, UNSERVED), ended.err
        if ended.status == 0:
            assert (self.lab.root / self.words[number][-1]).read_bytes() == self.objects[number]
        return ended.status == 0

    def notes(self) -> dict[str, str]:
        """The states that are noted, by the names of their records."""
        found = {}
        for path in (self.lab.store / "v2/actions").glob("*"):
            name = path.name
            payload = unpack_action(name, path.read_bytes(), Seal())
            if payload.startswith(b'{"system"'):
                found[name] = json.loads(payload)["system"]
        return found

    def note(self, payload: bytes) -> None:
        """In the place of the note that there is."""
        (name,) = self.notes()
        LocalStore(self.lab.store, max_bytes=1 << 30).put_record(name, payload)


@pytest.fixture
def come(webbed: Machines, tmp_path: Path) -> Come:
    tree = tmp_path / "system"
    tree.mkdir()
    header = tree / "value.hpp"
    header.write_text("#define VALUE 1\n")
    webbed.lab.environ["HIPCACHE_SYSTEM_PATHS"] = f"{tree}:/usr:/lib:/etc:/bin"
    for name in ("k.hip", "other.hip"):
        webbed.lab.write(name, kernel("VALUE", '#include "value.hpp"'))
    settle()
    flags = (*ARCHES, f"-I{tree}")
    first = webbed.fresh()
    objects = webbed.build(first, *flags)
    uploaded(first)
    second = webbed.fresh()
    webbed.listed(second, *flags)
    assert b"2 fetched" in ahead(second).out
    second.environ["HIPCACHE_REMOTE"] = ""
    words = [[one[0], "-MD", "-MT", "x.o", "-MF", f"{one[-1]}.d", *one[1:]] for one in webbed.commands(second, *flags)]
    return Come(second, alone(tmp_path), words, objects, header)


def questions(come: Come, number: int, home: Path, says: bytes) -> list[str]:
    """The states that the resident is asked for."""
    with Fake(home, says) as fake:
        assert come.is_served(number, home)
    return [packet[-32:].hex() for packet in fake.heard if packet.startswith(b"?")]


def test_the_state_that_the_first_record_has_found_serves_the_next(come: Come, home: Path) -> None:
    """Without a look at any file, where the resident says that this state holds."""
    assert come.notes() == {}
    assert come.is_served(0)
    (state,) = come.notes().values()
    assert state != _UNKNOWN.hex()
    assert questions(come, 0, home, CANNOT_SAY) == [state], "it stands in the record that was served"
    assert questions(come, 1, home, HOLDS) == [state], "and is what the other one begins with"
    assert questions(come, 1, home, CANNOT_SAY) == [state]
    assert list(come.notes().values()) == [state]


@pytest.mark.parametrize("served_before", [(), (0,), (0, 1)], ids=["first", "second", "both"])
def test_a_header_of_the_system_that_changes_after_the_fetch_is_seen(come: Come, served_before: tuple[int]) -> None:
    """In place, with the same size and time."""
    assert all(come.is_served(number) for number in served_before)
    old = come.header.read_text()
    rewrite(come.header, old.replace("1", "2"))
    settle()
    assert not come.is_served(0)
    assert not come.is_served(1)
    rewrite(come.header, old)
    assert come.is_served(1), "by its content, though it has another state now"
    assert come.is_served(0)


def test_a_note_follows_the_state_that_the_files_have(come: Come, home: Path) -> None:
    assert come.is_served(0)
    (before,) = come.notes().values()
    rewrite(come.header, come.header.read_text())
    settle()
    assert come.is_served(1)
    (after,) = come.notes().values()
    assert after != before
    assert questions(come, 0, home, CANNOT_SAY) == [before], "that record has its own"
    assert questions(come, 0, home, HOLDS) == [after]


@pytest.mark.parametrize(
    "payload",
    [
        b'{"claim":true}',
        b'{"system":"%s"}' % (b"ab" * 32),
        b'{"system":"%s"}' % (b"00" * 32),
        b'{"system":"%s"}' % (b"AB" * 32),
        b'{"system":"%s"} ' % (b"ab" * 32),
        b"{" * 91,
    ],
)
def test_a_note_of_somebody_else_counts_for_nothing(come: Come, home: Path, payload: bytes) -> None:
    """Nobody has found that the system has these contents in that state."""
    assert come.is_served(0)
    (state,) = come.notes().values()
    come.note(payload)
    assert questions(come, 1, home, CANNOT_SAY) == [_UNKNOWN.hex()]
    assert list(come.notes().values()) == [state], "it is right again"
