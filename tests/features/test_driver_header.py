"""The driver's header, precompiled: the object, the messages and the dependency file are plain clang's, whatever
happens to a header or to the store. Each compile here is compared with plain clang's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from header_lab import (
    BOTH,
    WEAK,
    WRAPPER,
    build,
    build_with,
    counts,
    header_lab,
    headers,
    kept,
    prepare,
    prepared,
    wait,
    words,
)
from hip import HIT, Lab, only_19, settle
from hipcache.base import features
from hipcache.driver_header import entry, header
from hipcache.driver_header.entry import ENOUGH, PAYS, HeaderRecord, Made
from hipcache.execution.passes import FrontEndWays
from hipcache.inputs.observing import Observed
from hipcache.processes.runner import SubprocessRunner, Traced
from recordings import text as recording
from test_units import cut

__all__ = ["header_lab", "kept", "prepared"]
pytestmark = pytest.mark.archs(1)


def test_it_is_made_when_it_pays_and_used_when_three_sources_came_out_the_same(header_lab: Lab) -> None:
    wait(header_lab)
    assert not any(counts(header_lab).values())
    for number in range(1, 1 + ENOUGH):
        build(header_lab, number)
        checked = number * BOTH
        assert counts(header_lab) == {"used": 0, "made": BOTH, "checked": checked, "different": 0}
    build(header_lab, 9)
    assert counts(header_lab)["used"] == BOTH
    assert "precompiled" in header_lab.hipcache("stats").out.decode()
    assert build(header_lab, 9).outcome == HIT


@only_19
def test_one_serves_all_architectures_if_it_does_not_ask_for_them(header_lab: Lab) -> None:
    """Each has its own macros: those that the header was not made with are corrected without a word."""
    header_lab.archs = tuple(f"--offload-arch={arch}" for arch in ("gfx906", "gfx90a", "gfx1030"))
    body = "enum { own = sizeof(__amdgcn_processor__) };\n#ifdef __gfx90a__\n#define A 2\n#else\n#define A 3\n#endif\n"
    body += "extern __attribute__((device)) int a[A];\n#ifndef __gfx906__\n__device__ int b[own] = { A };\n#endif\n"
    for number in range(1, 3 + PAYS):
        build(header_lab, number, "-Wall", body=f"#ifdef __HIP_DEVICE_COMPILE__\n{body}#endif\n")
    assert counts(header_lab)["made"] == BOTH
    assert counts(header_lab)["used"] > 3


@only_19
def test_an_empty_store_compares_nothing_again(prepared: Lab) -> None:
    shutil.rmtree(prepared.store)
    build(prepared, 1)
    assert counts(prepared) == {"used": BOTH, "made": 0, "checked": 0, "different": 0}


@only_19
def test_a_source_of_which_it_came_to_nothing_is_not_tried_again_for_an_empty_store(prepared: Lab) -> None:
    for why in ("fails", "in vain the last time"):
        shutil.rmtree(prepared.store)
        build(prepared, 1, body="int __sv_check;\n")
        assert prepared.stats()["without_preamble"] == {why: 1}


@only_19
def test_one_of_another_library_is_made_for_the_host_alone(header_lab: Lab) -> None:
    """libc++ has a header of that name."""
    header_lab.write("own/__config", "")
    header_lab.write("own/value.hpp", "#pragma once\n#include <__config>\ninline int twice(int x) { return 2 * x; }\n")
    wait(header_lab)
    build(header_lab, 1)
    assert counts(header_lab)["made"] == BOTH - 1


@only_19
def test_an_architecture_that_it_asks_for_has_one_of_its_own(header_lab: Lab) -> None:
    header_lab.archs = ("--offload-arch=gfx906", "--offload-arch=gfx90a")
    asks = "#pragma once\ninline int twice(int x) { return 2 * x; }\n#ifdef __gfx90a__\n#define OWN 5\n#endif\n"
    header_lab.write("own/value.hpp", asks)
    for number in range(1, 8 + PAYS):
        build(header_lab, number, body="#ifdef OWN\n__device__ int own = OWN;\n#endif\n")
    assert counts(header_lab)["made"] == BOTH + 1
    assert counts(header_lab)["used"]


@only_19
def test_a_macro_of_another_architecture_that_the_command_defines_is_warned_of(header_lab: Lab) -> None:
    flag = "-D__gfx90a__=5"
    for number in range(1, 5 + PAYS):
        build(header_lab, number, flag)
    header_lab.archs = ("--offload-arch=gfx90a",)
    assert "__gfx90a__" in build(header_lab, 1, flag).messages


def test_macros_are_corrected_by_what_differs() -> None:
    made, own = b"#define A 1\n#define B\n#define C(x) x\n#define D 1\n", b"#define A 2\n#define B\n#define C(x) 1 x\n"
    found = header.corrections(made, own)
    assert found == {"A": ("-U", "A", "-D", "A =2"), "C": ("-U", "C", "-D", "C(x) =1 x"), "D": ("-U", "D")}


def test_an_edit_of_the_host_code_runs_no_back_end(header_lab: Lab) -> None:
    """The bitcode is the same with the header and without, whichever pass made it."""
    build(header_lab, 1)
    prepare(header_lab)
    done = build(header_lab, 1, body="int more() { return 1; }\n")
    assert (counts(header_lab)["used"], done.counted.back_ends) == (BOTH, 0)


def test_the_users_macros_and_directories_need_no_other_one(prepared: Lab) -> None:
    prepared.write("mine/mine.hpp", "#define MINE 7\n")
    build(prepared, 1, "-DOWN=3", "-DF(x)=x", "-Imine", body='#include "mine.hpp"\nint mine = MINE + OWN + F(1);\n')
    assert counts(prepared)["used"] == BOTH


@pytest.mark.parametrize("flag", ["-Dtwice=thrice", "-D_DOUBLED", "-Iother", "-g", "-std=c++20", "-include mine.hpp"])
def test_passes_with_another_header_go_without(prepared: Lab, flag: str) -> None:
    """Or with one of their own."""
    prepared.write("other/value.hpp", "#pragma once\ninline int twice(int x) { return 3 * x; }\n")
    prepared.write("mine.hpp", "#define __HIP_MINE\n")
    build(prepared, 1, *flag.split())
    assert counts(prepared)["used"] == 0


@pytest.mark.parametrize("flag", ["-Dtwice_l=thrice_l", "-Dtwice of=3"])
def test_a_macro_may_be_named_by_a_paste_or_before_a_blank(header_lab: Lab, flag: str) -> None:
    pasted = "#define LONG(name) name##_l\nextern long LONG(twice)(long);\n"
    header_lab.write("own/value.hpp", f"#pragma once\ninline int twice(int x) {{ return 2 * x; }}\n{pasted}")
    prepare(header_lab)
    body = 'extern "C" int of; extern "C" long twice_l(long); int more() { return (int)twice_l(1); }\n'
    header_lab.write("more.hip", body)
    argv = header_lab.words(*words(header_lab), flag, source="more.hip")
    plain, cached = header_lab.run(argv), header_lab.hipcache(*argv)
    assert (cached.status, cached.err) == (plain.status, plain.err)
    assert counts(header_lab)["used"] == 0


def test_the_users_dependency_file_is_the_same_without_system_headers(header_lab: Lab) -> None:
    header_lab.write("mine/mine.hpp", "")
    for number in range(1, 5 + PAYS):
        build(header_lab, number, "-MMD", "-Imine", body='#include "mine.hpp"\n')
    assert counts(header_lab)["used"]


def test_an_edit_of_a_header_in_it_is_noticed(prepared: Lab) -> None:
    build(prepared, 1)
    path = prepared.root / "own/value.hpp"
    path.write_text(path.read_text().replace("2 * x", "4 * x"))
    settle()
    assert build(prepared, 1).counted.missed == {"host"}


def test_a_header_that_appears_before_one_of_it_is_noticed(prepared: Lab) -> None:
    prepared.write("first/other.hpp", "")
    build(prepared, 1)
    assert counts(prepared)["used"] == BOTH
    prepared.write("first/value.hpp", "#pragma once\ninline int twice(int x) { return 5 * x; }\n")
    settle()
    assert build(prepared, 1).counted.missed == {"host"}


def test_a_directory_below_the_sysroot_is_looked_into(header_lab: Lab) -> None:
    prepare(header_lab, "--sysroot=/")
    header_lab.write("second/value.hpp", "#define TWICE\ninline int twice(int x) { return 5 * x; }\n")
    build(header_lab, 1, "--sysroot=/", f"-I={header_lab.root}/second")


def test_an_error_that_clang_puts_off_is_no_less_one(prepared: Lab) -> None:
    body = "__global__ void bad(int* p) { p[0] = below(p[1]); }\n"
    prepared.write("bad.hip", body)
    ended = prepared.run(prepared.words(*words(prepared), source="bad.hip"))
    cached = prepared.hipcache(*prepared.words(*words(prepared), source="bad.hip"))
    assert (cached.status, cached.err) == (ended.status, ended.err)
    assert b"for_host_alone" in cached.err


def extend(lab: Lab, more: str) -> None:
    """Let the driver's header have these declarations, too."""
    lab.write(f"own/{header.NAME}", WRAPPER.replace("#ifdef _DOUBLED", f"{more}#ifdef _DOUBLED"))


VIEW = """\
namespace std {
inline constexpr __SIZE_TYPE__ __sv_check(__SIZE_TYPE__ size, __SIZE_TYPE__ at, const char*) {
  return at > size ? for_host_alone(), 0 : at;
}
template <class T> struct basic_string_view {
  T n;
  constexpr T substr(T at) const { return std::__sv_check(n, at, ""); }
  constexpr bool empty() const { return n == 0; }
};
using string_view = basic_string_view<__SIZE_TYPE__>;
}
"""
SUBSTR = "__device__ int bad() { if (false) return std::string_view{3}.substr(1); return 1; }\n"


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "text",
    [
        SUBSTR,
        "template <class T> __device__ int of(T t) { if (false) return t.substr(1); return 1; }\n"
        "__device__ int bad() { return of(std::string_view{3}); }\n",
        "__device__ int bad() { constexpr auto n = std::string_view{3}.substr(1); return n; }\n",
        "template struct std::basic_string_view<int>;\n" + SUBSTR,
        "template struct __attribute__((unavailable)) std::basic_string_view<int>;\n" + SUBSTR,
        "__device__ int bad() { if (false) return std::__sv_check(1, 2, 0); return 1; }\n",
        "__device__ int bad() { if (false) return (&std::__sv_check)(1, 2, 0); return 1; }\n",
        "#define JOINED(a, b) a##b\n"
        "__device__ int bad() { if (false) return (&std::JOINED(__sv_, check))(1, 2, 0); return 1; }\n",
    ],
)
def test_an_error_that_is_put_off_in_dead_code_is_no_less_one(header_lab: Lab, text: str) -> None:
    """Nothing of the call is left in the module."""
    extend(header_lab, VIEW)
    header_lab.write("bad.hip", text)
    prepare(header_lab)
    argv = header_lab.words(*words(header_lab), source="bad.hip")
    plain, cached = header_lab.run(argv), header_lab.hipcache(*argv)
    assert plain.status
    assert (cached.status, cached.err) == (plain.status, plain.err)


@only_19
@pytest.mark.parametrize("text", ["return sizeof(&{0});", "if (false) {0}(); return 0;"])
def test_it_declares_nothing_that_the_header_does_not(header_lab: Lab, text: str) -> None:
    """As where the command defines the header's own guard."""
    header_lab.write(f"own/{header.NAME}", WRAPPER.replace(WEAK, ""))
    text = text.format("__cxa_deleted_virtual")
    header_lab.write("bad.hip", f"#ifdef __HIP_DEVICE_COMPILE__\n__device__ unsigned f() {{ {text} }}\n#endif\n")
    prepare(header_lab)
    argv = header_lab.words(*words(header_lab), source="bad.hip")
    plain, cached = header_lab.run(argv), header_lab.hipcache(*argv)
    assert plain.status
    assert (cached.status, cached.err) == (plain.status, plain.err)


@only_19
def test_the_files_above_a_message_in_it_are_those_of_a_plain_pass(header_lab: Lab) -> None:
    more = f"{VIEW}template <class T> T least(T a, T b) {{ return b < a ? b : a; }}\n"
    extend(header_lab, more)
    prepare(header_lab)
    body = "struct S { int a; };\n[[deprecated]] bool operator<(S, S);\nS g(S s) { return least(s, s); }\n"
    assert "In file included from <built-in>" in build(header_lab, 1, body=body).messages


@pytest.mark.parametrize("flags", [(), ("-pedantic", "-Wc++98-compat")], ids=" ".join)
def test_a_name_that_checks_nothing_is_no_reason_to_go_without(header_lab: Lab, flags: tuple[str, ...]) -> None:
    extend(header_lab, VIEW)
    prepare(header_lab, *flags)
    build(header_lab, 1, *flags, body="__device__ int of(std::string_view s) { return s.empty(); }\n")
    assert counts(header_lab)["used"] == BOTH


def test_a_header_without_a_standard_library_declares_none(prepared: Lab) -> None:
    assert "namespace 'std'" in build(prepared, 1, body="using namespace std;\n").messages


def test_one_whose_check_is_another_function_is_not_made_for_devices(header_lab: Lab) -> None:
    other = VIEW.replace("__SIZE_TYPE__ at, const", "int at, const")
    extend(header_lab, other)
    wait(header_lab)
    build(header_lab, 1)
    assert counts(header_lab)["made"] == BOTH - 1


def test_a_paste_of_other_names_needs_no_text(prepared: Lab) -> None:
    build(prepared, 1, body="#define SUM(a, ...) sum(a, ##__VA_ARGS__)\n#define NAMED(a) int named_##a\nNAMED(x);\n")
    assert counts(prepared)["used"] == BOTH


def test_a_source_that_names_a_macro_which_may_be_deprecated_goes_without(prepared: Lab) -> None:
    """clang 20 and 21 warn of it, but not behind a precompiled header."""
    build(prepared, 1, body="#ifdef __AMDGCN_WAVEFRONT_SIZE\n#endif\n")
    assert counts(prepared)["used"] == 0


def test_messages_are_those_of_a_plain_pass(prepared: Lab) -> None:
    build(prepared, 1, "-Wall", body="#warning once\nstatic int unused;\nint f(int x) { int y; return twice(x); }\n")
    build(prepared, 2, body="#pragma GCC diagnostic pop\n")


def test_one_that_is_lost_or_damaged_is_made_again(prepared: Lab) -> None:
    for path in [path for path in headers(prepared).rglob("*") if path.is_file() and path.stat().st_size > 100_000]:
        path.chmod(0o600)
        path.write_bytes(b"CPCH")
    for number in range(PAYS + 1):
        build(prepared, number)
    assert counts(prepared)["made"] == 2 * BOTH


class Spoiling(SubprocessRunner):
    """Gives passes with a precompiled header another output."""

    def group(self, servers: object = None) -> SubprocessRunner:
        return self

    def trace(self, argv: Sequence[str], **how: Any) -> Traced:
        traced = super().trace(argv, **how)
        if "-include-pch" in argv:
            with open(argv[argv.index("-o") + 1], "ab") as output:
                output.write(b"spoilt")
        return traced


@only_19
def test_a_difference_switches_it_off_for_the_compiler_and_is_told(prepared: Lab) -> None:
    assert build_with(prepared, Spoiling(), 1) == {"different": BOTH}
    assert build_with(prepared, Spoiling(), 2) == {"without switched off": BOTH}
    build(prepared, 1)
    assert counts(prepared)["used"] == 0
    shutil.rmtree(prepared.store)
    assert build_with(prepared, Spoiling(), 3) == {"without switched off": BOTH}


@only_19
def test_one_that_makes_a_difference_when_it_is_made_switches_it_off(header_lab: Lab) -> None:
    wait(header_lab)
    assert build_with(header_lab, Spoiling(), 1) == {"made": BOTH, "different": BOTH}
    build(header_lab, 2)
    assert counts(header_lab)["used"] == 0


def test_hipcache_compiles_without_that_feature(header_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    class Session:
        class context:
            preambles = 64
            recache = False

    monkeypatch.setattr(features, "doors", tuple)
    assert FrontEndWays(Session()).run("", None, None, lambda: "plainly") == "plainly"  # type: ignore


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        ('"-include" "__clang_hip_runtime_wrapper.h"', True),
        ("", False),
        ('"-include" "mine.h" "-include" "__clang_hip_runtime_wrapper.h"', False),
        ('"-include" "__clang_hip_runtime_wrapper.h" "-include" "mine.h"', False),
        ('"-include" "__clang_hip_runtime_wrapper.h" "-debug-info-kind=constructor"', False),
        ('"-include" "__clang_hip_runtime_wrapper.h" "-std=c++20"', False),
        ('"-include" "__clang_hip_runtime_wrapper.h" "--std=gnu++14"', True),
        ('"-include" "__clang_hip_runtime_wrapper.h" "-nostdsysteminc"', False),
        ('"-include" "__clang_hip_runtime_wrapper.h" "-D" "A=1" "-U" "B"', True),
        ('"-include" "__clang_hip_runtime_wrapper.h" "-D" "A=1" "-D" "A=2"', False),
        ('"-include" "__clang_hip_runtime_wrapper.h" "-U" "A" "-D" "A(x)=x"', False),
        ('"-include" "__clang_hip_runtime_wrapper.h" "-D" "VIEW=std::string_view"', True),
        ('"-include" "__clang_hip_runtime_wrapper.h" "-D" "_GLIBCXX_CONCEPT_CHECKS"', False),
        ('"-include" "__clang_hip_runtime_wrapper.h" "-D" "X=/*" "-D" "NDEBUG" "-D" "Z=*/"', False),
        ('"-include" "__clang_hip_runtime_wrapper.h" "-U" " NDEBUG"', False),
    ],
)
def test_which_passes_may_use_it(words: str, fits: bool) -> None:
    plan = recording("clang15-one-arch").replace('"-fcuda-is-device"', f'"-fcuda-is-device" {words}'.rstrip())
    front = cut(plan).devices[0].front
    assert (header.why_not(front, bitcode=True) == "") == fits
    assert header.why_not(front, bitcode=False)


@pytest.mark.parametrize("record", [b"", b"[]", b"{", b'{"wanted": null}', b'{"outputs": 1}', b"[" * 100_000])
def test_a_damaged_record_counts_for_none(record: bytes) -> None:
    assert HeaderRecord.unpack(record) == HeaderRecord()
    known = HeaderRecord(2, 1.5, ("x", "y"), "why", (True, False))
    assert HeaderRecord.unpack(known.pack()) == known


def test_one_that_could_not_be_made_is_tried_again_much_later() -> None:
    assert not HeaderRecord(PAYS - 1).is_due
    assert HeaderRecord(PAYS - 1).missed(0.6).is_due
    assert not HeaderRecord(1, why="why").is_due
    assert HeaderRecord(64, why="why").is_due


def test_long_passes_wait_until_comparing_them_pays() -> None:
    assert HeaderRecord(PAYS, PAYS * 0.9).is_due
    assert not HeaderRecord(16, 16 * 2.0).is_due
    assert HeaderRecord(18, 18 * 2.0).is_due


def test_what_was_made_is_read_as_it_was_written() -> None:
    made = Made(("/a", "/b"), Observed({"/a"}, {"/b"}, {"/d"}, {"/": {"e"}}, {"/f"}), ("a", "b"), b"#define A 1\n")
    assert Made.unpack(made.pack()) == made
    for packed in (b"", b"x", made.pack()[:-1]):
        with pytest.raises(ValueError, match=r".*"):
            Made.unpack(packed)


def test_a_macro_that_stands_in_a_header_may_be_asked_for() -> None:
    words = entry.pack_words(entry.words_of([b"#if defined(A1) || B\n#define C$ 1", b"x\xc3\xa4 d9"]))
    for name in ("A1", "B", "C$", "d9", "if", "xä"):
        assert entry.asks_for(words, [name]), name
    assert not entry.asks_for(words, ["A", "1", "D", "efined"])
    assert entry.asks_for(b"", ["A"])
    assert entry.asks_for(b"damaged", [])


def test_records_are_json() -> None:
    assert json.loads(HeaderRecord(1, 0.5, ("a",)).pack()) == {
        "wanted": 1,
        "seconds": 0.5,
        "outputs": ["a"],
        "why": "",
        "compared": [False, False],
    }
    assert Path(header.NAME).suffix == ".h"
