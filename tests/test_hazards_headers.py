"""Never a wrong object, part 1: everything that a pass reads, and everything that it looks for in vain.

Each test first shows a hit, then makes a change, and compares with a fresh compile of plain clang.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from hip import HIT, MISS, PARTIAL, Lab, kernel, only_15, only_19, rewrite, unobserved
from hipcache.inputs import pasted

pytestmark = [pytest.mark.takes_turns("lab"), pytest.mark.archs(1)]


@pytest.mark.archs(2)
def test_an_unchanged_source_is_served(lab: Lab) -> None:
    assert lab.compile().outcome == MISS
    warm = lab.compile()
    assert warm.outcome == HIT
    assert warm.counted.served == {"gfx906", "gfx90a", "host"}


def test_an_edited_source_is_compiled(lab: Lab) -> None:
    before = lab.warm()
    lab.write("k.hip", kernel("4"))
    lab.changed(before)


@pytest.mark.parametrize("flags", [(), ("-MD",), ("-MMD",)], ids=["no-d", "MD", "MMD"])
@pytest.mark.parametrize("kind", ["-I", "-isystem"])
def test_an_edited_header_is_seen(lab: Lab, kind: str, flags: tuple[str, ...]) -> None:
    header = lab.write("include/value.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    before = lab.warm(kind, "include", *flags)
    header.write_text("#define VALUE 2\n")
    lab.changed(before, kind, "include", *flags)


def test_an_edit_that_is_taken_back_is_served_again(lab: Lab) -> None:
    first = lab.warm()
    old = (lab.root / "k.hip").read_text()
    lab.write("k.hip", kernel("4"))
    lab.changed(first)
    lab.write("k.hip", old)
    again = lab.compile()
    assert again.outcome == HIT
    assert again.object == first.object


@pytest.mark.archs(2)
@pytest.mark.parametrize("flags", [(), ("-MMD",)], ids=["no-d", "MMD"])
def test_a_header_that_one_archs_device_pass_reads_is_seen_by_that_arch_alone(lab: Lab, flags: tuple[str, ...]) -> None:
    header = lab.write("only_906.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", '#ifdef __gfx906__\n#include "only_906.hpp"\n#else\n#define VALUE 9\n#endif'))
    before = lab.warm(*flags)
    header.write_text("#define VALUE 2\n")
    after = lab.changed(before, *flags)
    assert after.counted.missed == {"gfx906"}
    assert after.counted.served == {"gfx90a", "host"}


@pytest.mark.archs(2)
def test_a_header_that_only_the_device_passes_read_is_seen(lab: Lab) -> None:
    header = lab.write("device.hpp", "#define VALUE 1\n")
    lab.write(
        "k.hip", kernel("VALUE", '#ifdef __HIP_DEVICE_COMPILE__\n#include "device.hpp"\n#else\n#define VALUE 9\n#endif')
    )
    before = lab.warm()
    header.write_text("#define VALUE 2\n")
    after = lab.changed(before)
    assert after.counted.missed == {"gfx906", "gfx90a"}


def test_a_host_only_edit_runs_no_back_end(lab: Lab) -> None:
    lab.write("k.hip", kernel("1") + "int more() { return 1; }\n")
    before = lab.warm()
    lab.write("k.hip", kernel("1") + "int more() { return 2; }\n")
    after = lab.changed(before)
    assert after.counted.missed == {"host"}
    assert after.counted.back_ends == 0


def test_a_header_rewritten_with_the_same_size_and_modification_time_is_seen(lab: Lab) -> None:
    header = lab.write("value.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", '#include "value.hpp"'))
    os.utime(header, (1_600_000_000, 1_600_000_000))
    before = lab.warm()
    rewrite(header, "#define VALUE 2\n")
    lab.changed(before)


def test_a_header_replaced_by_a_file_of_the_same_size_and_modification_time_is_seen(lab: Lab) -> None:
    header = lab.write("value.hpp", "#define VALUE 1\n")
    other = lab.write("other.hpp", "#define VALUE 2\n")
    for path in (header, other):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    lab.write("k.hip", kernel("VALUE", '#include "value.hpp"'))
    before = lab.warm()
    other.replace(header)
    lab.changed(before)


def test_a_header_touched_but_not_changed_is_still_a_hit(lab: Lab) -> None:
    lab.warm()
    os.utime(lab.root / "hip_in_short.hpp")
    assert lab.compile().outcome == HIT


# What was looked for in vain


@pytest.mark.parametrize("flags", [(), ("-MMD",)], ids=["no-d", "MMD"])
def test_a_header_that_appears_earlier_in_the_include_path_is_seen(lab: Lab, flags: tuple[str, ...]) -> None:
    lab.write("second/value.hpp", "#define VALUE 1\n")
    (lab.root / "first").mkdir()
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    path = ("-I", "first", "-I", "second", *flags)
    before = lab.warm(*path)
    lab.write("first/value.hpp", "#define VALUE 2\n")
    lab.changed(before, *path)


def test_a_header_that_appears_in_an_include_directory_that_did_not_exist_is_seen(lab: Lab) -> None:
    lab.write("second/deep/value.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include <deep/value.hpp>"))
    path = ("-I", "first", "-I", "second")
    before = lab.warm(*path)
    lab.write("first/deep/value.hpp", "#define VALUE 2\n")
    lab.changed(before, *path)


def test_a_header_that_appears_beside_the_source_is_seen(lab: Lab) -> None:
    lab.write("include/value.hpp", "#define VALUE 1\n")
    lab.write("src/k.hip", kernel("VALUE", '#include "value.hpp"'))
    flags = ("-I", "include", "-I", ".")
    before = lab.warm(*flags, source="src/k.hip")
    lab.write("src/value.hpp", "#define VALUE 2\n")
    lab.changed(before, *flags, source="src/k.hip")


def test_a_header_that_appears_beside_the_header_that_includes_it_is_seen(lab: Lab) -> None:
    lab.write("a/outer.hpp", '#include "inner.hpp"\n')
    lab.write("b/inner.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include <outer.hpp>"))
    before = lab.warm("-I", "a", "-I", "b")
    lab.write("a/inner.hpp", "#define VALUE 2\n")
    lab.changed(before, "-I", "a", "-I", "b")


def test_a_header_that_appears_for_include_next_is_seen(lab: Lab) -> None:
    lab.write("a/value.hpp", "#include_next <value.hpp>\n")
    (lab.root / "b").mkdir()
    lab.write("c/value.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    path = ("-I", "a", "-I", "b", "-I", "c")
    before = lab.warm(*path)
    lab.write("b/value.hpp", "#define VALUE 2\n")
    lab.changed(before, *path)


def test_a_header_that_appears_for_an_include_whose_name_is_a_macro_is_seen(lab: Lab) -> None:
    (lab.root / "a").mkdir()
    lab.write("b/value.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#define NAME <value.hpp>\n#include NAME"))
    before = lab.warm("-I", "a", "-I", "b")
    lab.write("a/value.hpp", "#define VALUE 2\n")
    lab.changed(before, "-I", "a", "-I", "b")


def test_a_header_that_appears_for_an_include_whose_name_is_given_by_a_flag_is_seen(lab: Lab) -> None:
    (lab.root / "a").mkdir()
    lab.write("b/value.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include NAME"))
    path = ("-DNAME=<value.hpp>", "-I", "a", "-I", "b")
    before = lab.warm(*path)
    lab.write("a/value.hpp", "#define VALUE 2\n")
    lab.changed(before, *path)


def test_an_included_first_file_that_appears_earlier_is_seen(lab: Lab) -> None:
    lab.write("include/first.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE"))
    flags = ("-I", "include", "-include", "first.hpp")
    before = lab.warm(*flags)
    lab.write("first.hpp", "#define VALUE 2\n")
    lab.changed(before, *flags)


@pytest.mark.parametrize(
    "asked", ['"feature.hpp"', "<feature.hpp>", '"deep/feature.hpp"'], ids=["quoted", "angled", "deep"]
)
def test_a_file_that_has_include_looked_for_and_that_appears_is_seen(lab: Lab, asked: str) -> None:
    lab.write("k.hip", kernel("VALUE", f"#if __has_include({asked})\n#define VALUE 2\n#else\n#define VALUE 1\n#endif"))
    before = lab.warm("-I", "include")
    lab.write("include/" + asked[1:-1], "")
    lab.changed(before, "-I", "include")


def test_a_file_that_has_include_found_and_that_goes_is_seen(lab: Lab) -> None:
    lab.write(
        "k.hip", kernel("VALUE", '#if __has_include("feature.hpp")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif')
    )
    feature = lab.write("feature.hpp", "")
    before = lab.warm()
    feature.unlink()
    lab.changed(before)


@pytest.mark.archs(2)
def test_a_file_that_only_one_archs_has_include_looked_for_is_seen(lab: Lab) -> None:
    text = '#if defined(__gfx906__) && __has_include("feature.hpp")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif'
    lab.write("k.hip", kernel("VALUE", text))
    before = lab.warm()
    lab.write("feature.hpp", "")
    lab.changed(before)


@pytest.mark.parametrize(
    "text",
    [
        "#define ASK(name) __has_include(name)\n#if ASK(<feature.hpp>)",
        "#define NAME <feature.hpp>\n#if __has_include(NAME)",
        "#define ASK __has_include\n#if ASK(<feature.hpp>)",
        "#if __has_include \\\n  (<feature.hpp>)",
        "#if __has_include(/* which */ <feature.hpp>)",
        "#if __has_include_next(<feature.hpp>)",
    ],
    ids=["function", "name", "alias", "continued", "comment", "next"],
)
def test_a_question_that_the_text_does_not_spell_out_never_gives_an_old_answer(lab: Lab, text: str) -> None:
    lab.write("k.hip", kernel("VALUE", text + "\n#define VALUE 2\n#else\n#define VALUE 1\n#endif"))
    flags = ("-I", "include", "-Wno-include-next-outside-header")
    before = lab.compile(*flags)
    assert lab.compile(*flags).object == before.object
    lab.write("include/feature.hpp", "")
    lab.changed(before, *flags)


def test_a_question_asked_by_a_macro_of_the_command_line_never_gives_an_old_answer(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE", "#if ASK\n#define VALUE 2\n#else\n#define VALUE 1\n#endif"))
    flags = ("-I", "include", "-DASK=__has_include(<feature.hpp>)")
    before = lab.compile(*flags)
    lab.compile(*flags)
    lab.write("include/feature.hpp", "")
    lab.changed(before, *flags)


# One file under several names


def test_a_name_that_was_a_link_to_a_header_read_before_and_becomes_a_file_is_seen(lab: Lab) -> None:
    lab.write("real/value.hpp", "#pragma once\n#define VALUE 1\n")
    (lab.root / "link").mkdir()
    link = lab.root / "link" / "value.hpp"
    link.symlink_to("../real/value.hpp")
    lab.write("k.hip", kernel("VALUE", '#include "real/value.hpp"\n#include "link/value.hpp"'))
    before = lab.warm()
    link.unlink()
    lab.write("link/value.hpp", "#undef VALUE\n#define VALUE 2\n")
    lab.changed(before)


def test_a_second_name_of_a_header_that_becomes_another_file_is_seen(lab: Lab) -> None:
    lab.write("real/value.hpp", "#ifndef VALUE\n#define VALUE 1\n#endif\n#define TWICE\n")
    (lab.root / "link").mkdir()
    link = lab.root / "link" / "value.hpp"
    link.hardlink_to(lab.root / "real" / "value.hpp")
    lab.write("k.hip", kernel("VALUE", '#include "real/value.hpp"\n#include "link/value.hpp"'))
    before = lab.warm()
    link.unlink()
    lab.write("link/value.hpp", "#undef VALUE\n#define VALUE 2\n")
    lab.changed(before)


def test_a_link_to_a_directory_of_headers_that_is_switched_is_seen(lab: Lab) -> None:
    for number in (1, 2):
        lab.write(f"v{number}/value.hpp", f"#define VALUE {number}\n")
    link = lab.root / "current"
    link.symlink_to("v1")
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    before = lab.warm("-I", "current")
    link.unlink()
    link.symlink_to("v2")
    lab.changed(before, "-I", "current")


def test_a_directory_of_headers_that_is_swapped_is_seen(lab: Lab) -> None:
    for number in (1, 2):
        path = lab.write(f"v{number}/value.hpp", f"#define VALUE {number}\n")
        os.utime(path, (1_600_000_000, 1_600_000_000))
    (lab.root / "v1").rename(lab.root / "current")
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    before = lab.warm("-I", "current")
    shutil.rmtree(lab.root / "current")
    (lab.root / "v2").rename(lab.root / "current")
    lab.changed(before, "-I", "current")


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


# As in googletest 1.11: none of these words meet, but together they make `__has_include`.
WORDS_OF_A_TEST_FRAMEWORK = """\
// A name that has a suite; include this header first.
#define NAME(suite, test) suite##_##test
inline bool is_inline(const char* name) { return name[0] == "std::__"[5]; }
"""


def test_words_of_comments_and_strings_that_would_make_a_name_are_no_hindrance(lab: Lab) -> None:
    lab.write("framework.hpp", WORDS_OF_A_TEST_FRAMEWORK)
    lab.write("k.hip", kernel("1", '#include "framework.hpp"'))
    assert pasted.composed(pasted.pieces(WORDS_OF_A_TEST_FRAMEWORK.encode()), pasted.QUESTIONS)
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
def test_a_time_stamp_under_a_source_date_is_right(lab: Lab) -> None:
    source = lab.write("k.hip", kernel("1") + "const char* changed() { return __TIMESTAMP__; }\n")
    epoch = {"SOURCE_DATE_EPOCH": "1600000000"}
    os.utime(source, (1_600_000_000, 1_600_000_000))
    lab.compile(env=epoch)
    os.utime(source, (1_700_000_000, 1_700_000_000))
    lab.compile(env=epoch)


@only_15
def test_a_compiler_that_ignores_the_source_date_stores_no_date(lab: Lab) -> None:
    lab.write("k.hip", kernel("1") + "const char* built() { return __TIME__; }\n")
    for _ in range(2):
        assert lab.hipcache(*lab.words(), env={"SOURCE_DATE_EPOCH": "1600000000"}).status == 0
        assert "host" in lab.counted().missed


# Files that are read by other means than #include


def test_a_file_that_inline_assembly_reads_is_seen(lab: Lab) -> None:
    data = lab.write("data.bin", "one!")
    text = '#ifndef __HIP_DEVICE_COMPILE__\nasm(".section .rodata\\n.incbin \\"data.bin\\"\\n.text");\n#endif'
    lab.write("k.hip", kernel("1", text))
    before = lab.compile()
    lab.compile()
    data.write_text("two!")
    lab.changed(before)


def test_a_file_that_inline_assembly_of_a_header_includes_is_seen(lab: Lab) -> None:
    data = lab.write("data.s", ".byte 1\n")
    lab.write(
        "data.hpp",
        '#ifndef __HIP_DEVICE_COMPILE__\nasm(".section .rodata\\n .include \\"data.s\\"\\n.text");\n#endif\n',
    )
    lab.write("k.hip", kernel("1", '#include "data.hpp"'))
    before = lab.compile()
    lab.compile()
    data.write_text(".byte 2\n")
    lab.changed(before)


IN_PIECES = {
    "two strings": '".inc" "bin %s"',
    "three strings": '"." "inc" "bin %s"',
    "an escape": '".\\x69ncbin %s"',
    "an octal escape": '".\\151ncbin %s"',
    "a word over two lines": '".inc\\\nbin %s"',
    "raw strings": 'R"(.inc)" "bin %s"',
    "words made strings": "WORD(.inc) WORD(bin %s)",
    "include": '".inc" "lude %s"',
    "a dot": '"." "include %s"',
}


def test_a_header_with_a_backslash_in_its_name_is_never_mistaken(lab: Lab) -> None:
    """Clang's dependency file has a slash there: the name of another file."""
    lab.write("b/c.hpp", "#define VALUE 3\n")
    header = lab.write("b\\c.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", '#include "b\\c.hpp"'))
    before = lab.compile()
    lab.compile()
    header.write_text("#define VALUE 2\n")
    lab.changed(before)


@pytest.mark.parametrize("how", IN_PIECES)
def test_a_file_whose_reading_is_put_together_from_pieces_is_seen(lab: Lab, how: str) -> None:
    data = lab.write("data.s", ".byte 1\n")
    text = '".section .rodata\\n" ' + IN_PIECES[how] % '\\"data.s\\"' + ' "\\n.text"'
    if "WORD" in text:
        text = text.replace('\\"', '"')
    lab.write("k.hip", kernel("1", f"#define WORD(x) #x\n#ifndef __HIP_DEVICE_COMPILE__\nasm({text});\n#endif"))
    before = lab.compile()
    assert before.status == 0, before.messages
    lab.compile()
    data.write_text(".byte 2\n")
    lab.changed(before)


EMBED = "static const unsigned char data[] = {\n#embed %s\n};\nextern const int size = sizeof data + data[0];\n"


@only_19
@pytest.mark.parametrize("flags", [(), ("-MMD",)], ids=["no-d", "MMD"])
def test_an_embedded_file_is_seen(lab: Lab, flags: tuple[str, ...]) -> None:
    data = lab.write("data.bin", "one!")
    lab.write("k.hip", kernel("1") + EMBED % '"data.bin"')
    before = lab.warm("-Wno-c23-extensions", *flags)
    data.write_text("two!")
    lab.changed(before, "-Wno-c23-extensions", *flags)


@only_19
def test_an_embedded_file_of_a_system_header_is_seen_under_mmd(lab: Lab) -> None:
    data = lab.write("system/data.bin", "one!")
    lab.write("system/data.hpp", EMBED % '"data.bin"')
    lab.write("k.hip", kernel("1") + "#include <data.hpp>\n")
    flags = ("-isystem", "system", "-MMD")
    before = lab.warm(*flags)
    data.write_text("two!")
    lab.changed(before, *flags)


@only_19
def test_an_embedded_file_found_through_an_embed_directory_is_right(lab: Lab) -> None:
    data = lab.write("data/data.bin", "one!")
    lab.write("k.hip", kernel("1") + EMBED % "<data.bin>")
    flags = ("--embed-dir=data", "-Wno-c23-extensions")
    before = lab.compile(*flags)
    lab.compile(*flags)
    data.write_text("two!")
    lab.changed(before, *flags)


@only_19
def test_a_file_that_has_embed_looked_for_and_that_appears_is_seen(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE", '#if __has_embed("data.bin")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif'))
    before = lab.compile()
    lab.compile()
    lab.write("data.bin", "x")
    lab.changed(before)


@only_19
def test_a_file_that_has_embed_found_empty_and_that_is_filled_is_seen(lab: Lab) -> None:
    data = lab.write("data.bin", "")
    lab.write(
        "k.hip",
        kernel(
            "VALUE", '#define VALUE __LINE__\n#if __has_embed("data.bin") == 2\n#undef VALUE\n#define VALUE 99\n#endif'
        ),
    )
    before = lab.compile()
    lab.compile()
    data.write_text("x")
    lab.changed(before)


def test_a_warning_is_replayed_only_while_its_cause_is_there(lab: Lab) -> None:
    header = lab.write("value.hpp", "#warning old\n#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", '#include "value.hpp"'))
    assert "old" in lab.warm().messages
    header.write_text("#warning new\n#define VALUE 1\n")
    after = lab.compile()
    assert "new" in after.messages
    assert after.outcome in (MISS, PARTIAL)


def test_a_header_named_with_blanks_and_signs_is_seen(lab: Lab) -> None:
    header: Path = lab.write("odd dir/a b#c$d.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", '#include "odd dir/a b#c$d.hpp"'))
    before = lab.warm()
    header.write_text("#define VALUE 2\n")
    lab.changed(before)


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
