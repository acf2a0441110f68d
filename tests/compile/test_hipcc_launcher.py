"""hipcache as the launcher of the clang that hipcc runs, and beside other caches in front of it."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import pytest
from hip import ARCHS, BARE, CUID, FAILED, HIT, LAUNCHER, LLVM, MISS, PASSED_THROUGH, Ended, Lab, script
from hipcache.clang import tools
from hipcc_lab import lab, words

__all__ = ["lab"]
pytestmark = pytest.mark.skipif(not shutil.which("hipcc"), reason="hipcc is not installed")

# Where only the inner clang can be wrapped


def test_a_directory_for_hip_clang_path_caches_what_hipcc_runs(lab: Lab) -> None:
    """With clang's own `lib` beside it hipcc gives clang the same options, and has nothing to complain about."""
    lab.write("h.cpp", "#include <hip/hip_runtime.h>\n__global__ void kernel(int* p) { *p = __popc(p[1]); }\n")
    command = ["hipcc", *ARCHS, CUID, "-c", "h.cpp", "-o", "out.o"]
    plain = lab.run(command)
    made = (lab.root / "out.o").read_bytes()
    (lab.root / "clang" / "bin").mkdir(parents=True)
    (lab.root / "clang" / "lib").symlink_to(LLVM[lab.version] / "lib")
    for name in ("clang++", f"clang++-{lab.version}"):
        script(lab.root / "clang/bin" / name, f'exec {" ".join(LAUNCHER)} {LLVM[lab.version]}/bin/clang++ "$@"\n')
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
    lab.environ["HIP_CLANG_PATH"] = f"{LLVM[lab.version]}/bin"
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
    script(lab.write(f"scripts/{name}", ""), f'exec {LAUNCHER[0]} {LLVM[lab.version]}/bin/{name} "$@"\n')
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
    hipcc = script(lab.root / "hipcc", f'exec {LAUNCHER[0]} {LLVM[lab.version]}/bin/clang++ -x hip "$@"\n')
    named = script(lab.root / "ccache", 'exec "$@"\n')
    other = script(lab.root / "hipcc.bin", f'exec {named} {LLVM[lab.version]}/bin/clang++ -x hip "$@"\n')
    assert lab.same(words(hipcc=str(other))).outcome == MISS
    assert lab.same(words(hipcc=str(other))).outcome == HIT
    assert lab.hipcache(*words(hipcc=str(hipcc))).status == 0


# Caches in front


def test_ccache_gets_what_is_no_hip_and_hipcache_keeps_what_is(lab: Lab) -> None:
    ccache = script(lab.root / "ccache", 'echo "$@" >>ccache.log\nexec "$@"\n')
    clang = str(LLVM[lab.version] / "bin" / "clang++")
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
    hip = ["ccache", f"clang++-{lab.version}", *ARCHS, *BARE, CUID, "-x", "hip", "-c", "k.cpp", "-o", "out.o"]
    for served in range(2):
        assert lab.hipcache("ccache", f"clang++-{lab.version}", "-c", "x.cpp", "-o", "x.o").status == 0
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
