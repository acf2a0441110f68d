"""The launcher acts as the compiler: spellings, dependency files, messages, pass-through, faults, signals, slots."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace as with_changes
from pathlib import Path

import hipcache
import pytest
from hip import (
    ARCHS,
    BARE,
    CUID,
    DEVICE_LIBRARIES,
    FAILED,
    FULL,
    HIT,
    LAUNCHER,
    LLVM,
    MISS,
    PASSED_THROUGH,
    Lab,
    in_terminal,
    kernel,
    let_others_in,
    only_15,
    only_19,
    script,
    watched_compiler,
)
from hipcache.making.depfile import parse

pytestmark = [pytest.mark.takes_turns("lab"), pytest.mark.archs(1)]

# Spellings


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    "archs",
    [
        ["--offload-arch=gfx906"],
        ["--offload-arch=gfx906,gfx90a"],
        ["--offload-arch=gfx906", "--offload-arch=gfx90a"],
        ["--cuda-gpu-arch=gfx906"],
        ["--offload-arch=gfx906", "--offload-arch=gfx90a", "--no-offload-arch=gfx906"],
        ["--offload-arch=gfx90a:sramecc+:xnack-"],
    ],
    ids=" ".join,
)
def test_every_spelling_of_architectures_is_recognised(lab: Lab, archs: list[str]) -> None:
    first = lab.compile(*archs)
    assert (first.status, first.outcome) == (0, MISS), first.messages
    assert lab.compile(*archs).outcome == HIT


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["k.hip", "k.cu", "k.cpp", "k.cc", "k"])
@pytest.mark.parametrize(
    "language", [["-x", "hip"], ["-xhip"], ["--language=hip"], ["--language", "hip"]], ids=" ".join
)
def test_every_spelling_of_the_language_is_recognised(lab: Lab, name: str, language: list[str]) -> None:
    if not FULL and name not in ("k.cu", "k.hip") and language != ["-x", "hip"]:
        pytest.skip("one more combination: make test-full")
    lab.write(name, kernel("1"))
    first = lab.compile(*language, source=name)
    assert (first.status, first.outcome) == (0, MISS), first.messages
    assert lab.compile(*language, source=name).outcome == HIT


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    "end",
    [
        ["-c", "k.hip", "-oout.o"],
        ["-c", "-o", "out.o", "--", "k.hip"],
        ["k.hip", "-o", "out.o", "-c"],
        ["--compile", "k.hip", "--output=out.o"],
        ["--compile", "k.hip", "--output", "out.o"],
        ["-x", "c++", "-x", "hip", "-c", "k.hip", "-o", "other.o", "-o", "out.o"],
    ],
    ids=" ".join,
)
def test_every_order_and_spelling_of_source_and_output_is_recognised(lab: Lab, end: list[str]) -> None:
    command = [lab.compiler, *ARCHS, *BARE, CUID, *end]
    first, second = lab.same(command), lab.same(command)
    assert (first.outcome, second.outcome) == (MISS, HIT)


@pytest.mark.archs(2)
def test_without_an_output_name_the_object_is_called_after_the_source(lab: Lab) -> None:
    command = [lab.compiler, *ARCHS, *BARE, CUID, "-c", "k.hip"]
    assert lab.same(command, output="k.o").outcome == MISS
    assert lab.same(command, output="k.o").outcome == HIT


@pytest.mark.archs(2)
def test_response_files_are_read_with_gnus_quoting(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE") + "const char* text() { return TEXT; }\n")
    lab.write("inner.rsp", '-DVALUE=3\r\n\'-DTEXT="a b\\\\"c"\'\n')
    lab.write("all.rsp", f'@inner.rsp {" ".join((*ARCHS, *BARE, CUID))} "-c" k\\.hip -o\nout.o')
    first = lab.same([lab.compiler, "@all.rsp"])
    assert first.outcome == MISS or first.status != 0
    assert lab.same([lab.compiler, "@all.rsp"]).object == first.object


@pytest.mark.parametrize("way", ["path", "PATH", "symlink", "relative"])
def test_the_compiler_is_found_as_the_shell_finds_it(lab: Lab, way: str) -> None:
    real = LLVM[lab.version] / "bin" / "clang++"
    names = {"path": str(real), "PATH": f"clang++-{lab.version}", "symlink": str(lab.root / "cxx"), "relative": "./cxx"}
    (lab.root / "cxx").symlink_to(real)
    lab = with_changes(lab, compiler=names[way])
    assert lab.compile().outcome == MISS
    assert lab.compile().outcome == HIT


@pytest.mark.parametrize("name", ["amdclang++", "amdclang", "clang++-99"])
def test_a_clang_of_any_name_is_one(lab: Lab, name: str) -> None:
    (lab.root / "bin").mkdir()
    (lab.root / "bin" / name).symlink_to(LLVM[lab.version] / "bin" / "clang++")
    env = {"PATH": f"{lab.root}/bin:{lab.environ['PATH']}"}
    lab = with_changes(lab, compiler=name)
    assert lab.compile(env=env).outcome == MISS
    assert lab.compile(env=env).outcome == HIT


@pytest.mark.archs(2)
def test_without_an_architecture_it_is_the_compilers_default(lab: Lab) -> None:
    command = [lab.compiler, *BARE, CUID, "-c", "k.hip", "-o", "out.o"]
    first, second = lab.same(command), lab.same(command)
    assert (first.status, first.outcome, second.outcome) == (0, MISS, HIT)
    assert second.counted.served == {{"15": "gfx803", "19": "gfx906"}[lab.version], "host"}


def test_the_c_driver_compiles_hip_too(lab: Lab) -> None:
    lab = with_changes(lab, compiler=str(LLVM[lab.version] / "bin" / "clang"))
    assert lab.compile().outcome == MISS
    assert lab.compile().outcome == HIT


def test_a_compiler_that_is_not_there_is_named(lab: Lab) -> None:
    ended = lab.hipcache("no-such-clang++", "-c", "k.hip")
    assert ended.status == 127
    assert b"no-such-clang++" in ended.err


# Dependency files


@pytest.mark.parametrize(
    "flags",
    [
        ["-MD"],
        ["-MMD"],
        ["-MD", "-MF", "deps/x.d"],
        ["-MMD", "-MFdeps/x.d"],
        ["-MD", "-MT", "a target"],
        ["-MD", "-MQ", "a $target", "-MT", "two"],
        ["-MD", "-MP"],
        ["-MMD", "-MP", "-MTx", "-MF", "deps/x.d"],
        ["-MD", "-MV"],
        ["-Wp,-MD,deps/x.d"],
    ],
    ids=" ".join,
)
def test_the_dependency_file_is_clangs_where_every_pass_reads_the_same(lab: Lab, flags: list[str]) -> None:
    (lab.root / "deps").mkdir()
    lab.write("inc/odd name$x.hpp", "#define VALUE 1\n")
    lab.write("sys/far.hpp", "")
    lab.write("k.hip", kernel("VALUE", '#include "inc/odd name$x.hpp"\n#include <far.hpp>'))
    rule = lab.root / ("deps/x.d" if "x.d" in " ".join(flags) else "out.d")
    words = lab.words(*flags, "-isystem", "sys")
    texts = []
    for launcher in ((), LAUNCHER, LAUNCHER):
        rule.unlink(missing_ok=True)
        time.sleep(0.05)
        assert lab.run([*launcher, *words]).status == 0
        texts.append(rule.read_text())
    assert texts[1] == texts[0]
    assert texts[2] == texts[0]


@pytest.mark.archs(2)
@pytest.mark.parametrize("flag", ["-MD", "-MMD"])
def test_the_dependency_file_lists_what_any_pass_read(lab: Lab, flag: str) -> None:
    for name in ("host", "device", "gfx906"):
        lab.write(f"{name}.hpp", "")
    text = (
        '#if defined(__gfx906__)\n#include "gfx906.hpp"\n#endif\n'
        '#ifdef __HIP_DEVICE_COMPILE__\n#include "device.hpp"\n#else\n#include "host.hpp"\n#endif\n'
    )
    lab.write("k.hip", kernel("1", text))
    for _ in range(2):
        made = lab.compile(flag)
        assert {"host.hpp", "device.hpp", "gfx906.hpp", "hip_in_short.hpp"} <= set(parse(made.dependencies))
        assert set(parse(made.plain_dependencies)) <= set(parse(made.dependencies))
    assert made.outcome == HIT


# Messages


WARNS = (
    kernel("1")
    + "int f() { int a_variable_with_a_long_name_that_nobody_uses_at_all_in_this_function = 1; return 0; }\n"
)


@pytest.mark.parametrize(
    ("env", "columns"),
    [
        ({"TERM": "xterm-256color"}, 60),
        ({"TERM": "xterm-256color"}, 200),
        ({"TERM": "xterm-256color", "COLUMNS": "40"}, 100),
        ({"TERM": "xterm-256color", "COLUMNS": "wide"}, 60),
        ({"TERM": "dumb"}, 60),
        ({"TERM": ""}, 60),
        ({"TERM": "vt100"}, 80),
        ({"TERM": "linux"}, 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("flags", [[], ["-fno-color-diagnostics"], ["-fmessage-length=30"]], ids=" ".join)
def test_a_terminal_shows_what_clang_would_show(lab: Lab, env: dict[str, str], columns: int, flags: list[str]) -> None:
    if flags and not FULL and env != {"TERM": "xterm-256color"}:
        pytest.skip("one more combination: make test-full")
    lab.write("k.hip", WARNS)
    words = lab.words("-Wall", *flags)
    time.sleep(0.05)
    plain = in_terminal(words, lab.root, lab.environ | env, columns)
    assert b"a_variable" in plain[1]
    for _ in range(2):
        assert in_terminal([*LAUNCHER, *words], lab.root, lab.environ | env, columns) == plain


def test_messages_without_a_terminal_follow_those_with_one(lab: Lab) -> None:
    lab.write("k.hip", WARNS)
    words = [*LAUNCHER, *lab.words("-Wall")]
    assert b"\x1b[" in in_terminal(words, lab.root, lab.environ | {"TERM": "xterm-256color"})[1]
    lab.counted()
    assert "\x1b[" not in lab.compile("-Wall").messages


@pytest.mark.archs(2)
def test_a_warning_for_each_pass_comes_in_clangs_order(lab: Lab) -> None:
    lab.write("k.hip", WARNS)
    archs = ("--offload-arch=gfx90a", "--offload-arch=gfx1030", "--offload-arch=gfx906")
    first = lab.compile(*archs, "-Wall")
    assert first.messages.count("when compiling for") == 4
    assert lab.compile(*archs, "-Wall").outcome == HIT


@pytest.mark.parametrize(
    "text",
    ["int f() { return }\n", "#error no\n", "#include <none.hpp>\n", "__device__ int g() { return none; }\n"],
    ids=["syntax", "error", "header", "device"],
)
def test_a_compile_that_fails_fails_as_clang_does(lab: Lab, text: str) -> None:
    lab.write("k.hip", kernel("1") + text)
    for _ in range(2):
        ended = lab.compile()
        assert ended.status == 1
        assert ended.outcome == FAILED
        assert ended.object == b""


def test_a_warning_made_an_error_fails(lab: Lab) -> None:
    lab.write("k.hip", WARNS)
    lab.warm("-Wall")
    assert lab.compile("-Wall", "-Werror").status == 1


@pytest.mark.archs(2)
@pytest.mark.parametrize("flag", ["--no-such-option", "-std=c++99", "--offload-arch=gfx1"])
def test_a_flag_that_clang_refuses_is_refused_in_its_words(lab: Lab, flag: str) -> None:
    assert lab.compile(flag).status != 0


@pytest.mark.archs(2)
def test_an_architecture_that_the_device_libraries_do_not_cover_is_told_in_clangs_words(lab: Lab) -> None:
    words = [lab.compiler, "-x", "hip", *ARCHS, "--offload-arch=gfx1100", "-nogpuinc", "--rocm-path=/usr"]
    ended = lab.same([*words, f"--rocm-device-lib-path={DEVICE_LIBRARIES}", "-c", "k.hip", "-o", "out.o"])
    assert ended.status != 0
    assert "cannot find ROCm device library for gfx1100" in ended.messages


def test_a_flag_that_has_no_effect_is_warned_about(lab: Lab) -> None:
    assert "unused" in lab.compile("-lm", "-Wl,-x").messages
    again = lab.compile("-lm", "-Wl,-x")
    assert "unused" in again.messages


def test_an_output_directory_that_is_not_there_is_clangs_error(lab: Lab) -> None:
    lab.warm()
    for _ in range(2):
        words = lab.words(output="none/out.o")
        plain, cached = lab.run(words), lab.hipcache(*words)
        assert (cached.status, cached.out, cached.err) == (plain.status, plain.out, plain.err)


# What passes through


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["-E"], "preprocess"),
        (["-M"], "dependencies_only"),
        (["-MM"], "dependencies_only"),
        (["-c", "--save-temps"], "save_temps"),
        (["-fsyntax-only"], "no_object"),
        (["-c", "-v"], "asks_driver"),
        (["-c", "-###"], "asks_driver"),
        (["-c", "-ftime-trace"], "side_output"),
        (["-c", "-MJ", "out.json"], "temporary_names"),
        (["-c", "--coverage", "-flto"], "coverage"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_what_is_not_cached_passes_through_with_its_reason(lab: Lab, flags: list[str], reason: str) -> None:
    words = [lab.compiler, "--offload-arch=gfx906", *BARE, CUID, *flags, "k.hip"]
    words += [] if {"-E", "-M", "-MM", "-fsyntax-only"} & set(flags) else ["-o", "out.o"]
    ended, made = [], []
    for launcher in ((), LAUNCHER):
        (lab.root / "out.o").unlink(missing_ok=True)
        done = lab.run([*launcher, *words])
        # Names of temporary files differ in every run of clang.
        texts = [re.sub(rb"k-[\w:+-]+", b"k-", text) for text in (done.out, done.err)]
        ended.append((done.status, texts))
        made.append((lab.root / "out.o").read_bytes() if (lab.root / "out.o").exists() else b"")
    assert ended[1] == ended[0]
    if "-ftime-trace" not in flags:
        assert made[1] == made[0]
    counted = lab.counted()
    assert (counted.outcome, counted.reason) == (PASSED_THROUGH, reason)


@pytest.mark.archs(2)
@pytest.mark.parametrize("more", [["--typo"], ["nowhere.hip"], ["--offload-arch=bogus"], ["-fsplit-machine-functions"]])
def test_a_command_that_the_driver_refuses_is_a_failed_one(lab: Lab, more: list[str]) -> None:
    ended = lab.same([lab.compiler, "--offload-arch=gfx906", *BARE, "-c", "k.hip", *more])
    assert (ended.status, ended.outcome) == (1, FAILED)
    assert b"the driver ended with status 1" in lab.hipcache("explain").out


def test_another_language_passes_through(lab: Lab) -> None:
    lab.write("k.cpp", "int f() { return 1; }\n")
    for words in (["-c", "k.cpp", "-o", "out.o"], ["-x", "c++", "-c", "k.hip", "-o", "out.o", "-Wno-everything"]):
        lab.same([lab.compiler, *words])


def test_a_link_passes_through(lab: Lab) -> None:
    lab.write("m.cpp", "int main() {}\n")
    assert lab.run([lab.compiler, "-c", "m.cpp", "-o", "m.o"]).status == 0
    assert lab.same([lab.compiler, "m.o", "-o", "out.o"]).outcome == PASSED_THROUGH


@pytest.mark.archs(2)
def test_a_source_on_standard_input_passes_through(lab: Lab) -> None:
    words = [lab.compiler, "--offload-arch=gfx906", *BARE, CUID, "-x", "hip", "-c", "-", "-o", "out.o"]
    text = (lab.root / "k.hip").read_bytes()
    made = []
    for launcher in ((), LAUNCHER):
        assert lab.run([*launcher, *words], stdin=text).status == 0
        made.append((lab.root / "out.o").read_bytes())
    assert made[0] == made[1]
    assert lab.counted().reason == "standard_streams"


def test_the_users_command_gets_the_signals_dispositions_that_hipcache_got(lab: Lab) -> None:
    compiler = script(lab.root / "cxx", "grep SigIgn /proc/$$/status\n")
    plain, cached = lab.run([compiler, "-E"]), lab.hipcache(compiler, "-E")
    assert cached.out == plain.out


# Switches


def test_disabled_it_only_runs_the_compiler(lab: Lab) -> None:
    assert lab.compile(env={"HIPCACHE_DISABLE": "1"}).outcome == "nothing"
    assert not lab.store.exists() or not any(lab.store.rglob("blobs/*/*"))


def test_read_only_it_serves_and_stores_nothing(lab: Lab) -> None:
    lab.warm()

    def state() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in lab.store.rglob("*")}

    before = state()
    env = {"HIPCACHE_READONLY": "1"}
    assert lab.compile(env=env).outcome == "nothing"
    lab.write("k.hip", kernel("77"))
    lab.compile(env=env)
    assert state() == before
    assert lab.compile().counted.missed


@pytest.mark.archs(2)
def test_recache_takes_no_hits_and_stores_anew(lab: Lab) -> None:
    lab.warm()
    again = lab.compile(env={"HIPCACHE_RECACHE": "1"})
    assert again.counted.missed == {"gfx906", "gfx90a", "host"}
    assert lab.compile().outcome == HIT


# Faults


def test_a_file_in_the_place_of_the_store_is_no_reason_not_to_compile(lab: Lab) -> None:
    lab.store.write_text("not a store")
    words = lab.words()
    assert lab.hipcache(*words).status == 0
    made = (lab.root / "out.o").read_bytes()
    assert lab.run(words).status == 0
    assert made == (lab.root / "out.o").read_bytes()


@pytest.mark.parametrize(
    "env",
    [
        {"HIPCACHE_DIR": "/proc/none"},
        {"HIPCACHE_DIR": "/dev/null"},
        {"HIPCACHE_DIR": "", "HOME": ""},
        {"HIPCACHE_DIR": "", "HOME": "/proc/none/home"},
        {"HIPCACHE_DIR": "relative"},
        {"HIPCACHE_CONFIG": "/nonexistent.yaml"},
        {"HIPCACHE_MAX_SIZE": "a lot"},
        {"HIPCACHE_LOG": "/nonexistent/log"},
        {"XDG_RUNTIME_DIR": "/nonexistent"},
        {"MAKEFLAGS": " -j3 --jobserver-auth=97,98"},
        {"MAKEFLAGS": " -j3 --jobserver-auth=fifo:/nonexistent"},
    ],
    ids=str,
)
def test_settings_that_cannot_be_met_are_no_reason_not_to_compile(lab: Lab, env: dict[str, str]) -> None:
    for _ in range(2):
        plain = lab.run(lab.words())
        ended = lab.hipcache(*lab.words(), env=env)
        assert ended.status == plain.status, ended.err
        assert ended.err.replace(b"hipcache: cannot write the log", b"") or not ended.err


def test_a_broken_config_file_is_no_reason_not_to_compile(lab: Lab) -> None:
    config = lab.write("broken.yaml", "max_size: [")
    lab.run(lab.words())
    plain = (lab.root / "out.o").read_bytes()
    for said in (1, 0):
        ended = lab.hipcache(*lab.words(), env={"HIPCACHE_CONFIG": str(config)})
        assert (ended.status, ended.err.count(b"broken.yaml:1"), ended.err == b"") == (0, said, not said)
        assert (lab.root / "out.o").read_bytes() == plain


@pytest.mark.parametrize("small_disk", ["64k", "1m"], indirect=True)
def test_a_full_disk_is_no_reason_not_to_compile(lab: Lab, small_disk: Path) -> None:
    lab.write("k.hip", kernel("1") + 'extern const char big[] = "' + "x" * 700_000 + '";\n')
    for said in (1, 0):
        lab.run(lab.words())
        plain = (lab.root / "out.o").read_bytes()
        ended = lab.hipcache(*lab.words(), env={"HIPCACHE_DIR": str(small_disk / "store")})
        assert (ended.status, ended.err.count(b"is full"), ended.err == b"") == (0, said, not said)
        assert (lab.root / "out.o").read_bytes() == plain


@pytest.mark.parametrize("part", ["", "v1"])
def test_a_store_that_may_not_be_written_is_no_reason_not_to_compile(lab: Lab, tmp_path: Path, part: str) -> None:
    if os.getuid() == 0 and not Path("/usr/bin/setpriv").exists():
        pytest.skip("root may write everything")
    lab.warm()
    for path in (lab.root.parent, lab.root):
        path.chmod(0o777)
    let_others_in(lab.root)
    (lab.store / part).chmod(0o555)
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []
    lab.write("k.hip", kernel("8"))
    (lab.root / "out.o").unlink()
    ended = lab.run([*prefix, *LAUNCHER, *lab.words()])
    if prefix and b"ermission denied" in ended.err and not (lab.root / "out.o").exists():
        pytest.skip("another user cannot reach this interpreter or directory")
    assert ended.status == 0, ended.err
    made = (lab.root / "out.o").read_bytes()
    assert lab.run(lab.words()).status == 0
    assert made == (lab.root / "out.o").read_bytes()


@only_19
def test_a_full_disk_for_the_object_is_told_as_clang_does(lab: Lab, small_disk: Path) -> None:
    lab.write("k.hip", kernel("1") + 'extern const char big[] = "' + "x" * 700_000 + '";\n')
    assert lab.compile().status == 0
    plain = lab.run(lab.words(output=f"{small_disk}/out.o"))
    assert plain.status != 0
    for _ in range(2):
        left = sorted(small_disk.iterdir())
        cached = lab.hipcache(*lab.words(output=f"{small_disk}/out.o"))
        assert (cached.status, cached.out, cached.err) == (plain.status, plain.out, plain.err)
        assert sorted(small_disk.iterdir()) == left


# Signals and kills

SLOW = kernel("1") + "".join(
    f"__global__ void slow{i}(float* p) {{ for (int j = 0; j < 9; ++j) p[j] = p[j + {i}] * p[j] / {i + 1}; }}\n"
    for i in range(150)
)


def started(lab: Lab, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*LAUNCHER, *lab.words("-O3", *more)],
        cwd=lab.root,
        env=lab.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def session_members(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def leftovers(lab: Lab) -> list[str]:
    return [
        str(path)
        for path in [*lab.root.iterdir(), *lab.store.rglob("tmp/*")]
        if path.name not in ("hip_in_short.hpp", "k.hip", "out.o")
    ]


@pytest.mark.archs(2)
@only_15
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
@pytest.mark.parametrize("archs", [1, 2], ids=["one-arch", "two-archs"])
def test_a_signal_ends_the_compilers_and_leaves_nothing(lab: Lab, number: signal.Signals, archs: int) -> None:
    lab.write("k.hip", SLOW)
    for delay in (0.15, 0.3, 0.5, 0.8):
        process = started(lab, *ARCHS[:archs])
        time.sleep(delay)
        process.send_signal(number)
        status = process.wait(timeout=100)
        assert status in (-number, 0)
        deadline = time.monotonic() + 60
        while session_members(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert session_members(process.pid) == []
        assert leftovers(lab) == []
        (lab.root / "out.o").unlink(missing_ok=True)


def test_an_interrupted_failing_compile_ends_by_the_signal(lab: Lab) -> None:
    compiler = script(lab.root / "cxx", 'case "$*" in *-###*) exit 1;; esac; exec sleep 30\n')
    process = subprocess.Popen([*LAUNCHER, compiler, "-c", "k.hip"], cwd=lab.root, env=lab.environ)
    time.sleep(0.6)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=100) == -signal.SIGTERM


@pytest.mark.archs(2)
@only_15
def test_two_signals_end_a_failing_compile_and_the_job_of_its_driver(lab: Lab) -> None:
    """Plain clang finds the host's error after the slow device pass: the user's own command is under way for long."""
    lab.write("k.hip", SLOW + "\n#if !defined(__HIP_DEVICE_COMPILE__)\n#error on the host only\n#endif\n")
    process = started(lab, *ARCHS[:1])
    deadline = time.monotonic() + 60
    while len(session_members(process.pid)) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=100) in (-signal.SIGINT, -signal.SIGTERM)
    deadline = time.monotonic() + 60
    while session_members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert session_members(process.pid) == []


@only_15
def test_killed_at_random_points_it_leaves_no_bad_entry(lab: Lab) -> None:
    lab.write("k.hip", kernel("1"))
    words = lab.words()
    assert lab.run(words).status == 0
    right = (lab.root / "out.o").read_bytes()
    chance = random.Random(7)
    for number in range(60 if FULL else 25):
        if number % 5 == 4:
            lab.hipcache("clear")
        process = (
            started(lab)
            if number % 2
            else subprocess.Popen([*LAUNCHER, *words], cwd=lab.root, env=lab.environ, start_new_session=True)
        )
        time.sleep(chance.uniform(0.05, 0.45))
        os.killpg(process.pid, signal.SIGKILL) if number % 3 else process.kill()
        process.wait()
        (lab.root / "out.o").unlink(missing_ok=True)
    for _ in range(2):
        assert lab.hipcache(*words).status == 0
        assert (lab.root / "out.o").read_bytes() == right
    assert [name for name in leftovers(lab) if "/work/" in name and ".hipcache" not in name] == []


# Many at once


@pytest.mark.archs(2)
@only_15
def test_many_processes_on_one_store_compile_each_unit_once(lab: Lab) -> None:
    words = lab.words()
    assert lab.run(words).status == 0
    right = (lab.root / "out.o").read_bytes()

    def compile(number: int) -> bytes:
        output = lab.root / f"{number}.o"
        ended = lab.hipcache(*lab.words(output=str(output)))
        assert (ended.status, ended.err) == (0, b"")
        return output.read_bytes()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(compile, range(16))) == {right}
    units = lab.stats()["units"]
    assert {name: units[name]["misses"] for name in ("gfx906", "gfx90a", "host")} == {  # type: ignore[index]
        "gfx906": 1,
        "gfx90a": 1,
        "host": 1,
    }


@only_15
def test_a_reader_never_sees_half_an_object_or_half_a_dependency_file(lab: Lab) -> None:
    """While the engine writes two of them by turns, and then the native launcher."""
    flags = ("-MD", *(f"-DMACRO_{number}" for number in range(200)))
    whole: set[bytes] = set()
    for value in ("1", "2"):
        lab.write(f"{value}.hpp", "")
        text = f'\n#include "{value}.hpp"\nextern const char big[] = "' + value * 3_000_000 + '";\n'
        lab.write(f"{value}.hip", kernel(value) + text)
        assert lab.run(lab.words(*flags, source=f"{value}.hip")).status == 0
        whole |= {(lab.root / name).read_bytes() for name in ("out.o", "out.d")}
    ended = threading.Event()
    seen: set[bytes] = set()

    def read() -> None:
        while not ended.is_set():
            seen.update((lab.root / name).read_bytes() for name in ("out.o", "out.d"))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(16):
            assert lab.hipcache(*lab.words(*flags, source=f"{number % 2 + 1}.hip")).status == 0
    finally:
        ended.set()
        reader.join()
    assert seen == whole


@pytest.mark.archs(2)
@only_15
def test_who_waits_for_a_unit_makes_it_when_the_one_that_made_it_is_killed(lab: Lab) -> None:
    hook = f"if mkdir {lab.root}/first 2>/dev/null; then sleep 60; fi"
    lab = with_changes(lab, compiler=str(watched_compiler(lab.root / "compiler", lab.version, hook)))
    words = [*LAUNCHER, *lab.words("--offload-arch=gfx906")]
    first = subprocess.Popen(words, cwd=lab.root, env=lab.environ, start_new_session=True)
    try:
        while not (lab.root / "first").exists():
            time.sleep(0.05)
        second = subprocess.Popen([*words[:-1], "two.o"], cwd=lab.root, env=lab.environ, start_new_session=True)
        time.sleep(0.5)
        assert second.poll() is None, "it waits"
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    assert second.wait(timeout=100) == 0
    plain = lab.run([str(LLVM[lab.version] / "bin" / "clang++"), *lab.words("--offload-arch=gfx906")[1:]])
    assert plain.status == 0
    assert (lab.root / "two.o").read_bytes() == (lab.root / "out.o").read_bytes()


@only_15
def test_a_store_with_room_for_little_is_held_to_its_size_and_gives_right_objects(lab: Lab) -> None:
    size = 150_000
    env = {"HIPCACHE_MAX_SIZE": str(size)}
    outcomes = []
    for _ in range(2):
        for number in range(4):
            lab.write("k.hip", kernel(str(number)))
            outcomes.append(lab.compile(env=env).outcome)
            kept = [path for name in ("actions", "blobs") for path in (lab.store / "v1" / name).glob("*/*")]
            assert sum(path.stat().st_size for path in kept) <= size
            assert lab.compile(env=env).outcome == HIT
    assert MISS in outcomes[4:], "nothing was driven out: the test shows nothing"


def most_at_once(log: Path) -> int:
    running = most = 0
    for line in log.read_text().splitlines():
        running += 1 if line == "start" else -1
        most = max(most, running)
    return most


def logging_compiler(lab: Lab, tmp_path: Path) -> tuple[Lab, Path]:
    log = tmp_path / "passes.log"
    log.touch()
    real = LLVM[lab.version] / "bin" / "clang"
    hook = f'echo start >>{log}; sleep 0.05; {real} "$@"; status=$?; echo end >>{log}; exit $status'
    return with_changes(lab, compiler=str(watched_compiler(tmp_path / "logging", lab.version, hook))), log


@only_15
def test_all_processes_of_a_user_run_as_many_compilers_at_once_as_there_are_cores(lab: Lab, tmp_path: Path) -> None:
    lab, log = logging_compiler(lab, tmp_path)
    for number in range(6):
        lab.write(f"{number}.hip", kernel(str(number)))
    with ThreadPoolExecutor(6) as pool:
        done = pool.map(lambda n: lab.hipcache(*lab.words(source=f"{n}.hip", output=f"{n}.o")).status, range(6))
        assert set(done) == {0}
    assert 1 <= most_at_once(log) <= len(os.sched_getaffinity(0))


MAKEFILE = """\
all: $(foreach n,0 1 2 3 4 5,$(n).o)
%.o: %.hip
\t{mark}{launcher} {words} -c $< -o $@
"""


@pytest.mark.archs(2)
@only_15
@pytest.mark.parametrize("mark", ["+", ""], ids=["jobserver", "closed-jobserver"])
def test_makes_jobs_are_not_exceeded_and_all_are_given_back(lab: Lab, tmp_path: Path, mark: str) -> None:
    lab, log = logging_compiler(lab, tmp_path)
    for number in range(6):
        lab.write(f"{number}.hip", kernel(str(number)))
    words = [lab.compiler, *ARCHS, "--offload-arch=gfx1030", *BARE, CUID]
    lab.write("Makefile", MAKEFILE.format(mark=mark, launcher=" ".join(LAUNCHER), words=" ".join(words)))
    ended = lab.run(["make", "-j3"])
    assert (ended.status, ended.err) == (0, b"")
    if mark:
        assert 1 <= most_at_once(log) <= 3


@pytest.mark.archs(2)
@only_15
def test_a_compile_that_is_ended_gives_makes_jobs_back(lab: Lab) -> None:
    lab.write("k.hip", SLOW)
    command = " ".join([*LAUNCHER, *lab.words("-O3", "--offload-arch=gfx1030", *ARCHS)])
    lab.write("Makefile", f"all: a b\na:\n\t+-timeout -s TERM 0.7 {command}\nb:\n\tsleep 1\n")
    ended = lab.run(["make", "-j3"])
    assert b"jobserver tokens" not in ended.err
    assert b"tokens available" not in ended.err


@only_15
def test_open_files_with_the_numbers_of_a_jobserver_that_is_gone_are_left_alone(lab: Lab) -> None:
    data = lab.write("data", "precious")
    command = f"exec 8<{data} 9>>{data}; exec {' '.join([*LAUNCHER, *lab.words()])}"
    ended = lab.run(["bash", "-c", command], env={"MAKEFLAGS": " -j3 --jobserver-auth=8,9"})
    assert ended.status == 0
    assert data.read_text() == "precious"


def test_a_native_library_of_older_sources_is_not_used_and_told_of(lab: Lab, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(Path(hipcache.__file__).parent, checkout / "hipcache")
    library = checkout / "hipcache/native/libhipcache.so"
    library.unlink()
    (tmp_path / "old.c").write_text("int hipcache_hit(void) { return 1; }\n")
    assert lab.run(["cc", "-shared", "-fPIC", tmp_path / "old.c", "-o", library]).status == 0
    old = [sys.executable, "-c", "import sys; from hipcache.__main__ import main; sys.exit(main())"]
    env = {"PYTHONPATH": str(checkout)}
    for expected in (MISS, HIT):
        assert lab.run([*old, *lab.words()], env=env).status == 0
        assert lab.counted().outcome == expected
    assert b"the native library does not match these sources" in lab.run([*old, "explain"], env=env).out
    said = lab.run([*old, "doctor"], env=env).out
    assert b"the native library does not match these sources" in said
    assert b"pip install -e ." in said
