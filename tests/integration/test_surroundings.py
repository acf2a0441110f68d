"""Odd surroundings of a compile: streams that are closed, full, slow or read by nobody, compilers that are scripts.

What plain clang does there, hipcache does."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time

import pytest
from hip import KERNEL, LAUNCHER, Lab, kernel, only_19, script, settle, watched_compiler
from in_shell import shell

WARNS = KERNEL + "".join(f"static int unused_{number}() {{ return 1; }}\n" for number in range(40))


@only_19
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_lose_no_build(lab: Lab, closed: str) -> None:
    lab.write("k.hip", WARNS)
    expected = lab.compile("-Wall").object
    for words in (lab.words("-Wall"), lab.words("-Wall"), lab.words("-Wall", "-fsyntax-only")):
        (lab.root / "out.o").unlink(missing_ok=True)
        status, _, _ = shell(lab, f'"$@" {closed}', *LAUNCHER, *words)
        assert status == 0
        assert "-fsyntax-only" in words or (lab.root / "out.o").read_bytes() == expected


@only_19
def test_messages_are_whole_on_a_pipe_that_does_not_block(lab: Lab) -> None:
    lab.write("k.hip", WARNS)
    expected = lab.compile("-Wall").messages.encode()
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writer, False)
    assert fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096) < len(expected)
    process = subprocess.Popen([*LAUNCHER, *lab.words("-Wall")], cwd=lab.root, env=lab.environ, stderr=writer)
    os.close(writer)
    time.sleep(1)  # a reader that is late
    with open(reader, "rb") as pipe:
        assert pipe.read() == expected
    assert process.wait() == 0


@only_19
def test_messages_that_nobody_can_read_end_as_the_compilers_own(lab: Lab) -> None:
    lab.write("k.hip", WARNS)
    lab.warm("-Wall")
    ends = []
    for launcher in ((), LAUNCHER):
        reader, nobody = os.pipe()
        os.close(reader)
        with open("/dev/full", "wb") as full:
            for place in (full, nobody):
                words = [*launcher, *lab.words("-Wall")]
                ends.append(subprocess.run(words, cwd=lab.root, env=lab.environ, stderr=place, check=False).returncode)
        os.close(nobody)
    assert ends[2:] == ends[:2]
    assert 0 not in ends


def test_a_compiler_that_is_left_to_itself_is_killed_by_sigpipe_as_ever(lab: Lab) -> None:
    path = lab.write("talks", "#!/bin/sh\ngrep SigIgn /proc/self/status\n")
    path.chmod(0o755)
    ignored = [int(lab.run([*launcher, path, "-c", "k.cpp"]).out.split()[1], 16) for launcher in ((), LAUNCHER)]
    assert ignored[1] == ignored[0]


@only_19
def test_a_compiler_that_is_a_script_without_an_interpreter_runs_as_in_a_shell(lab: Lab) -> None:
    path = lab.write("compiler", f'exec {lab.compiler} "$@"\n')
    path.chmod(0o755)
    expected = lab.compile().object
    words = ["./compiler", *lab.words()[1:]]
    assert shell(lab, '"$@"', *LAUNCHER, *words) == (0, b"", b"")
    assert (lab.root / "out.o").read_bytes() == expected
    assert b"clang version" in shell(lab, 'PATH=".:$PATH"; "$@"', *LAUNCHER, "compiler", "--version")[1]


@only_19
@pytest.mark.parametrize("name", ["a,b", "a b", "a'b\"c", "a$b\\c", "a#b", "a=b:c", b"a\xffb"])
def test_a_store_may_have_any_name(lab: Lab, name: str | bytes) -> None:
    lab.environ["HIPCACHE_DIR"] = os.fsdecode(os.path.join(os.fsencode(lab.root), os.fsencode(name)))
    lab.warm("-MD")


@only_19
def test_what_the_driver_says_is_told_from_its_banner(lab: Lab) -> None:
    assert "clang version (" in lab.warm("-Wl,clang version (").messages


@only_19
@pytest.mark.parametrize(
    "variable", ["LLD_VERSION", "LLD_REPRODUCE", "LLVM_OVERRIDE_PRODUCER", "AMD_SPLIT_MODULE_LOG_DIR"]
)
def test_variables_of_the_tools_reach_them(lab: Lab, variable: str) -> None:
    lab.warm()
    assert lab.compile(env={variable: "of-the-link"}).counted.reason == "side_output"


@only_19
@pytest.mark.parametrize(
    ("flags", "edits"),
    [
        (["--config=./clang.cfg"], ""),
        (["-MJcommands.json"], ""),
        (["-Xarch_device", "-MJcommands.json"], ""),
        ([], "# +-MJ +commands.json"),
        ([], "#+-MJcommands.json"),
        ([], "#^-MJcommands.json +-DQ"),
        (["-DQ"], "#s/-DQ/-MJcommands.json/"),
    ],
)
def test_an_option_that_writes_a_file_while_the_driver_plans_is_found_in_any_place(
    lab: Lab, flags: list[str], edits: str
) -> None:
    lab.write("clang.cfg", "# all commands of this directory\n-MJ commands.json\n")
    env = {"CCC_OVERRIDE_OPTIONS": edits} if edits else {}
    for _ in range(2):
        assert lab.hipcache(*lab.words(*flags), env=env).status == 0
        assert lab.counted().reason == ("plan" if "s/" in edits else "temporary_names")
        (lab.root / "commands.json").unlink()


@only_19
def test_a_plan_for_this_machine_is_not_remembered_if_a_config_file_asks_for_it(lab: Lab) -> None:
    lab.write("clang.cfg", "-march=native\n")
    flags = "--config=./clang.cfg"
    lab.compile(flags)
    before = {path.name for path in lab.store.rglob("*") if path.is_file()}
    settle()  # what is younger is not remembered in any case
    assert lab.compile(flags).outcome == "hit"
    assert {path.name for path in lab.store.rglob("*") if path.is_file()} == before


@only_19
def test_a_compile_that_is_stopped_holds_up_no_other_one(lab: Lab) -> None:
    """As by Ctrl-Z in another terminal, while it holds the only slot."""
    lab.environ["HIPCACHE_JOBS"] = "1"
    compiler = watched_compiler(lab.root / "compiler", "19", f"touch {lab.root}/runs; sleep 60")
    words = [str(compiler), *lab.words(source="other.hip", output="other.o")[1:]]
    lab.write("other.hip", kernel("3"))
    stopped = subprocess.Popen([*LAUNCHER, *words], cwd=lab.root, env=lab.environ, start_new_session=True)
    try:
        while not (lab.root / "runs").exists():
            time.sleep(0.05)
        os.killpg(stopped.pid, signal.SIGSTOP)
        assert lab.run([*LAUNCHER, *lab.words()], seconds=100).status == 0
    finally:
        os.killpg(stopped.pid, signal.SIGKILL)
        stopped.wait()


@only_19
def test_a_stopped_compile_holds_up_no_other_one_of_the_same_unit(lab: Lab) -> None:
    """It holds the lock of the unit while it is stopped; the other one does the work itself."""
    compiler = watched_compiler(
        lab.root / "compiler", "19", f"test -e {lab.root}/runs || {{ touch {lab.root}/runs; sleep 60; }}"
    )
    words = [str(compiler), *lab.words()[1:]]
    stopped = subprocess.Popen([*LAUNCHER, *words], cwd=lab.root, env=lab.environ, start_new_session=True)
    try:
        while not (lab.root / "runs").exists():
            time.sleep(0.05)
        os.killpg(stopped.pid, signal.SIGSTOP)
        assert lab.run([*LAUNCHER, *words], seconds=100).status == 0
    finally:
        os.killpg(stopped.pid, signal.SIGKILL)
        stopped.wait()


@only_19
def test_where_there_are_no_files_in_memory_compiles_are_cached(lab: Lab) -> None:
    """A sandbox that refuses memfd_create(2): a limit of open files that the second one would exceed stands for it."""
    program = "from hipcache.processes import ptrace; import os; from pathlib import Path\n"
    program += "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir('/proc/self/fd')), 64))\n"
    program += "print(ptrace.watch('/bin/true', ['true'], cwd='/', env={}, ignore='/tmp', wanted=None))"
    assert b"no files in memory" in lab.run([sys.executable, "-c", program]).out


@pytest.mark.parametrize("flag", ["-ggdb3", "-glldb"])
def test_debug_information_for_one_debugger_is_cached_too(lab: Lab, flag: str) -> None:
    lab.warm(flag)


@only_19
def test_ignored_ends_of_processes_make_no_failure_a_success(lab: Lab) -> None:
    """Whose children are reaped by the kernel cannot know how they ended; plain clang gives up."""
    lab.write("k.hip", "#error no object\n")
    for _ in range(2):
        ends = [shell(lab, 'trap "" CHLD; exec "$@"', *launcher, *lab.words()) for launcher in ((), LAUNCHER)]
        assert ends[0][0] == ends[1][0] != 0
        assert not (lab.root / "out.o").exists()


@only_19
@pytest.mark.parametrize(("gone", "said"), [("yaml", b"reinstall hipcache"), ("blake3", b"")])
def test_a_broken_installation_loses_no_build(lab: Lab, gone: str, said: bytes) -> None:
    """Our own BLAKE3 stands in for a missing one (`test_hashing.py`)."""
    assert lab.run(lab.words()).status == 0
    expected = (lab.root / "out.o").read_bytes()
    (lab.root / "out.o").unlink()
    lab.write(f"broken/{gone}.py", "raise ImportError('none here')\n")
    lab.write("home/hipcache/hipcache.yaml", "max_size: 1GiB\n")
    places = f"{lab.root}/broken:{lab.environ.get('PYTHONPATH', '')}"
    environ = {"PYTHONPATH": places, "XDG_CONFIG_HOME": f"{lab.root}/home"}
    ended = lab.run([sys.executable, "-m", "hipcache", *lab.words()], env=environ)
    assert (ended.status, ended.out) == (0, b"")
    assert said in ended.err
    assert bool(said) == bool(ended.err)
    assert (lab.root / "out.o").read_bytes() == expected


# Compilers that are scripts


BECOME = {
    "as it is": 'exec {clang} "$@"\n',
    "after a look": 'where=$(dirname "$0")\ntest -d "$where" && exec {clang} "$@"\n',
    "with a flag": 'exec {clang} -DMORE=2 "$@"\n',
    "with a variable": 'export CPLUS_INCLUDE_PATH=more\nexec {clang} "$@"\n',
    "with a flag for compiles alone": 'case "$*" in *-###*) exec {clang} "$@";; esac\nexec {clang} -DMORE=3 "$@"\n',
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", BECOME)
@pytest.mark.parametrize("name", ["clang++", "cxx"])
def test_a_script_that_becomes_clang_is_cached(lab: Lab, how: str, name: str) -> None:
    lab.write("more/more.hpp", "#define MORE 4\n")
    text = "#ifndef MORE\n#if __has_include(<more.hpp>)\n#include <more.hpp>\n#else\n#define MORE 1\n#endif\n#endif\n"
    lab.write("k.hip", kernel("MORE", text))
    plain = lab.compile().object
    lab.compiler = str(script(lab.root / name, BECOME[how].format(clang=lab.compiler)))
    made = lab.warm()
    assert (made.object != plain) == how.startswith("with")


AFTER = {
    "signs": '{clang} "$@"; status=$?\nprintf signed >>out.o; exit $status\n',
    "signs in the end": 'exec {clang} "$@" & wait $!; printf signed >>out.o\n',
    "signs by a trap": 'trap "printf signed >>out.o" EXIT\n{clang} "$@"\n',
    "writes a log": 'echo "$@" >>log\nexec {clang} "$@"\n',
    "prints": 'echo compiling\nexec {clang} "$@"\n',
    "makes its own object": 'shift $(($# - 1)); printf mine >"$1"\n',
}


@pytest.mark.parametrize("how", AFTER)
def test_a_script_that_does_more_than_compile_is_left_to_itself(lab: Lab, how: str) -> None:
    lab.compiler = str(script(lab.root / "clang++", AFTER[how].format(clang=lab.compiler)))
    for _ in range(2):
        assert lab.compile().counted.reason == "wrapper"
    assert (lab.root / "out.o").read_bytes().endswith(b"signed") == how.startswith("signs")


@pytest.mark.parametrize("mask", ["077", "002"])
def test_a_script_that_sets_the_mode_of_new_files_is_left_to_itself(lab: Lab, mask: str) -> None:
    lab.compiler = str(script(lab.root / "clang++", f'umask {mask}\nexec {lab.compiler} "$@"\n'))
    for _ in range(2):
        assert lab.compile().counted.reason == "wrapper"
        assert (lab.root / "out.o").stat().st_mode & 0o777 == 0o666 & ~int(mask, 8)
