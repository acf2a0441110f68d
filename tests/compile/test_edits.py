"""An edit that changes nothing of what the compiler sees is a hit: lines without text, macros that nobody uses. What
lines and macros do change is never a stale object.

Each test first shows a hit, then makes an edit, and compares with a fresh compile of plain clang.
"""

from __future__ import annotations

import time

import pytest
from hip import HIT, Lab, kernel, with_19
from kernels import COUNTS

pytestmark = [pytest.mark.takes_turns("lab"), pytest.mark.archs(1)]


@pytest.mark.new_driver
@pytest.mark.archs(2)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["k.hip", "x.hpp"])
@pytest.mark.parametrize(
    "inserted", ["// a line\n", "\n\n", "/* a\n * comment\n */\n", "  \t\n// one\n\n/* two */ // three\n"]
)
def test_lines_without_text_before_code_are_a_hit(lab: Lab, name: str, inserted: str) -> None:
    texts = {
        "x.hpp": "#pragma once\n#define X 3\ninline int x() {\n  return X;\n}\n",
        "k.hip": kernel("3", '#include "x.hpp"'),
    }
    for path, text in texts.items():
        lab.write(path, text)
    lab.warm()
    lab.write(name, inserted + texts[name])
    assert lab.compile().outcome == HIT
    lab.write(name, texts[name].replace("{\n", "{\n" + inserted))
    assert lab.compile().outcome == HIT
    lab.write(name, texts[name])
    assert lab.compile().outcome == HIT


@pytest.mark.new_driver
@pytest.mark.parametrize("flags", ["-std=c++20", "-fstack-clash-protection"])
def test_lines_without_text_are_a_hit_whatever_the_options_are_that_show_none(lab: Lab, flags: str) -> None:
    lab.write("k.hip", kernel("3"))
    lab.warm(*flags.split())
    lab.write("k.hip", "// a line\n" + kernel("3"))
    assert lab.compile(*flags.split()).outcome == HIT


ASSEMBLY = '__attribute__((device)) int f(int x) { asm volatile("s_nop 0\\n s_nop 1"); return x; }\n'
WARNING = '__attribute__((device, warning("x"))) int f(int);\n__attribute__((device)) int g(int x) { return f(x); }\n'
ANNOTATION = '__attribute__((device)) int f(int* x) { return __builtin_annotation(x[1], "zz"); }\n'


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        (ASSEMBLY, "/* a longer comment */\n"),
        (ASSEMBLY, "/* a */\n// a line\n"),
        (WARNING, "/* a */\n// a line\n"),
        (ANNOTATION, "/* a */\n// a line\n"),
    ],
)
def test_bitcode_has_places_that_comments_move(lab: Lab, text: str, edited: str) -> None:
    lab.write("k.hip", "/* a */\n" + text)
    before = lab.warm("-fgpu-rdc")
    lab.write("k.hip", edited + text)
    lab.changed(before, "-fgpu-rdc")


def test_after_such_an_edit_the_next_compile_is_a_direct_hit(lab: Lab) -> None:
    lab.warm()
    lab.write("k.hip", "// a line\n" + (lab.root / "k.hip").read_text())
    lab.compile()
    assert lab.compile().outcome == HIT


def test_a_comment_line_and_an_edit_of_code_are_no_hit(lab: Lab) -> None:
    lab.write("k.hip", kernel("3"))
    before = lab.warm()
    lab.write("k.hip", "// a line\n" + kernel("4"))
    lab.changed(before)


LOOP = "__global__ void l(int* p) {{\n{}\nfor (int i = 0; i < 64; ++i) p[i * p[i]] = i;\n}}\n"
ONE = "#ifdef {}\n#define ONE {}\n#else\n#define ONE {}\n#endif"
NAMED = "#define CAT(a, b) a##b\n#define NAME(a, b) CAT(a, b)\nint NAME(name, {});\n"
TEXT = "#define S(x) #x\n#define TEXT(x) S(x)"
DEFAULT = "__host__ __device__ constexpr int here(int n = __builtin_LINE()) { return n; }"
PRETTY = "template <class T> const char* name(T) { return __PRETTY_FUNCTION__; }\nconst char* n = name([] {});\n"
ASSERT = "#define assert(x) ((x) ? 0 : fail(__LINE__))\nint fail(int);\nint a(int n) { return assert(n); }\n"
CONVERSION = """\
auto l = [] {};
struct S { const char* name; template <class T> operator T*() { name = __func__; return nullptr; } };
void convert(S& s) { decltype(l)* p = s; }
"""
LINE_SHOWN = {
    "__LINE__": kernel("__LINE__"),
    "__LINE__ in a macro of the file": kernel("HERE", "#define HERE __LINE__"),
    "__LINE__ in a macro of another file": kernel("HERE", '#include "here.hpp"'),
    "__LINE__ put together": kernel("CAT(__LI, NE__)", "#define CAT(a, b) a##b"),
    "a macro with __LINE__ put together": kernel("CAT(HE, RE)", '#include "here.hpp"\n#define CAT(a, b) a##b'),
    "__LINE__ in a text": kernel("sizeof(TEXT(__LINE__))", "\n" * 5 + TEXT),
    "a condition": kernel("1", "\n" * 3 + "#if __LINE__ > 6\nint v;\n#endif"),
    "a name": kernel("1") + NAMED.format("__LINE__"),
    "one architecture alone": kernel("ONE", ONE.format("__gfx906__", "__LINE__", 1)),
    "the host alone": kernel("ONE", ONE.format("__HIP_DEVICE_COMPILE__", 1, "__LINE__")),
    "a pragma": kernel("1", "#define TIMES __LINE__") + LOOP.format("#pragma unroll TIMES"),
    "a pragma put together": kernel("1", "#define DO(x) _Pragma(#x)") + LOOP.format("DO(unroll __LINE__)"),
    "__builtin_LINE": kernel("__builtin_LINE()"),
    "the default of a parameter": kernel("here()", DEFAULT),
    "the default of a member": kernel("Here{}.line", "struct Here { int line = __builtin_LINE(); };"),
    "a type without a name": kernel("1") + PRETTY,
    "an assertion": kernel("1") + ASSERT,
    "the name of a conversion": kernel("1") + CONVERSION,
}


@pytest.mark.new_driver
@pytest.mark.parametrize("shown", LINE_SHOWN)
def test_the_number_of_a_line_that_is_shown_is_never_stale(lab: Lab, shown: str) -> None:
    lab.write("here.hpp", "#define HERE __LINE__\n")
    lab.write("k.hip", LINE_SHOWN[shown])
    before = lab.warm()
    lab.write("k.hip", "// a line\n" * 4 + LINE_SHOWN[shown])
    lab.changed(before)


@pytest.mark.archs(2)
def test_a_line_that_one_architecture_shows_leaves_the_others_hits(lab: Lab) -> None:
    text = kernel("1") + "#ifdef __gfx906__\n__global__ void l(int* p) { *p = __LINE__; }\n#endif\n"
    lab.write("k.hip", text)
    before = lab.warm()
    lab.write("k.hip", "// a line\n" + text)
    assert lab.changed(before).counted.missed == {"gfx906"}


def test_lines_of_a_file_that_shows_none_move_beside_one_that_does(lab: Lab) -> None:
    lab.write("x.hpp", "inline int x() { return 1; }\n")
    lab.write("k.hip", kernel("__LINE__", '#include "x.hpp"'))
    before = lab.warm()
    for inserted in ("// one\n", "// one\n// two\n"):
        lab.write("x.hpp", inserted + "inline int x() { return 1; }\n")
        assert lab.compile().outcome == HIT
    lab.write("k.hip", "// a line\n" + kernel("__LINE__", '#include "x.hpp"'))
    lab.changed(before)


@pytest.mark.parametrize(
    "flags",
    [
        *("-g", "-gline-tables-only", "-fprofile-instr-generate -fcoverage-mapping"),
        "-fsanitize=undefined -fno-gpu-sanitize",
    ],
)
def test_lines_that_an_option_shows_are_never_stale(lab: Lab, flags: str) -> None:
    text = kernel("3") + "int f(int n) { return n + 1; }\n"
    lab.write("k.hip", text)
    before = lab.warm(*flags.split())
    lab.write("k.hip", "// a line\n" + text)
    lab.changed(before, *flags.split())


@pytest.mark.parametrize(
    "flags",
    [
        *("-Rpass=inline", "-fsave-optimization-record", "-Wall", "-save-temps=obj", "-fopenmp", "-Wall -g"),
        *("-Wall -fdiagnostics-color=always", "-Wall -fmessage-length=40", "-Wall -fdiagnostics-format=msvc"),
    ],
)
def test_messages_and_files_beside_the_object_have_the_present_lines(lab: Lab, flags: str) -> None:
    text = kernel("3") + "static int f(int n) { return n + 1; }\nint g(int n) { int unused; return f(n); }\n"
    lab.write("k.hip", text)
    lab.compile(*flags.split())
    for inserted in ("// a line\n", "// a line\n\n"):
        lab.write("k.hip", inserted + text)
        lab.compile(*flags.split(), "-MD")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('int v = sizeof(R"(a\nb)");', 'int v = sizeof(R"(a\n\nb)");'),
        ("#define V \\\n\nint v;", "#define V \\\nint v;"),
        ('int v = sizeof("a\\\n#define X 1");', 'int v = sizeof("a\\\n#define X 22");'),
        ('int v = sizeof(R"(\n#define X 1\n)");', 'int v = sizeof(R"(\n#define X 22\n)");'),
        ("#line 7\nint v = __LINE__;", "#line 7\n\nint v = __LINE__;"),
        ("#define V 1\nint v = V;", "#define V 2\nint v = V;"),
    ],
)
def test_a_line_counts_where_it_is_part_of_a_token_or_a_directive(lab: Lab, old: str, new: str) -> None:
    lab.write("k.hip", kernel("3") + old + "\n")
    before = lab.warm()
    lab.write("k.hip", kernel("3") + new + "\n")
    lab.changed(before)


@pytest.mark.new_driver
@pytest.mark.archs(2)
def test_another_value_of_a_macro_that_nobody_uses_is_a_hit(lab: Lab) -> None:
    for commit in ("1234", "abcd"):
        lab.write("k.hip", kernel("USED"))
        flags = ("-DUSED=3", f'-DCOMMIT="{commit}"', f"-DBUILD={commit}")
        outcome = lab.compile(*flags).outcome
    assert outcome == HIT


WARNED = """\
#include "x.hpp"
[[nodiscard]] int f();
int g(int n) {
  f(); // quoted
  int a = (n == 1
      && x() ||
      n == 3);
  return h();
}
"""


@pytest.mark.archs(2)
@pytest.mark.parametrize("inserted", ["// a line\n", "/* two\nlines */\n", "\n" * 98])
def test_messages_have_the_numbers_of_lines_that_were_moved(lab: Lab, inserted: str) -> None:
    texts = {
        "k.hip": kernel("3") + WARNED,
        "x.hpp": "[[deprecated]] int h();\ninline int x() { int unused; return 1; }\n",
    }
    for name, text in texts.items():
        lab.write(name, text)
    before = lab.warm("-Wall")
    for name, text in texts.items():
        lab.write(name, inserted + text)
        after = lab.compile("-Wall")
        assert after.outcome == HIT
        assert after.messages != before.messages
    lab.write("k.hip", inserted + texts["k.hip"].replace("quoted", "quoted otherwise"))
    assert "otherwise" in lab.compile("-Wall").messages


def test_a_place_in_the_words_of_a_message_is_never_stale(lab: Lab) -> None:
    text = kernel("3") + "template <class T> [[deprecated]] void f(T) {}\nvoid g() { f([] {}); }\n"
    lab.write("k.hip", text)
    before = lab.warm()
    lab.write("k.hip", "// a line\n" + text)
    assert lab.compile().messages != before.messages


OF_CUIDS = {
    "kernels": kernel("3"),
    "no kernel": "int more() { return 1; }\n",
    "a static variable": kernel("3", "static __device__ int kept;") + "__global__ void l() { kept = 1; }\n",
    "a static variable that the host names": kernel("3", "static __device__ int kept;")
    + "__global__ void l() { kept = 1; }\nvoid* address() { return &kept; }\n",
    "a static kernel": kernel("3") + "static __global__ void l() {}\nvoid start() { l<<<1, 1>>>(); }\n",
    "sections for each": kernel("3")
    + "int a, b = 1;\nvoid f() {}\ntemplate <class T> void t() {}\nvoid g() { t<int>(); }\n",
}


@pytest.mark.parametrize("text", OF_CUIDS)
def test_the_same_with_another_cuid_is_what_plain_clang_makes(lab: Lab, text: str) -> None:
    """The CUID counts the macros of the command line."""
    lab.write("k.hip", OF_CUIDS[text])
    for number in range(6):
        compiled = lab.compile(
            f"-cuid={number}{number}", f"-DCOMMIT={number}", "-fdata-sections", "-ffunction-sections"
        )
        assert bool(compiled.counted.front_ends) != bool(number) or "static" in text


@pytest.mark.parametrize("text", ["kernels", "no kernel", "a static variable that the host names"])
def test_a_source_that_warns_is_served_under_another_cuid(lab: Lab, text: str) -> None:
    """The CUID counts the directory of the object, which some tools make anew for each."""
    lab.write("k.hip", OF_CUIDS[text] + "int w() { int unused; return 1; }\n")
    for number in range(3):
        compiled = lab.compile(f"-cuid={number}{number}", "-Wall")
        assert "unused" in compiled.messages
        assert not (number and compiled.counted.front_ends) or "static" in text


@with_19
def test_a_marked_text_that_comes_near_is_quoted(lab: Lab) -> None:
    """Clang quotes 16 lines at most."""
    text = "bool f(unsigned a, int b) {\n  return a\n    <\n%s    b;\n}\n"
    lab.write("k.hip", kernel("3") + text % ("// x\n" * 20))
    before = lab.warm("-Wextra")
    lab.write("k.hip", kernel("3") + text % ("// x\n" * 4))
    assert lab.compile("-Wextra").messages != before.messages


@with_19
def test_an_edit_of_what_is_compiled_in_one_step_is_no_fault(lab: Lab) -> None:
    """Its back end says something about the source."""
    text = kernel("3") + 'extern "C" __global__ void l(int* p) { volatile int a[20]; a[p[1]] = 3; p[2] = a[2]; }\n'
    lab.write("k.hip", text)
    warm = lab.warm("-Wframe-larger-than=8")
    assert "stack frame size" in warm.messages
    lab.write("k.hip", "// a line\n" + text)
    lab.compile("-Wframe-larger-than=8")  # an internal fault fails it


def test_another_value_and_a_comment_line_are_a_hit(lab: Lab) -> None:
    lab.warm("-DCOMMIT=1")
    lab.write("k.hip", "// a line\n" + (lab.root / "k.hip").read_text())
    assert lab.compile("-DCOMMIT=2").outcome == HIT


def test_states_of_other_code_leave_room_for_one_that_is_alike(lab: Lab) -> None:
    text = kernel("__LINE__")
    lab.write("k.hip", text)
    lab.warm("-DV=1")
    for code in ("4", "5", "6"):
        lab.write("k.hip", text.replace("__LINE__", code))
        lab.compile("-DV=1")
    lab.write("k.hip", text)
    assert lab.compile("-DV=2").outcome == HIT


@pytest.mark.new_driver
@pytest.mark.parametrize(
    "shown",
    [
        *("text", "in stages", "string", "condition", "pasted", "named", "pragma", "header", "host"),
        *("in an option", "of another option", "pasted by an option", "in -imacros", "pushed", "pasted in a pragma"),
    ],
)
def test_a_macro_of_the_command_line_that_is_used_is_never_stale(lab: Lab, shown: str) -> None:
    lab.write("one.hpp", "#define FROM 1\n")
    lab.write("two.hpp", "#define FROM 2\n")
    lab.write("before.hpp", "#define LATER V\n")
    given = ('V="one.hpp"', 'V="two.hpp"') if shown == "header" else ("V=1", "V=2")
    stages = "#define LATER V"
    text = {
        "text": kernel("V"),
        "in stages": kernel("LATER", stages),
        "string": kernel("*TEXT(V)", TEXT),
        "condition": kernel("1", "#if V > 1\nint v;\n#endif"),
        "pasted": kernel("1") + NAMED.format("V"),
        "named": kernel("CAT(V,)", "#define CAT(a, b) a##b"),
        "pragma": kernel("1", stages) + LOOP.format("#pragma unroll LATER"),
        "header": kernel("FROM", "#include V"),
        "host": kernel("ONE", ONE.format("__HIP_DEVICE_COMPILE__", 1, "V")),
        "in an option": kernel("LATER"),
        "of another option": kernel("OF_V"),
        "pasted by an option": kernel("PASTED"),
        "in -imacros": kernel("LATER"),
        "pushed": kernel("V", '#pragma push_macro("V")\n#undef V\n#pragma pop_macro("V")'),
        "pasted in a pragma": kernel("1", "#define CAT(a, b) a##b") + LOOP.format("#pragma unroll CAT(,V)"),
    }[shown]
    more = {
        "in an option": ("-DLATER=V",),
        "of another option": ("-DOF_V=(V+1)",),
        "pasted by an option": ("-DPASTED=CAT(,V)", "-DCAT(a,b)=a##b"),
        "in -imacros": ("-imacros", "before.hpp"),
    }.get(shown, ())
    lab.write("k.hip", text)
    before = lab.warm(f"-D{given[0]}", *more)
    lab.changed(before, f"-D{given[1]}", *more)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("L", kernel("__INTMAX_C_SUFFIX__")),
        ("__LINE__", kernel("__LINE__")),
        ("end", kernel("1") + LOOP.format("#pragma GCC unroll end")),
        ("UNR", kernel("1", "#define ON UNR") + LOOP.format("#pragma GCC unroll ON")),
    ],
)
def test_a_macro_with_a_name_of_the_compilers_or_behind_one_is_never_stale(lab: Lab, name: str, text: str) -> None:
    lab.write("k.hip", text)
    before = lab.warm(f"-D{name}=2", "-Wno-builtin-macro-redefined")
    lab.changed(before, f"-D{name}=3", "-Wno-builtin-macro-redefined")


@pytest.mark.parametrize(
    ("old", "new"), [('X="a"b', 'X="c"d'), ("X=a\u01c3", "X=b\u01c3"), ('__DATE__="1"', '__DATE__="2"')]
)
def test_what_clang_says_about_an_option_quotes_its_value(lab: Lab, old: str, new: str) -> None:
    lab.write("k.hip", kernel("3"))
    more = "-Wno-error=reserved-user-defined-literal"
    for definition in (old, new):
        lab.compile(more, f"-D{definition}")  # compares what is said


def test_lines_that_an_own_header_of_a_librarys_name_shows_count(lab: Lab) -> None:
    place = "struct At { int line; static constexpr At here(int n = __builtin_LINE()) { return {n}; } };\n"
    lab.write("own/source_location", place.replace("static", "__attribute__((host, device)) static"))
    text = kernel("At::here().line", "#include <source_location>")
    lab.write("k.hip", text)
    before = lab.warm("-Iown")
    lab.write("k.hip", text.replace("extern", "\n\nextern", 1) if "extern" in text else "// a line\n" + text)
    lab.changed(before, "-Iown")


def test_a_macro_that_was_unused_counts_where_an_edit_uses_it(lab: Lab) -> None:
    lab.write("x.hpp", "#define N 3 // of V\n")
    lab.write("k.hip", kernel("N", '#include "x.hpp"'))
    lab.warm("-DV=1")
    before = lab.compile("-DV=2")
    assert before.outcome == HIT
    lab.write("x.hpp", "#define N V // of V\n")
    lab.changed(lab.changed(before, "-DV=4"), "-DV=5")


def test_a_value_that_differs_from_that_of_a_header_makes_a_message(lab: Lab) -> None:
    lab.write("k.hip", kernel("1", "#define V 1"))
    lab.warm("-DV=1")
    assert "redefined" in lab.compile("-DV=2").messages


def test_a_macro_that_is_given_two_values_makes_a_message(lab: Lab) -> None:
    lab.warm("-DV=1", "-DV=1")
    assert "redefined" in lab.compile("-DV=1", "-DV=2").messages


def test_debug_information_of_macros_has_their_values(lab: Lab) -> None:
    before = lab.warm("-g", "-fdebug-macro", "-DV=1")
    lab.changed(before, "-g", "-fdebug-macro", "-DV=2")


# Macros of headers


VERSION = '#ifndef VERSION_H\n#define VERSION_H\n#define COMMIT "{}" // of today\n#define MAJOR {}\n#endif\n'


@pytest.mark.archs(2)
def test_another_value_of_a_headers_macro_that_nobody_uses_is_a_hit(lab: Lab) -> None:
    lab.write("k.hip", kernel("MAJOR", '#include "sub/../version.hpp"\n#include "version.hpp"'))
    lab.write("sub/x.hpp", "")
    for commit in ("1234", "abcd", "another"):
        lab.write("version.hpp", VERSION.format(commit, 3))
        outcome = lab.compile().outcome
    assert outcome == HIT


def test_a_headers_macro_that_is_used_is_never_stale(lab: Lab) -> None:
    lab.write("k.hip", kernel("MAJOR", '#include "version.hpp"'))
    lab.write("version.hpp", VERSION.format("1234", 3))
    before = lab.warm()
    lab.write("version.hpp", VERSION.format("1234", 4))
    lab.changed(before)


def test_a_header_under_two_names_is_never_stale(lab: Lab) -> None:
    lab.write("here/version.hpp", "#define V 1\n")
    (lab.root / "there").symlink_to("here")
    lab.write("k.hip", kernel("V", '#include "here/version.hpp"\n#undef V\n#include "there/version.hpp"'))
    before = lab.warm()
    lab.write("here/version.hpp", "#define V 2\n")
    lab.changed(before)


def test_a_copy_of_a_header_is_another_file(lab: Lab) -> None:
    for name in ("one.hpp", "two.hpp"):
        lab.write(name, "#pragma once\n#undef V\n#define V 1\n")
    lab.write("k.hip", kernel("V", '#include "one.hpp"\n#include "two.hpp"'))
    before = lab.warm()
    lab.write("one.hpp", "#pragma once\n#undef V\n#define V 2\n")
    assert lab.compile().outcome == HIT
    lab.write("two.hpp", "#pragma once\n#undef V\n#define V 2\n")
    lab.changed(before)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("#define A\n#define B 1\n", "#define A 1\n#define B\n"),
        ("#define A 1\n#define B 2\n", "#define A 2\n#define B 1\n"),
        ("#define B 1\n#define A B\n", "#define B 2\n#define A B\n"),
        (
            "#define B 1\n#define A 2\n#if B > 1\n#undef A\n#endif\n",
            "#define B 2\n#define A 2\n#if B > 1\n#undef A\n#endif\n",
        ),
    ],
)
def test_values_that_move_between_macros_count(lab: Lab, old: str, new: str) -> None:
    lab.write("v.hpp", old)
    lab.write("k.hip", kernel("1") + '#include "v.hpp"\n#define S(x) #x\n#define T(x) S(x)\nchar t[] = T(A);\n')
    before = lab.warm()
    lab.write("v.hpp", new)
    lab.changed(before)


def test_a_macro_that_gets_two_values_makes_a_message(lab: Lab) -> None:
    lab.write("v.hpp", "#define V 1\n#define V 1\n")
    lab.write("k.hip", kernel("1", '#include "v.hpp"'))
    lab.warm()
    lab.write("v.hpp", "#define V 2\n#define V 3\n")
    assert "redefined" in lab.compile().messages


def test_a_macro_that_gets_two_values_in_two_headers_makes_a_message(lab: Lab) -> None:
    lab.write("k.hip", kernel("1", '#include "v.hpp"\n#include "w.hpp"'))
    for values in ((1, 1), (2, 3)):
        for name, value in zip("vw", values, strict=True):
            lab.write(f"{name}.hpp", f"#define V {value}\n")
        said = lab.compile().messages
    assert "redefined" in said


# Dates


NEVER_SHOWN = [
    '#define BUILT() (__DATE__ " " __TIME__)\n',
    "#ifdef WITH_DATE\ninline const char* built() { return __TIMESTAMP__; }\n#endif\n",
    'inline const char* help() { return "%s stands for __DATE__"; }\n',
]


@pytest.mark.parametrize("text", NEVER_SHOWN)
def test_a_date_that_nobody_expands_is_a_hit(lab: Lab, text: str) -> None:
    lab.write("k.hip", kernel("3", text))
    lab.warm()
    lab.warm("-DALSO=__TIME__")


@pytest.mark.parametrize("flag", ["-dM", "-dD", "-fdirectives-only", "-C", "-P"])
def test_an_option_of_preprocessed_text_hides_no_date(lab: Lab, flag: str) -> None:
    lab.write("k.hip", kernel("3") + "const char* built() { return __TIME__; }\n")
    for _ in range(2):
        ended = lab.hipcache(*lab.words(flag))
        assert ended.status == 0 or b"only allowed with '-E'" in ended.err
        assert lab.counted().outcome != HIT


@pytest.mark.parametrize(
    ("directive", "missed"),
    [("#ifdef __gfx906__", "gfx906"), ("#ifndef __HIP_DEVICE_COMPILE__", "host"), ("#if 1", "gfx906 host")],
)
def test_a_date_that_one_pass_expands_is_not_stored_for_that_one(lab: Lab, directive: str, missed: str) -> None:
    text = f'{directive}\n#define BUILT __TIME__\n#else\n#define BUILT ""\n#endif\n'
    shows = "__device__ const char* built() { return BUILT; }\nconst char* host_built() { return BUILT; }\n"
    lab.write("k.hip", kernel("3", text) + shows)
    for _ in range(2):
        time.sleep(1 - time.time() % 1)  # in one second the back end would read the same bitcode again
        assert lab.hipcache(*lab.words()).status == 0
        counted = lab.counted()
    assert counted.missed == set(missed.split())


# Where a mark in place of a value would go unseen


PICKS = "#define PICK_(a, b, ...) b\n#define PICK(...) PICK_(__VA_ARGS__)\n#define FULL ~, 1"
UNSEEN = {
    "a comma": (kernel("COUNT(ON)", COUNTS), "1", "1,2"),
    "the name of a macro": (kernel("PICK(ON, 0)", PICKS), "EMPTY", "FULL"),
    "a pragma": (kernel("1") + LOOP.format("#pragma unroll ON"), "2", "3"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", ["option", "header"])
@pytest.mark.parametrize("unseen", UNSEEN)
def test_a_value_of_which_the_preprocessor_shows_no_mark_is_never_stale(lab: Lab, unseen: str, place: str) -> None:
    text, old, new = UNSEEN[unseen]
    lab.write("k.hip", text if place == "option" else '#include "v.hpp"\n' + text)
    lab.write("v.hpp", f"#define ON {old}\n")
    before = lab.warm(*([f"-DON={old}"] if place == "option" else []))
    lab.write("v.hpp", f"#define ON {new}\n")
    lab.changed(before, *([f"-DON={new}"] if place == "option" else []))


@pytest.mark.parametrize("value", ["it's", "/*"])
def test_a_value_about_which_clang_has_something_to_say_says_it(lab: Lab, value: str) -> None:
    lab.warm("-DV=1")
    assert lab.compile(f"-DV={value}").messages


def test_a_line_before_a_byte_order_mark_is_an_error(lab: Lab) -> None:
    text = b"\xef\xbb\xbf" + kernel("3").encode()
    lab.write("k.hip", text)
    lab.warm()
    lab.write("k.hip", b"// a line\n" + text)
    assert lab.compile().status


def test_code_that_looks_like_the_number_of_a_line_is_quoted_as_it_is(lab: Lab) -> None:
    text = kernel("3") + "[[deprecated]] int h();\nint g(int n) {\n  return n +\n    3 | h();\n}\n"
    lab.write("k.hip", text)
    lab.warm()
    lab.write("k.hip", "// a line\n" + text)
    lab.compile()


def test_a_comment_between_quoted_lines_is_quoted(lab: Lab) -> None:
    lab.write("k.hip", kernel("3") + WARNED.replace('#include "x.hpp"\n', "int x();\nint h();\n"))
    lab.warm("-Wall")
    text = (lab.root / "k.hip").read_text()
    lab.write("k.hip", text.replace("(n == 1\n", "(n == 1\n// a line\n"))
    lab.compile("-Wall")
