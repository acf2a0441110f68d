"""What the storage helper does before it is asked for it: neighbours of a compile, and the reading of compilers."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hip import settle
from hipcache.base.keys import digest_file
from hipcache.remote import invocation
from hipcache.remote.helper import start as module
from hipcache.remote.helper.commands import Listed, Question
from hipcache.remote.helper.fetches import LASTING, LATELY, Neighbours
from hipcache.remote.helper.start import Compilers, Greeter
from hipcache.store.local import LocalStore
from remote_lab import HAS_CLIENTS, HIT, SECONDS, Team, free_port, remote_counts, uploaded
from remote_team import web
from test_prefetch import ARCHES, Machines, ahead, webbed
from test_remote_asked import alone, commands, served

__all__ = ["web", "webbed"]

_CLAIM = b'{"claim":true}'


class Recorder:
    """What was to be fetched, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.fetched: list[list[str]] = []
        self.neighbours = Neighbours(self.fetch, lambda: self.now)

    def fetch(self, asked: Question, those: Sequence[Listed], alive: Callable[[], object]) -> None:
        self.fetched.append([one.argv[-1] for one in those])


def build(root: Path, count: int) -> Callable[[int], Question]:
    entries = [
        {"directory": str(root), "arguments": ["clang++", "-x", "hip", "-c", f"k{one}.hip"], "file": f"k{one}.hip"}
        for one in range(count)
    ]
    (root / "compile_commands.json").write_text(json.dumps(entries))
    return lambda one: Question(False, ("clang++", "-x", "hip", "-c", f"k{one}.hip"), str(root), {})


def test_who_asks_second_has_a_window_fetched_and_the_next_is_larger(tmp_path: Path) -> None:
    recorder, asked = Recorder(), build(tmp_path, 300)
    assert not recorder.neighbours.come(asked(0), bool)
    assert recorder.neighbours.come(asked(1), bool)
    assert recorder.neighbours.come(asked(2), bool)
    assert recorder.fetched == [[f"k{one}.hip" for one in range(1, 65)]]
    assert recorder.neighbours.come(asked(65), bool)
    assert recorder.fetched[1] == [f"k{one}.hip" for one in range(65, 193)]
    assert recorder.neighbours.come(asked(290), bool)
    assert recorder.fetched[2] == [f"k{one}.hip" for one in range(290, 300)]


def test_no_command_is_in_two_windows(tmp_path: Path) -> None:
    recorder, asked = Recorder(), build(tmp_path, 300)
    assert not recorder.neighbours.come(asked(3), bool)
    for one in (2, 0, 1, 65, 66):
        assert recorder.neighbours.come(asked(one), bool)
    assert recorder.fetched == [
        [f"k{one}.hip" for one in range(2, 66)],
        ["k0.hip", "k1.hip"],
        [f"k{one}.hip" for one in range(66, 194)],
    ]


def test_who_asks_alone_has_nothing_fetched_and_a_window_grows_old(tmp_path: Path) -> None:
    recorder, asked = Recorder(), build(tmp_path, 9)
    for _ in range(3):
        assert not recorder.neighbours.come(asked(3), bool)
        recorder.now += LATELY
    recorder.now -= 1
    assert recorder.neighbours.come(asked(4), bool)
    recorder.now += LASTING
    assert not recorder.neighbours.come(asked(4), bool)
    assert len(recorder.fetched) == 1


@pytest.mark.parametrize(
    "text", [None, "", "{}", "[1]", '[{"file": "k1.hip"}]', '[{"file": "k1.hip", "command": "\'"}]']
)
def test_without_a_good_list_there_are_no_neighbours(tmp_path: Path, text: str | None) -> None:
    recorder, asked = Recorder(), build(tmp_path, 1)
    (tmp_path / "compile_commands.json").unlink()
    if text is not None:
        (tmp_path / "compile_commands.json").write_text(text)
    for _ in range(2):
        recorder.neighbours.come(asked(1), bool)
    assert recorder.fetched == []


def test_who_waits_for_a_window_gives_signs_of_life_and_waits_for_a_second_at_most(tmp_path: Path) -> None:
    asked, entered, go_on = build(tmp_path, 3), threading.Event(), threading.Event()

    def fetch(*_: object) -> None:
        entered.set()
        go_on.wait(SECONDS)

    neighbours = Neighbours(fetch)
    neighbours.come(asked(0), bool)
    beside = threading.Thread(target=neighbours.come, args=(asked(1), bool))
    beside.start()
    assert entered.wait(SECONDS)
    signs: list[int] = []
    assert not neighbours.come(asked(2), lambda: signs.append(1))
    assert signs
    go_on.set()
    beside.join(SECONDS)
    assert neighbours.come(asked(2), bool)


def test_the_commands_of_a_window_need_no_fetch_of_their_own(webbed: Machines, tmp_path: Path) -> None:
    first = webbed.fresh()
    objects = webbed.build(first, *ARCHES)
    uploaded(first)
    second, native = webbed.fresh(), alone(tmp_path)
    webbed.listed(second, *ARCHES)
    words = commands(webbed, second)
    end = time.monotonic() + SECONDS
    while remote_counts(second)["hits"] < 2:
        assert time.monotonic() < end, "no window is fetched"
        second.run([native, words[0][0], "-x", "hip", "-DOTHER", "-c", "k.hip", "-o", "none.o"])
    second.environ["HIPCACHE_REMOTE"] = ""
    assert [served(second, native, *one).status for one in words] == [0, 0]
    assert [(second.root / one[-1]).read_bytes() for one in words] == objects


def claims(store: Path) -> dict[str, int]:
    """The inode of each, by its path."""
    found = {}
    for path in (store / "v2/actions").glob("*"):
        if path.read_bytes().endswith(_CLAIM):
            found[str(path)] = path.stat().st_ino
    return found


def test_the_compiler_is_read_while_the_remote_is_waited_for(webbed: Machines, tmp_path: Path) -> None:
    """The native program takes what the helper has noted of its files, and notes none of them again."""
    first = webbed.fresh()
    webbed.build(first, *ARCHES)
    uploaded(first)
    second, native = webbed.fresh(), alone(tmp_path)
    webbed.listed(second, *ARCHES)
    ahead(second)
    key = invocation.manifest_key(webbed.commands(second, *ARCHES)[0], str(second.root), str)
    store, end = LocalStore(second.store, max_bytes=1 << 30), time.monotonic() + SECONDS
    while store.get_action(key) is None:
        assert time.monotonic() < end, "no manifest is written"
        time.sleep(0.05)
    known = invocation.unpack(store.get_action(key)).invocations[0]
    large = [path for path in known.tools if os.stat(path).st_size >= 1 << 20]
    assert large
    end = time.monotonic() + SECONDS
    while len(claims(second.store)) < len(large) + 1:
        assert time.monotonic() < end, "the compiler is not read"
        time.sleep(0.05)
    noted = claims(second.store)
    second.environ["HIPCACHE_REMOTE"] = ""
    assert served(second, native, *commands(webbed, second)[0]).status == 0
    after = claims(second.store)
    assert {path: after.get(path) for path in noted} == noted
    assert len(after) == len(noted) + 1, "the native program notes the state of all of them, and no file"


def test_a_file_that_is_young_or_changes_or_is_none_is_not_noted(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store", max_bytes=1 << 30)
    young, small, old = tmp_path / "young", tmp_path / "small", tmp_path / "old"
    young.write_bytes(bytes(2 << 20))
    small.write_bytes(b"")
    old.write_bytes(bytes(2 << 20))
    os.mkfifo(tmp_path / "fifo")
    paths = [str(path) for path in (young, small, tmp_path / "fifo", tmp_path / "absent", tmp_path)]
    compilers = Compilers(store, {"XDG_RUNTIME_DIR": str(tmp_path)}, lambda: young.stat().st_ctime + 1)
    compilers.read([*paths, "\0"])
    assert claims(tmp_path / "store") == {}
    Compilers(store, {"XDG_RUNTIME_DIR": str(tmp_path)}, lambda: old.stat().st_ctime + 9).read([str(old)])
    assert len(claims(tmp_path / "store")) == 2, "its content, and that it was read"


def test_a_file_that_cannot_be_read_keeps_no_other_from_being_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read beside each other; that all were read is noted when they all were."""
    files = [tmp_path / f"lib{number}" for number in range(5)]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * ((2 << 20) + number))

    def broken(path: str) -> str:
        if path == str(files[2]):
            raise OSError(errno.EIO, "I/O error")
        return digest_file(path)

    store = LocalStore(tmp_path / "store", max_bytes=1 << 30)
    compilers = Compilers(store, {"XDG_RUNTIME_DIR": str(tmp_path)}, lambda: files[-1].stat().st_ctime + 9)
    with monkeypatch.context() as patched:
        patched.setattr(module, "digest_file", broken)
        compilers.read(list(map(str, files)))
    assert len(claims(tmp_path / "store")) == len(files) - 1
    compilers.read(list(map(str, files)))
    assert len(claims(tmp_path / "store")) == len(files) + 1


@pytest.mark.skipif(not HAS_CLIENTS, reason="the extra 'remote' is not installed")
def test_a_hit_that_is_remembered_anew_is_queued_without_the_client(tmp_path: Path) -> None:
    lab = Team(tmp_path, "").machine()
    settle()
    lab.compile()
    script = (
        "import os, sys; from hipcache.app.launch import launch; status = launch(sys.argv[1:], os.environ);"
        "print(*sorted({'hipcache.remote.client', 'hipcache.remote.queue', 'socket'} & set(sys.modules)));"
        "sys.exit(status)"
    )
    env = {"HIPCACHE_REMOTE": f"http://127.0.0.1:{free_port()}"}
    ended = lab.run([sys.executable, "-c", script, *lab.words()], env=env)
    assert (ended.status, ended.out.split(), ended.err) == (0, [b"hipcache.remote.queue"], b"")
    assert lab.counted().outcome == HIT
    assert len(list((lab.store / "v2/remote").glob("item-*"))) == 1


def test_who_asks_a_helper_that_is_not_up_gets_signs_of_life_and_then_waits_for_an_answer(tmp_path: Path) -> None:
    place = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as asks:
        listener.bind(str(place))
        listener.listen()
        greeter = Greeter(listener)
        greeter.thread.start()
        asks.settimeout(SECONDS)
        asks.connect(str(place))
        assert asks.recv(2).startswith(b"\n")
        (waiting,) = greeter.end()
        with waiting:
            waiting.sendall(b"y")
        while (said := asks.recv(1)) == b"\n":
            pass
        assert said == b"y"
