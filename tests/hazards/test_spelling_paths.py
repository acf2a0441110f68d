"""Paths that get into an output: it is shared between no two spellings."""

from __future__ import annotations

import random

import pytest
from hip import HIT, Lab, with_15
from hipcache.clang import bitcode
from hipcache.inputs.includes import scan
from spelled_lab import ONE, TWO, compile_as, differ, project, write

__all__ = ["project"]
pytestmark = pytest.mark.archs(1)

# Paths in the output


PRETTY = "template <class T> constexpr const char* name(T) { return __PRETTY_FUNCTION__; }\n"
LENGTH = "constexpr int length(const char* s) { int n = 0; while (s[n]) ++n; return n; }\n"
UNNAMED = "struct { int a; } nothing; constexpr int size = length(name(decltype(nothing){}));"
SHOWN: dict[str, tuple[str, str, str]] = {
    "a file": ("", "(int)sizeof(__FILE__)", ""),
    "a file in a macro of a header": ("#include <more.hpp>", "SIZE", "#define SIZE (int)sizeof(__FILE__)\n"),
    "a file in a header": ("#include <more.hpp>", "size", "constexpr int size = sizeof(__FILE__);\n"),
    "the base file": ("#include <more.hpp>", "size", "constexpr int size = sizeof(__BASE_FILE__);\n"),
    "a macro over two lines": ("", "(int)sizeof(__FI\\\nLE__)", ""),
    "pieces": ("#define PASTE(a, b) a##b", "(int)sizeof(PASTE(__FI, LE__))", ""),
    "a builtin": (
        f"{LENGTH}constexpr int here(const char* s = __builtin_FILE()) {{ return length(s); }}",
        "here()",
        "",
    ),
    "a lambda": (f"{PRETTY}{LENGTH}const auto nothing = [] {{}};", "length(name(nothing))", ""),
    "a type without a name": (PRETTY + LENGTH + UNNAMED, "size", ""),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", SHOWN)
def test_a_path_that_is_computed_with_is_right(lab: Lab, how: str) -> None:
    what, value, header = SHOWN[how]
    write(lab, what, device=value, more=header)
    differ(lab, "-std=c++17")
    write(lab, what, host=value, more=header)
    differ(lab, "-std=c++17")


def test_a_path_that_a_flag_computes_with_is_right(lab: Lab) -> None:
    write(lab, device="SIZE", host="SIZE")
    differ(lab, "-DSIZE=sizeof(__FILE__)")


def test_a_path_that_is_the_name_of_a_header_is_right(lab: Lab) -> None:
    text = (lab.root / "p/src/k.hip").read_text()
    names = "const char* name() { return HERE; }"
    lab.write("p/src/k.hip", f"#ifndef HERE\n#define HERE __FILE__\n#include HERE\n#else\n{text}{names}\n#endif\n")
    differ(lab, ways=("cmake", "make"))


ASSERTS = "#include <assert.h>\nint checked(int a) { assert(a > 2); return a; }"


def test_assert_names_the_file_where_it_is_used(lab: Lab) -> None:
    write(lab, ASSERTS)
    differ(lab)
    compile_as(lab, "cmake", "-DNDEBUG")
    assert compile_as(lab, "scons", "-DNDEBUG").outcome == HIT
    differ(lab, "-DNDEBUG", "-UNDEBUG")
    write(lab, "#undef NDEBUG\n" + ASSERTS)
    differ(lab, "-DNDEBUG")


def test_assert_in_a_macro_names_the_file_that_uses_that(lab: Lab) -> None:
    more = "#pragma once\n#include <assert.h>\n#define CHECK(a) \\\n assert(a)\n"
    write(lab, "#include <more.hpp>\nint checked(int a) { CHECK(a > 2); return a; }", more=more)
    differ(lab)


@with_15  # whose <optional> others do not take in HIP without HIP's headers
def test_a_checked_library_names_a_lambda_by_its_place(lab: Lab) -> None:
    use = "int checked(int b) { std::optional o{[] { return 3; }}; if (b) o.reset(); return (*o)(); }"
    write(lab, f"#ifndef __HIP_DEVICE_COMPILE__\n#include <optional>\n{use}\n#endif")
    differ(lab, "-std=c++17", "-O0", "-D_GLIBCXX_ASSERTIONS")


def test_a_header_of_the_system_names_a_lambda_by_its_place(lab: Lab) -> None:
    """In device code, too, whose bitcode has its strings at any bit."""
    checks = "template <class T> CHECKS int checks(T t, int a) { assert(a); return t(a); }\n"
    lab.write("system/checks.hpp", f"#include <assert.h>\n{checks}")
    text = "#define __host__ __attribute__((host))\n#define CHECKS __device__ __host__\n"
    says = "(const char*, const char*, unsigned, const char* name) noexcept"
    fail = f'__device__ const char* volatile seen;\nextern "C" __device__ void __assert_fail{says} {{ seen = name; }}\n'
    write(lab, text + fail + "#include <checks.hpp>", device="checks([] __device__ (int a) { return a; }, p[2])")
    differ(lab, "-Xclang", "-internal-isystem", "-Xclang", str(lab.root / "system"), "-O1")


@pytest.mark.parametrize(
    "flags", [("-g",), ("-gline-tables-only",), ("-funique-internal-linkage-names",)], ids=" ".join
)
def test_an_option_that_puts_a_path_into_the_output_is_not_shared(lab: Lab, flags: tuple[str, ...]) -> None:
    quiet = "static __attribute__((noinline)) int quiet(int a) { return a > 3 ? a * 7 : a + 1; }"
    write(lab, quiet, host="quiet(p[1]) * quiet(p[2])")
    # In one working directory, which is in the key of debug information.
    differ(lab, *(word for flag in flags for word in ("-Xarch_host", flag)), ways=("cmake", "meson"))


def test_messages_name_the_path_as_it_is_spelled(lab: Lab) -> None:
    write(lab, "static int unused(int a) { return a; }")
    said = {compile_as(lab, way, "-Wall").messages for way in ("cmake", "scons", "meson", "scons")}
    assert len(said) == 3


def test_messages_of_the_back_end_name_the_path_as_it_is_spelled(lab: Lab) -> None:
    loop = '#pragma unroll\nfor (int i = 0; i < n; i++) if (p[i] == n) asm volatile("s_nop 1");\n'
    write(lab, f"__global__ void loop(int* p, int n) {{\n{loop}}}")
    for way in ("cmake", "scons", "scons"):
        assert "loop not unrolled" in compile_as(lab, way).messages


@pytest.mark.parametrize("flags", [(), ("-fgpu-rdc",)], ids=" ".join)
def test_a_static_variable_that_the_host_finds_by_the_cuid_is_its_own(lab: Lab, flags: tuple[str, ...]) -> None:
    find = "void* at() { return (void*)&table; }"
    write(lab, f"static __device__ int table[4];\n{find}", device="table[p[2] & 3]")
    one, two = (compile_as(lab, way, *flags, cuid=cuid) for way, cuid in (("cmake", ONE), ("scons", TWO)))
    assert one.object != two.object or (int(lab.version) < 18 and not flags)
    assert compile_as(lab, "meson", *flags, cuid=ONE).object == one.object or flags


# The parts


@pytest.mark.parametrize("width", [7, 8, 12])
@pytest.mark.parametrize("shift", range(8))
def test_a_type_without_a_name_is_found_at_any_bit(width: int, shift: int) -> None:
    def vbr6(char: int) -> int:
        return (char & 31 | 32) | (char >> 5) << 6

    text = b"int f(T) [T = (lambda at src/k.hip:1:2)]"
    bits = sum((vbr6(char) if width == 12 else char) << (width * number) for number, char in enumerate(text))
    content = b"\xff" * 5 + (bits << shift).to_bytes(len(text) * 2, "little") + b"\xff" * 5
    assert bitcode.in_bitcode(content)
    assert not bitcode.in_bitcode(content.replace(b"\xff", b"")[30:])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"int f();\n", set()),
        (b"// __FILE__ and assert()\n/* __PRETTY_FUNCTION__ */\n", set()),
        (b"static_assert(1); int my_assert; __assert_fail();", set()),
        (b"assert(1);", {"assert"}),
        (b"#define X(a) /*\n*/ \\\n  assert(a)\n", {"assert", "assert in a macro"}),
        (b"  # undef /**/ NDEBUG\n", {"#undef NDEBUG"}),
        (b"#ifdef NDEBUG\n#endif\n", set()),
        (b"#define _GLIBCXX_ASSERTIONS 1\n", {"__glibcxx"}),
        (b"__glibcxx_assert(1);", {"__glibcxx"}),
        (b"f(__builtin_FILE());", {"__builtin_FILE"}),
        (b"__sanitizer_annotate_contiguous_container();", set()),
        (b"[[clang::annotate(1)]] __attribute__((__annotate__(1)))", {"annotate"}),
    ],
)
def test_names_that_show_paths(text: bytes, found: set[str]) -> None:
    assert scan(text).shown == found


@pytest.mark.parametrize("name", [b"(lambda at ", b"(unnamed ", b"(anonymous "])
def test_a_name_is_found_wherever_it_begins(name: bytes) -> None:
    """In C and in Python alike."""
    noise = random.Random(1)
    for row in bitcode.rows([name]):
        content = noise.randbytes(noise.randrange(300)) + row + noise.randbytes(noise.randrange(300))
        assert bitcode.in_bitcode(content)
        assert not bitcode.in_bitcode(content.replace(row, b""))
