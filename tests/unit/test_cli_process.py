"""The program as a process: mistyped words, readers that go away, and what it imports."""

from __future__ import annotations

import importlib.metadata
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_shell import PARTIAL, Shell, shell
from hipcache.report import statistics

__all__ = ["shell"]


def hipcache(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hipcache", *argv],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_a_mistyped_subcommand_is_not_taken_for_a_compiler(tmp_path: Path) -> None:
    # `stat` exists as a program, `doctr` does not.
    for word, nearest in (("stat", "stats"), ("doctr", "doctor"), ("confg", "config")):
        answer = hipcache(word, HIPCACHE_DIR=str(tmp_path))
        assert answer.returncode == 2
        assert answer.stdout == ""
        assert answer.stderr.splitlines() == [
            f"hipcache: '{word}' is neither a subcommand nor a compiler on PATH",
            f"  did you mean 'hipcache {nearest}'?",
        ]


def test_mistyped_words_of_config_and_help_are_told_in_few_words(shell: Shell) -> None:
    for words, told in (
        (("config", "get"), "write 'get KEY', not 'get', in 'hipcache config'"),
        (("config", "set", "max_size"), "write 'set KEY VALUE', not 'set max_size', in 'hipcache config'"),
        (
            ("config", "set", "max_size", "20", "GB"),
            "write 'set KEY VALUE', not 'set max_size 20 GB', in 'hipcache config'",
        ),
        (("config", "ste", "max_size", "20G"), "unknown command 'ste'; did you mean 'set'?, in 'hipcache config'"),
        (("help", "statz"), "there is no subcommand 'statz'"),
    ):
        assert shell(*words) == 2
        assert shell.err.splitlines()[0] == f"hipcache: {told}"
    assert shell.err.splitlines()[1] == "  did you mean 'stats'?"


@pytest.mark.parametrize("text", ["x", "nan", "inf", "-1", "10s"])
def test_a_timeout_is_a_number_of_seconds_with_an_end(shell: Shell, text: str) -> None:
    for verb in ("sync", "prefetch"):
        assert shell(verb, f"--timeout={text}") == 2
        assert f"'{text}' is not a number of seconds, such as 30" in shell.err


def test_sync_without_a_remote_does_not_fail_a_job(shell: Shell) -> None:
    shell.environ["HIPCACHE_REMOTE"] = ""  # as CI sets it from a secret that a fork has not
    assert shell("sync") == 0
    assert (shell.out, shell.err) == ("nothing is sent: no remote is set (HIPCACHE_REMOTE, see docs/share.md)\n", "")
    del shell.environ["HIPCACHE_REMOTE"]
    assert shell("sync") == 0
    shell.environ["HIPCACHE_REMOT"] = "http://there"
    assert shell("sync") == 1
    assert "did you mean 'HIPCACHE_REMOTE'?" in shell.err


def test_a_mistyped_device_of_iree_gets_the_nearest_one(shell: Shell) -> None:
    for typed, hint in (("hpi", "did you mean 'hip'?"), ("cuda", "known are hip, amdgpu, local")):
        assert shell("iree-check", "a.vmfb", f"--device={typed}") == 1
        assert shell.err.startswith(f"hipcache: unknown device '{typed}'\n  {hint}")


def test_a_mistyped_compiler_is_told_the_nearest_on_path(tmp_path: Path) -> None:
    for name in ("clang++-15", "amdclang++", "hipcc"):
        (tmp_path / name).touch(mode=0o755)
    for word, told in (
        ("clagn++-15", "did you mean the compiler 'clang++-15'?"),
        ("amdclag++", "did you mean the compiler 'amdclang++'?"),
        ("iree-complie", "did you mean the compiler 'iree-compile'?"),
        ("fortran", "correct the name or PATH; 'hipcache doctor' lists the compilers it finds"),
        ("./clang++-15", "correct the path; 'hipcache doctor' lists the compilers it finds"),
    ):
        answer = hipcache(word, "-c", "one.hip", HIPCACHE_DIR=str(tmp_path / "store"), PATH=str(tmp_path))
        assert answer.returncode == 127
        assert answer.stderr.splitlines()[-1].startswith(f"  {told}")


def test_without_iree_its_package_and_the_extra_are_named(tmp_path: Path) -> None:
    """An index may not have hipcache, so the package comes first; both are those of pyproject.toml."""
    assert re.search(r"iree-base-compiler\b.*extra == .iree.", "\n".join(importlib.metadata.requires("hipcache") or []))
    for word in ("iree-compile", str(tmp_path / "iree-compile")):
        answer = hipcache(word, "a.mlir", "-o", "a.vmfb", HIPCACHE_DIR=str(tmp_path / "store"), PATH=str(tmp_path))
        assert answer.returncode == 127
        assert "install IREE: pip install iree-base-compiler " in answer.stderr
        assert "pip install '.[iree]'" in answer.stderr


def test_a_reader_that_goes_away_causes_no_traceback(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    answer = subprocess.run(
        [sys.executable, "-m", "hipcache", "stats"],
        env={**os.environ, "HIPCACHE_DIR": str(tmp_path)},
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert answer.returncode == 1
    assert answer.stderr == b""


@pytest.mark.parametrize("words", [("stats",), ("config",), ("--version",)], ids=" ".join)
def test_output_that_has_no_room_is_told_in_two_lines(tmp_path: Path, words: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "hipcache", *words],
            env={**os.environ, "HIPCACHE_DIR": str(tmp_path)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "hipcache: No space left on device",
        "  free some space on that disk, or write to another one",
    ]


def test_a_path_that_is_not_text_is_printed_as_its_bytes(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "hipcache", "config"],
        env={**os.environb, b"HIPCACHE_DIR": bytes(tmp_path) + b"/\xff"},
        capture_output=True,
        check=True,
    )
    assert bytes(tmp_path) + b"/\xff" in answer.stdout


def test_on_a_real_terminal_stats_are_coloured(tmp_path: Path) -> None:
    statistics.record(tmp_path, PARTIAL)
    leader, follower = pty.openpty()
    environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run(
        [sys.executable, "-m", "hipcache", "stats"],
        env={**environ, "HIPCACHE_DIR": str(tmp_path), "TERM": "xterm"},
        stdout=follower,
        check=True,
    )
    os.close(follower)
    assert b"\x1b[32m2 min 5 s\x1b[0m" in os.read(leader, 65536)
    os.close(leader)


def test_starting_for_a_compile_imports_no_part_of_the_subcommands() -> None:
    code = (
        "import sys, hipcache.__main__; print([m for m in sys.modules if m.startswith('hipcache.') or m == 'argparse'])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "['hipcache.__main__']\n"


def test_settings_without_a_file_need_no_yaml() -> None:
    code = (
        "import sys; from hipcache import config; from hipcache.report import statistics;"
        "config.load({'HOME': '/nowhere'});"
        "print({'yaml', 'json', 'difflib', 'shutil', 'argparse', 'tempfile'} & set(sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-S", "-c", code], env=python_path(), capture_output=True, text=True, check=True
    )
    assert answer.stdout == "set()\n"


def python_path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
