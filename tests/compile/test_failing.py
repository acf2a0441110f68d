"""A compile that fails: plain clang's words, status and files."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from failing_lab import Trial, source, trial
from hip import ARCHS, BARE, FAILED, LAUNCHER, PASSED_THROUGH, Lab, in_terminal, only_15, only_19

__all__ = ["trial"]

ALL = "__device__ int f() { return wrong_in_all; }\n"
HOST = "#ifndef __HIP_DEVICE_COMPILE__\nint g() { return wrong_on_host; }\n#endif\n"
DEVICE = "#ifdef __HIP_DEVICE_COMPILE__\nint g() { return wrong_on_devices; }\n#endif\n"
SECOND = "#ifdef __gfx90a__\n__device__ int f() { return wrong_in_one; }\n#endif\n"
WARNS = "static __device__ int unused_one() { return 1; }\nint two() { int x; return x; }\n"
MISSING = '#include "nowhere.hpp"\n'
MISSING_SECOND = '#ifdef __gfx90a__\n#include "nowhere.hpp"\n#endif\n'
MISSING_HOST = '#ifndef __HIP_DEVICE_COMPILE__\n#include "nowhere.hpp"\n#endif\n'
MANY = "".join(f"int v{number} = wrong_{number};\n" for number in range(30))


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    "text",
    [ALL, HOST, DEVICE, SECOND, WARNS + ALL, WARNS + SECOND, WARNS + HOST, MISSING, MISSING_SECOND, MISSING_HOST, MANY],
    ids=[
        *("all", "host", "devices", "one", "warns-all", "warns-one", "warns-host"),
        *("missing", "missing-one", "missing-host", "many"),
    ],
)
def test_a_source_that_is_wrong_fails_as_with_plain_clang(trial: Trial, text: str) -> None:
    assert trial.same(text, "-Wall") == FAILED


@pytest.mark.archs(2)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", [HOST, WARNS + SECOND + MANY], ids=["host", "one"])
@pytest.mark.parametrize(
    "flags",
    [
        ["-fgpu-rdc"],
        ["--cuda-host-only"],
        ["-ferror-limit=3"],
        ["-fcolor-diagnostics"],
        ["-fmessage-length=40"],
        ["-fno-caret-diagnostics"],
        ["-fdiagnostics-format=msvc"],
        ["-Wfatal-errors"],
        ["-MMD", "-MF", "out.d"],
        ["-MP"],
        ["-g"],
        ["-gsplit-dwarf"],
        ["--coverage"],
        ["-O0"],
        ["-Xclang", "-no-such-option"],
        ["-flto"],
        ["-w"],
        ["-fsyntax-only"],
        ["-S"],
        ["--offload-new-driver"],
    ],
    ids=lambda flags: flags[-1],
)
def test_an_option_changes_nothing_about_it(trial: Trial, flags: list[str], text: str) -> None:
    if "--offload-new-driver" in flags and trial.lab.version in ("20", "21"):
        pytest.skip("its plan passes through")
    if "--cuda-host-only" in flags:
        text = HOST + MANY
    assert trial.same(text, "-Wall", *flags) in (FAILED, PASSED_THROUGH)


@pytest.mark.archs(2)
@pytest.mark.parametrize("flags", [["--cuda-device-only"], ["--cuda-device-only", "-emit-llvm"]])
def test_devices_alone_fail_as_with_plain_clang(trial: Trial, flags: list[str]) -> None:
    assert trial.same(SECOND, *flags) in (FAILED, PASSED_THROUGH)


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    "text",
    [
        '__device__ void f() { asm volatile("no_such_instruction"); }\nextern "C" __global__ void l() { f(); }\n',
        '#ifndef __HIP_DEVICE_COMPILE__\nvoid g() { asm volatile("no_such_instruction"); }\n#endif\n',
        'extern __device__ int nowhere();\nextern "C" __global__ void l(int* p) { *p = nowhere(); }\n',
        'extern "C" __global__ void l(int* p) { __shared__ int large[1 << 20]; large[*p] = 1; *p = large[1]; }\n',
    ],
    ids=["asm", "asm-host", "undefined", "memory"],
)
def test_a_back_end_and_a_linker_fail_as_with_plain_clang(trial: Trial, text: str) -> None:
    lab = trial.lab
    lab.write("k.hip", source(text))
    command = lab.words()
    ended = trial.by_both(command, 2)
    names = [re.sub(rb"/tmp/[\w./-]+|k-gfx\w+-\w+", b"T", err) for _, _, err, _ in ended]
    assert ended[0][0] != 0, "the test shows nothing"
    assert names[0] == names[1] == names[2]
    assert ended[0][0] == ended[1][0] == ended[2][0]
    assert ended[0][3] == ended[1][3] == ended[2][3]


def test_a_compiler_that_crashes_reports_as_ever(trial: Trial, tmp_path: Path) -> None:
    """The report is the driver's work: the user's own command writes it."""
    lab = trial.lab
    lab.write("k.hip", source("#pragma clang __debug crash\n"))
    reports = []
    for launcher in ((), LAUNCHER):
        place = tmp_path / f"tmp-{len(launcher)}"
        place.mkdir()
        ended = lab.run([*launcher, *lab.words()], env={"TMPDIR": str(place)})
        # (A pass that is ended while it prints its stack leaves what it gave the symbolizer: no part of the report.)
        written = sorted(path.suffix for path in place.rglob("*") if path.is_file() and path.suffix)
        reports.append((ended.status, b"PLEASE submit a bug report" in ended.err, written))
    assert reports[0] == reports[1]
    assert reports[0][1]


@only_15
@pytest.mark.archs(2)
def test_messages_of_a_failure_in_a_terminal_are_clangs(lab: Lab) -> None:
    lab.write("own.hpp", "#pragma once\n")
    lab.write("k.hip", source(WARNS + SECOND))
    command = lab.words("-Wall")
    environ = {**lab.environ, "TERM": "xterm", "COLUMNS": "50"}
    plain = in_terminal(command, lab.root, environ)
    assert b"\x1b[" in plain[1]
    for _ in range(2):
        assert in_terminal([*LAUNCHER, *command], lab.root, environ) == plain


@only_19
@pytest.mark.parametrize("place", ["nowhere/out.o", "own.hpp/out.o"])
def test_an_object_that_cannot_be_written_is_told_first(trial: Trial, place: str) -> None:
    """Clang opens its output before it reads the source."""
    lab = trial.lab
    lab.write("k.hip", source(HOST))
    ended = [lab.run([*launcher, *lab.words(output=place)]) for launcher in ((), LAUNCHER, LAUNCHER)]
    texts = [re.sub(rb"out-[0-9a-f]+\.o\.tmp", b"", one.err) for one in ended]
    assert texts[0] == texts[1] == texts[2]
    assert b"wrong_on_host" not in texts[0]


def ends_alike_behind_a_link(lab: Lab, link: Path, words: list[str]) -> None:
    """The link leads to an old file before each compile."""
    target = lab.root / "target"
    ends = []
    for launcher in ((), LAUNCHER):
        target.write_text("old")
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        ended = lab.run([*launcher, *words])
        ends.append((ended.status, ended.err, os.path.lexists(link), link.is_symlink(), target.read_text()))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("text", [ALL, MISSING], ids=["wrong", "missing"])
@pytest.mark.parametrize("rule", ["nowhere/out.d", "link.d"])
def test_a_dependency_file_in_an_odd_place_ends_as_with_plain_clang(trial: Trial, rule: str, text: str) -> None:
    lab = trial.lab
    lab.write("k.hip", source(text))
    ends_alike_behind_a_link(lab, lab.root / "link.d", lab.words("-MD", "-MF", rule))


@only_19
def test_an_object_behind_a_link_ends_as_with_plain_clang(trial: Trial) -> None:
    lab = trial.lab
    lab.write("k.hip", source(HOST))
    ends_alike_behind_a_link(lab, lab.root / "out.o", lab.words())


@only_19
def test_what_was_right_before_the_failure_is_served_afterwards(trial: Trial) -> None:
    lab = trial.lab
    lab.write("k.hip", source(HOST))
    assert lab.compile().status == 1
    lab.write("k.hip", source(HOST.replace("wrong_on_host", "1234")))
    right = lab.compile()
    assert right.status == 0
    assert right.counted.back_ends == 0


@only_15
def test_hipccs_word_about_a_failure_is_its_own(lab: Lab) -> None:
    """It may say more behind the compiler."""
    lab.write("own.hpp", "#pragma once\n")
    lab.write("k.hip", source(ALL))
    command = ["hipcc", *ARCHS, *BARE, "-c", "k.hip", "-o", "out.o"]
    plain, cached = lab.run(command), lab.run([*LAUNCHER, *command])
    assert cached.status == plain.status != 0
    assert cached.err.count(b"generated when compiling") == plain.err.count(b"generated when compiling") == 1
