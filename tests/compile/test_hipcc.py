"""`hipcache hipcc`: what hipcc makes, without hipcc."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hip import ARCHS, FAILED, HIT, LAUNCHER, LLVM, MISS, PARTIAL, Lab, script, settle
from hipcache import processes
from hipcache.base import paths
from hipcache.clang import tools
from hipcache.processes import observe, ptrace
from hipcache.processes.ptrace import PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER
from hipcc_lab import SOURCE, lab, warm, words

__all__ = ["lab"]
pytestmark = pytest.mark.skipif(not shutil.which("hipcc"), reason="hipcc is not installed")


def own_hipcc(lab: Lab, name: str = "own") -> Path:
    """A copy of hipcc that a test may change, old enough to be remembered."""
    directory = lab.root / name
    directory.mkdir()
    if not Path("/usr/bin/hipcc.pl").exists():
        pytest.skip("this hipcc is a program")
    for file in ("/usr/bin/hipcc", "/usr/bin/hipcc.pl", "/usr/bin/hipvars.pm"):
        shutil.copy(file, directory)
    return directory / "hipcc"


# What it makes


def test_the_object_is_hipccs_own_and_its_cpp_is_hip(lab: Lab) -> None:
    first = lab.same(words(*ARCHS))
    assert first.outcome == MISS
    assert first.counted.missed == {"gfx906", "gfx90a", "host"}
    assert lab.same(words(*ARCHS)).outcome == HIT


def test_a_hit_starts_no_process_at_all(lab: Lab) -> None:
    warm(lab)
    settle()
    warm(lab)
    ended = subprocess.run(
        [*LAUNCHER, *words()],
        cwd=lab.root,
        env=lab.environ,
        preexec_fn=forbid_processes(),
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, b""), "a second process was started"
    assert lab.counted().outcome == HIT


def forbid_processes() -> Callable[[], None]:
    """Makes clone, fork, vfork and clone3 fail (ENOSYS) in this process and what it becomes."""
    machine = os.uname().machine
    numbers = {"x86_64": (56, 57, 58, 435), "aarch64": (220, 435)}[machine]
    code = ctypes.create_string_buffer(ptrace.bpf(ptrace.MACHINES[machine][0], dict.fromkeys(numbers)))
    rules = struct.pack("HP", (len(code) - 1) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)

    def forbid() -> None:
        assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, rules, 0, 0) == 0
        assert libc.fork() == -1, len(code)  # `code` lives as long as this function

    return forbid


def test_a_compile_by_hipcc_is_a_hit_for_clang_with_the_same_options(lab: Lab) -> None:
    warm(lab)
    said = lab.run(words("-v"), env={"HIPCC_VERBOSE": "1"}).out.decode()
    command = next(line for line in said.splitlines() if line.startswith("hipcc-cmd: "))
    clang = [word for word in shlex.split(command.removeprefix("hipcc-cmd: ")) if word != "-v"]
    assert lab.same(clang).outcome == HIT


def test_another_architecture_compiles_that_one_alone(lab: Lab) -> None:
    warm(lab, *ARCHS)
    more = lab.same(words(*ARCHS, "--offload-arch=gfx1030"))
    assert more.outcome == PARTIAL
    assert more.counted.missed == {"gfx1030"}


def test_architectures_may_come_by_a_variable_or_by_hipccs_old_option(lab: Lab) -> None:
    warm(lab, *ARCHS)
    command = [word for word in words() if "-arch=" not in word]
    assert lab.same(command, env={"HCC_AMDGPU_TARGET": "gfx906,gfx90a"}).outcome == HIT
    said = lab.run(words("--amdgpu-target=gfx90a"))
    if not said.err + said.out:  # newer ones warn of it
        assert lab.same(words("--amdgpu-target=gfx90a")).counted.served == {"gfx90a", "host"}


def test_options_that_hipcc_takes_from_a_variable_are_options(lab: Lab) -> None:
    before = warm(lab)
    after = lab.same(words(), env={"HIPCC_COMPILE_FLAGS_APPEND": "-DVALUE=5"})
    assert after.outcome == MISS
    assert after.object != before.object
    assert warm(lab).object == before.object


def test_without_an_architecture_it_is_that_of_the_machine(lab: Lab) -> None:
    """hipcc asks rocm_agent_enumerator, which can be told by a file."""
    command = [word for word in words() if "-arch=" not in word]
    target = lab.write("target.lst", "gfx906\n")
    # The system's python3: pyenv's is a shell script, which opens the terminal.
    env = {"ROCM_TARGET_LST": str(target), "PATH": "/usr/bin:/bin"}
    assert lab.same(command, env=env).counted.missed == {"gfx906", "host"}
    settle()
    assert [lab.same(command, env=env).outcome for _ in range(2)] == [HIT, HIT]
    target.write_text("gfx90a\n")
    assert lab.same(command, env=env).counted.missed == {"gfx90a"}


@pytest.mark.skipif(os.path.exists(processes.GPUS[0]), reason="this machine has a GPU")
def test_a_hipcc_that_looks_for_gpus_is_cached_as_long_as_there_is_none(lab: Lab) -> None:
    looks = script(lab.root / "hipcc", f'[ -d {processes.GPUS[0]}kfd/topology ] && exit 1\nexec /usr/bin/hipcc "$@"\n')
    assert [lab.same(words(hipcc=str(looks))).outcome for _ in range(2)] == [MISS, HIT]


def test_a_file_of_the_kernel_about_gpus_counts_by_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none here: another directory stands for the kernel's."""
    monkeypatch.setattr(observe, "GPUS", f"{tmp_path}/")
    file = tmp_path / "properties"
    file.write_text("gfx_target_version 90006\n")
    before, times = observe.sign("read", str(file)), file.stat()
    file.write_text("gfx_target_version 90010\n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert observe.sign("read", str(file)) != before
    file.write_text("gfx_target_version 90006\n")
    assert observe.sign("read", str(file)) == before
    assert observe.sign("read", f"{tmp_path}/other") == ""


@pytest.mark.parametrize("form", ["-c", "-c --"], ids=["musl, glibc 2.40", "glibc 2.41"])
def test_a_hipcc_that_starts_clang_by_system_is_cached(lab: Lab, form: str) -> None:
    """As the program of ROCm 7 does: the C library has a shell run the command, in one of these forms."""
    shell = ", ".join(f"'{word}'" for word in form.split())
    text = f"""\
my $command = "{LLVM[lab.version]}/bin/clang++ -x hip " . join(" ", map {{ quotemeta }} @ARGV);
exec {{ "/bin/sh" }} "sh", {shell}, $command unless fork();
wait;
exit($? >> 8);
"""
    hipcc = script(lab.root / "hipcc", text, program="/usr/bin/perl")
    assert [lab.same(words("-DSAYS='a b'", hipcc=str(hipcc))).outcome for _ in range(2)] == [MISS, HIT]


@pytest.mark.parametrize("path", paths.HARMLESS)
def test_a_hipcc_that_reads_what_allocators_read_is_cached(lab: Lab, path: str) -> None:
    """Python's does, which hipcc asks for the machine's architecture."""
    reads = script(lab.root / "hipcc", f'read mode <{path}\nexec /usr/bin/hipcc "$@"\n')
    assert [lab.same(words(hipcc=str(reads))).outcome for _ in range(2)] == [MISS, HIT]


def test_another_clang_by_hipccs_variable_is_another_compiler(lab: Lab) -> None:
    before = warm(lab, "-g")
    (lab.root / "newer" / "bin").mkdir(parents=True)
    (lab.root / "newer" / "lib" / "clang" / "19.1.7").mkdir(parents=True)  # hipcc 5 looks for it there
    for name in ("clang", "clang++"):
        for called in (name, f"{name}-{lab.version}"):
            (lab.root / "newer" / "bin" / called).symlink_to(LLVM["19"] / "bin" / name)
    newer = {"HIP_CLANG_PATH": str(lab.root / "newer" / "bin")}
    after = warm(lab, "-g", env=newer)
    assert after.object != before.object
    assert lab.same(words("-g")).outcome == HIT


def test_hipccs_variable_may_name_others_for_the_shell(lab: Lab) -> None:
    env = {"HIPCC_COMPILE_FLAGS_APPEND": "-DVALUE=$MY_VALUE", "MY_VALUE": "7"}
    before = warm(lab, env=env)
    after = lab.same(words(), env={**env, "MY_VALUE": "8"})
    assert after.object != before.object
    assert after.outcome == MISS


def test_a_store_that_must_not_be_written_serves_what_it_has(lab: Lab) -> None:
    warm(lab)
    lab.environ["HIPCACHE_READONLY"] = "1"
    ended = lab.run([*LAUNCHER, *words("-DVALUE=4")])
    assert ended.status == 0, ended.err
    made = (lab.root / "out.o").read_bytes()
    assert lab.run(words("-DVALUE=4")).status == 0
    assert made == (lab.root / "out.o").read_bytes()


def test_a_changed_hipcc_is_asked_again(lab: Lab) -> None:
    hipcc = own_hipcc(lab)
    lab.environ["HIP_PATH"] = "/usr"
    lab.environ["PERL5LIB"] = str(hipcc.parent)
    settle()
    for expected in (MISS, HIT):
        before = lab.same(words(hipcc=str(hipcc)))
        assert before.outcome == expected
    text = (hipcc.parent / "hipcc.pl").read_text()
    (hipcc.parent / "hipcc.pl").write_text(text.replace('my $CMD="$HIPCC";', 'my $CMD="$HIPCC -DVALUE=9";'))
    after = lab.same(words(hipcc=str(hipcc)))
    assert after.outcome == MISS
    assert after.object != before.object


def test_warnings_are_hipccs_own_warm_and_cold(lab: Lab) -> None:
    lab.write("k.cpp", SOURCE + "int f() { }\n")
    assert "non-void function" in warm(lab).messages


def test_a_compile_that_fails_says_what_hipcc_says(lab: Lab) -> None:
    lab.write("k.cpp", SOURCE + "int f() { return x; }\n")
    failed = lab.same(words())
    assert failed.outcome == FAILED
    assert failed.status == 1


def test_paths_with_blanks_and_quotes_reach_the_compiler_as_they_are(lab: Lab) -> None:
    lab.write("two $words; 'quoted'/x.h", "#define VALUE 8\n")
    assert warm(lab, "-include", "two $words; 'quoted'/x.h").object != lab.same(words()).object


def test_dependency_files_are_written(lab: Lab) -> None:
    assert "hip_in_short.hpp" in warm(lab, "-MD", "-MF", "out.d").dependencies


def test_explain_and_the_log_show_the_users_own_command(lab: Lab) -> None:
    lab.environ["HIPCACHE_LOG"] = str(lab.root / "log")
    warm(lab)
    assert " hipcc --offload-arch=gfx906" in (lab.root / "log").read_text()


def test_hipccs_own_option_for_code_objects_is_the_devices_side_alone(lab: Lab) -> None:
    warm(lab, *ARCHS)
    command = [word for word in words("--genco", *ARCHS) if word != "-c"]
    plain = lab.run(command).err
    made = (lab.root / "out.o").read_bytes()
    ended = lab.run([*LAUNCHER, *command])
    assert ended.err == plain
    assert (lab.root / "out.o").read_bytes() == made
    assert lab.counted().served == {"gfx906", "gfx90a"}


def test_hipcc_as_the_linker_of_device_code(lab: Lab) -> None:
    lab.write("k.cpp", SOURCE + "int main() { return 0; }\n")
    assert lab.run(words("-fgpu-rdc", *ARCHS)).status == 0
    command = ["hipcc", *ARCHS, "-fgpu-rdc", "out.o", "-o", "program"]
    assert lab.run(command).status == 0
    made = (lab.root / "program").read_bytes()
    for outcome in (MISS, HIT):
        (lab.root / "program").unlink()
        assert lab.run([*LAUNCHER, *command]).status == 0
        assert (lab.root / "program").read_bytes() == made
        assert lab.counted().outcome == outcome


# Processes


def _children() -> set[int]:
    """Process numbers of this process's children; servers that other tests use may be among them."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(status.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(status.parent.name))
    return found


def test_watching_reaps_no_other_child_and_leaves_none(lab: Lab) -> None:
    other = subprocess.Popen(["sh", "-c", "exit 7"])
    before = _children()
    ignore = str(lab.root / "scratch")
    reached = observe.until(
        lambda argv: tools.is_clang(argv[0]) and "-c" in argv,
        "/usr/bin/hipcc",
        words(),
        cwd=str(lab.root),
        env=lab.environ,
        ignore=ignore,
    )
    assert not isinstance(reached, str), reached
    assert tools.is_clang(reached.argv[0])
    assert other.pid in _children() <= before
    assert other.wait() == 7


def _gone(what: Callable[[], bool]) -> bool:
    for _ in range(1200):
        if what():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ending_hipcache_ends_the_hipcc_that_it_watches(lab: Lab, number: signal.Signals) -> None:
    mark = f"{lab.root}/never"
    hipcc = script(lab.root / "hipcc", f"sh -c 'while :; do sleep 0.1; done' {mark}\n")

    def running() -> bool:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    found = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if mark.encode() in found:
                    return True
        return False

    process = subprocess.Popen([*LAUNCHER, *words(hipcc=str(hipcc))], cwd=lab.root, env=lab.environ)
    assert _gone(running)
    process.send_signal(number)
    assert process.wait() == -number
    assert _gone(lambda: not running())
