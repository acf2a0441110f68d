"""Edits after which a name or a text that looks like another one could mislead the question to the preprocessor, or the
numbers in messages: each compile is plain clang's (`Lab.compile` compares)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hip import HIT, Lab, kernel
from hipcache.clang.cuid import clangs_hash
from test_edits import OF_CUIDS

pytestmark = [pytest.mark.takes_turns("lab"), pytest.mark.archs(1)]

LINE = "inline int line() { return __LINE__; }\n"
ONCE = "#pragma once\n"
AT = "struct At { int n; static constexpr At here(int n = __builtin_LINE()) { return {n}; } };\n"
REORDERED = "struct S {{ int a, b, c;\n  S() : c(3),\n  b(2),\n{}  a(1 /* {} */) {{}}\n}};\nS s;\n"
DROPPED = (
    "#define DROP(x)\n#define A(x) DROP(x)\n#define CAT(a, b) a##b\n"
    + 500 * "A(__LINE__ __LINE__ __LINE__ __LINE__)\n"
    + "void s() { int CAT(un,used); }\n"
)


@dataclass(frozen=True)
class Case:
    """`source`: of k.hip; `others`: further files; `file`: the edited one, then with `text`; `links`: to targets"""

    source: str
    file: str
    text: str
    others: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    links: dict[str, str] = field(default_factory=dict)


def _versions(directory: str) -> Case:
    """A header in that directory, whose macro is used, has another value."""
    name = f"{directory}/v.hpp"
    source = kernel("sizeof(VERSION)", f'#include "{name}"') + "const char* v() { return VERSION; }\n"
    return Case(source, name, f'{ONCE}#define VERSION "2.00"\n', {name: f'{ONCE}#define VERSION "1.0"\n'})


_TWICE = "#ifndef H\n#define H\n#define V {}\n#else\n#undef V\n#define V 7\n#endif\n"
_ONE_MORE_LINE = "// one\n"
_PLACE = kernel("1") + "extern int a;\n"
_APART = "#define Q 1'000 // {}\n#define S_(x) #x\n#define S(x) S_(x)\nconst char* f() {{ return S(Q); }}\n"
CASES = {
    "a header whose name has no character of 16 bits": _versions("\U0001f680"),
    "a header whose name is no UTF-8": _versions("caf\udce9"),
    "a header whose name is not ASCII": _versions("caf\u00e9"),
    "a way up from a link": Case(
        kernel("f()", '#include "link/../v.hpp"\n#include "v.hpp"'),
        "deep/v.hpp",
        ONCE + "#define V 2\n",
        {"deep/v.hpp": ONCE + "#define V 1\n", "v.hpp": ONCE + "constexpr int f() { return V; }\n", "deep/inner/x": ""},
        links={"link": "deep/inner"},
    ),
    "one directory by two names": Case(
        kernel("x()", '#include "a/v.hpp"\n#include <x.hpp>'),
        "a/v.hpp",
        ONCE + "#define V 7\n",
        {
            "a/v.hpp": ONCE + "#define V 1\n",
            "a/x.hpp": "constexpr int x() { return 0; }\n",
            "b/x.hpp": "constexpr int x() { return V; }\n",
        },
        ("-Ia", "-Ib", "-isystem", "la"),
        {"la": "a"},
    ),
    "one header by two names": Case(
        kernel("V", '#include "h.hpp"\n#include "link.hpp"'),
        "h.hpp",
        ONCE + _TWICE.format(2),
        {"h.hpp": ONCE + _TWICE.format(1)},
        links={"link.hpp": "h.hpp"},
    ),
    "#line with a digraph in two lines": Case(
        kernel("1", '#include "x.hpp"') + '%\\\n:line 100 "x.hpp"\nint f() { return __LINE__; }\n',
        "k.hip",
        kernel("1", '#include "x.hpp"') + '%\\\n:line 100 "x.hpp"\n\nint f() { return __LINE__; }\n',
        {"x.hpp": "int g();\n"},
    ),
    "a header named like the library's": Case(
        kernel("1", "#include <source_location_at.hpp>") + "int f() { return At::here().n; }\n",
        "k.hip",
        _ONE_MORE_LINE + kernel("1", "#include <source_location_at.hpp>") + "int f() { return At::here().n; }\n",
        {"v/include/c++/1/source_location_at.hpp": AT},
        ("-Iv/include/c++/1",),
    ),
    "a tab in a name": Case(
        kernel("1", '#include "a\tb.h"\n#include "atb.h"') + "int f() { return line(); }\n",
        "a\tb.h",
        _ONE_MORE_LINE + LINE,
        {"a\tb.h": LINE, "atb.h": "int r();\n"},
    ),
    "digits that C++11 does not set apart": Case(
        kernel("1")
        + "#define Q 1'000 // old\n#define S_(x) #x\n#define S(x) S_(x)\nconst char* f() { return S(Q); }\n",
        "k.hip",
        kernel("1")
        + "#define Q 1'000 // new\n#define S_(x) #x\n#define S(x) S_(x)\nconst char* f() { return S(Q); }\n",
        flags=("-std=c++11", "-Wno-invalid-pp-token"),
    ),
    "the place of an enumeration without a name": Case(
        kernel("1", '#include "c.hpp"') + "enum Mode { m1 };\nint f() { return WARP + m1; }\n",
        "c.hpp",
        ONCE + _ONE_MORE_LINE + "enum { WARP = 64 };\n",
        {"c.hpp": ONCE + "enum { WARP = 64 };\n"},
        ("-std=c++20",),
    ),
    "a header that names another file's lines": Case(
        kernel("1", '#include "tab.hpp"\n#include "gen.hpp"'),
        "tab.hpp",
        ONCE + _ONE_MORE_LINE + "extern int t1;\nextern int t2;\nextern int t3;\n",
        {
            "tab.hpp": ONCE + "extern int t1;\nextern int t2;\nextern int t3;\n",
            "gen.hpp": '#line 4 "tab.hpp"\ninline int q() { int unused; return 1; }\n',
        },
        ("-Wall",),
    ),
    "a fix-it with a comment of a far line": Case(
        kernel("1") + REORDERED.format(30 * "\n", "x"),
        "k.hip",
        kernel("1") + REORDERED.format(30 * "\n", "y"),
        flags=("-Wall",),
    ),
    "a text with a place": Case(
        _PLACE + '[[deprecated("see\\nk.hip:2:1: note: it")]] int old();\nint g() { return old(); }\n',
        "k.hip",
        _ONE_MORE_LINE + _PLACE + '[[deprecated("see\\nk.hip:2:1: note: it")]] int old();\nint g() { return old(); }\n',
    ),
    "a text with a place in two parts": Case(
        _PLACE + '[[deprecated("see\\nk.hip:2" ":1: note: it")]] int old();\nint g() { return old(); }\n',
        "k.hip",
        _ONE_MORE_LINE
        + _PLACE
        + '[[deprecated("see\\nk.hip:2" ":1: note: it")]] int old();\nint g() { return old(); }\n',
    ),
    "a raw string with a place": Case(
        kernel("1") + 'void f() {\nconst char* s = R"(\nk.hip:3:1: note: x)"; int unused; }\n',
        "k.hip",
        _ONE_MORE_LINE + kernel("1") + 'void f() {\nconst char* s = R"(\nk.hip:3:1: note: x)"; int unused; }\n',
        flags=("-Wall",),
    ),
    "a place among pasted tokens": Case(
        20 * "\n" + kernel("1") + DROPPED, "k.hip", 500 * "\n" + kernel("1") + DROPPED, flags=("-Wall",)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_edit_leaves_what_plain_clang_makes(lab: Lab, name: str) -> None:
    case = CASES[name]
    for file, text in {"k.hip": case.source, **case.others}.items():
        lab.write(file, os.fsencode(text))
    for link, target in case.links.items():
        os.symlink(target, lab.root / link)
    assert lab.compile(*case.flags).status == 0
    lab.write(case.file, case.text)
    lab.compile(*case.flags)
    lab.compile(*case.flags)


@pytest.mark.parametrize("where", ["a name", "a macro"])
def test_a_name_of_the_users_with_the_hash_of_a_cuid_stays(lab: Lab, where: str) -> None:
    name = f"u_{clangs_hash('aaaa')}"
    flags = (f"-DNAME={name}",) if where == "a macro" else ()
    lab.write("k.hip", kernel("1") + f'extern "C" int {"NAME" if flags else name}() {{ return 1; }}\n')
    for cuid in ("aaaa", "bbbb"):
        assert name.encode() in lab.compile(f"-cuid={cuid}", *flags).object


def test_a_macro_of_a_header_in_a_directory_of_any_name_is_asked_for(lab: Lab) -> None:
    """Where nobody uses it, another value is a hit."""
    text: Callable[[str], str] = f'{ONCE}#define UNUSED_BY_ALL "{{}}"\n'.format
    lab.write("k.hip", kernel("1", '#include "caf\u00e9/v.hpp"'))
    lab.write("caf\u00e9/v.hpp", text("1"))
    lab.warm()
    lab.write("caf\u00e9/v.hpp", text("2"))
    assert lab.compile().outcome == HIT


def test_what_the_preprocessor_has_told_of_an_edit_is_asked_once(lab: Lab) -> None:
    """Whatever the values of macros are from then on."""
    text = (lab.root / "k.hip").read_text()
    lab.warm("-DV=1")
    for step, edited in enumerate(("", "// a line\n", "", "// a line\n// and another\n")):
        lab.write("k.hip", edited + text)
        for value in range(2):
            assert lab.compile(f"-DV={step}{value}").outcome == HIT
    assert "as the preprocessor says" not in lab.hipcache("explain", "k.o").out.decode()


def test_messages_that_are_not_understood_are_the_same_for_another_value(lab: Lab) -> None:
    """Of a macro that nobody uses, where no file changed."""
    lab.write("k.hip", kernel("3") + "int f(int n) { int a[n]; return a[0]; }\nint w() { int unused; return 1; }\n")
    lab.warm("-Wall", "-Wvla", "-DV=1")
    assert lab.compile("-Wall", "-Wvla", "-DV=2").outcome == HIT


@pytest.mark.sampled(2)
@pytest.mark.parametrize("flags", ["", "-fgpu-rdc"])
@pytest.mark.parametrize("text", OF_CUIDS)
def test_what_was_kept_after_an_edit_has_the_cuid_of_its_compile(lab: Lab, text: str, flags: str) -> None:
    lab.write("k.hip", OF_CUIDS[text])
    lab.warm("-cuid=11", *flags.split())
    lab.write("k.hip", "// a line\n" + OF_CUIDS[text])
    lab.compile("-cuid=11", *flags.split())
    for cuid in ("2222", "33"):
        lab.compile(f"-cuid={cuid}", *flags.split())
    lab.compile("-cuid=44", "-DV=1", *flags.split())
