"""`hipcache run`: a build's live line and summary."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from hip import HIP_IN_SHORT, LAUNCHER, Lab, write_files
from hipcache.cli import page
from hipcache.report import build, stats_log
from hipcache.report.outcome import CompileOutcome, UnitOutcome

RUN = (sys.executable, "-m", "hipcache", "run")
NEW = CompileOutcome(
    "miss", units=(UnitOutcome("gfx906", False, False, False, ("first compile",), 1.5), UnitOutcome("host", False))
)
LEFT = CompileOutcome("passed_through", "pch")
#: A build that says of itself what compiles would.
LOGGED = 'printf "%s\\n" "$LINE" >> "$HIPCACHE_STATS_LOG"'


def run(*words: str, directory: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HIPCACHE_DIR": str(directory / "store"), **environ}
    words = (*RUN, *words)
    return subprocess.run(words, env=env, cwd=directory, capture_output=True, text=True, timeout=60, check=False)


def line(end: CompileOutcome, path: str = "k.o") -> str:
    return stats_log.line(end, began=1.0, now=3.0, cwd="/build", path=path)


def test_the_summary_has_hits_by_architecture_causes_and_what_passed_through(tmp_path: Path) -> None:
    text = "\n".join([line(NEW), line(NEW, "l.o"), line(LEFT, "m.o")])
    done = run("--json", "s.json", "--report", "r.html", "--", "sh", "-c", LOGGED, directory=tmp_path, LINE=text)
    assert done.returncode == 0
    shown = done.stderr.splitlines()
    assert shown[0].startswith("hipcache: 3 compiles in ")
    assert shown[1:] == [
        "  2 misses, 1 passed through; hit rate 0.0 %",
        "  hits by architecture: gfx906 0 of 2, host 0 of 2",
        "  missed: first compile: 2 units of 2 objects",
        "  passed through: 1 compile (pch): leave out the precompiled header",
    ]
    told = json.loads((tmp_path / "s.json").read_text())
    assert (told["status"], told["compiles"]["miss"], told["passed_through"]) == (0, 2, {"pch": 1})
    assert told["causes"] == [{"cause": "first compile", "units": 2, "objects": ["/build/k.o", "/build/l.o"]}]
    assert "first compile" in (tmp_path / "r.html").read_text()


def test_the_summary_says_for_which_hits_a_front_end_ran(tmp_path: Path) -> None:
    why = ("file 'k.hip' changed",)
    edited = CompileOutcome("partial", units=(UnitOutcome("gfx906", True, False, True, why), NEW.units[1]))
    done = run("--", "sh", "-c", LOGGED, directory=tmp_path, LINE=line(edited))
    hits = "gfx906 1 of 1, host 0 of 1 (for 1 of these hits the front end ran again)"
    assert done.stderr.splitlines()[2] == f"  hits by architecture: {hits}"


def test_a_log_of_the_users_own_keeps_its_lines_and_counts_only_new_ones(tmp_path: Path) -> None:
    log = tmp_path / "own.jsonl"
    log.write_text(line(NEW) + "\n")
    done = run("sh", "-c", LOGGED, directory=tmp_path, LINE=line(NEW, "l.o"), HIPCACHE_STATS_LOG=str(log))
    assert done.stderr.startswith("hipcache: 1 compile in ")
    assert len(log.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("sh", "-c", "exit 7"), 7, "hipcache: the build ran no compile through hipcache"),
        (("sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM, "hipcache: the build ran no compile through hipcache"),
        (("no-such-program",), 127, "hipcache: cannot run 'no-such-program': No such file or directory"),
        ((".",), 126, "hipcache: cannot run '.': Permission denied"),
        (("--jsn", "x", "sh"), 2, "hipcache: unknown option '--jsn' for 'hipcache run'"),
        ((), 1, "hipcache: 'hipcache run' has no command to run"),
    ],
)
def test_the_exit_status_is_the_commands(tmp_path: Path, words: tuple[str, ...], status: int, told: str) -> None:
    done = run(*words, directory=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[0], done.stdout) == (status, told, "")


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("HIPCACHE_MAX_SIZE", "5X", "hipcache: nothing was cached: environment variable 'HIPCACHE_MAX_SIZE'"),
        ("HIPCACHE_CONFIG", "FILE", "hipcache: nothing was cached: FILE:1: unknown key 'max_siz'"),
        ("HIPCACHE_MAXSIZE", "5G", "hipcache: the build ran no compile through hipcache"),
    ],
)
def test_a_wrong_setting_stops_no_build(tmp_path: Path, variable: str, value: str, told: str) -> None:
    file = str(tmp_path / "wrong.yaml")
    Path(file).write_text("max_siz: 5G\n")
    environ = {variable: value.replace("FILE", file)}
    done = run("--json", "s.json", "sh", "-c", "echo built; exit 7", directory=tmp_path, **environ)
    assert (done.returncode, done.stdout) == (7, "built\n")
    assert done.stderr.startswith(told.replace("FILE", file))
    assert json.loads((tmp_path / "s.json").read_text())["status"] == 7


def test_options_of_the_command_and_its_output_are_its_own(tmp_path: Path) -> None:
    done = run("printf", "%s", "--json", directory=tmp_path)
    assert (done.returncode, done.stdout) == (0, "--json")


def test_sigterm_is_handed_on_and_the_build_may_end_in_its_own_way(tmp_path: Path) -> None:
    env = {**os.environ, "HIPCACHE_DIR": str(tmp_path / "store")}
    script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen([*RUN, "sh", "-c", script], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as build:
        assert build.stdout is not None
        assert build.stdout.readline() == b"ready\n"
        build.terminate()
        assert build.wait(30) == 5


def test_on_a_terminal_the_last_row_is_the_live_lines_and_is_given_back(tmp_path: Path) -> None:
    keeper, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {**os.environ, "HIPCACHE_DIR": str(tmp_path / "store"), "TERM": "xterm", "LINE": line(NEW)}
    words = [*RUN, "sh", "-c", f"{LOGGED}; sleep 1.2"]
    with subprocess.Popen(words, env=env, stdin=terminal, stdout=terminal, stderr=terminal) as build:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # the terminal's last user has gone
            while piece := os.read(keeper, 4096):
                shown += piece
        assert build.wait(30) == 0
    os.close(keeper)
    assert b"\x1b[1;23r" in shown
    assert b"\x1b[24;1H\x1b[K\x1b[7mhipcache: 1 miss; 0 compilers running; 0.0 s saved" in shown
    assert shown.rindex(b"\x1b[r") > shown.index(b"hipcache: 1 miss; 0")
    assert b"hipcache: 1 compile in " in shown[shown.rindex(b"\x1b[r") :]


@pytest.mark.archs(2)
def test_a_real_build_is_told_cold_and_warm(lab: Lab) -> None:
    build = [*RUN, "--", *LAUNCHER, *lab.words()]
    cold, warm = (lab.run(build).err.decode().splitlines() for _ in range(2))
    assert cold[1] == "  1 miss; hit rate 0.0 %"
    assert warm[1] == "  1 hit; hit rate 100.0 %"
    assert not [line for line in warm if "missed" in line]


@pytest.mark.archs(1)
def test_a_build_that_could_share_is_told_how(lab: Lab) -> None:
    """Two build directories of one source: their names are in the objects."""
    ends = []
    for name in ("one", "two"):
        (lab.root / name).mkdir()
        build = [*RUN, "--", *LAUNCHER, *lab.words("-g", "-I..", source="../k.hip")]
        ends.append(lab.run(build, cwd=lab.root / name).err.decode())
    assert "note:" not in ends[0]
    assert "but -g puts that name into objects: to share results, add -ffile-compilation-dir=." in ends[1]


def test_a_list_of_processes_shows_the_engines_command_and_no_program_text(tmp_path: Path) -> None:
    shown = [*LAUNCHER, "run", "--", "sh", "-c", "xargs -0 echo < /proc/$PPID/cmdline; cat /proc/$PPID/comm; env"]
    env = {**os.environ, "HIPCACHE_DIR": str(tmp_path / "store")}
    done = subprocess.run(shown, env=env, capture_output=True, text=True, timeout=60, check=True)
    line, name, *variables = done.stdout.splitlines()
    assert name == "hipcache-engine"
    assert line.partition(" ")[0].endswith("/hipcache-engine") and " run -- sh -c" in line, "Python's words are gone"
    assert not any("_HIPCACHE_START" in one for one in variables)


def test_the_store_keeps_the_figures_of_the_last_builds(tmp_path: Path) -> None:
    for number in range(3):
        end = NEW if number == 0 else NEW.as_hit()
        run("--label", f"build{number}", "--", "sh", "-c", LOGGED, directory=tmp_path, LINE=line(end))
    run("--", "true", directory=tmp_path)
    first, *_, last = known = build.last_builds(tmp_path / "store")
    assert len(known) == 3, "one without compiles is none"
    assert (first.label, first.compiles, first.units["gfx906"]) == ("build0", {"miss": 1}, [0, 1])
    assert first.causes == [["first compile", 1]]
    assert (last.label, last.compiles, last.causes) == ("build2", {"hit": 1}, [])
    shown = page.page(page.Told("", [], builds=known))
    assert "build0" in shown and "first compile" in shown
    assert shown.count('<rect class="hit"') >= 2
    for _ in range(build.MOST):
        build.save(tmp_path / "store", None, last)
    assert [one.label for one in build.last_builds(tmp_path / "store")] == ["build2"] * build.MOST


def test_the_demo_compiles_sources_of_the_user_and_leaves_them_alone(tmp_path: Path) -> None:
    text = '#include "short.hpp"\n__global__ void kernel(int* p) { *p = 1; }\nvoid start() { kernel<<<1, 1>>>(0); }\n'
    sources = {"short.hpp": HIP_IN_SHORT, "one.hip": text, "a/two.hip": text.replace("short", "../short")}
    write_files(tmp_path, sources)
    environ = {**os.environ, "PATH": f"{Path(LAUNCHER[0]).parent}:{os.environ['PATH']}"}
    words = [*LAUNCHER, "demo", "one.hip", "a/two.hip", "--flags", "-nogpuinc -nogpulib"]
    done = subprocess.run(words, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("2 sources for ") and "all objects are clang's own" in done.stdout
    assert {name: (tmp_path / name).read_text() for name in sources} == sources
