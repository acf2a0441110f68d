"""The back end of a device unit: which options start it again, and which do not, as they cannot reach its code."""

from __future__ import annotations

from pathlib import Path

import pytest
import recordings
from hip import HIT, Lab, kernel, only_19
from hipcache.clang import plan, units
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.file_manager import FileManager
from test_units import ByName

# Options of `cc1`, one choice a line. Each was compiled with clang 15 and 19, at -O0, -O2 -g and -O3: the back end
# makes the same code object with and without it.
DROPPED = """\
-Wall
-Wextra
-Wno-unused-result
-Werror
-Wno-error=unused
-Werror=atomic-alignment
-w
-pedantic
-pedantic-errors
-std=c++17
-std=gnu++20
--std=c++17
-pthread
-source-date-epoch 5
-fdebug-prefix-map=/build/random=.
-fmacro-prefix-map=/build/random=.
-fcoverage-prefix-map=/build/random=.
-fdebug-compilation-dir=/build/random
-fcoverage-compilation-dir=/build/random
-aux-target-cpu znver3
-aux-target-feature +avx2
-aux-triple x86_64-pc-linux-gnu
-ferror-limit 3
-ftemplate-depth 99
-fconstexpr-steps 99
-fbracket-depth 99
-fmessage-length=40
-fcolor-diagnostics
-fansi-escape-codes
-fno-caret-diagnostics
-fdiagnostics-format msvc
-fno-diagnostics-show-option
-fdiagnostics-show-category name
-fno-implicit-modules
-fdiagnostics-absolute-paths
-fgnuc-version=4.2.1
-fdeprecated-macro
-fno-rtti
-fno-rtti-data
-fexceptions
-fcxx-exceptions
-fno-threadsafe-statics
-fno-signed-char
-fshort-wchar
-ftrigraphs
-fms-extensions
-fms-compatibility-version=19.20
-fsized-deallocation
-fchar8_t
-fhip-new-launch-api
"""
KEPT = """\
-Weverything
-Wno-pass-failed
-Wno-error=frame-larger-than
-Wframe-larger-than
-fwarn-stack-size=8
-fdiagnostics-show-hotness
-fdiagnostics-hotness-threshold 3
-O1
-ffunction-sections
-fno-builtin
-fmath-errno
-target-feature +wavefrontsize64
-munsafe-fp-atomics
-ffp-contract=on
-fno-such-option-yet
-mllvm -inline-threshold=3
"""


def cut(option: str, clang: str) -> units.DeviceUnit:
    words = " ".join(f'"{word}"' for word in ["-fcuda-is-device", *option.split()])
    text = recordings.text(f"{clang}-one-arch").replace('"-fcuda-is-device"', words)
    return units.cut(plan.parse(text), ByName(), FileManager("/src/demo", 0.0, Basedir("")), {}).devices[0]


@pytest.mark.parametrize("clang", ["clang15", "clang19", "clang22"])
def test_options_that_only_a_front_end_reads_are_in_no_back_ends_command_or_key(clang: str) -> None:
    usual = cut("", clang)
    for option in DROPPED.splitlines():
        unit = cut(option, clang)
        assert unit.back == usual.back, option
        assert unit.back_argv(Path("b"), Path("o")) == usual.back_argv(Path("b"), Path("o")), option


def test_all_others_are_in_both() -> None:
    usual = cut("", "clang19")
    for option in KEPT.splitlines():
        unit = cut(option, "clang19")
        assert unit.back != usual.back, option
        words = unit.back_argv(Path("b"), Path("o"))
        assert [word for word in option.split() if word not in words] == [], option


@pytest.mark.every_compiler
def test_another_warning_or_language_option_starts_no_back_end(lab: Lab) -> None:
    lab.write("k.hip", kernel("sizeof(wchar_t)", "enum E { A };\nstatic int unused;"))
    lab.warm("--offload-arch=gfx906")
    for flags in (
        ["-Wall", "-Wextra", "-Wno-unused", "-pedantic", "-ferror-limit=3", "-fno-caret-diagnostics"],
        ["-Wall", "-Wno-unused", "-Werror", "-w"],
        ["-std=c++20", "-fno-rtti", "-fno-exceptions", "-pthread", "-ftemplate-depth=99"],
        ["-march=x86-64-v3", "-mtune=native"],
        ["-fno-operator-names", "-fms-extensions", "-ftrigraphs", "-fno-threadsafe-statics", "-fstrict-enums"],
    ):
        made = lab.compile("--offload-arch=gfx906", *flags)
        assert (made.status, made.outcome != HIT, made.counted.front_ends) == (0, True, 1), flags
        assert made.counted.back_ends == 0, flags


def test_an_option_that_matters_starts_it(lab: Lab) -> None:
    lab.warm("--offload-arch=gfx906")
    for flag in ("-O1", "-ffunction-sections", "-Wno-pass-failed"):
        assert lab.compile("--offload-arch=gfx906", flag).counted.back_ends == 1, flag


def test_another_date_starts_none(lab: Lab) -> None:
    lab.environ["SOURCE_DATE_EPOCH"] = "1"
    lab.warm("--offload-arch=gfx906")
    assert lab.compile("--offload-arch=gfx906", env={"SOURCE_DATE_EPOCH": "2"}).counted.back_ends == 0


FAILING_LOOP = """\
#include "hip_in_short.hpp"
extern "C" __global__ void kernel(int* p, int n) {
#pragma clang loop vectorize(enable)
  for (int i = 0; i < n; i++) p[i * i % 7] = p[i] + 1;
}
"""


def test_a_back_end_that_warns_is_heard_or_not_as_the_flags_say(lab: Lab) -> None:
    lab.write("k.hip", FAILING_LOOP)
    silent = lab.warm("--offload-arch=gfx906", "-w")
    assert not silent.messages
    heard = lab.warm("--offload-arch=gfx906")
    assert "loop not vectorized" in heard.messages
    assert lab.compile("--offload-arch=gfx906", "-w").outcome == HIT
    assert lab.compile("--offload-arch=gfx906", "-Werror").status == 1
    assert lab.compile("--offload-arch=gfx906", "-Wno-pass-failed").messages == ""


def test_one_that_nobody_hears_keeps_its_two_steps(lab: Lab) -> None:
    lab.write("k.hip", FAILING_LOOP)
    lab.warm("--offload-arch=gfx906", "-w")
    lab.write("k.hip", FAILING_LOOP + "int host() { return 2; }\n")
    assert lab.compile("--offload-arch=gfx906", "-w").counted.back_ends == 0


APART = """\
#include "hip_in_short.hpp"
#pragma clang fp contract(off)
extern "C" __global__ void kernel(float* p) { p[0] = p[1] * p[2] + p[3]; }
"""


def test_what_is_fused_in_spite_of_a_pragma_is_plain_clangs(lab: Lab) -> None:
    lab.write("k.hip", APART)
    usual = lab.warm("--offload-arch=gfx906")
    fused = lab.changed(usual, "--offload-arch=gfx906", "-ffp-contract=fast")
    assert lab.compile("--offload-arch=gfx906", "-ffp-contract=fast").object == fused.object


@only_19
def test_so_is_it_by_fast_math(lab: Lab) -> None:
    lab.write("k.hip", APART)
    lab.warm("--offload-arch=gfx906", "-ffast-math")
