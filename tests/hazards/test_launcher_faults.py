"""What passes through the launcher, and faults that are no reason not to compile."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from hip import BARE, CUID, ENGINE_ALONE, FAILED, LAUNCHER, PASSED_THROUGH, Lab, kernel, let_others_in, only_19, script

pytestmark = pytest.mark.archs(1)

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


def test_a_command_that_the_driver_refuses_is_a_failed_one(lab: Lab) -> None:
    ended = lab.same([lab.compiler, "--offload-arch=gfx906", *BARE, "-c", "k.hip", "--typo"])
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


IN_C = ["env", "-u", "LC_ALL", "-u", "LC_CTYPE", "-u", "LANG"]


@pytest.mark.parametrize(
    "given", [[], ["LC_CTYPE="], ["LC_CTYPE=POSIX"], ["LC_CTYPE=C.UTF-8"], ["LANG=nowhere"]], ids=str
)
def test_the_users_command_gets_the_locale_that_hipcache_got(lab: Lab, tmp_path: Path, given: list[str]) -> None:
    """Python sets LC_CTYPE where the locale is C."""
    shutil.copy(LAUNCHER[0], tmp_path)
    script(tmp_path / "hipcache-engine", "import no_such_module\n", program=sys.executable)
    expected = sorted(lab.run([*IN_C, *given, "env"]).out.splitlines())
    for way in ([*LAUNCHER], ["HIPCACHE_DISABLE=1", *LAUNCHER], [*ENGINE_ALONE], [str(tmp_path / "hipcache")]):
        got = lab.run([*IN_C, *given, *way, "env"]).out.splitlines()
        assert sorted(line for line in got if line != b"HIPCACHE_DISABLE=1") == expected


def test_a_compiler_script_gets_the_locale_that_hipcache_got(lab: Lab) -> None:
    compiler = script(lab.root / "cxx", f's=é\nexec {lab.compiler} -DLENGTH=${{#s}} "$@"\n', program="/bin/bash")
    lab.write("k.hip", '#include "hip_in_short.hpp"\n__global__ void k(int* a) { *a = LENGTH; }\n')
    words = [compiler, *lab.words()[1:]]
    assert lab.run([*IN_C, *words]).status == 0
    expected = (lab.root / "out.o").read_bytes()
    for _ in range(2):
        (lab.root / "out.o").unlink()
        assert lab.run([*IN_C, *LAUNCHER, *words]).status == 0
        assert (lab.root / "out.o").read_bytes() == expected


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


@pytest.mark.parametrize("part", ["", "v2"])
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
