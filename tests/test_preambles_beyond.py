"""What a precompiled header does not hold of what its text has done: a preamble that is trusted, and a source that asks
for just that. Each compile here is compared with plain clang's."""

from __future__ import annotations

import pytest
from hip import Lab
from hipcache.making import bitcode
from hipcache.planning import lambdas
from preamble_lab import BOTH, NEVER_CHECKED, add_to_header, build, counts, prelab, prepare

__all__ = ["prelab"]
pytestmark = pytest.mark.archs(1)


def test_a_lambda_of_the_source_is_not_taken_for_one_of_a_header(prelab: Lab) -> None:
    """Clang numbers both for HIP, and begins anew behind a precompiled header: one would be called for both."""
    add_to_header(prelab, "static auto more = [](int x) { return x + 1; };\n")
    for number in (1, 2):
        build(prelab, number, "-std=c++17")
    build(
        prelab,
        3,
        "-std=c++17",
        body="static auto own = [](int x) { return x + 7; };\nint f() { return own(more(1)); }\n",
    )
    assert counts(prelab)["different"] == 0


def test_initializers_of_a_header_that_only_one_source_needs_come_in_their_order(prelab: Lab) -> None:
    add_to_header(prelab, "extern int given;\nstatic int first = given + 1;\nstatic int second = given + 2;\n")
    prepare(prelab)
    build(prelab, 1, body="int own = given + 3;\nint f() { return second + own + first; }\n")
    assert counts(prelab) == {"used": 1, "made": BOTH, "checked": BOTH, "different": 0}


def test_passes_that_initialize_make_each_preamble_once_at_most(prelab: Lab) -> None:
    """They can use none of it, and would make it time and again."""
    own = "extern int given;\nint own = given + 3;\n"
    for number in range(1, 7):
        build(prelab, number, body=own)
    made = counts(prelab)["made"]
    for number in range(7, 13):
        build(prelab, number, body=own)
    assert counts(prelab)["made"] == made
    without = prelab.stats()["without_preamble"]
    assert isinstance(without, dict) and without["initializers"]
    for number in range(13, 17):
        build(prelab, number)
    assert (counts(prelab)["made"], counts(prelab)["different"]) == (made + 1, 0)


def test_a_source_that_initializes_goes_without_until_it_is_checked(prelab: Lab) -> None:
    own = "extern int given;\nint own = given + 3;\n"
    prepare(prelab)
    for edit in range(3):
        build(prelab, 1, body=f"{own}int edit{edit};\n")
    assert _initializing(prelab) == [True]
    build(prelab, 1, body="int edit;\n")
    assert counts(prelab)["used"] == 4  # the device's
    prelab.environ["HIPCACHE_PREAMBLE_CHECKS"] = "1"
    build(prelab, 1, body="int another;\n")
    assert _initializing(prelab) == [False]
    prelab.environ["HIPCACHE_PREAMBLE_CHECKS"] = NEVER_CHECKED
    build(prelab, 1, body="int the_last;\n")
    assert (counts(prelab)["used"], counts(prelab)["different"]) == (4 + BOTH, 0)


def _initializing(lab: Lab) -> list[bool]:
    """The records of sources that initialize variables, or did once."""
    records = [path.read_bytes() for path in lab.store.rglob("actions/*/*") if path.is_file()]
    bare = [record for record in records if record.endswith((b'{"outputs": []}', b'"holds": true}'))]
    return [b"holds" in record for record in bare]


_STREAM = """\
struct stream { stream(); ~stream(); };
static stream opened;
"""


def test_one_variable_of_a_header_may_be_initialized(prelab: Lab) -> None:
    """As libstdc++ 12 has it in <iostream>."""
    add_to_header(prelab, _STREAM)
    prepare(prelab)
    build(prelab, 1, body="static int counted; int other = 3; int f() { return ++counted + other; }\n")
    build(prelab, 2, body="struct base { virtual int f() { return 1; } };\nint g() { return base().f(); }\n")
    assert counts(prelab)["used"] == 2 * BOTH
    build(prelab, 3, body="extern int given;\nint own = given + 3;\n")
    assert counts(prelab) == {"used": 2 * BOTH + 1, "made": BOTH, "checked": BOTH, "different": 0}


@pytest.mark.parametrize(
    "more",
    [
        "static stream second;\n",
        "__attribute__((constructor)) static void started() { stream(); }\n",
        "inline stream second;\n",
        "static thread_local stream second;\n",
    ],
)
def test_two_come_in_another_order(prelab: Lab, more: str) -> None:
    add_to_header(prelab, _STREAM + more)
    for number in range(1, 5):
        build(prelab, number, "-std=c++17", body=f"int f{number}() {{ return {number}; }}\n")
    assert (counts(prelab)["used"], counts(prelab)["different"]) == (2, 0)  # the device's


def test_one_that_a_source_asks_for_counts_as_its_own(prelab: Lab) -> None:
    """Nothing needs it in other sources, so that it is not initialized there."""
    add_to_header(prelab, _STREAM + "extern int given;\nstatic int asked = given + 1;\nstatic int too = given + 2;\n")
    prepare(prelab)
    build(prelab, 1, body="int f() { return too + asked; }\n")
    assert counts(prelab) == {"used": 1, "made": BOTH, "checked": BOTH, "different": 0}


def test_an_initializer_does_not_end_the_use_of_preambles(prelab: Lab) -> None:
    add_to_header(prelab, "extern int given;\nstatic int first = given + 1;\nstatic int second = given + 2;\n")
    prepare(prelab)
    prelab.environ["HIPCACHE_PREAMBLE_CHECKS"] = "1"
    build(prelab, 1, body="int own = given + 3;\nint f() { return second + own + first; }\n")
    assert counts(prelab)["different"] == 0


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (
            '#define X 1\n#pragma push_macro("X")\n#undef X\n#define X 2\n',
            '#pragma pop_macro("X")\nint f() { return X; }\n',
        ),
        ("#pragma GCC visibility push(hidden)\n", "int f() { return 1; }\n"),
    ],
)
def test_what_a_header_of_the_system_has_pushed_is_known_to_the_source(prelab: Lab, header: str, body: str) -> None:
    prelab.write("sys/state.hpp", header)
    for number in (1, 2, 3):
        more = body if number == 3 else ""
        build(prelab, number, f"-isystem{prelab.root}/sys", head="#include <state.hpp>\n", body=more)
    assert counts(prelab)["different"] == 0


def test_a_header_that_pops_in_its_second_turn_what_it_pushed_in_its_first(prelab: Lab) -> None:
    """Clang would warn of a pop without a push."""
    pragma = "#pragma GCC diagnostic"
    toggle = (
        f'#ifndef ON\n#define ON\n{pragma} push\n{pragma} ignored "-Wall"\n#else\n#undef ON\n{pragma} pop\n#endif\n'
    )
    prelab.write("own/hip/toggle.hpp", toggle)
    for number in (1, 2):
        build(prelab, number, "-Wall", head="#include <hip/toggle.hpp>\n")
    body = "#include <hip/toggle.hpp>\nvoid g() { int unused; }\n"
    assert "unused variable" in build(prelab, 3, "-Wall", head="#include <hip/toggle.hpp>\n", body=body).messages


def test_the_name_of_the_main_file_in_a_macro_of_the_command_line(prelab: Lab) -> None:
    add_to_header(prelab, "inline const char* base() { return BASE; }\n")
    for number, body in enumerate(["", "", "const char* f() { return base(); }\n"]):
        build(prelab, number + 1, "-DBASE=__BASE_FILE__", body=body)


def test_a_function_of_the_other_side_is_an_error_where_no_code_is_left_of_its_call(prelab: Lab) -> None:
    add_to_header(
        prelab,
        "int other();\n__host__ __device__ inline int either(bool b) { return b ? other() : 1; }\n",
    )
    prepare(prelab)
    body = "__global__ void bad(int* p) { p[0] = either(false); }\n"
    done = build(prelab, 1, body=body)
    assert done.status == 1
    assert "__host__ function" in done.messages


@pytest.mark.parametrize(
    ("text", "numbered"),
    [
        ("static auto l = [](int x) { return x; };", True),
        ("namespace n { static auto l = [] (int x) { return x; }; }", True),
        ("S table[] = {{[](int x) { return 1; }}};", True),
        ("static S s{[] { return 1; }};", True),
        ('extern "C" { auto x = +[] {}; }', True),
        ("static int d(int (*f)(int) = [](int x) { return x; }) { return f(2); }", True),
        ("auto x = [k = 3] { return k; };", True),
        ("decltype([] {}) q;", True),
        ("#define MAKE(x) [](int y) { return y; }", True),
        ("#if A\nvoid f() {\n#else\nvoid g() {\n#endif\nauto x = [] {}; }", True),
        ("}\nvoid g() { auto x = [] {}; }", True),
        ("void f() { auto l = [](int x) {}; }", False),
        ("struct S { int f() { return []() { return 1; }(); } };", False),
        ("inline int f(int a = 3) noexcept { call([] {}); }", False),
        ("template <class T, class = E<T>> void f() { auto x = [] {}; }", False),
        ("void g(S s = {}) { auto x = []() {}; }", False),
        ("#define EACH(x) [&](int y) { return y; }", False),
        ("int a[] = {1}; int b[3]; void m(int, char* []); [[nodiscard]] int f();", False),
        ('// auto x = [] {};\n/* = [] {} */ const char* s = "= [] {";', False),
    ],
)
def test_lambdas_that_are_numbered_in_their_translation_unit(text: str, numbered: bool) -> None:
    assert lambdas.are_numbered(text.encode()) == numbered


def test_bitcode_that_does_not_read_may_need_a_function() -> None:
    assert bitcode.may_need(b"BC\xc0\xde")
