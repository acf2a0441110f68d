"""A storage helper that stands still for a moment: the remote is left alone for a moment, not for the whole build."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hipcache.config import Config
from hipcache.remote import sockets
from hipcache.remote.client import MOMENT, Client
from remote_lab import HAS_CLIENTS

pytestmark = pytest.mark.skipif(not HAS_CLIENTS, reason="the extra 'remote' is not installed")

KEY = "ab" * 32
ANSWER = {"fetched": False, "questions": 1, "answers": 1, "found": [], "told": None}


class Helper:
    """Listens in the helper's place, and says nothing until it is told to. `client` makes that of another compile."""

    def __init__(self, root: Path) -> None:
        settings = Config(dir=root / "store", remote=("http://127.0.0.1:9/team?timeout=0.1",))
        environ = {"XDG_RUNTIME_DIR": str(root)}
        (settings.dir / "v2/remote").mkdir(parents=True)
        self.down = settings.dir / "v2/remote/down"
        self.client: Callable[[], Client] = lambda: Client(settings, environ, lambda fault, hint: None)
        self.listener = sockets.bound(self.client().place())

    def answer(self) -> None:
        """Each question, well."""

        def run() -> None:
            with suppress(OSError):  # until it is closed
                while True:
                    connection, _ = self.listener.accept()
                    with connection, connection.makefile("rb") as asked, suppress(OSError):
                        asked.readline()  # it may be of one that has given up
                        connection.sendall(json.dumps(ANSWER).encode() + b"\n")

        threading.Thread(target=run, daemon=True).start()

    def later(self) -> None:
        """So many seconds have passed."""
        then = self.down.stat().st_mtime - MOMENT
        os.utime(self.down, (then, then))


@pytest.fixture
def helper(tmp_path: Path) -> Iterator[Helper]:
    one = Helper(tmp_path)
    with one.listener:
        yield one


def is_silent(client: Client) -> bool:
    fetched = client.fetch([KEY])
    return fetched is not None and fetched.fault


def test_one_that_stood_still_is_asked_again_after_a_moment(helper: Helper) -> None:
    assert is_silent(helper.client())
    assert helper.client().fetch([KEY]) is None, "nobody asks meanwhile"
    helper.later()
    helper.answer()
    assert not is_silent(helper.client())
    assert not helper.down.exists(), "it is well"


def test_one_that_stands_still_a_second_time_is_asked_no_more(helper: Helper) -> None:
    for _ in range(2):
        assert is_silent(helper.client())
        helper.later()
    assert helper.client().fetch([KEY]) is None


def test_compiles_that_wait_at_once_have_met_one_silence(helper: Helper) -> None:
    waiting = [helper.client() for _ in range(4)]
    for one in waiting:
        one.give_up("it says nothing", still=True)
    helper.later()
    assert helper.client().is_up()
    assert waiting[0].is_up()


def test_one_that_is_broken_is_asked_no_more(helper: Helper) -> None:
    helper.client().give_up("it has ended")
    helper.later()
    assert not helper.client().is_up()
