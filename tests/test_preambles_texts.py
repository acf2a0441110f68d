"""Which leading includes and which headers may be precompiled, by their texts."""

from __future__ import annotations

import pytest
from hipcache.planning import header_rules, leading

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
    ("text", "good"),
    [
        ("#pragma once\n", True),
        ("#pragma GCC visibility push(default)\n#pragma GCC visibility pop\n", True),
        ("#pragma GCC visibility push(default)\n", False),
        ("# pragma pack(push, 1)\n", False),
        ("#pragma STDC FP_CONTRACT ON\n", False),
        ("#pragma nv_diag_suppress 108\n#pragma region x\n#pragma warning(push)\n", True),
        ('#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored "-Wall"\n#pragma GCC diagnostic pop\n', True),
        ("#pragma GCC diagnostic push\n", False),
        ("#pragma clang diagnostic pop\n#pragma clang diagnostic push\n", False),
        ('#pragma clang diagnostic ignored "-Wall"\n', True),
        ("int __COUNTER__X;\n", True),
        ("int x = __COUNTER__;\n", False),
        ('#pragma push_macro("X")\n#undef X\n#pragma pop_macro("X")\n', True),
        ('#pragma push_macro("X")\n', False),
        ('_Pragma("push_macro(\\"X\\")")\n', False),
        ("#pragma GCC visibility push(hidden)\n", False),
        ("#if A\n#pragma GCC diagnostic push\n#else\n#pragma GCC diagnostic pop\n#endif\n", False),
        ("#if A\n#pragma GCC diagnostic push\n#endif\n#if A\n#pragma GCC diagnostic pop\n#endif\n", True),
        ("static auto x = [](int y) { return y; };\n", False),
        ("inline int x() { return [] { return 1; }(); }\n", True),
    ],
)
def test_what_headers_may_hold(text: str, good: bool) -> None:
    assert (header_rules.fault(text.encode()) == "") == good


@pytest.mark.parametrize(
    ("macro", "good"),
    [
        ("N=3", True),
        ("BASE=__BASE_FILE__", False),
        ('PACK=_Pragma("pack(1)")', False),
        ('WHERE=__attribute__((section("x")))', False),
        ("section=3", True),
    ],
)
def test_what_macros_of_the_command_line_may_hold(macro: str, good: bool) -> None:
    assert (header_rules.macro_fault(macro.encode()) == "") == good
