"""Preambles, and errors that clang defers until a function of a header is used: a precompiled header does not hold
them. Each compile here is compared with plain clang's: its messages, its exit status and its object."""

from __future__ import annotations

import pytest
from hip import Lab, only_19
from hipcache.making.undefined import Functions
from hipcache.planning import deferred
from preamble_lab import BOTH, add_to_header, build, counts, prelab, prepare

__all__ = ["prelab"]
pytestmark = pytest.mark.archs(1)

_BOTH_SIDES = "__host__ __device__ inline int either(int x) "
_KERNEL = 'extern "C" __global__ void uses(int* p) { p[0] = either(p[1]); }\n'
_FUNCTION = 'extern "C" int uses(int x) { return either(x); }\n'


@pytest.mark.parametrize(
    ("header", "body", "said"),
    [
        (_BOTH_SIDES + "{ if (x < 0) throw 1; return x; }\n", _KERNEL, "cannot use 'throw'"),
        ("int other();\n" + _BOTH_SIDES + "{ return other(); }\n", _KERNEL, "__host__ function"),
        ("static int other;\n" + _BOTH_SIDES + "{ return other; }\n", _KERNEL, "__host__ variable"),
        ("__device__ int other();\n" + _BOTH_SIDES + "{ return other(); }\n", _FUNCTION, "__device__ function"),
        (
            "__device__ inline int other() { return 1; }\n" + _BOTH_SIDES + "{ return other(); }\n",
            _FUNCTION,
            "function",
        ),
        (
            'extern "C" __device__ int __ocml_other();\n' + _BOTH_SIDES + "{ return __ocml_other(); }\n",
            _FUNCTION,
            "function",
        ),
        (
            "#define MAKE(name) __device__ int name();\n#define NAMED MAKE(other)\nNAMED\n"
            + _BOTH_SIDES
            + "{ return other(); }\n",
            _FUNCTION,
            "__device__ function",
        ),
        (
            "struct thing { __device__ int other() const; };\n" + _BOTH_SIDES + "{ return thing().other(); }\n",
            _FUNCTION,
            "__device__ function",
        ),
    ],
    ids=["throw", "hosts", "variable", "devices", "inline", "in C", "macro", "member"],
)
def test_an_error_that_is_deferred_is_told(prelab: Lab, header: str, body: str, said: str) -> None:
    """The sources by which the preamble comes to trust do not use the function."""
    add_to_header(prelab, header)
    for number in (91, 92, 93):
        build(prelab, number)
    done = build(prelab, 1, body=body)
    assert done.status == 1
    assert said in done.messages


@only_19
@pytest.mark.parametrize(
    "computed",
    [
        'constexpr std::string_view s("ab"); constexpr auto t = s.substr(1); p[0] = t[0];',
        "constexpr std::wstring_view s(L\"ab\"); constexpr int n = s.find(L'b'); p[0] = n;",
        'using namespace std::literals; constexpr auto t = "ab"sv.substr(1); p[0] = t[0];',
        'constexpr int n = std::char_traits<wchar_t>::length(L"ab"); p[0] = n;',
    ],
    ids=["view", "wide view", "literal", "traits"],
)
def test_an_error_in_what_the_compiler_computes_is_told(prelab: Lab, computed: str) -> None:
    """Nothing of it is in the bitcode."""
    head = "#include <string_view>\n"
    prepare(prelab, "-std=c++17", head=head)
    done = build(prelab, 1, "-std=c++17", head=head, body=f"__global__ void c(int* p) {{ {computed} }}\n")
    assert done.status == 1
    assert "__host__ function" in done.messages
    done = build(prelab, 1, "-std=c++17", head=head, body='const wchar_t* one() { return L"1"; }\n')
    assert (done.status, counts(prelab)["used"]) == (0, 1)  # the host's


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("#include <string_view>\n#include <string>\nstd::string s; int Laa = 1;", False),
        ("#define VIEW std::string_view\n", True),
        ("std::u16string_view s;", True),
        ('auto s = LR"(a)";', True),
        ("int x = L'a';", True),
        ("std::wstring s;", True),
        ("const wchar_t c;", True),
        ('using namespace std; auto s = "a"sv;', True),
        ("std::string_\\\nview s;", True),
        ("#define VIEW(a) string_##a\n", True),
    ],
)
def test_texts_that_may_compute_with_strings(text: str, may: bool) -> None:
    assert deferred.may_compute(text.encode()) == may


def test_a_function_with_a_try_of_the_hosts_alone_does_no_harm(prelab: Lab) -> None:
    add_to_header(prelab, "inline int caught(int x) { try { return x; } catch (...) { return 2; } }\n")
    prepare(prelab)
    build(prelab, 1, body="int uses(int x) { return caught(x); }\n")
    assert counts(prelab) == {"used": BOTH, "made": BOTH, "checked": BOTH, "different": 0}


def test_an_undefined_function_of_a_devices_name_is_taken_for_it(prelab: Lab) -> None:
    add_to_header(prelab, "__device__ int scaled(int);\nint scaled(float);\n")
    prepare(prelab)
    build(prelab, 1, body="int uses(float x) { return scaled(x); }\n")
    assert counts(prelab) == {"used": 1, "made": BOTH, "checked": BOTH, "different": 0}  # the device's


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["__device__ int f(int x); int g();"], {"f"}),
        (["static __device__ __attribute__((noinline)) float\nf (float);"], {"f"}),
        (["#define HD __host__ __device__\n", "HD inline int f() { return g(); }"], {"f"}),
        (["#define MAKE(n) __device__ int n();\n", "MAKE(f) {}\nint g();"], {"f"}),
        (["#define MAKE(n) \\\n    __device__ int n();\n#define AGAIN(n) MAKE(n)\n", "AGAIN(f) {}\nint g();"], {"f"}),
        (["__attribute__((device)) int f();\nint g();"], {"f"}),
        (["int device(int);\nint g();"], set()),
    ],
)
def test_names_of_the_devices_functions(texts: list[str], names: set[str]) -> None:
    found = {name.decode() for name in deferred.functions([text.encode() for text in texts])}
    assert names <= found
    assert "g" not in found


def test_an_object_that_cannot_be_read_may_need_any_function() -> None:
    assert Functions(frozenset({b"f"})).are_needed(b"no object")
    assert not Functions().are_needed(b"no object")
