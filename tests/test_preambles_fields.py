"""Preambles, and private fields of classes. Clang warns of those that nothing uses if all functions of their class are
defined, and does not write into a precompiled header which ones these may be. Each compile is compared with plain
clang's, with its messages."""

from __future__ import annotations

import pytest
from hip import Lab
from hipcache.planning import private_fields
from preamble_lab import BOTH, build, counts, prelab

__all__ = ["prelab"]
_CLASS = "#pragma once\nclass counter {\npublic:\n  int next();\nprivate:\n  int unused;\n};\n"
_DEFINES = "int counter::next() { return 3; }\n"


@pytest.mark.archs(1)
def test_who_defines_a_headers_class_is_warned_of_its_fields(prelab: Lab) -> None:
    """The sources by which a preamble would come to trust do not define it."""
    prelab.write("inc/counter.hpp", _CLASS)
    for number in (1, 2, 3):
        build(prelab, number, "-Wall", head="#include <counter.hpp>\n")
    done = build(prelab, 4, "-Wall", head="#include <counter.hpp>\n", body=_DEFINES)
    assert "'unused' is not used" in done.messages
    assert counts(prelab)["different"] == 0


@pytest.mark.archs(1)
def test_a_class_of_which_clang_warns_each_time_ends_no_other_preamble(prelab: Lab) -> None:
    prelab.write("inc/counter.hpp", _CLASS.replace("next();", "next() { return 3; }"))
    prelab.write("inc/asks.hpp", '#pragma once\n#pragma clang diagnostic warning "-Wunused"\n')
    for number in (1, 2, 3):
        build(prelab, number, head="#include <asks.hpp>\n#include <counter.hpp>\n")
    for number in range(10, 14):
        build(prelab, number)
    found = counts(prelab)
    assert found["different"] == 0
    assert found["used"] >= BOTH


@pytest.mark.archs(1)
def test_where_nobody_warns_of_them_a_preamble_is_used(prelab: Lab) -> None:
    prelab.write("inc/counter.hpp", _CLASS)
    for number in (1, 2, 3, 4):
        build(prelab, number, head="#include <counter.hpp>\n", body=_DEFINES if number == 4 else "")
    assert counts(prelab)["used"] >= BOTH


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("class C { int x; };", True),
        ("struct S { private: int x = 3; };", True),
        ("class C { public: int f(); private: std::function<void(int)> x; };", True),
        ("class C { int (*x)(int); };", True),
        ("class C { int x{3}; };", True),
        ("class C : public B<int> { alignas(8) int x[3]; };", True),
        ("class C { public: int f() { return 3; } private: int f(int) { return 1; } int x; };", True),
        ("class C { struct { int a; } x; };", True),
        ("namespace n { class C { public: int a; private: int x : 3; }; }", True),
        ("class C { public: C() : x(3) {} private: int x; };", True),
        ("class C { int x, y; public: int f() { return y; } };", True),
        ("class C { void f(int x); int x; };", True),
        ("class C { int x;", True),
        ("class C { public: C() : x(3) {} int f() { return x; } private: int x; };", False),
        ("class C { int x[2]; public: void f(int i) { x[i] = 1; } };", False),
        ("class C { int x; public: bool f(C c) { g(c.x); } };", False),
        ("class C { int x; public: void f() { stream << x; } };", False),
        ("class C { public: int x; };", False),
        ("struct S { int x; };", False),
        ("class C { C(const C&) = delete; void f(int x) { int y = x; } using t = int; static int n; };", False),
        ("template <class T> class C { T x; int y; };", False),
        ("template <class T> class C { class D { int x; }; };", False),
        ("enum class E { a, b };", False),
        ("// class C { int x; };\nint class_count;", False),
        ("class C; void f(class C* c) { int x; }", False),
    ],
)
def test_private_fields_are_seen_in_the_text(text: str, found: bool) -> None:
    assert private_fields.are_unused(text.encode()) == found
