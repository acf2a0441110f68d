"""How far a long command is, is shown on a terminal, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
from contextlib import suppress
from pathlib import Path

import pytest
from hipcache.cli import Console, dispatch
from hipcache.store.local import LocalStore

UNIT = b'{"outputs":[],"passing":[],"text":"","seconds":1}'
SHOWN = {
    ("gc", "--max-size", "8K"): b"entries removed",
    ("clear",): b"entries removed",
    ("verify",): b"entries checked",
    ("export", "a.tar.gz"): b"entries written",
    ("import", "b.tar.gz"): b"entries read",
}


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Of a store with some entries, beside an archive of them."""
    monkeypatch.chdir(tmp_path)
    store = LocalStore(tmp_path / "store", max_bytes=0)
    for number in range(5):
        store.put_blob(b"%d" % number)
        store.put_action(f"{number:064x}", UNIT)
    environ = {"HOME": str(tmp_path), "HIPCACHE_DIR": str(store.root), "PATH": os.environ["PATH"]}
    assert dispatch(["export", "b.tar.gz"], Console(environ, io.StringIO(), io.StringIO())) == 0
    return environ


@pytest.mark.parametrize("words", SHOWN, ids=lambda words: words[0])
def test_a_count_is_shown_in_place_on_a_terminal_and_nothing_is_left_of_it(
    environ: dict[str, str], words: tuple[str, ...]
) -> None:
    leader, follower = pty.openpty()
    out = io.StringIO()
    with open(follower, "w", encoding="utf-8") as terminal:
        assert dispatch(words, Console(environ, out, terminal)) == 0
    shown = b""
    with suppress(OSError):  # EIO: nobody writes any more
        while piece := os.read(leader, 65536):
            shown += piece
    os.close(leader)
    assert SHOWN[words] in shown
    assert b"\n" not in shown, "one line, written again"
    assert shown.endswith(b"\r\x1b[K")
    assert "\r" not in out.getvalue() and "\x1b" not in out.getvalue()


@pytest.mark.parametrize("words", SHOWN, ids=lambda words: words[0])
def test_a_file_or_a_pipe_gets_none(environ: dict[str, str], words: tuple[str, ...], tmp_path: Path) -> None:
    out = io.StringIO()
    with open(tmp_path / "err", "w+", encoding="utf-8") as err:
        assert dispatch(words, Console(environ, out, err)) == 0
        err.seek(0)
        assert err.read() == ""
    assert out.getvalue().count("\n") == 1
