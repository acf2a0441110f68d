"""Front ends of two GPUs that make something else of the same tokens: each GPU gets its own."""

from __future__ import annotations

import pytest
from hip import Lab, kernel
from shared_lab import build, counts, shared

__all__ = ["shared"]

# Of each of these a front end of gfx904 makes something else than that of gfx900, though the tokens are the same.
GAP = "\n" * 20
KERNEL = 'extern "C" __global__ void k(float* p) { p[0] = f(p[1]); }\n'
AS_INT = f"__device__ int f(float x) {{ return TO_INT(x) + 1; }}\n{KERNEL}"
HIDDEN = {
    "features": """
#ifdef __HIP_DEVICE_COMPILE__
#define TARGET __attribute__((target("arch=gfx900")))
#else
#define TARGET
#endif
extern "C" __global__ TARGET void k(float* p, _Float16* h) { p[0] = __builtin_fmaf(h[0], h[1], h[2]); }
""",
    "data": """
extern "C" __attribute__((constant)) const unsigned said[] =
    {4, 't', 'a', 'r', 'g', 'e', 't', '-', 'c', 'p', 'u', 0, 'g', 'f', 'x', '9', '0', '0', 0, 77};
extern "C" __global__ void k(unsigned* p, int i) { p[0] = said[i]; }
""",
    "lines": f"""
#ifdef __gfx904__
__device__ int f(float) {{ return __builtin_LINE(); }}
#else
__device__ int f(float) {{ return __builtin_LINE(); }}
#endif
{KERNEL}
""",
    "columns": f"""
#ifdef __gfx904__
{GAP}
#line 40
__device__ int f(float) {{ return __builtin_COLUMN(); }}
{GAP}
#else
{GAP}
#line 40
__device__ int f(float) {{      return __builtin_COLUMN(); }}
{GAP}
#endif
{GAP}
#line 200
{KERNEL}
""",
    "lines of arguments": f"""
#define ID(x) x
__device__ int f(float) {{ return ID(
#ifdef __gfx900__
  1) + __builtin_LINE(); }}
#else
  1) + __builtin_LINE(); }}
#endif
{KERNEL}
""",
    "macros of arguments": f"""
#include <system.hpp>
#define ID(x) x
__device__ int f(float x) {{ return ID(
#if defined(__gfx900__) || !defined(__HIP_DEVICE_COMPILE__)
  TO_INT(x)
#else
  ((int)(x))
#endif
  ); }}
{KERNEL}
""",
    "columns by a name": f"""
#define EACH(n, body) body(n)
__device__ int f(float) {{ return EACH(3, [](int n) {{ return n +
#ifdef __gfx900__
  1; }}) + [](auto l) {{ return (int)sizeof(__PRETTY_FUNCTION__); }}([]{{}});
#else
  1; }}) + /* the same for all of the others */ [](auto l) {{ return (int)sizeof(__PRETTY_FUNCTION__); }}([]{{}});
#endif
}}
{KERNEL}
""",
    "pragmas": """
#ifdef __HIP_DEVICE_COMPILE__
#pragma pack(push, __gfx904__)
#endif
struct S { char c; int i; };
extern "C" __global__ void k(int* p) { p[0] = sizeof(S); }
""",
    "features in parentheses": """
#ifdef __HIP_DEVICE_COMPILE__
#define TARGET __attribute__((target(("arch=gfx900"))))
#else
#define TARGET
#endif
extern "C" __global__ TARGET void k(float* p, _Float16* h) { p[0] = __builtin_fmaf(h[0], h[1], h[2]); }
""",
    "features by a pragma": """
#ifdef __HIP_DEVICE_COMPILE__
#define T "arch=gfx900"
#pragma clang attribute push(__attribute__((target(T))), apply_to = function)
#endif
extern "C" __global__ void k(float* p, _Float16* h) { p[0] = __builtin_fmaf(h[0], h[1], h[2]); }
#ifdef __HIP_DEVICE_COMPILE__
#pragma clang attribute pop
#endif
""",
    "names in tokens": f"""
#include <system.hpp>
#define TO_INT___gfx900__(a) ((int)(a))
#define TO_INT_1(a) TO_INT(a)
#define CAT1(a, b) a##b
#define CAT(a, b) CAT1(a, b)
#ifdef __HIP_DEVICE_COMPILE__
__device__ int f(float x) {{ return CAT(TO_INT_, __gfx900__)(x); }}
#else
__device__ int f(float x);
#endif
{KERNEL}
""",
    "macros": f"""
#ifdef __gfx904__
#define TO_INT(a) ((int)(a))
#endif
#include <system.hpp>
{AS_INT}
""",
    "pushed macros": f"""
#include <system.hpp>
#pragma push_macro("TO_INT")
#undef TO_INT
#define TO_INT(a) ((int)(a))
#ifdef __gfx900__
#pragma pop_macro("TO_INT")
#endif
{AS_INT}
""",
}


@pytest.mark.parametrize("flags", [(), ("-P",), ("-Werror",)], ids=["", "P", "Werror"])
@pytest.mark.parametrize("what", HIDDEN)
def test_what_the_tokens_do_not_show(shared: Lab, what: str, flags: tuple[str, ...]) -> None:
    shared.archs = ("--offload-arch=gfx900", "--offload-arch=gfx904")
    shared.write("system/system.hpp", "#ifndef TO_INT\n#define TO_INT(a) ((int)(a))\n#endif\n")
    options = ("-Wold-style-cast", "-isystem", "system", *flags)
    for number in (1, 2):  # the pair comes to trust
        build(shared, number, *options)
    build(shared, 3, *options, text=f'#include "hip_in_short.hpp"\n{HIDDEN[what]}')
    assert counts(shared)[2] == 0


ASSEMBLY = """
#ifdef __gfx1031__
#define ONE ONE1
#define ONE1 ONE2
#define ONE2 1
#else
#define ONE 1
#endif
#define MOVE asm volatile("v_mov_b32 %0, 7" : "=v"(r))
__device__ int f() { int r = ONE; MOVE; return r; }
"""


def test_places_of_inline_assembly_are_no_difference(shared: Lab) -> None:
    """Bitcode notes them, and counts the macros before them."""
    build(shared, 1, text=kernel("1", ASSEMBLY))
    assert counts(shared)[2] == 0
