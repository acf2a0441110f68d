"""A program that was loaded once begins as a new one would, and goes without where it cannot be loaded so."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hipcache.processes.runner import Completed, ForkServers, SubprocessRunner

# What a program finds of itself when it begins, and how often it was loaded: by a line for each time.
SOURCE = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
extern char **environ;
static void *wait_for_ever(void *at) { for (;;) pause(); }
__attribute__((constructor)) static void load(void) {
    FILE *log = fopen(LOG, "a");
    fprintf(log, "%s\n", program_invocation_name);
    fclose(log);
#ifdef OPEN
    (void)open("/dev/null", O_RDONLY);
#endif
#ifdef SAYS
    fputs("loaded", stderr);
#endif
#ifdef THREAD
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_ever, NULL);
#endif
}
static int first = 1;
int main(int count, char **words) {
    char text[4096];
    sigset_t blocked;
    struct stat found;
    if (count > 1 && !strcmp(words[1], "abort")) abort();
    if (count > 1 && !strcmp(words[1], "sleep")) { return sleep(count > 2 ? atoi(words[2]) : 60), 0; }
    if (count > 1 && !strcmp(words[1], "memory")) {
        for (int i = 0; i < 1000; i++) memset(malloc(10000), 1, 10000);
        FILE *mine = fopen("/proc/self/smaps_rollup", "r");
        while (fgets(text, sizeof text, mine)) fputs(text, stdout);
        return 0;
    }
    for (int i = 0; i < count; i++) printf("word %s\n", words[i]);
    for (char **one = environ; *one; one++) printf("variable %s\n", *one);
    printf("directory %s, parent %d, first %d\n", getcwd(text, sizeof text), (int)getppid(), first--);
    printf("getenv %s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "none");
    for (int fd = 0; fd < 256; fd++)
        if (fcntl(fd, F_GETFD) >= 0 && fstat(fd, &found) == 0) printf("open %d %d\n", fd, S_ISCHR(found.st_mode));
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int i = 1; i < 32; i++) {
        struct sigaction what;
        if (sigaction(i, NULL, &what) == 0 && what.sa_handler != SIG_DFL) printf("handled %d\n", i);
        if (sigismember(&blocked, i)) printf("blocked %d\n", i);
    }
    printf("umask %o, read %zd\n", umask(022), read(0, text, 1));
    fputs("said", stderr);
    return 3;
}
"""


def built(place: Path, *options: str) -> str:
    path = place / "program"
    words = ["cc", "-x", "c", "-w", "-pthread", f'-DLOG="{place}/log"', *options, "-o", path, "-"]
    subprocess.run(words, input=SOURCE, text=True, check=True)
    return str(path)


def loads(place: Path) -> int:
    return (place / "log").read_text().count("\n")


def runner() -> SubprocessRunner:
    return SubprocessRunner(ForkServers(lambda _: True))


def run(runner: SubprocessRunner, program: str, *words: str, **variables: str) -> Completed:
    directory = Path(program).parent
    return runner.run([program, *words], cwd=directory, env={"PATH": "/usr/bin:/bin", **variables})


@pytest.mark.parametrize("observed", [False, True])
def test_it_begins_as_a_new_program_would(tmp_path: Path, observed: bool) -> None:
    program, served = built(tmp_path), runner()
    words = [program, "a b", "", *(f"-I/some/directory/{number}" for number in range(20_000))]
    environ = {"PATH": "/usr/bin:/bin", "EMPTY": "", "TEXT": "two\nlines"}
    plain = SubprocessRunner().run(words, cwd=tmp_path, env=environ)
    assert loads(tmp_path) == 1
    for _ in range(3):
        done = (
            served.trace(words, cwd=tmp_path, env=environ).ended
            if observed
            else served.run(words, cwd=tmp_path, env=environ)
        )
        assert (done.status, done.stdout, done.stderr) == (3, plain.stdout, b"said")
    assert loads(tmp_path) == 2
    assert b"first 1" in plain.stdout


def test_a_program_is_loaded_so_from_its_second_start_on(tmp_path: Path) -> None:
    program, served = built(tmp_path), SubprocessRunner(ForkServers(lambda argv: argv[1:2] == ["again"]))
    for _ in range(4):
        assert run(served, program).status == 3
    assert loads(tmp_path) == 2
    other = runner()
    assert [run(other, program, "again").status for _ in range(4)] == [3] * 4
    assert loads(tmp_path) == 3


def test_groups_share_it_and_one_that_is_killed_leaves_it_to_the_others(tmp_path: Path) -> None:
    program = built(tmp_path)
    whole = runner()
    one, other = whole.group(), whole.group()
    assert run(one, program).status == 3
    one.kill()
    assert run(other, program).status == 3
    assert loads(tmp_path) == 1


@pytest.mark.parametrize("options", [("-static",), ("-DTHREAD",), ("-DOPEN",), ("-DSAYS",), ("-fsanitize=address",)])
def test_one_that_cannot_be_loaded_so_is_started_each_time(tmp_path: Path, options: tuple[str, ...]) -> None:
    program, served = built(tmp_path, *options), runner()
    assert [run(served, program, ASAN_OPTIONS="detect_leaks=0").status for _ in range(3)] == [3] * 3
    assert loads(tmp_path) >= 3


def test_a_script_is_started_each_time(tmp_path: Path) -> None:
    program, served = tmp_path / "program", runner()
    program.write_text("#!/bin/sh\n# " + "\u00e9" * 100 + "\nexit 3\n")
    program.chmod(0o755)
    assert [run(served, str(program)).status for _ in range(3)] == [3] * 3


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_AUDIT", "LD_DEBUG"])
def test_where_the_user_has_the_loader_do_more_it_is_started_each_time(tmp_path: Path, name: str) -> None:
    program, served = built(tmp_path), runner()
    assert [run(served, program, **{name: ""}).status for _ in range(3)] == [3] * 3
    assert loads(tmp_path) == 3


@pytest.mark.parametrize("places", ["lib", "/nowhere:", "/proc/self/cwd/lib"])
def test_its_libraries_are_those_of_a_program_that_is_started_there(tmp_path: Path, places: str) -> None:
    for place in (tmp_path / "one", tmp_path / "one/lib", tmp_path / "other", tmp_path / "other/lib"):
        place.mkdir()
        text = f'const char *where(void) {{ return "{place.relative_to(tmp_path)}"; }}'
        words = ["cc", "-x", "c", "-shared", "-fPIC", "-o", place / "libwhere.so", "-"]
        subprocess.run(words, input=text, text=True, check=True)
    text = "#include <stdio.h>\nconst char *where(void); int main(void) { puts(where()); }"
    program = tmp_path / "program"
    words = ["cc", "-x", "c", "-o", program, "-", f"-L{tmp_path}/one", "-lwhere"]
    subprocess.run(words, input=text, text=True, check=True)
    served = runner()
    for _ in range(2):
        for name in ("one", "other"):
            done = served.run([str(program)], cwd=tmp_path / name, env={"LD_LIBRARY_PATH": places})
            assert done.stdout.decode() == name + "/lib\n" * ("lib" in places) + "\n" * ("lib" not in places)


def test_another_environment_of_the_loader_has_another_one(tmp_path: Path) -> None:
    program, served = built(tmp_path), runner()
    for place in ("/a", "/b", "/a", "/b"):
        assert f"variable LD_LIBRARY_PATH={place}\n".encode() in run(served, program, LD_LIBRARY_PATH=place).stdout
    assert loads(tmp_path) == 2


def test_its_memory_is_in_huge_pages(tmp_path: Path) -> None:
    mode = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not mode.exists() or "[madvise]" not in mode.read_text():
        pytest.skip("the kernel gives huge pages to nobody, or to all")
    program = built(tmp_path)
    for served, huge in ((SubprocessRunner(), False), (runner(), True)):
        told = run(served, program, "memory").stdout.decode()
        kilobytes = {name: int(row.split()[0]) for name, row in re.findall(r"(\w+): +(.+) kB", told)}
        assert (kilobytes["AnonHugePages"] >= 4096) == huge, told


def test_the_users_own_tunables_hold(tmp_path: Path) -> None:
    program, served = built(tmp_path), runner()
    for _ in range(2):
        told = run(served, program, GLIBC_TUNABLES="glibc.malloc.perturb=1").stdout
        assert b"variable GLIBC_TUNABLES=glibc.malloc.perturb=1\n" in told
    assert loads(tmp_path) == 1


def test_its_end_is_told_as_that_of_a_new_program(tmp_path: Path) -> None:
    program, served = built(tmp_path), runner()
    assert [run(served, program, "abort").status for _ in range(2)] == [-signal.SIGABRT] * 2
    assert loads(tmp_path) == 1


def test_a_directory_that_is_gone_is_told(tmp_path: Path) -> None:
    program, served = built(tmp_path), runner()
    with pytest.raises(FileNotFoundError):
        served.run([program], cwd=tmp_path / "nowhere", env={})
    assert run(served, program).status == 3


def test_when_it_has_died_the_program_is_started_and_what_it_began_goes_on(tmp_path: Path) -> None:
    program, servers, ended = built(tmp_path), ForkServers(lambda _: True), list[Completed]()
    served = SubprocessRunner(servers)
    thread = threading.Thread(target=lambda: ended.append(run(served, program, "sleep", "2")))
    thread.start()
    assert run(served, program).status == 3
    os.kill(_server(program), signal.SIGKILL)
    assert [run(served, program).status for _ in range(2)] == [3] * 2
    assert loads(tmp_path) == 3
    thread.join(60)
    assert [done.status for done in ended] == [0]
    servers.close()
    assert not _children(os.getpid(), program)


def test_many_begin_at_once(tmp_path: Path) -> None:
    program, served, ended = built(tmp_path), runner(), list[Completed]()
    threads = [
        threading.Thread(target=lambda number=number: ended.append(run(served, program, str(number))))
        for number in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    told = {line for done in ended for line in done.stdout.decode().splitlines() if line.startswith("word ")}
    assert told == {f"word {program}", *(f"word {number}" for number in range(40))}
    assert {done.status for done in ended} == {3}
    assert loads(tmp_path) == 1


def test_nothing_is_left_when_it_is_closed(tmp_path: Path) -> None:
    program, servers = built(tmp_path), ForkServers(lambda _: True)
    assert run(SubprocessRunner(servers), program).status == 3
    assert _children(os.getpid(), program)
    servers.close()
    assert not _children(os.getpid(), program)
    for _ in range(2):
        assert run(SubprocessRunner(servers), program).status == 3
    assert not _children(os.getpid(), program)
    assert loads(tmp_path) == 3


def test_all_that_it_has_begun_ends_with_who_asked(tmp_path: Path) -> None:
    program = built(tmp_path)
    code = f"""
import sys, threading
from pathlib import Path
sys.path[:0] = {[path for path in sys.path if path]!r}
from hipcache.processes.runner import ForkServers, SubprocessRunner
runner = SubprocessRunner(ForkServers(lambda _: True))
run = lambda: runner.run([{program!r}, "sleep"], cwd=Path("/"), env={{}})
threads = [threading.Thread(target=run) for _ in range(3)]
[thread.start() for thread in threads]
"""
    engine = subprocess.Popen([sys.executable, "-c", code])
    for _ in range(6000):
        started = _children(engine.pid, program)
        if len(started) == 4:
            break
        time.sleep(0.01)
    assert len(started) == 4
    engine.kill()
    engine.wait(60)
    for _ in range(6000):
        if not any(Path(f"/proc/{pid}/exe").exists() for pid in started):
            return
        time.sleep(0.01)
    raise AssertionError(f"they are left: {started}")


def _server(program: str) -> int:
    """The number of the process that serves the program."""
    for child in _children(os.getpid(), program):
        if b"fork-server" in Path(f"/proc/{child}/cmdline").read_bytes() and _began(child) == min(
            map(_began, _children(os.getpid(), program))
        ):
            return child
    raise AssertionError("there is none")


def _began(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])


def _children(parent: int, program: str) -> list[int]:
    """The processes of that parent that run the program, if they have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if int((path / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found += [int(path.name)] if os.readlink(path / "exe") == program else []
        except OSError:
            continue
    return found
