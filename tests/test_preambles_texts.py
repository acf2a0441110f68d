"""Which leading includes and which headers may be precompiled, by their texts."""

from __future__ import annotations

import pytest
from hip import Lab
from hipcache.planning import header_rules, leading
from preamble_lab import BOTH, add_to_header, build, counts, prelab

__all__ = ["prelab"]
pytestmark = pytest.mark.archs(1)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "#include <a>\n#include <b.h> // b\n\n/* c\n * d */\n  #  include\t<c/d.hpp>\nint x;\n",
            ["<a>", "<b.h>", "<c/d.hpp>"],
        ),
        ('#include <a>\n#include "b"\n#include <c>\n', ["<a>", '"b"', "<c>"]),
        ('#include <a>\n#include "b>\n#include <c>\n', ["<a>"]),
        ("#include <a>\n#include <b>", ["<a>"]),
        ("// x \\\n#include <a>\n", []),
        ("#include <a> // x \\\n#include <b>\n", []),
        ("\ufeff#include <a>\n", []),
        ("#include <a>\r\n#include <b>\r\n", []),
        ("/* ??/\n*/\n#include <a>\n", []),
        ("#include NAME\n#include <a>\n", []),
        ("#include_next <a>\n", []),
        ("/* open\n#include <a>\n", []),
        ("#if 1\n#include <a>\n#endif\n", []),
        ("#include <a>\n// x\r#include <b>\n#include <c>\n", ["<a>"]),
        ("#include <a>\n/* x /* y */\n#include <c>\n", ["<a>"]),
        ("#include <a>\n// \u00a9 one\n#include <c>\n", ["<a>", "<c>"]),
        ("#include <a>\n// \udcff one\n#include <c>\n", ["<a>"]),
    ],
)
def test_leading_includes(text: str, names: list[str]) -> None:
    found = leading.of(text.encode("utf-8", "surrogateescape"))
    assert list(found.names) == names
    assert all(text.encode("utf-8", "surrogateescape")[:end].endswith(b"\n") for end in found.ends)


def test_a_long_comment_without_an_end_takes_no_long_time() -> None:
    assert leading.of(b"/*" + b"* " * 30000).names == ()


@pytest.mark.parametrize(
    ("text", "system", "good"),
    [
        ("#pragma once\n", False, True),
        ("#pragma GCC visibility push(default)\n#pragma GCC visibility pop\n", True, True),
        ("#pragma GCC visibility push(default)\n", False, False),
        ("# pragma pack(push, 1)\n", True, False),
        ("#pragma STDC FP_CONTRACT ON\n", True, False),
        ("#pragma nv_diag_suppress 108\n#pragma region x\n#pragma warning(push)\n", False, True),
        (
            '#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored "-Wall"\n#pragma GCC diagnostic pop\n',
            False,
            True,
        ),
        ("#pragma GCC diagnostic push\n", False, False),
        ("#pragma clang diagnostic pop\n#pragma clang diagnostic push\n", False, False),
        ('#pragma clang diagnostic ignored "-Wall"\n', False, True),
        ("#pragma clang diagnostic push\n", True, False),
        ('#pragma clang diagnostic ignored "-Wall"\n', True, True),
        ("int __COUNTER__X;\n", False, True),
        ("int x = __COUNTER__;\n", True, False),
        ('#pragma push_macro("X")\n#undef X\n#pragma pop_macro("X")\n', True, True),
        ('#pragma push_macro("X")\n', True, False),
        ('_Pragma("push_macro(\\"X\\")")\n', True, False),
        ("#pragma GCC visibility push(hidden)\n", True, False),
        ("#if A\n#pragma GCC diagnostic push\n#else\n#pragma GCC diagnostic pop\n#endif\n", True, False),
        ("#if A\n#pragma GCC diagnostic push\n#endif\n#if A\n#pragma GCC diagnostic pop\n#endif\n", True, True),
        ('__attribute__((section("x"))) extern int x;\n', False, False),
        ("static auto x = [](int y) { return y; };\n", True, False),
        ("inline int x() { return [] { return 1; }(); }\n", False, True),
        ("/* x */ #define X\n", False, False),
        ("/* x\n*/\n#define X(y) #y /* z */\n#endif/* X */\n", False, True),
        ("#define X(a) f(a); \\\n    g(#a##b);\\\n  return\r\n", False, True),
        ("int x;\r#define X\n", False, False),
        ("# /* x */ define X\n", False, False),
        ("#\\ \r\ndefine X\n", False, False),
        ("int x = __COU\\\nNTER__;\n", False, False),
        ("\f\n#define X\n", False, True),
        ("\v#define X\n", False, False),
    ],
)
def test_what_headers_may_hold(text: str, system: bool, good: bool) -> None:
    assert (header_rules.fault(text.encode(), system=system) == "") == good


def test_a_header_of_the_users_that_switches_a_warning_for_itself(prelab: Lab) -> None:
    own = (
        '#pragma nv_diag_suppress 108\n#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored "-Wunused-result"\n'
    )
    own += "[[nodiscard]] int kept();\ninline void quiet() { kept(); }\n#pragma GCC diagnostic pop\n"
    add_to_header(prelab, own)
    for number in (1, 2, 3):
        assert "warning" in build(prelab, number, body="void dropped() { kept(); }\n").messages
    assert counts(prelab) == {"used": BOTH, "made": BOTH, "checked": BOTH, "different": 0}
