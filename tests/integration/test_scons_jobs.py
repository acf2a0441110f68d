"""Compiles that run side by side in one SCons."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time

import pytest
from cmake_project import hip_source
from hip import COMPILERS, LLVM, watched_compiler
from scons_project import Project, newest, project

__all__ = ["newest", "project"]
pytestmark = pytest.mark.takes_turns("project")


def test_clones_share_an_engine_and_parallel_jobs_are_all_counted(project: Project) -> None:
    project.write({f"k{number}.hip": hip_source(f"k{number}") for number in range(6)})
    project.construct("""
for number in range(6):
    env.Clone(CPPDEFINES=["N=%d" % number]).HipObject("k%d.hip" % number)
from hipcache_scons import cached
import atexit
atexit.register(lambda: print("engines", len(cached._open)))
""")
    built = project.build("-j4")
    assert "engines 1" in built.out
    assert project.outcomes == {"miss": 6}
    assert project.build("-j4").up_to_date


@pytest.mark.parametrize("limit", [1, 2])
def test_parallel_jobs_share_the_limit_of_compilers(newest: Project, limit: int) -> None:
    """Three sources of three passes each under -j3: never more compilers at once than the limit, but as many."""
    log = newest.root / "log"
    compiler = watched_compiler(
        newest.root / "counted",
        COMPILERS[0],
        f'echo + >>{log}; sleep 0.1; {LLVM[COMPILERS[0]]}/bin/clang "$@"; status=$?; echo - >>{log}; exit $status',
    )
    newest.environ["HIPCACHE_JOBS"] = str(limit)
    newest.write({f"k{number}.hip": hip_source("k" * (number + 1)) for number in range(3)})
    newest.construct(f'env["HIPCXX"] = "{compiler}"\nfor number in range(3):\n    env.HipObject("k%d.hip" % number)')
    newest.build("-j3")
    assert newest.outcomes == {"miss": 3}
    running = most = 0
    for mark in log.read_text().split():
        running += 1 if mark == "+" else -1
        most = max(most, running)
    assert (running, most) == (0, limit)


def test_compiles_change_neither_the_directory_nor_the_environment_of_scons(newest: Project) -> None:
    """Its other threads would see that. (SCons itself goes to the directory of the SConstruct.)"""
    newest.write({f"k{number}.hip": hip_source(f"k{number}") for number in range(3)})
    newest.construct("""
import os, sys
for number in range(3):
    env.HipObject("k%d.hip" % number)
env.HipObject("listed.o", "one.hip", HIPFLAGS=["-H", *env["HIPFLAGS"]])
scons = os.getpid()
def look(event, what):
    if event in ("os.chdir", "os.putenv", "os.unsetenv") and os.getpid() == scons:
        caller = sys._getframe(1).f_code.co_filename
        print("changed by", "SCons" if "/SCons/" in caller else caller, event, what)
sys.addaudithook(look)
""")
    built = newest.build("-j2")
    assert newest.outcomes == {"miss": 3, "passed_through": 1}
    assert set(re.findall(r"changed by (\S+)", built.out)) == {"SCons"}, built.out


def test_an_interrupt_ends_the_build_and_leaves_no_object(project: Project) -> None:
    """As Ctrl-C does, the signal goes to the whole process group. The compiler would run for an hour."""
    compiler = watched_compiler(project.root / "slow", "15", f"touch {project.root}/started; exec sleep 3600")
    project.construct(f'env["HIPCXX"] = "{compiler}"\nenv.HipObject("one.hip")')
    running = subprocess.Popen(
        project.command("-j2"),
        cwd=project.root,
        env=project.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (project.root / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 2, err
    assert "interrupted" in err
    assert not (project.root / "one.o").exists()
