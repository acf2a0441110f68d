"""An engine that is forked for a comparison begins as one that is started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked_engines
import hip
import pytest

# Tells what it begins with. (Its own mask for new files can only be read by setting it.)
ENGINE = f"""\
#!{sys.executable}
import gc, json, locale, os, resource, signal, sys, threading
def start():
    status = dict(line.rstrip().split(":", 1) for line in open("/proc/self/status"))
    streams = [sys.stdin, sys.stdout, sys.stderr]
    told = {{
        "forked": "engine_server" in getattr(sys.modules["__main__"], "__file__", ""),
        "argv": sys.argv[1:], "environ": dict(os.environ), "flags": repr(sys.flags), "path": sys.path[1:],
        "directory": os.getcwd(), "group": os.getpgrp(), "session": os.getsid(0), "nice": os.nice(0),
        "status": [status[name] for name in ("Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "Seccomp")],
        "files": [os.readlink(f"/proc/self/fd/{{n}}") for n in range(3)], "more": len(os.listdir("/proc/self/fd")),
        "streams": [[s.encoding, s.errors, s.line_buffering, s.seekable(), s.fileno()] for s in streams],
        "limits": [resource.getrlimit(n) for n in range(16)],
        "threads": len(threading.enumerate()), "locale": locale.setlocale(locale.LC_ALL), "gc": gc.isenabled(),
        "read": sys.stdin.read(), "loaded": "hipcache" in sys.modules and "__main__" in sys.modules,
    }}
    import hipcache
    print(json.dumps(told), flush=True)
    print("said", file=sys.stderr)
    if sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGTERM)
    sys.exit(3)
start()
"""


@pytest.fixture(scope="module")
def launchers(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """That which starts such an engine, and that which has it forked."""
    directory = tmp_path_factory.mktemp("session") / "launcher"
    directory.mkdir()
    shutil.copy(hip.LAUNCHER[0], directory)
    (directory / "hipcache-engine").write_text(ENGINE)
    (directory / "hipcache-engine").chmod(0o755)
    usual = str(directory / "hipcache")
    return usual, forked_engines.launcher(usual)


def begun(
    launcher: str, tmp_path: Path, *words: str, umask: int = -1, runtime: str = ""
) -> tuple[dict[str, Any], int, bytes]:
    """(what the engine told, exit status, what it said). Without a runtime directory none is an audit."""
    environ = {**os.environ, "LC_ALL": "C", "A": "b\nc", "XDG_RUNTIME_DIR": runtime}
    log = tmp_path / "out"
    with log.open("wb") as out:
        ended = subprocess.run(
            [launcher, *words], cwd=tmp_path, env=environ, input=b"given", stdout=out, stderr=subprocess.PIPE,
            timeout=60, umask=umask, check=False,
        )  # fmt: skip
    assert ended.returncode in (3, -signal.SIGTERM), ended.stderr
    return json.loads(log.read_text()), ended.returncode, ended.stderr


def test_a_forked_engine_begins_as_one_that_is_started(launchers: tuple[str, str], tmp_path: Path) -> None:
    def compared(launcher: str) -> tuple[bool, dict[str, Any], int, bytes]:
        told, status, said = begun(launcher, tmp_path, "stats", "", "a b")
        told["files"] = [name.partition(":")[0] for name in told["files"]]  # a pipe's number
        told.pop("loaded")
        return told.pop("forked"), told, status, said

    usual = compared(launchers[0])
    assert (usual[0], usual[2], usual[3]) == (False, 3, b"said\n")
    others = [compared(launchers[1]) for _ in range(4)]
    for other in others:
        assert {name: (told, usual[1][name]) for name, told in other[1].items() if told != usual[1][name]} == {}
        assert other[2:] == usual[2:]
    assert [other[0] for other in others] == [True] * 4


def test_the_engines_of_one_runtime_directory_are_all_audits_or_none(
    launchers: tuple[str, str], tmp_path: Path
) -> None:
    """Both kinds in one build would be of two builds: what is said once would be said twice."""

    def forked(number: int) -> bool:
        return bool(begun(launchers[1], tmp_path, "stats", runtime=f"/run/{number}")[0]["forked"])

    audit = next(number for number in range(300) if not forked(number))
    assert audit > 0
    assert [forked(audit) for _ in range(5)] == [False] * 5
    assert [forked(audit - 1) for _ in range(5)] == [True] * 5


def test_a_forked_engine_that_is_killed_ends_its_launcher_alike(launchers: tuple[str, str], tmp_path: Path) -> None:
    ends = [begun(launcher, tmp_path, "kill")[1] for launcher in (*launchers, launchers[1])]
    assert ends == [-signal.SIGTERM] * 3


def test_in_other_surroundings_no_engine_is_forked(launchers: tuple[str, str], tmp_path: Path) -> None:
    told, status, _ = begun(launchers[1], tmp_path, "stats", umask=0o77)
    assert (told["forked"], told["status"][0].strip(), status) == (False, "0077", 3)
