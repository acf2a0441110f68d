"""Clang that plans says all that it would say, in one go; and only such a one is told to."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hipcache.base import native
from hipcache.base.errors import JobFailed
from hipcache.clang import driver
from hipcache.processes.observe import observations
from hipcache.processes.runner import SubprocessRunner, Traced

# Writes as LLVM does, each letter by itself; and what else may go on in between.
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
void _ZN4llvm4errsEv(void) {} /* by which clang is known */
int main(int count, char **words) {
    for (int i = 0; i < 3000; i++) {
        char line[100];
        int size = snprintf(line, sizeof line, "line %d of a plan that is longer than what is kept back\n", i);
        for (char *at = line; size--; at++)
            if (write(2, at, 1) != 1) return 2;
    }
    char *large = malloc(100000);
    memset(large, 'x', 100000);
    if (write(2, large, 100000) != 100000 || write(1, "out\n", 4) != 4) return 2;
    if (write(2, "preload ", 8) != 8) return 2;
    const char *left = getenv("LD_PRELOAD");
    if (left && write(2, left, strlen(left)) < 0) return 2;
    pid_t pid = fork();
    if (pid == 0) execl("/bin/true", "true", NULL);
    waitpid(pid, NULL, 0);
    char said[200], *calls;
    FILE *own = count > 2 && !strcmp(words[2], "count") ? fopen("/proc/self/io", "r") : NULL;
    while (own && fgets(said, sizeof said, own))
        if ((calls = strstr(said, "syscw:"))) fputs(calls, stdout);
    exit(count > 2 ? 3 : 0);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("driver")
    return compiled(directory, SOURCE, "-rdynamic")


def compiled(directory: Path, source: str, *options: str) -> str:
    (directory / "driver.c").write_text(source)
    subprocess.run(["cc", "-O1", "driver.c", "-o", "driver", *options], cwd=directory, check=True, timeout=60)
    return str(directory / "driver")


def run(program: str, *words: str, **more: str) -> Traced:
    environ = {"PATH": os.defpath, **more}
    argv = [program, *words]
    return SubprocessRunner().trace(argv, cwd=Path(program).parent, env=environ, program=program)


@pytest.mark.parametrize("words", [("-###",), ("-###", "fails"), ("-c", "-###")], ids=" ".join)
def test_a_plan_is_the_same_in_one_go(program: str, words: tuple[str, ...]) -> None:
    plain = run(program, *words).ended
    gathered = run(program, *words, **native.for_plans(program, {})).ended
    assert gathered.status == plain.status == (3 if len(words) > 1 else 0)
    assert gathered.stdout == plain.stdout == b"out\n"
    told = gathered.stderr
    if words[0] != "-###":
        told = told.removesuffix(os.fsencode(str(native.load()._name)))
    assert told == plain.stderr
    assert len(plain.stderr) > 200_000


@pytest.mark.skipif(not os.access("/proc/self/io", os.R_OK), reason="the kernel does not count system calls")
def test_it_makes_few_system_calls(program: str) -> None:
    def calls(**more: str) -> int:
        return int(run(program, "-###", "count", **more).ended.stdout.split()[-1])

    assert calls() > 100_000
    assert calls(**native.for_plans(program, {})) < 10


def test_the_library_is_none_of_what_the_driver_looked_at(program: str, tmp_path: Path) -> None:
    library = os.fsencode(str(native.load()._name))
    traced = run(program, "-###", **native.for_plans(program, {}))
    assert traced.observed is not None
    assert b"rf" + library in traced.observed.split(b"\0")
    rows = b"".join(row + b"\0" for row in traced.observed.split(b"\0")[:-1] if row[:1] != b"p")
    looks = observations(rows, str(tmp_path), ignore=str(tmp_path / "scratch"), started=time.time() + 60)
    assert looks
    assert os.fsdecode(library) not in {look.path for look in looks}


def test_a_program_that_may_not_bear_it_is_left_alone(program: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    static = compiled(tmp_path, "int main(void) { return 0; }\n", "-static")
    other = tmp_path / "other"
    other.write_bytes(Path(program).read_bytes().replace(b"ld-linux", b"ld-other", 1))
    alone = [native.for_plans(str(path), {}) for path in (script, static, other, tmp_path / "gone")]
    alone += [native.for_plans(program, {name: "x"}) for name in ("LD_PRELOAD", "LD_AUDIT", "LD_BIND_NOW")]
    assert not any(alone)
    assert native.for_plans(program, {"LD_LIBRARY_PATH": "/opt/rocm/lib"})


# What programs do that become clang, or start it.
WRAPPERS = {
    "becomes another program": 'write(2, "first\\n", 6); execl("/bin/echo", "echo", NULL);',
    "ends at once": 'write(2, "first\\n", 6); _exit(0);',
    "has a child that ends": 'write(2, "first\\n", 6); if (!fork()) exit(0); wait(NULL);',
    "closes its output": 'write(2, "first\\n", 6); close(2);',
    "goes elsewhere for a while": 'write(2, "first\\n", 6); dup2(1, 2); write(2, "out\\n", 4);',
    "writes in the end": "atexit(late);",
}


@pytest.mark.parametrize("does", WRAPPERS)
def test_a_wrapper_of_clang_says_what_it_always_says(does: str, tmp_path: Path) -> None:
    head = "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
    late = 'void late(void) { write(2, "first\\n", 6); }\n'
    program = compiled(tmp_path, f"{head}{late}int main(void) {{ {WRAPPERS[does]} return 0; }}\n", "-w")
    variables = native.for_plans(program, {})
    assert variables
    plain, with_library = run(program, "-###").ended, run(program, "-###", **variables).ended
    assert with_library.stderr == plain.stderr == b"first\n"
    assert (with_library.status, with_library.stdout) == (plain.status, plain.stdout)


@pytest.mark.parametrize(("says", "starts"), [("the library must come first", 2), ("driver: error: no such option", 1)])
def test_a_program_that_does_not_bear_the_library_is_asked_without(says: str, starts: int, tmp_path: Path) -> None:
    source = f"""
    #include <stdio.h>
    #include <stdlib.h>
    int main(void) {{
        FILE *log = fopen("starts", "a");
        fputs("x", log);
        fclose(log);
        if (!getenv("LD_PRELOAD")) return fputs("plan\\n", stderr), 0;
        return fputs("{says}\\n", stderr), 1;
    }}
    """
    program = compiled(tmp_path, source)
    context: Any = SimpleNamespace(environ={"PATH": os.defpath}, clock=time.time)
    told = b""
    try:
        told = os.fsencode(driver.run(program, [program, "-###"], context, SubprocessRunner(), tmp_path, tmp_path).text)
    except JobFailed as failed:
        told = failed.said
    assert told.decode() == ("plan\n" if starts == 2 else f"{says}\n")
    assert (tmp_path / "starts").read_text() == "x" * starts


def test_a_plan_that_is_cut_is_none(program: str, tmp_path: Path) -> None:
    """At a limit for the size of files, which Python lets a write tell of."""
    environ = {**os.environ, **native.for_plans(program, os.environ)}
    limited = ["prlimit", "--fsize=4096", program, "-###"]
    with open(tmp_path / "said", "wb") as file:
        done = subprocess.run(limited, stderr=file, env=environ, restore_signals=False, check=False, timeout=60)
    assert (done.returncode, (tmp_path / "said").stat().st_size) == (1, 4096)
