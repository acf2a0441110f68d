"""Options of macros whose texts do more than define a macro: they take in others, or make clang say something."""

from __future__ import annotations

import pytest
from hip import HIP_IN_SHORT, HIT, Lab
from kernels import COUNTS, kernel

pytestmark = pytest.mark.archs(1)


@pytest.mark.parametrize(
    ("options", "macro", "after"),
    [
        ("-w -DA=1,2 -DY={}", "COUNT(Y)", "A"),
        ("-Wno-everything -DA=1,2 -DY={}", "COUNT(Y)", "A"),
        ("-imacros silent.hpp -DB=1,2 -DY={}", "COUNT(Y)", "B"),
        ('-DX=R"( -DY={} -DZ=)"', "sizeof(X)", "22"),
        ("-w -std=c++14 -DA=1,2 -DX=??/ -DY={}", "COUNT(X)", "A"),
        ('-w -DX={} -DA=1 -DZ=)"', "COUNT(A)", 'R"("'),
    ],
)
def test_a_value_that_names_or_takes_in_a_definition_counts_it(lab: Lab, options: str, macro: str, after: str) -> None:
    lab.write("silent.hpp", '#pragma clang diagnostic ignored "-Weverything"\n')
    lab.write("k.hip", kernel(macro, COUNTS + "\n#ifndef A\n#define A 1,2\n#endif\n"))
    before = lab.warm(*options.format(1).split())
    lab.changed(before, *options.format(after).split())


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        *(("-DZ", value) for value in ("<=>", "a <=> b", "__VA_OPT__", '"a\rb"', '"\\\r"', '"??="')),
        *(("-Wc++98-compat", value) for value in ('u8"a"', 'U"a"')),
        ("-std=c++14", '"??="'),
    ],
)
def test_what_clang_says_of_a_value_that_nobody_uses_is_said(lab: Lab, flag: str, value: str) -> None:
    lab.write("k.hip", kernel("3"))
    for given in ("1", "2", value, "3"):
        lab.compile(flag, f"-DX={given}")  # compares what is said


@pytest.mark.parametrize(
    "options",
    [
        ["-UA\\", "-D__TIME__=1"],
        ["-DX=/*", "-D__TIME__=1", "-DZ=*/"],
        ['-DX=R"(', "-D__TIME__=1", '-DZ=)"'],
        ["-std=c++14", "-DX=??/", "-D__TIME__=1"],
    ],
)
def test_the_time_is_the_compilers_where_its_definition_is_taken_in(lab: Lab, options: list[str]) -> None:
    lab.write("k.hip", kernel("sizeof(__TIME__)"))
    for _ in range(2):
        lab.hipcache(*lab.words("-w", *options))
        assert lab.counted().outcome != HIT


def test_a_directory_whose_name_begins_with_a_blank_is_another_one(lab: Lab) -> None:
    lab.write("inc/value.hpp", "#define VALUE 1\n")
    lab.write(" inc/value.hpp", "#define VALUE 2\n")
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    before = lab.warm("-Xclang", "-I", "-Xclang", "inc")
    lab.changed(before, "-Xclang", "-I inc")


@pytest.mark.parametrize("option", ["-UA\\", "-DX=??/"])
def test_a_line_counts_where_an_option_takes_in_what_follows(lab: Lab, option: str) -> None:
    flags = ("-w", "-std=c++14", "-fno-exceptions", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", option)
    lab.write("k.hip", kernel("__LINE__"))
    before = lab.warm(*flags)
    for lines in (1, 2):
        lab.write("k.hip", "\n" * lines + kernel("__LINE__"))
        before = lab.changed(before, *flags)


@pytest.mark.parametrize(
    "options", [['-D VALUE="{}/x"'], ['-DVALUE=R"(', '-DOTHER="{}/x"', '-DLAST=)"'], ['-DVALUE="{}/x"']]
)
def test_the_base_directory_in_a_value_counts_where_it_is_used(lab: Lab, options: list[str]) -> None:
    made = []
    for name in ("short", "a_longer_one"):
        lab.write(f"{name}/hip_in_short.hpp", HIP_IN_SHORT)
        lab.write(f"{name}/k.hip", kernel("(int)sizeof(VALUE)"))
        top = lab.root / name
        flags = [option.format(top) for option in options]
        made.append(lab.compile("-w", *flags, cwd=top, env={"HIPCACHE_BASEDIR": str(top)}))
    assert made[0].object != made[1].object


PACKED = "#define CAT(a, b) a##b\n#define NOW CAT(VAL, UE)\n#define DO(text) _Pragma(#text)\n#define LP (\n"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("pragma", "flags"),
    [
        ("#pragma pack(NOW)", ()),
        ("#pragma pack(NOW)\n#warning hipcache_pragma", ()),
        ("%:pragma pack(NOW)", ()),
        ("??=pragma pack(NOW)", ("-std=c++14",)),
        ("# /* */ pra\\\ngma pack \\\n (push, NOW)", ()),
        ("#if 1\n#pragma pack(NOW)\n#endif", ()),
        ('_Pragma("pack(NOW)")', ()),
        ('_Pragma(L"pack(NOW)")', ()),
        ("DO(pack(NOW))", ()),
        ('#define MINE _Pragma\nMINE("pack(NOW)")', ()),
        ('CAT(_Pra, gma)("pack(NOW)")', ()),
        ("__pragma(pack(NOW))", ("-fms-extensions",)),
        ('_Pragma LP "pack(NOW)" )', ()),
        ('#define P(x) _Pragma LP x )\nP("pack(NOW)")', ()),
        ('_Pragma\n#if 1\n("pack(NOW)")\n#endif', ()),
        ('_Pragma\n#include "text.hpp"', ()),
        ('#include "word.hpp"\n("pack(NOW)")', ()),
        ("#define X (1'2/*')\n#pragma pack(NOW)\n#define Y (1'2*/ // ')", ("-std=c++11",)),
        ('#include "packs.hpp"', ()),
        ("#define push NOW\n#pragma pack(push)", ()),
        ("#define pop NOW\n#pragma  pack (pop)\n#undef pop", ()),
        ("#define push push, NOW\n#pragma pack(push, 1)", ()),
        ('#define push NOW\n_Pragma("pack( push )")', ()),
        ("#pragma pack(push, NOW)", ("-Dpush=pop",)),
        ("#pragma pack(push)", ("-Dpush=NOW",)),
    ],
)
def test_a_macro_that_a_pragma_puts_together_counts(lab: Lab, pragma: str, flags: tuple[str, ...]) -> None:
    """Nobody but the parser meets it."""
    for name, text in (("packs", "#pragma pack(NOW)"), ("text", '("pack(NOW)")'), ("word", "_Pragma")):
        lab.write(f"{name}.hpp", f"{text}\n")
    lab.write("k.hip", kernel("sizeof(S)", f"{PACKED}{pragma}\nstruct S {{ char a; long b; }};"))
    for value in ("1", "4", "2"):
        lab.compile(f"-DVALUE={value}", *flags)


PACK = "#pragma pack(push, 1)\nstruct P { char a; int b; };\n#pragma pack(pop)\n#pragma pack(4)\n#pragma pack()"
PLAIN = ['_Pragma("GCC diagnostic push")', "#pragma unroll 4", "#pragma omp for nowait", PACK]


@pytest.mark.parametrize("pragma", PLAIN)
def test_a_macro_that_nobody_uses_is_none_beside_a_plain_pragma(lab: Lab, pragma: str) -> None:
    lab.write(
        "k.hip",
        kernel("1", PACKED) + f"int loop(int* p) {{\n{pragma}\nfor (int i = 0; i < 9; i++) p[i] = i; return 1; }}\n",
    )
    lab.warm("-DV=1")
    assert lab.compile("-DV=2").outcome == HIT


@pytest.mark.sampled(2)
@pytest.mark.parametrize("value", ["VALUE", "__LINE__"])
@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u2028", "\\u00A0", "\\U00002003"])
def test_a_directive_behind_a_blank_that_the_preprocessor_prints_counts(lab: Lab, value: str, blank: str) -> None:
    """To a compile it is a directive."""
    text = kernel("HAVE", f"{blank}#define ON\n#ifdef ON\n#define HAVE {value}\n#else\n#define HAVE 1\n#endif")
    lab.write("k.hip", text)
    for number in ("1", "2"):
        lab.compile(f"-DVALUE={number}", "-Wno-unicode-whitespace")
    lab.write("k.hip", f"// a line\n{text}")
    lab.compile("-DVALUE=2", "-Wno-unicode-whitespace")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name",
    [
        "#define TEXT(x) #x\n#define OF(x) TEXT(x)\n#define NAME OF(PLATFORM/value.hpp)\n#if __has_include(NAME)",
        "#define NAME <PLATFORM/value.hpp>\n#if __has_include(NAME)",
        "#define NAME <PLATFORM/value.hpp>\n#define ASKED(x) __has_include(x)\n#if ASKED(NAME)",
        "#define NAME <PLATFORM/value.hpp>\n#define CAT(a, b) a##b\n#if CAT(__has_in, clude)(NAME)",
        "#define NAME <PLATFORM/value.hpp>\n#if HAS(NAME)",
    ],
)
def test_a_macro_in_the_name_of_a_file_that_is_asked_for_counts(lab: Lab, name: str) -> None:
    """Where there is none of that name, nothing shows the macro."""
    lab.write("mine/value.hpp", "#define VALUE 2\n")
    text = kernel("VALUE", f"{name}\n#include NAME\n#else\n#define VALUE 1\n#endif")
    lab.write("k.hip", text)
    for platform in ("other", "mine", "third", "mine"):
        lab.compile("-I.", f"-DPLATFORM={platform}", "-DHAS(x)=__has_include(x)")
    for inserted in ("// a line\n", "// a line\n// two\n"):
        lab.write("k.hip", inserted + text)
        lab.compile("-I.", "-DPLATFORM=mine", "-DHAS(x)=__has_include(x)")


@pytest.mark.parametrize("version", ["#define VERSION {}", "#define VERSION __LINE__"])
def test_a_version_in_the_name_of_a_file_that_is_asked_for_counts(lab: Lab, version: str) -> None:
    asks = "#define TEXT(x) #x\n#define OF(x) TEXT(x)\n#if __has_include(OF(VERSION))\n"
    asks += "#define VALUE 2\n#else\n#define VALUE 1\n#endif"
    lab.write("3", "")
    for number in (1, 2, 3):
        lab.write("version.hpp", version.format(number) + "\n")
        lab.write("k.hip", kernel("VALUE", '#include "version.hpp"' + "\n" * number + asks))
        lab.compile("-I.")
