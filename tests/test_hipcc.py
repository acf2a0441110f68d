"""`hipcache hipcc`: what hipcc makes, without hipcc. Real hipcc of Debian, in Perl, with clang 15."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hip import (
    ARCHS,
    BARE,
    CUID,
    FAILED,
    HIT,
    LAUNCHER,
    LLVM,
    MISS,
    PARTIAL,
    PASSED_THROUGH,
    Compiled,
    Ended,
    Lab,
    script,
    settle,
)
from hipcache.planning import tools
from hipcache.processes import observe, syscalls

pytestmark = pytest.mark.skipif(not shutil.which("hipcc"), reason="hipcc is not installed")

SOURCE = """\
#include "hip_in_short.hpp"
#ifndef VALUE
#define VALUE 3
#endif
extern "C" __global__ void kernel(int* p) { p[0] = p[1] * VALUE; }
extern "C" int host() { return VALUE; }
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab.make(tmp_path, "15")
    lab.write("k.cpp", SOURCE)
    time.sleep(0.02)
    return lab


def words(*flags: str, hipcc: str = "hipcc", source: str = "k.cpp") -> list[str]:
    archs = () if any("-arch=" in flag or "amdgpu-target" in flag for flag in flags) else ARCHS
    return [hipcc, *archs, *BARE, CUID, *flags, "-c", source, "-o", "out.o"]


def warm(lab: Lab, *flags: str, env: dict[str, str] | None = None) -> Compiled:
    lab.same(words(*flags), env=env)
    second = lab.same(words(*flags), env=env)
    assert second.outcome == HIT, second.counted
    return second


def own_hipcc(lab: Lab, name: str = "own") -> Path:
    """A copy of hipcc that a test may change, old enough to be remembered."""
    directory = lab.root / name
    directory.mkdir()
    for file in ("/usr/bin/hipcc", "/usr/bin/hipcc.pl", "/usr/bin/hipvars.pm"):
        shutil.copy(file, directory)
    return directory / "hipcc"


# What it makes


def test_the_object_is_hipccs_own_and_its_cpp_is_hip(lab: Lab) -> None:
    first = lab.same(words())
    assert first.outcome == MISS
    assert first.counted.missed == {"gfx906", "gfx90a", "host"}
    assert lab.same(words()).outcome == HIT


def test_a_hit_starts_no_process_at_all(lab: Lab) -> None:
    warm(lab)
    settle()
    warm(lab)
    argv = [*LAUNCHER, *words()]
    seen = observe.run(LAUNCHER[0], argv, cwd=str(lab.root), env=lab.environ, ignore=str(lab.store))
    assert seen is not None, "a second process was started"
    assert seen[0].status == 0, seen[0].stderr


def test_a_compile_by_hipcc_is_a_hit_for_clang_with_the_same_options(lab: Lab) -> None:
    warm(lab)
    said = lab.run(words("-v"), env={"HIPCC_VERBOSE": "1"}).out.decode()
    command = next(line for line in said.splitlines() if line.startswith("hipcc-cmd: "))
    clang = [word for word in shlex.split(command.removeprefix("hipcc-cmd: ")) if word != "-v"]
    assert lab.same(clang).outcome == HIT


def test_another_architecture_compiles_that_one_alone(lab: Lab) -> None:
    warm(lab)
    more = lab.same(words(*ARCHS, "--offload-arch=gfx1030"))
    assert more.outcome == PARTIAL
    assert more.counted.missed == {"gfx1030"}


def test_architectures_may_come_by_a_variable_or_by_hipccs_old_option(lab: Lab) -> None:
    warm(lab)
    command = [word for word in words() if "-arch=" not in word]
    assert lab.same(command, env={"HCC_AMDGPU_TARGET": "gfx906,gfx90a"}).outcome == HIT
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


@pytest.mark.skipif(os.path.exists(syscalls.GPUS), reason="this machine has a GPU")
def test_a_hipcc_that_looks_for_gpus_is_cached_as_long_as_there_is_none(lab: Lab) -> None:
    looks = script(lab.root / "hipcc", f'[ -d {syscalls.GPUS}kfd/topology ] && exit 1\nexec /usr/bin/hipcc "$@"\n')
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


def test_another_clang_by_hipccs_variable_is_another_compiler(lab: Lab) -> None:
    before = warm(lab, "-g")
    (lab.root / "newer" / "bin").mkdir(parents=True)
    (lab.root / "newer" / "lib" / "clang" / "19.1.7").mkdir(parents=True)  # hipcc 5 looks for it there
    for name in ("clang", "clang++"):
        (lab.root / "newer" / "bin" / f"{name}-15").symlink_to(LLVM["19"] / "bin" / name)
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


def test_a_second_command_in_hipccs_variable_is_run_by_hipcc(lab: Lab) -> None:
    pass_wrapper(lab, words(), env={"HIPCC_COMPILE_FLAGS_APPEND": "-DVALUE=7 -c k.cpp -o other.o; true"})


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
    warm(lab)
    command = [word for word in words("--genco") if word != "-c"]
    plain = lab.run(command).err
    made = (lab.root / "out.o").read_bytes()
    ended = lab.run([*LAUNCHER, *command])
    assert ended.err == plain
    assert (lab.root / "out.o").read_bytes() == made
    assert lab.counted().served == {"gfx906", "gfx90a"}


def test_hipcc_as_the_linker_of_device_code(lab: Lab) -> None:
    lab.write("k.cpp", SOURCE + "int main() { return 0; }\n")
    assert lab.run(words("-fgpu-rdc")).status == 0
    command = ["hipcc", *ARCHS, "-fgpu-rdc", "out.o", "-o", "program"]
    assert lab.run(command).status == 0
    made = (lab.root / "program").read_bytes()
    for outcome in (MISS, HIT):
        (lab.root / "program").unlink()
        assert lab.run([*LAUNCHER, *command]).status == 0
        assert (lab.root / "program").read_bytes() == made
        assert lab.counted().outcome == outcome


# What it leaves to hipcc


def pass_wrapper(lab: Lab, command: list[str], reason: str = "wrapper", env: dict[str, str] | None = None) -> None:
    ended = lab.same(command, env=env)
    assert (ended.outcome, ended.counted.reason) == (PASSED_THROUGH, reason)


def test_a_link_is_left_to_hipcc(lab: Lab) -> None:
    lab.same(words("-fPIC"))
    linked = lab.hipcache("hipcc", "-shared", "out.o", "-o", "lib.so")
    assert linked.status == 0, linked.err
    assert (lab.root / "lib.so").exists()
    assert lab.counted().reason == "link"


def test_a_program_of_relocatable_code_is_cached_as_clangs(lab: Lab) -> None:
    lab.write("k.hip", SOURCE + "int main() { return 0; }\n")
    command = [
        "hipcc",
        *ARCHS,
        *BARE,
        CUID,
        "-fgpu-rdc",
        "k.hip",
        "-o",
        "program",
        "-Wl,--unresolved-symbols=ignore-all",
    ]
    assert lab.run(command).status == 0
    plain = (lab.root / "program").read_bytes()
    for expected in (MISS, HIT):
        settle()
        (lab.root / "program").unlink()
        assert lab.hipcache(*command).status == 0
        assert (lab.root / "program").read_bytes() == plain
        counted = lab.counted()
        assert counted.outcome == expected
        assert "link" in (counted.served if expected == HIT else counted.missed)


def test_questions_to_hipcc_are_left_to_hipcc(lab: Lab) -> None:
    assert b"HIP version" in lab.hipcache("hipcc", "--version").out
    assert lab.counted().outcome == PASSED_THROUGH


def test_plain_c_is_left_to_hipcc(lab: Lab) -> None:
    lab.write("x.c", "int x(void) { return 1; }\n")
    pass_wrapper(lab, words(source="x.c"), "not_hip")


def test_hipcc_that_prints_something_is_left_alone(lab: Lab) -> None:
    pass_wrapper(lab, words(), env={"HIPCC_VERBOSE": "1"})
    talks = script(lab.root / "hipcc", 'echo talks >&2\nexec /usr/bin/hipcc "$@"\n')
    pass_wrapper(lab, words(hipcc=str(talks)))


@pytest.mark.skipif(os.path.exists(syscalls.GPUS), reason="this machine has a GPU")
def test_hipcc_that_complains_about_a_missing_gpu_is_left_alone(lab: Lab) -> None:
    """Debian's rocm_agent_enumerator does, where nobody names an architecture."""
    command = [word for word in words() if "-arch=" not in word]
    ended = lab.hipcache(*command)
    assert ended.status == 0
    assert lab.counted().reason == "wrapper"
    assert b"--offload-arch=" in lab.hipcache("explain", "out.o").out


def test_hipcc_that_opens_a_gpu_is_left_alone(lab: Lab) -> None:
    asks = script(lab.root / "hipcc", '[ -e /dev/kfd ]\nexec /usr/bin/hipcc "$@"\n')
    pass_wrapper(lab, words(hipcc=str(asks)))


def test_hipcc_for_nvidia_is_left_alone(lab: Lab) -> None:
    nvcc = script(lab.root / "bin-nvcc", 'while [ "$1" ]; do [ "$1" = -o ] && echo nvidia >"$2"; shift; done\n')
    (lab.root / "cuda" / "bin").mkdir(parents=True)
    nvcc.rename(lab.root / "cuda" / "bin" / "nvcc")
    for platform in ({"HIP_PLATFORM": "nvidia"}, {"HIP_PLATFORM": "nvcc"}):
        pass_wrapper(lab, words(), env={**platform, "CUDA_PATH": str(lab.root / "cuda")})


def test_a_response_file_is_left_to_hipcc(lab: Lab) -> None:
    lab.write("more.rsp", "-DVALUE=4\n")
    ended = lab.hipcache(*words("@more.rsp"))
    assert ended.status == 0, ended.err
    assert lab.counted().reason == "wrapper"


def test_a_script_named_hipcc_that_goes_on_after_the_compile_is_left_alone(lab: Lab) -> None:
    later = script(lab.root / "hipcc", '/usr/bin/hipcc "$@" && printf more >>out.o\n')
    pass_wrapper(lab, words(hipcc=str(later)))
    assert (lab.root / "out.o").read_bytes().endswith(b"more")


def test_a_script_named_hipcc_that_becomes_hipcc_is_hipcc(lab: Lab) -> None:
    hipcc = script(lab.root / "hipcc", 'exec /usr/bin/hipcc -DVALUE=6 "$@"\n')
    assert [lab.same(words(hipcc=str(hipcc))).outcome for _ in range(2)] == [MISS, HIT]


@pytest.mark.parametrize(
    "line",
    ["echo x >file", "mkdir directory", "cd .", "set -m; (:) & wait", "exec /usr/bin/setsid true", "exit 3"],
)
def test_a_script_named_hipcc_that_does_more_than_compile_runs_once(lab: Lab, line: str) -> None:
    hipcc = script(lab.root / "hipcc", f'{line}\nexec /usr/bin/hipcc "$@"\n')
    ended = lab.hipcache(*words(hipcc=str(hipcc)))
    assert ended.status == (3 if "exit" in line else 0), ended.err
    assert lab.counted().reason == "wrapper"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--offload-arch=gfx1100",), "cannot find ROCm device library for gfx1100"),
        (("--offload-arch=gfx90f",), "gfx90f"),
        (("--no-such-option",), "no-such-option"),
    ],
    ids=["an architecture that the device libraries do not cover", "one that is none", "an unknown option"],
)
def test_bad_input_is_told_in_hipccs_own_words(lab: Lab, flags: tuple[str, ...], said: str) -> None:
    lab.write("h.cpp", "#include <hip/hip_runtime.h>\n")
    archs = () if "arch" in flags[0] else ("--offload-arch=gfx906",)
    failed = lab.same(["hipcc", *archs, *flags, CUID, "-c", "h.cpp", "-o", "out.o"])
    assert failed.status != 0
    assert failed.messages.count(said) == 1


def test_no_hipcc_at_all_is_said(lab: Lab) -> None:
    ended = lab.hipcache(*words(hipcc="/nowhere/hipcc"))
    assert ended.status == 127
    assert b"cannot run the compiler '/nowhere/hipcc'" in ended.err


# Where only the inner clang can be wrapped


def test_a_directory_for_hip_clang_path_caches_what_hipcc_runs(lab: Lab) -> None:
    """With clang's own `lib` beside it hipcc gives clang the same options, and has nothing to complain about."""
    lab.write("h.cpp", "#include <hip/hip_runtime.h>\n__global__ void kernel(int* p) { *p = __popc(p[1]); }\n")
    command = ["hipcc", *ARCHS, CUID, "-c", "h.cpp", "-o", "out.o"]
    plain = lab.run(command)
    made = (lab.root / "out.o").read_bytes()
    (lab.root / "clang" / "bin").mkdir(parents=True)
    (lab.root / "clang" / "lib").symlink_to(LLVM["15"] / "lib")
    script(lab.root / "clang/bin/clang++-15", f'exec {" ".join(LAUNCHER)} {LLVM["15"]}/bin/clang++ "$@"\n')
    env = {"HIP_CLANG_PATH": str(lab.root / "clang/bin")}
    for expected in (MISS, HIT):
        (lab.root / "out.o").unlink()
        assert lab.run(command, env=env) == plain == Ended(0, b"", b"")
        assert (lab.root / "out.o").read_bytes() == made
        assert lab.stats()["compiles"][expected] == 1  # type: ignore[index]


# What the two hipcc that read HIP_CLANG_LAUNCHER do with a compile, in our words. The Perl one: bin/hipcc.pl of
# ROCm/HIPCC, commit 4d09931 (pull request 148): the launcher is words for the shell, clang is quoted, and is never
# clang++ (`-e` is asked about the name with its quotes). The binary: amd/hipcc/src/hipBin_amd.h of ROCm/llvm-project,
# commit 1d6b906 (pull request 1490; ROCm 7.13): the launcher is quoted, too, what clang prints is read through a pipe,
# and a command that fails is printed. Both quote the words of the user alike. Tried with the first itself and with
# the second's change in the older binary (ROCm/HIPCC, branch develop): on Debian, ROCM_PATH must be a directory with
# bin/.hipVersion, include/hip, amdgcn/bitcode and llvm/bin, as links; clang 15 looks nowhere else for HIP's version.
NEWER_HIPCC = r"""#!/usr/bin/perl
use strict;
my $binary = BINARY;
my $launcher = $ENV{HIP_CLANG_LAUNCHER};
my $clang = "$ENV{HIP_CLANG_PATH}/" . ($binary ? "clang++" : "clang");
`"$clang" --print-runtime-dir` unless $binary;
my ($archs, $tool, $cxx, $links, $before) = ("", "", 0, 1, "");
for my $word (@ARGV) {
    my $shell = $word;
    if ($before eq "-o") { $shell = "\"$word\""; } else { $shell =~ s/[^-a-zA-Z0-9_=+,.\/]/\\$&/g; }
    $links = 0 if $word eq "-c";
    if ($word =~ /^--offload-arch=(.*)/) {
        $archs .= " --offload-arch=$_" for split(",", $1);
    } else {
        if ($word =~ /\.(cpp|hip)$/ && $before ne "-o") { $cxx = 1; $tool .= " -x hip"; }
        $tool .= " $shell";
    }
    $before = $word;
}
my $early = " -mllvm -amdgpu-early-inline-all=true -mllvm -amdgpu-function-calls=false";
my $command = $binary ? $clang : "\"$clang\"";
$command = $binary ? "\"$launcher\" \"$clang\"" : "$launcher $command" if $launcher;
$command .= " $archs -O3$early" if $cxx;
$command .= " --driver-mode=g++ -O3 --hip-link" if $links;
$command .= " --rtlib=compiler-rt -unwindlib=libgcc" if $links && !$binary;
$command .= " $tool";
if (!$binary) {
    $ENV{HCC_EXTRA_LIBRARIES} = "\n";
    system($command);
    exit($? >> 8);
}
open(my $pipe, "-|", "/bin/sh", "-c", $command) or die;
my $printed = join("", <$pipe>);
close($pipe);
my $status = $? >> 8;
print $printed;
print STDERR "failed to execute:$command\n" if $status;
exit($status);
"""
KINDS = ("perl", "binary")


def newer_hipcc(lab: Lab, kind: str) -> str:
    path = lab.write("newer/hipcc", NEWER_HIPCC.replace("BINARY", str(int(kind == "binary"))))
    path.chmod(0o755)
    lab.environ["HIP_CLANG_PATH"] = f"{LLVM['15']}/bin"
    return str(path)


def plain_and_launched(lab: Lab, command: list[str], launcher: str) -> tuple[Ended, bytes, str]:
    """What hipcc itself says and makes; with a launcher that is the same, and how that compile was counted."""
    made = lab.root / "out.o"
    results: list[tuple[Ended, bytes]] = []
    for env in ({}, {"HIP_CLANG_LAUNCHER": launcher}):
        made.unlink(missing_ok=True)
        ended = lab.run(command, env=env)
        err = re.sub(rb"(failed to execute:)[^\n]*", rb"\1", ended.err)  # it prints the launcher
        results.append((replace(ended, err=err), made.read_bytes() if made.exists() else b""))
    assert results[0] == results[1]
    return (*results[0], lab.counted().outcome)


@pytest.mark.parametrize("kind", KINDS)
def test_newer_hipcc_runs_its_clang_through_the_launcher(lab: Lab, kind: str) -> None:
    command = words("-DSAYS='a b'", hipcc=newer_hipcc(lab, kind))
    for expected in (MISS, HIT):
        ended, made, outcome = plain_and_launched(lab, command, LAUNCHER[0])
        assert (ended.status, ended.out, ended.err, outcome) == (0, b"", b"", expected)
        assert made


def test_the_binary_hipcc_takes_a_launcher_in_a_directory_with_a_blank(lab: Lab) -> None:
    command = words(hipcc=newer_hipcc(lab, "binary"))
    launcher = lab.root / "two words" / "hipcache"
    launcher.parent.mkdir()
    launcher.symlink_to(LAUNCHER[0])
    assert [plain_and_launched(lab, command, str(launcher))[2] for _ in range(2)] == [MISS, HIT]


def test_the_perl_hipcc_takes_words_before_the_launcher(lab: Lab) -> None:
    command = words(hipcc=newer_hipcc(lab, "perl"))
    launcher = f"env SOME=thing {LAUNCHER[0]}"
    assert [plain_and_launched(lab, command, launcher)[2] for _ in range(2)] == [MISS, HIT]


@pytest.mark.parametrize(("kind", "name"), [("perl", "clang"), ("binary", "clang++")])
def test_newer_hipcc_takes_its_clang_from_the_directory_by_its_own_name(lab: Lab, kind: str, name: str) -> None:
    command = words(hipcc=newer_hipcc(lab, kind))
    assert lab.run(command).status == 0
    made = (lab.root / "out.o").read_bytes()
    script(lab.write(f"scripts/{name}", ""), f'exec {LAUNCHER[0]} {LLVM["15"]}/bin/{name} "$@"\n')
    for expected in (MISS, HIT):
        (lab.root / "out.o").unlink()
        assert lab.run(command, env={"HIP_CLANG_PATH": str(lab.root / "scripts")}).status == 0
        assert (lab.root / "out.o").read_bytes() == made
        assert lab.stats()["compiles"][expected] == 1  # type: ignore[index]


@pytest.mark.parametrize("kind", KINDS)
def test_a_launcher_says_what_clang_says_where_nothing_is_compiled(lab: Lab, kind: str) -> None:
    hipcc = newer_hipcc(lab, kind)
    lab.write("wrong.hip", "int f() { return x; }\n")
    for command, status, expected in (
        ([hipcc, "--version"], 0, PASSED_THROUGH),
        (words(hipcc=hipcc, source="wrong.hip"), 1, FAILED),
        (words(hipcc=hipcc, source="absent.hip"), 1, FAILED),
    ):
        ended, _, outcome = plain_and_launched(lab, command, LAUNCHER[0])
        assert (ended.status, outcome) == (status, expected), ended.err


@pytest.mark.parametrize("kind", KINDS)
def test_hipcache_before_hipcc_and_inside_it_is_one_compile(lab: Lab, kind: str) -> None:
    command = words(hipcc=newer_hipcc(lab, kind))
    env = {"HIP_CLANG_LAUNCHER": LAUNCHER[0]}
    assert lab.run(command, env=env).status == 0
    assert lab.counted().outcome == MISS
    made = (lab.root / "out.o").read_bytes()
    assert lab.hipcache(*command, env=env).status == 0
    assert lab.counted().outcome == HIT
    assert (lab.root / "out.o").read_bytes() == made


def test_a_launcher_inside_hipcc_is_no_hindrance(lab: Lab) -> None:
    """One that is not ours, and ours: the compiler is what stands behind it."""
    hipcc = script(lab.root / "hipcc", f'exec {LAUNCHER[0]} {LLVM["15"]}/bin/clang++ -x hip "$@"\n')
    named = script(lab.root / "ccache", 'exec "$@"\n')
    other = script(lab.root / "hipcc.bin", f'exec {named} {LLVM["15"]}/bin/clang++ -x hip "$@"\n')
    assert lab.same(words(hipcc=str(other))).outcome == MISS
    assert lab.same(words(hipcc=str(other))).outcome == HIT
    assert lab.hipcache(*words(hipcc=str(hipcc))).status == 0


# Processes


def test_watching_reaps_no_other_child_of_the_thread(lab: Lab) -> None:
    other = subprocess.Popen(["sh", "-c", "exit 7"])
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
    assert reached.argv[0] == "/usr/bin/clang++-15"
    assert other.wait() == 7
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


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


# Caches in front


def test_ccache_gets_what_is_no_hip_and_hipcache_keeps_what_is(lab: Lab) -> None:
    ccache = script(lab.root / "ccache", 'echo "$@" >>ccache.log\nexec "$@"\n')
    clang = str(LLVM["15"] / "bin" / "clang++")
    lab.write("x.cpp", "int x() { return 1; }\n")
    plain = [str(ccache), clang, "-c", "x.cpp", "-o", "x.o"]
    assert lab.hipcache(*plain).status == 0
    assert (lab.root / "ccache.log").read_text() == " ".join(plain[1:]) + "\n"
    assert lab.counted().reason == "not_hip"
    hip = [str(ccache), clang, *words("-x", "hip")[1:]]
    for expected in (MISS, HIT):
        assert lab.hipcache(*hip).status == 0
        assert lab.counted().outcome == expected
    assert len((lab.root / "ccache.log").read_text().splitlines()) == 1


@pytest.mark.skipif(not shutil.which("ccache"), reason="ccache is not installed")
def test_a_real_ccache_behind_hipcache_keeps_plain_cpp_alone(lab: Lab) -> None:
    lab.environ |= {"CCACHE_DIR": str(lab.root / "ccache"), "CCACHE_CONFIGPATH": str(lab.root / "ccache.conf")}
    lab.write("x.cpp", "int x() { return 1; }\n")
    hip = ["ccache", "clang++-15", *ARCHS, *BARE, CUID, "-x", "hip", "-c", "k.cpp", "-o", "out.o"]
    for served in range(2):
        assert lab.hipcache("ccache", "clang++-15", "-c", "x.cpp", "-o", "x.o").status == 0
        assert lab.counted().reason == "not_hip"
        assert lab.hipcache(*hip).status == 0
        assert lab.counted().outcome == (MISS, HIT)[served]
        counted = dict(line.split("\t") for line in lab.run(["ccache", "--print-stats"]).out.decode().splitlines())
        assert (counted["direct_cache_hit"], counted["cache_miss"]) == (str(served), "1")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ccache", "clang++", "-c"], ("clang++", "-c")),
        (["/usr/bin/ccache", "a=b", "compiler_check=content", "clang++", "-c"], ("clang++", "-c")),
        (["sccache", "distcc", "clang++"], ("clang++",)),
        (["ccache", "-s"], ("ccache", "-s")),
        (["ccache"], ("ccache",)),
        (["clang++", "ccache"], ("clang++", "ccache")),
    ],
)
def test_the_compilers_command_stands_behind_its_caches(words: list[str], expected: tuple[str, ...]) -> None:
    assert tools.behind(words) == expected


@pytest.mark.parametrize(
    "name", ["clang", "clang++", "/usr/bin/clang++-15", "amdclang++", "clang-19", "x/amdclang++-6.2"]
)
def test_a_clang_is_known_by_its_name(name: str) -> None:
    assert tools.is_clang(name)


@pytest.mark.parametrize("name", ["clang-format", "clang++-15.sh", "clangd", "gcc", "hipcc", "clang-offload-bundler"])
def test_what_only_begins_like_clang_is_none(name: str) -> None:
    assert not tools.is_clang(name)


@pytest.mark.parametrize(
    ("name", "is_it"), [("hipcc", 1), ("/opt/rocm/bin/hipcc.bin", 1), ("hipcc.pl", 1), ("hipccx", 0)]
)
def test_hipcc_is_known_by_its_name(name: str, is_it: int) -> None:
    assert tools.is_hipcc(name) == bool(is_it)
