"""Precompiled preambles have standard headers alone: those of users and libraries are read as text, whatever is in
them. Each compile here is compared with plain clang's (`lab.same`)."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hip import Compiled, Lab, only_19
from hipcache import config
from hipcache.cli.ways import check_preambles
from hipcache.execution import preamble_values
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.search import SearchPath
from hipcache.inputs.trace import Files
from hipcache.planning.standard_headers import is_standard
from hipcache.processes.runner import Completed, SubprocessRunner, Traced
from hipcache.values import replace
from preamble_lab import BOTH, Watching, compile_in_process, counts, prelab, words

__all__ = ["prelab"]
pytestmark = pytest.mark.archs(1)

# Each comes to something else in a precompiled header: a variable of the device that only the host's code uses; a
# lambda that clang numbers; two variables that clang initializes itself, in another order; an error that clang puts off
# until the function is used.
HEADERS = {
    "variable": (
        "static __constant__ int table[sizeof(int)];\ninline const void* where() { return table; }\n",
        "const void* used() { return where(); }\n",
    ),
    "lambda": (
        "struct Op { int (*call)(int); };\nstatic const struct Op ops[]{{[](int x) { return x * 2; }}};\n",
        "static const Op own{[](int x) { return -x; }};\nint both(int x) { return own.call(ops[0].call(x)); }\n",
    ),
    "initializers": (
        "extern int base; static int first = base + 1; extern int* where; static int second = *where + 1;\n",
        "int base = 5; int f() { return second; } int g() { return first; } int* where = &first;\n",
    ),
    "error": (
        "__device__ int other();\n__host__ __device__ inline int either(bool b) { return b ? other() : 1; }\n",
        "int called() { return either(false); }\n",
    ),
}


@pytest.fixture
def standard(prelab: Lab) -> Lab:
    prelab.write("inc/value.hpp", "#pragma once\n#define VALUE 3\n")
    return prelab


def build(lab: Lab, number: int, *flags: str, body: str = "", head: str = "#include <cstdint>\n") -> Compiled:
    text = f"// {number}\n{head}#include <hip_in_short.hpp>\n#include <value.hpp>\n"
    text += f"__global__ void k(int* p) {{ p[0] = VALUE * {number}; }}\n{body}"
    lab.write(f"s{number}.hip", text)
    done = lab.compile(*words(lab), *flags, source=f"s{number}.hip")
    assert done.dependencies == done.plain_dependencies
    return done


@only_19
@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_of_the_user_is_read_as_text(standard: Lab, kind: str) -> None:
    header, body = HEADERS[kind]
    standard.write("inc/value.hpp", f"#pragma once\n#include <hip_in_short.hpp>\n#define VALUE 3\n{header}")
    for number in range(2):
        build(standard, number)
    assert counts(standard) == {"used": 0, "made": BOTH, "checked": BOTH, "different": 0}
    build(standard, 2, body=body)
    assert counts(standard)["used"] == (0 if kind == "error" else BOTH)


@only_19
def test_a_header_of_the_user_before_all_others_ends_the_preamble(standard: Lab) -> None:
    for number in range(3):
        build(standard, number, head="#include <value.hpp>\n#include <cstdint>\n")
    assert not any(counts(standard).values())


@only_19
@pytest.mark.parametrize("name", ["cstdint", "stdint.h"])
def test_a_header_of_the_user_by_a_standard_name_is_none(standard: Lab, name: str) -> None:
    """Also where a standard header includes it."""
    standard.write(f"inc/{name}", f"#pragma once\n#include_next <{name}>\nstatic __constant__ int own[sizeof(int)];\n")
    for number in range(3):
        build(standard, number, body="\n")
    assert counts(standard)["used"] == counts(standard)["made"] == 0


FILES = Files("/", 0.0, Basedir(""))


def search(*own: str) -> SearchPath:
    return SearchPath((), own, own, 0, own)


PLACES = (
    "/usr/lib/llvm-15/lib/clang/15.0.6/",
    "/usr/lib/llvm-19/lib/clang/19/include/",
    "/usr/lib/llvm-19/lib/clang/19/include/cuda_wrappers/",
    "/usr/lib/llvm-19/bin/../include/c++/v1/",
    "/usr/lib/llvm-19/bin/../include/x86_64-pc-linux-gnu/c++/v1/",
    "/usr/include/c++/12/",
    "/usr/include/c++/12/backward/",
    "/usr/include/c++/12/x86_64-suse-linux/",
    "/usr/include/x86_64-linux-gnu/c++/12/",
    "/usr/lib/gcc/x86_64-pc-linux-gnu/12/include/g++-v12/",
    "/usr/lib/gcc/x86_64-pc-linux-gnu/12/include/g++-v12/x86_64-pc-linux-gnu/",
    "/gnu/store/gcc-12/include/c++/",
    "/gnu/store/gcc-12/include/c++/x86_64-unknown-linux-gnu/",
    "/usr/include/x86_64-linux-gnu/",
    "/usr/include/",
    "/usr/local/include/",
    "/opt/vendor/",
    "/build/c++/root/usr/include/",
    "/build/include/c++/12/root/usr/include/",
    "/build/lib/clang/19/usr/include/",
    "/build/clang/",
    "/build/c++/",
)


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("/usr/lib/llvm-15/lib/clang/15.0.6/include/stddef.h", True),
        ("/usr/lib/llvm-19/lib/clang/19/include/stddef.h", True),
        ("/usr/lib/llvm-19/lib/clang/19/include/cuda_wrappers/new", True),
        ("/usr/lib/llvm-19/bin/../include/c++/v1/vector", True),
        ("/usr/lib/llvm-19/bin/../include/x86_64-pc-linux-gnu/c++/v1/__config_site", True),
        ("/usr/include/c++/12/bits/stl_vector.h", True),
        ("/usr/include/c++/12/backward/binders.h", True),
        ("/usr/include/c++/12/x86_64-suse-linux/bits/c++config.h", True),
        ("/usr/include/x86_64-linux-gnu/c++/12/bits/c++config.h", True),
        ("/usr/lib/gcc/x86_64-pc-linux-gnu/12/include/g++-v12/vector", True),
        ("/usr/lib/gcc/x86_64-pc-linux-gnu/12/include/g++-v12/x86_64-pc-linux-gnu/bits/c++config.h", True),
        ("/usr/include/x86_64-linux-gnu/bits/types.h", True),
        ("/usr/include/stdlib.h", True),
        ("/build/c++/root/usr/include/stdlib.h", True),
        ("/gnu/store/gcc-12/include/c++/vector", True),
        ("/gnu/store/gcc-12/include/c++/x86_64-unknown-linux-gnu/bits/c++config.h", True),
        ("/usr/include/sys/../mine/own.h", False),
        ("/usr/include/c++/12/../../mine/own.h", False),
        ("/usr/include/zlib.h", False),
        ("/usr/include/boost/any.hpp", False),
        ("/usr/include/thrust/system/hip/config.h", False),
        ("/usr/include/rocprim/rocprim.hpp", False),
        ("/usr/local/include/bits/own.h", False),
        ("/usr/local/include/stdlib.h", False),
        ("/opt/vendor/hip/tables.hpp", False),
        ("/opt/vendor/sys/own.h", False),
        ("/build/c++/root/usr/include/own.h", False),
        ("/build/include/c++/12/root/usr/include/own.h", False),
        ("/build/lib/clang/19/usr/include/own.h", False),
        ("/build/clang/own.h", False),
        ("/build/c++/own.h", False),
        ("/home/one/c++/vector", False),
        ("/home/one/inc/stdlib.h", False),
    ],
)
def test_which_headers_are_standard(path: str, is_one: bool) -> None:
    assert is_standard(path, search(*PLACES), FILES) is is_one


@pytest.mark.parametrize("is_there", [False, True])
def test_hips_own_headers_are_standard_where_hip_is(tmp_path: Path, is_there: bool) -> None:
    (tmp_path / "hip/amd_detail").mkdir(parents=True)
    if is_there:
        (tmp_path / "hip/hip_runtime.h").touch()
    assert is_standard(f"{tmp_path}/hip/amd_detail/math.h", search(f"{tmp_path}/"), FILES) is is_there


@only_19
def test_a_header_that_changes_a_macro_of_the_command_line_is_in_no_preamble(standard: Lab) -> None:
    """Clang would define it once more behind the preamble (glibc's features.h sets _POSIX_C_SOURCE)."""
    flags, body = ["-D_POSIX_C_SOURCE=1", "-w"], "long version() { return _POSIX_C_SOURCE; }\n"
    for number in range(3):
        build(standard, number, *flags, body=body)
    assert counts(standard)["used"] == counts(standard)["made"] == 0
    for number in range(3):
        build(standard, number, "-DLEVEL=7", "-DOWN(x)=x", "-UNDEBUG", body=body)
    assert counts(standard)["used"] == BOTH


@only_19
def test_a_byte_order_mark_ends_the_preamble(standard: Lab) -> None:
    for number in range(3):
        text = (
            f"\ufeff#include <cstdint>\n#include <hip_in_short.hpp>\n__global__ void k(int* p) {{ p[0] = {number}; }}\n"
        )
        standard.write(f"s{number}.hip", text)
        assert standard.compile(*words(standard), source=f"s{number}.hip").status == 0
    assert not any(counts(standard).values())


@only_19
def test_the_rest_of_a_source_is_not_taken_for_the_guard_of_a_header(standard: Lab) -> None:
    for number in range(3):
        text = f"#include <cstdint>\n#ifndef KERNELS_GUARD\n#define KERNELS_GUAR\nint one = {number};\n#endif\n"
        standard.write(f"s{number}.hip", text)
        done = standard.compile(*words(standard), source=f"s{number}.hip")
        assert (done.status, done.messages) == (0, "")
    assert counts(standard)["used"] == counts(standard)["different"] == 0


@only_19
def test_a_few_sources_pay_for_none(standard: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """To make one takes as long as three passes. (Engines of other tests make one for the second source.)"""
    monkeypatch.setattr(preamble_values, "FIRST", 5)
    made = [compile_in_process(standard, SubprocessRunner(), short(standard, number)) for number in range(7)]
    assert [("made" in one, "used" in one) for one in made] == [
        *[(False, False)] * 5,
        (True, False),
        (False, True),
    ]


@only_19
def test_a_small_store_keeps_results_alone(standard: Lab) -> None:
    standard.environ["HIPCACHE_MAX_SIZE"] = "100MiB"
    for number in range(3):
        build(standard, number)
    assert not any(counts(standard).values())
    assert "no room" in check_preambles(config.load(standard.environ)).text


@only_19
def test_checks_of_none_are_refused(standard: Lab) -> None:
    ended = standard.hipcache("config", env={"HIPCACHE_PREAMBLE_CHECKS": "0"})
    assert ended.status == 1
    assert b"'0' is not a positive number" in ended.err


@only_19
def test_a_header_that_clang_lists_by_another_name(standard: Lab) -> None:
    """A backslash is a slash to it."""
    standard.write("in\\side.hpp", "#define SIDE 5\n")
    for number in range(3):
        done = build(standard, number, body='#include "in\\side.hpp"\nint side() { return SIDE; }\n')
        assert done.counted.reason != "internal"


class Full(Watching):
    """On a disk that has no room for a preamble."""

    def after(self, argv: Sequence[str], traced: Traced) -> Traced:
        said = f"error: {os.strerror(errno.ENOSPC)}\n".encode()
        return replace(traced, ended=Completed(1, b"", said)) if "-emit-pch" in argv else traced


@only_19
def test_a_preamble_that_the_disk_has_no_room_for_costs_no_result(standard: Lab) -> None:
    for number in range(3):
        compile_in_process(standard, Full(), short(standard, number))
    assert standard.compile(*words(standard), source="s1.hip").outcome == "hit"


def short(lab: Lab, number: int) -> str:
    """The name of a new source."""
    text = f"#include <cstdint>\n#include <hip_in_short.hpp>\n__global__ void k(int* p) {{ p[0] = {number}; }}\n"
    lab.write(f"s{number}.hip", text)
    return f"s{number}.hip"
