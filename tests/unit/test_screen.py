"""A terminal that nobody sees: all that a process prints there is read, and nobody waits for ever."""

from __future__ import annotations

import os
import time
from pathlib import Path

from hipcache.clang import colours
from hipcache.processes.runner import SubprocessRunner


def said(script: str, tmp_path: Path) -> bytes:
    words, runner = ["/bin/sh", "-c", script], SubprocessRunner()
    traced = colours.on_terminal(lambda err: runner.trace(words, cwd=tmp_path, env=dict(os.environ), stderr=err))
    assert traced.ended.status == 0
    return traced.ended.stderr


def test_a_process_may_say_more_than_a_terminal_holds(tmp_path: Path) -> None:
    text = said("test -t 2 && yes words | head -c 300000 >&2; echo end >&2", tmp_path)
    assert text.count(b"words") == 50_000
    assert text.endswith(b"end\r\n")


def test_who_leaves_a_process_behind_is_not_waited_for(tmp_path: Path) -> None:
    began = time.monotonic()
    text = said("{ sleep 60 & } ; echo $! >pid; echo said >&2", tmp_path)
    os.kill(int((tmp_path / "pid").read_text()), 9)
    assert text == b"said\r\n"
    assert time.monotonic() - began < 30
