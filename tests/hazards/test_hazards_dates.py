"""Never a wrong object: dates and comments.

Each test first shows a hit, then makes a change, and compares with a fresh compile of plain clang.
"""

from __future__ import annotations

import os
import re

import pytest
from hip import HIT, Lab, kernel, only_19, unobserved, with_15
from hipcache.inputs import token_pasting

pytestmark = pytest.mark.archs(1)

# Dates


SHOWN = "const char* built() { return BUILT; }\n"


@pytest.mark.parametrize("macro", ["__TIME__", "__DATE__ __TIME__"])
def test_a_time_of_day_is_never_stored(lab: Lab, macro: str) -> None:
    lab.write("k.hip", kernel("1") + f"const char* built() {{ return {macro}; }}\n")
    for _ in range(2):
        ended = lab.hipcache(*lab.words())
        assert ended.status == 0
        assert "host" in lab.counted().missed


def test_a_date_in_a_header_is_never_stored(lab: Lab) -> None:
    lab.write("date.hpp", "inline const char* built() { return __DATE__; }\n")
    lab.write("k.hip", kernel("1", '#include "date.hpp"') + "const char* host_built() { return built(); }\n")
    for _ in range(2):
        assert "host" in lab.compile().counted.missed


def test_a_time_in_a_macro_of_the_command_line_is_never_stored(lab: Lab) -> None:
    lab.write("k.hip", kernel("1") + "const char* built() { return BUILT; }\n")
    for _ in range(2):
        ended = lab.hipcache(*lab.words("-DBUILT=__TIME__"))
        assert ended.status == 0
        assert lab.counted().outcome != HIT


def test_the_time_stamp_of_the_source_is_the_present_one(lab: Lab) -> None:
    source = lab.write("k.hip", kernel("1") + "const char* changed() { return __TIMESTAMP__; }\n")
    os.utime(source, (1_600_000_000, 1_600_000_000))
    before = lab.compile()
    lab.compile()
    os.utime(source, (1_700_000_000, 1_700_000_000))
    lab.changed(before)


@pytest.mark.parametrize("how", ["-D__{}__=defined", "-D__{}__=", "-U__{}__", "-D__{}__=__FILE__ -U__{}__"])
def test_a_date_that_the_command_defines_or_undefines_is_a_hit(lab: Lab, how: str) -> None:
    shown = "#define TEXT(x) #x\n#define SHOWN(x) TEXT(x)\nconst char* built() { return SHOWN(__DATE__ __TIME__); }\n"
    lab.write("k.hip", kernel("1") + shown)
    words = [word.format(name) for name in ("DATE", "TIME", "TIMESTAMP") for word in how.split()]
    before = lab.compile(*words, "-Wno-builtin-macro-redefined")
    assert lab.compile(*words, "-Wno-builtin-macro-redefined").outcome == HIT
    lab.changed(before, *words, "-U__DATE__", "-D__DATE__=another", "-Wno-builtin-macro-redefined")


def test_a_date_that_another_one_is_defined_by_is_never_stored(lab: Lab) -> None:
    lab.write("k.hip", kernel("1") + "const char* built() { return __DATE__; }\n")
    for _ in range(2):
        ended = lab.hipcache(*lab.words("-D__DATE__=__TIME__", "-Wno-builtin-macro-redefined"))
        assert ended.status == 0
        assert "host" in lab.counted().missed


PASTED = {
    "by two pieces": "#define BUILT __TI##ME__\n",
    "by a macro for pasting": "#define PASTE(a, b) a##b\n#define BUILT PASTE(__TI, ME__)\n",
    "by the name within": "#define WITHIN(x) __##x##__\n#define BUILT WITHIN(TIME)\n",
    "by digraphs": "#define BUILT __TI%:%:ME__\n",
    "over two lines": "#define BUILT __TI\\\nME__\n",
    "over two lines with blanks": "#define BUILT __TI\\ \nME__\n",
}


@pytest.mark.parametrize("how", PASTED)
def test_a_time_put_together_from_pieces_is_never_stored(lab: Lab, how: str) -> None:
    lab.write("time.hpp", PASTED[how])
    lab.write("k.hip", kernel("1", '#include "time.hpp"') + SHOWN)
    for _ in range(2):
        assert lab.hipcache(*lab.words("-Wno-backslash-newline-escape")).status == 0
        assert "host" in lab.counted().missed
    assert re.search(rb"\d\d:\d\d:\d\d\0", (lab.root / "out.o").read_bytes()), "no time: the test shows nothing"


def test_a_time_put_together_in_a_library_of_a_system_directory_is_never_stored(lab: Lab) -> None:
    lab.write("system/usr/include/library.h", PASTED["by a macro for pasting"])
    lab.write("k.hip", kernel("1", "#include <library.h>") + SHOWN)
    for _ in range(2):
        assert lab.hipcache(*lab.words(f"--sysroot={lab.root}/system")).status == 0
        assert "host" in lab.counted().missed


# As in googletest 1.11: none of these words meet, but together they make `__has_include`.
WORDS_OF_A_TEST_FRAMEWORK = """\
// A name that has a suite; include this header first.
#define NAME(suite, test) suite##_##test
inline bool is_inline(const char* name) { return name[0] == "std::__"[5]; }
"""


def test_words_of_comments_and_strings_that_would_make_a_name_are_no_hindrance(lab: Lab) -> None:
    lab.write("framework.hpp", WORDS_OF_A_TEST_FRAMEWORK)
    lab.write("k.hip", kernel("1", '#include "framework.hpp"'))
    assert token_pasting.composed(token_pasting.pieces(WORDS_OF_A_TEST_FRAMEWORK.encode()), token_pasting.QUESTIONS)
    lab.warm()


@pytest.mark.parametrize("where", ["header", "source", "flag"])
def test_the_words_count_where_one_of_them_stands_in_code_too(lab: Lab, where: str) -> None:
    """`__` makes the difference here: behind it, a header may be asked for by way of any macro, which nobody sees."""
    lab = unobserved(lab)
    ask = "#define JOIN(a, b, c, d) a##b##c##d\n#define ASK(x) JOIN(MARK, has, _, include)(x)\n"
    mark = "#define MARK __\n"
    lab.write("framework.hpp", WORDS_OF_A_TEST_FRAMEWORK + ask + (mark if where == "header" else ""))
    lab.write("k.hip", kernel("1", (mark if where == "source" else "") + '#include "framework.hpp"'))
    flags = ("-DMARK=__",) if where == "flag" else ()
    for _ in range(2):
        assert lab.compile(*flags).outcome != HIT
    assert b"by token pasting" in lab.hipcache("explain", "out.o").out


def test_a_time_whose_pieces_come_from_the_source_and_from_a_flag_is_never_stored(lab: Lab) -> None:
    lab.write("k.hip", kernel("1", "#define PASTE(a, b) PASTE_(a, b)\n#define PASTE_(a, b) a##b") + SHOWN)
    for _ in range(2):
        assert lab.hipcache(*lab.words("-DBUILT=PASTE(__TI,LAST)", "-DLAST=ME__")).status == 0
        assert "host" in lab.counted().missed


@only_19
def test_a_source_date_is_part_of_the_key(lab: Lab) -> None:
    lab.write("k.hip", kernel("1") + "const char* built() { return __DATE__ __TIME__; }\n")
    before = lab.warm(env={"SOURCE_DATE_EPOCH": "1600000000"})
    lab.changed(before, env={"SOURCE_DATE_EPOCH": "1700000000"})


@only_19
@pytest.mark.parametrize("value", ["xx", "", "-1", "253402300800"])
def test_a_source_date_that_clang_refuses_is_an_error(lab: Lab, value: str) -> None:
    for epoch in ({}, {"SOURCE_DATE_EPOCH": "0253402300799"}):
        lab.warm(env=epoch)
        refused = lab.compile(env={"SOURCE_DATE_EPOCH": value})
        assert refused.status == 1
        assert "SOURCE_DATE_EPOCH" in refused.messages


@only_19
def test_a_time_stamp_under_a_source_date_is_right(lab: Lab) -> None:
    source = lab.write("k.hip", kernel("1") + "const char* changed() { return __TIMESTAMP__; }\n")
    epoch = {"SOURCE_DATE_EPOCH": "1600000000"}
    os.utime(source, (1_600_000_000, 1_600_000_000))
    lab.compile(env=epoch)
    os.utime(source, (1_700_000_000, 1_700_000_000))
    lab.compile(env=epoch)


@with_15
def test_a_compiler_that_ignores_the_source_date_stores_no_date(lab: Lab) -> None:
    lab.write("k.hip", kernel("1") + "const char* built() { return __TIME__; }\n")
    for _ in range(2):
        assert lab.hipcache(*lab.words(), env={"SOURCE_DATE_EPOCH": "1600000000"}).status == 0
        assert "host" in lab.counted().missed


# Comments


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('1 + 0 * sizeof("/* a */")', '2 + 0 * sizeof("/* a */")'),
        ('sizeof("// abc")', 'sizeof("// ab")'),
        ('sizeof(R"x(/*ab)x")', 'sizeof(R"x(/*a)x")'),
        ("1'0/*a*/", "1'1/*a*/"),
        ("__LINE__/*\n*/", "__LINE__/*\n\n*/ + 1"),
        ("80 // a\\\n + 7\n", "80 // a\n + 7\n"),
        ("'\"' + 1 /* \" */", "'\"' + 2 /* \" */"),
    ],
)
def test_an_edit_that_only_looks_like_one_of_a_comment_is_seen(lab: Lab, old: str, new: str) -> None:
    lab.write("k.hip", kernel(old))
    before = lab.compile("-w", "-std=c++17")
    lab.write("k.hip", kernel(new))
    lab.changed(before, "-w", "-std=c++17")


def test_an_edited_comment_is_shown_as_it_is_in_a_replayed_warning(lab: Lab) -> None:
    text = "int unused() { int i = 1; /* %s */ }\n"
    lab.write("k.hip", kernel("1") + text % "one")
    assert "one" in lab.compile("-Wall").messages
    lab.write("k.hip", kernel("1") + text % "two")
    assert "two" in lab.compile("-Wall").messages


def test_an_edited_comment_gives_another_digest_in_debug_information(lab: Lab) -> None:
    lab.write("k.hip", kernel("1") + "// one\n")
    before = lab.warm("-gdwarf-5")
    lab.write("k.hip", kernel("1") + "// two\n")
    lab.changed(before, "-gdwarf-5")


def test_a_comment_that_names_another_column_in_debug_information_is_seen(lab: Lab) -> None:
    lab.write("k.hip", kernel("1 + /* a */ 1"))
    lab.compile("-gdwarf-4")
    lab.write("k.hip", kernel("1 + /* ab */ 1"))
    lab.compile("-gdwarf-4")


def test_a_comment_between_blanks_that_are_made_a_string_is_right(lab: Lab) -> None:
    before = "#define TEXT(x) #x\nextern const char text[] = TEXT(a%sb);\n"
    for comment in ("/* */", "   ", "/*   */", "", " /**/ ", "/*\n*/"):
        lab.write("k.hip", kernel("1") + before % comment)
        lab.compile()


def test_an_edit_of_a_comment_alone_is_a_hit(lab: Lab) -> None:
    lab.write("k.hip", kernel("1") + "// one\n")
    lab.warm()
    lab.write("k.hip", kernel("1") + "// two, and more\n")
    assert lab.compile().outcome == HIT
