"""Where a source may name a GPU, so that the text behind the preprocessor shows what comes of it."""

from __future__ import annotations

import pytest
from hipcache.planning.gpu_names import may_hide, may_hide_in_standard_header

CONDITIONS = [
    b"#ifdef __gfx1031__\n#define X\n#endif\n",
    b"int f() {\n#if defined(__gfx1031__) || \\\n    defined(__gfx1030__)\n  return g(1);\n#endif\n}\n",
    b"// for gfx1031\n/* gfx1030 */ int x; # if 1\n",
    b"const char *a = \"(\"; char b = '(';\n#ifdef __gfx1031__\n#endif\n",
    b"f(\n#ifdef OTHER\n1\n#endif\n);\n#ifdef __gfx1031__\n#endif\n",
]


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions_may_name_one(text: bytes) -> None:
    assert not may_hide([text, b"#define A(x) x##1\n#include <vector>\n"], b"#define B 1\n")


@pytest.mark.parametrize(
    "text",
    [
        b"#define IS_NAVI22 __gfx1031__\n",
        b"#pragma unroll __gfx1031__\n",
        b"#def\\\nine IS __gf\\\nx1031__\n",
        b"int x = __gfx1031__;\n",
        b'__attribute__((target(("arch=gfx900")))) void f();\n',
        b'section(".mine." __amdgcn_processor__)\n',
        b"#if CAT(__gf, x1031__)\n#endif\n#define CAT(a, b) a##b\n int __gf;\n",
    ],
)
def test_nothing_else_may(text: bytes) -> None:
    assert may_hide([b"int a;\n", text], b"")


def test_a_macro_of_the_command_line_may_not() -> None:
    assert may_hide([b"#if NAVI22\n#endif\n"], b"#define NAVI22 __gfx1031__\n")


@pytest.mark.parametrize(
    "hides",
    [
        b"#line 40",
        b'# 40 "k.hip"',
        b"/**/ #line 140",
        b"\f#line 140",
        b"#\\\nline 140",
        b"#??/\nline 140",
        b'%:line 3 "k.hip"',
        b'#pragma push_macro("X")',
        b'#define RESTORE _Pragma("pop_macro(X)")',
        b"#pragma clang unsafe_buffer_usage begin",
    ],
)
def test_none_of_them_may_hide_something_then(hides: bytes) -> None:
    assert may_hide([CONDITIONS[0], hides + b"\n"], b"")
    assert not may_hide([b"#ifdef OTHER\n#endif\n", hides + b"\n"], b"")
    assert may_hide_in_standard_header(CONDITIONS[0] + b"#line 3\n")
    assert not may_hide_in_standard_header(CONDITIONS[0])


@pytest.mark.parametrize("inside", [b"#ifdef __gfx1031__\n1\n#endif", b'#include "gpu.inc"'])
def test_no_condition_may_stand_in_arguments(inside: bytes) -> None:
    assert may_hide([b"int x = ID(\n" + inside + b"\n);\n", CONDITIONS[0]], b"")
    assert not may_hide([b"int x = ID(2);\n" + inside + b"\n;\n", CONDITIONS[0]], b"")
