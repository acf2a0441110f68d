"""Never a wrong object, part 5: how the text of a file is read. Comments and blanks count wherever clang sees them, and
no text, however odd, takes long."""

from __future__ import annotations

import os

import pytest
from hip import BARE, HIP_IN_SHORT, HIT, LAUNCHER, Lab, kernel, only_15

pytestmark = pytest.mark.archs(1)


@pytest.mark.archs(2)
def test_blanks_at_the_end_of_a_line_of_a_raw_string_count(lab: Lab) -> None:
    """In code of the device and of the host."""
    text = '(int)sizeof(R"(a  \nb)")'
    lab.write("k.hip", kernel(text))
    before = lab.warm(*BARE)
    lab.write("k.hip", kernel(text.replace("  ", "")))
    after = lab.changed(before, *BARE)
    assert after.counted.missed == {"gfx906", "gfx90a", "host"}


def test_blanks_at_the_end_of_a_line_of_code_do_not_count(lab: Lab) -> None:
    lab.write("k.hip", kernel('(int)sizeof(R"(a  \nb)")  \n/* a\n */  '))
    lab.warm(*BARE)
    lab.write("k.hip", kernel('(int)sizeof(R"(a  \nb)")\n/* another\n */  '))
    assert lab.compile(*BARE).outcome == HIT


@pytest.mark.parametrize("directive", ["include", "import"])
def test_two_slashes_in_the_name_of_a_header_are_no_comment(lab: Lab, directive: str) -> None:
    for number, name in enumerate("xy"):
        lab.write(f"i/{name}.h", f"#define VALUE {number}\n")
    lab.write("k.hip", kernel("VALUE", f"#{directive} <i//x.h>"))
    before = lab.warm(*BARE, "-I.")
    lab.write("k.hip", kernel("VALUE", f"#{directive} <i//y.h>"))
    lab.changed(before, *BARE, "-I.")


@pytest.mark.parametrize(
    ("flag", "old", "new"),
    [
        ("-Wc++98-compat-pedantic", "}\n", "}"),
        ("-Werror=newline-eof", "}\n", "}"),
        ("-Werror=documentation", "/// a", "/// \\param x"),
        ("-Winvalid-utf8", "/// a", "/// \udce9"),
        ("-pedantic", "/// a", "/// \udce9"),
    ],
)
def test_a_warning_about_comments_or_the_last_line_is_not_lost(lab: Lab, flag: str, old: str, new: str) -> None:
    lab.write("system/hip_in_short.hpp", HIP_IN_SHORT)
    text = '#include <hip_in_short.hpp>\n/// a\nvoid f();\nextern "C" __global__ void kernel(int* p) { p[0] = 7; }\n'
    lab.write("k.hip", text)
    flags = (*BARE, "-isystem", "system", flag)
    lab.warm(*flags)
    lab.write("k.hip", os.fsencode(text.replace(old, new)))
    after = lab.compile(*flags)
    if flag == "-Wc++98-compat-pedantic" and int(lab.version) >= 20:
        pytest.skip("this clang does not warn of it")
    assert after.messages, "clang has nothing to say about it: the test shows nothing"
    assert after.outcome != HIT


@pytest.mark.parametrize("flag", ["-Wall", "-Wextra", "-std=c++20"])
def test_a_comment_in_another_encoding_is_as_good_as_none(lab: Lab, flag: str) -> None:
    lab.write("k.hip", kernel("7").encode() + "// \u00a9 the authors\n".encode("latin-1"))
    lab.warm(*BARE, flag)
    lab.write("k.hip", kernel("7").encode() + "// \u00a9 and \u00ae\n".encode("latin-1"))
    after = lab.compile(*BARE, flag)
    assert (after.outcome, after.messages) == (HIT, "")


_DO = "#define DO(x) _Pragma(#x)\n"
_CAT = "#define CAT_(a, b) a##b\n#define CAT(a, b) CAT_(a, b)\n#define SAY(x) DO(x)\n"


@pytest.mark.parametrize(
    ("pragma", "flags"),
    [
        ('#pragma clang diagnostic warning "-Winvalid-utf8"', ()),
        ('#pragma clang diagnostic warning "-Winv\\x61lid-utf8"', ()),
        ('#pragma clang diagnostic warning R"(-Winva)" "lid-utf8"', ()),
        ('_Pragma("clang diagnostic\twarning \\"-Winvalid-utf8\\"")', ()),
        ('_Pragma("clang diagnostic/**/warning \\"-Winvalid-utf8\\"")', ()),
        (f"{_DO}#define WARN(w) DO(clang diagnostic warning #w)\nWARN(-Winvalid-utf8)", ()),
        (f'{_DO}{_CAT}SAY(clang CAT(diag, nostic) warning "-Winvalid-utf8")', ()),
        (f'{_DO}{_CAT}#define OFF SAY(clang diagnostic ignored "-Wpedantic")\n#define ignored warning\nOFF', ()),
        ("P", ('-DP=_Pragma("clang diagnostic warning \\"-Winvalid-utf8\\"")',)),
        (f'{_DO}{_CAT}SAY(clang WORD warning "-Winvalid-utf8")', ("-DWORD=diagnostic",)),
    ],
)
def test_a_pragma_that_asks_about_the_encoding_of_comments_is_seen(
    lab: Lab, pragma: str, flags: tuple[str, ...]
) -> None:
    text = f"{kernel('7')}{pragma}\n// "
    lab.write("k.hip", text + "a\n")
    lab.warm(*BARE, *flags)
    lab.write("k.hip", os.fsencode(text + "\udce9\n"))
    after = lab.compile(*BARE, *flags)
    assert "invalid UTF-8" in after.messages


@pytest.mark.parametrize(
    "text",
    [
        '#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored "-Wpedantic"',
        '#pragma GCC diagnostic warning "-Wcpp"',
        "#define check(expr, diagnostic) ((expr) ? 1 : 2)",
        '#define OFF _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \\"-Wcomment\\"")\nOFF',
    ],
)
def test_a_pragma_that_asks_for_no_warning_about_comments_is_in_no_ones_way(lab: Lab, text: str) -> None:
    lab.write("k.hip", f"// a\n{kernel('7')}{text}\n")
    lab.warm(*BARE)
    lab.write("k.hip", f"// b\n{kernel('7')}{text}\n")
    assert lab.compile(*BARE).outcome == HIT


def test_a_pragma_that_switches_a_warning_about_the_last_line_on_is_seen(lab: Lab) -> None:
    text = '#pragma clang diagnostic warning "-Wc++98-compat-pedantic"\nvoid f(int* p) { p[0] = 7; }'
    lab.write("last.hpp", text + "\n")
    lab.write("k.hip", '#include "hip_in_short.hpp"\n__global__ void kernel() {}\n#include "last.hpp"\n')
    before = lab.compile(*BARE)
    lab.write("last.hpp", text)
    after = lab.compile(*BARE)
    assert after.messages != before.messages or int(lab.version) >= 20


def test_in_a_language_without_digit_separators_a_comment_may_be_something_else(lab: Lab) -> None:
    text = "#define F(a, b) sizeof(#a)\n"
    lab.write("k.hip", kernel("F(1'a//b', 2)", text))
    before = lab.warm(*BARE, "-std=c++11")
    lab.write("k.hip", kernel("F(1'a//bcd', 2)", text))
    lab.changed(before, *BARE, "-std=c++11")


SHAPES = {
    "a string full of words": 'const char* text = "' + "include a < b " * 2000 + '";\n',
    "a comment before code": "/*" + "x" * 100_000 + "*/ int after;\n",
    "a macro over many lines": "#define MANY " + "__has_ \\\n" * 3000 + "\n",
    "a script in one line": 'const char* script = R"(' + 'if(a<b&&c>d){e="f";g=/h/.test(i)}' * 9000 + ')";\n',
}


@only_15
def test_a_text_of_long_lines_takes_no_longer_than_a_moment(lab: Lab) -> None:
    """Each of them took seconds or hung; the bound is far from what they take now."""
    lab.write("long.hpp", "".join(SHAPES.values()))
    lab.write("k.hip", kernel("3", '#include "long.hpp"'))
    for _ in range(2):
        ended = lab.run([*LAUNCHER, *lab.words(*BARE)], seconds=60)
        assert ended.status == 0, ended.err
    lab.write("long.hpp", "".join(SHAPES.values()) + "// a comment\n")
    assert lab.run([*LAUNCHER, *lab.words(*BARE)], seconds=60).status == 0
