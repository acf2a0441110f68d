"""Preambles with instances of templates: which sources they do not suit, and that the object is plain clang's there."""

from __future__ import annotations

import pytest
from hip import Lab
from hipcache.execution.preamble_values import Candidate
from hipcache.planning import declared, instances
from hipcache.planning.declared import Declared, Open, called, left_open
from hipcache.planning.instances import Instances
from preamble_lab import BOTH, build, counts, prelab, prepare

__all__ = ["prelab"]

_HEADER = """\
#pragma once
template <int N> __device__ __attribute__((noinline)) int times(int x) { return N * x + (x >> N); }
inline __device__ int two(int x) { return times<3>(x) + times<5>(x); }

template <class T> struct traits { static constexpr int value = 1; };
template <class T> __device__ int valued(T) { return traits<T>::value; }
inline __device__ int pointed() { return valued((int*) nullptr); }

struct thing {};
template <class T, class = void> struct has_shown { static constexpr int value = 0; };
template <class...> using void_type = void;
template <class T> struct has_shown<T, void_type<decltype(shown(T()))>> { static constexpr int value = 1; };
template <class T> __device__ int is_shown(T) { return has_shown<T>::value; }
inline __device__ int one_shown() { return is_shown(thing()); }

struct later;
template <class T, class = void> struct is_whole { static constexpr int value = 0; };
template <class T> struct is_whole<T, void_type<decltype(sizeof(T))>> { static constexpr int value = 1; };
template <class T> __device__ int whole(T*) { return is_whole<T>::value; }
inline __device__ int is_later_whole(later* x) { return whole(x); }
"""
_HEAD = "#include <hip/templates.hpp>\n"
_KERNEL = 'extern "C" __global__ void more(int* p) {{ p[1] = {}; }}\n'


def _prepared(lab: Lab) -> None:
    lab.write("own/hip/templates.hpp", _HEADER)
    prepare(lab, head=_HEAD)


def _candidates(lab: Lab) -> list[Candidate]:
    """The records of preambles."""
    records = [path.read_bytes() for path in lab.store.rglob("actions/*/*") if path.is_file()]
    texts = [record[record.index(b'{"wanted"') :] for record in records if b'{"wanted"' in record]
    return [Candidate("", (), 0).with_record(text) for text in texts]


@pytest.mark.archs(1)
def test_a_device_gets_one_with_instances_that_a_source_does_not_use(prelab: Lab) -> None:
    _prepared(prelab)
    (made,) = (one for one in _candidates(prelab) if len(one.outputs) == 4)
    (listed,) = prelab.store.rglob(f"blobs/*/{made.outputs[3][2:]}")
    found = Instances.unpack(listed.read_bytes())
    assert found and b"_Z5timesILi3EEii" in found.instances
    build(prelab, 1, head=_HEAD)
    assert counts(prelab)["used"] == BOTH


@pytest.mark.archs(1)
def test_sources_with_headers_of_a_library_get_one_without_instances_at_once(prelab: Lab) -> None:
    """Libraries declare operators and functions: one with instances would be made, and tried, in vain."""
    prelab.write("own/hip/templates.hpp", _HEADER)
    prelab.write("inc/library.hpp", "struct of_library {}; void shown(of_library);\n")
    body = "int between;\n#include <library.hpp>\n" + _KERNEL.format("two(p[0])")
    prepare(prelab, head=_HEAD, body=body)
    assert {len(one.outputs) for one in _candidates(prelab) if one.outputs} == {3}
    build(prelab, 1, head=_HEAD, body=body)
    assert counts(prelab)["used"] == BOTH


@pytest.mark.archs(1)
@pytest.mark.parametrize(
    "body",
    [
        # Clang emits functions when they are first used. Those that it instantiates later come behind, in the order in
        # which the header asks for them.
        _KERNEL.format("times<5>(p[0]) + times<3>(p[2])"),
        # The header's instance makes the class complete before the source says what it is to be for pointers.
        "template <class T> struct traits<T*> { static constexpr int value = 2; };\n"
        + _KERNEL.format("traits<int*>::value"),
        # It decides whether there is such a function before the source declares it.
        "__device__ int shown(thing);\n" + _KERNEL.format("has_shown<thing>::value"),
        "__device__ int (shown)(thing);\n" + _KERNEL.format("has_shown<thing>::value"),
        "#define DECLARE(name) __device__ int name(thing)\nDECLARE(shown);\n"
        + _KERNEL.format("has_shown<thing>::value"),
        "#define OF_POINTERS template <class T> struct traits<T*>\n"
        + "OF_POINTERS { static constexpr int value = 2; };\n"
        + _KERNEL.format("traits<int*>::value"),
        "namespace other { __device__ int shown(thing); }\nusing other::shown;\n"
        + _KERNEL.format("has_shown<thing>::value"),
        "struct later { int x; };\n" + _KERNEL.format("is_whole<later>::value"),
    ],
    ids=[
        *("order", "partial specialization", "declared function", "name in parentheses", "macro that declares"),
        *("macro that specializes", "using", "completed class"),
    ],
)
def test_where_they_matter_a_source_gets_another_preamble(prelab: Lab, body: str) -> None:
    _prepared(prelab)
    build(prelab, 1, head=_HEAD, body=body)  # compares the object with plain clang's
    assert counts(prelab)["different"] == 0
    # From then on the source goes without instances: one is made for it when that pays.
    for number in range(2, 7):
        build(prelab, 1, head=_HEAD, body=f"{body}// {number}\nint edited{number};\n")
    found = counts(prelab)
    assert (found["made"], found["different"]) == (BOTH + 1, 0)
    assert found["used"] >= BOTH


@pytest.mark.archs(1)
@pytest.mark.parametrize("place", ["sys", "own"])
def test_a_header_that_is_no_standard_one_counts_in_a_directory_of_the_systems(prelab: Lab, place: str) -> None:
    option = f"-isystem{prelab.root}/sys"
    prelab.write("own/hip/templates.hpp", _HEADER)
    prelab.write(f"{place}/showing.hpp", "__device__ int shown(thing);\n")
    prepare(prelab, option, head=_HEAD)
    body = "#include <showing.hpp>\n" + _KERNEL.format("has_shown<thing>::value")
    build(prelab, 1, option, head=_HEAD, body=body)
    assert counts(prelab)["different"] == 0


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("_Z4eachI4GeluEvPfiT_", True),
        ("_ZL4eachI4GeluEvPfiT_", True),
        ("_ZN15HIP_vector_baseIhLj4EEC2Ehhhh", True),
        ("_ZNK17__HIP_CoordinatesI14__HIP_BlockDimE3__XcvjEv", True),
        ("_ZplIfEvT_S0_", True),
        ("_ZSt4moveIRiEvOT_", True),
        ("_ZN1AC2ERKS_", True),
        ("_ZN1AaSERKS_", True),
        ("_ZZ1fvE1x", True),
        ("_ZTV1A", True),
        ("_ZL8blockIdx", False),
        ("_ZNK14__HIP_BlockDimclEj", False),
        ("_Z5__ldgPK15HIP_vector_typeIcLj4EE", False),
        ("_ZN2IDIEv", True),
        ("_ZN3outI1AE2inEv", True),
        ("_ZSt3absf", False),
        ("_ZN12_GLOBAL__N_11fEv", False),
        ("_ZplRK6float4S1_", False),
        ("_ZN3std1fB5cxx11Ev", False),
    ],
)
def test_which_names_are_instances(name: str, is_one: bool) -> None:
    assert instances.is_instance(name.encode()) == is_one


def test_all_names_are_found_in_the_list() -> None:
    text = b"""
@_ZN1sIiE5valueE = linkonce_odr global i32 1, comdat
@llvm.used = appending global [1 x ptr] [ptr @_Z1gIiEvv]
define linkonce_odr hidden i32 @_Z1fIiEiT_(i32 %0) {
define linkonce_odr hidden i32 @"_Z3\\C3\\A9tIiEiT_"(i32 %0) {
define linkonce_odr i32 @_Z5plainv() {
declare i32 @_Z5otherIiEv()
"""
    assert instances.names(text) == (b"_Z1fIiEiT_", b"_Z3\xc3\xa9tIiEiT_", b"_ZN1sIiE5valueE")


@pytest.mark.parametrize(
    ("text", "names", "odd"),
    [
        ("__global__ void k(int* p) { g(p); }\nint main() { return h(); }", "k main", False),
        ("__global__ void __launch_bounds__(64) k(float4 x);", "k", False),
        ("namespace a { namespace b::c { void f(); } inline namespace d { int g(int); } }", "f g", False),
        ('extern "C" { void f(); }\nextern "C" void g() { h(); }', "f g", False),
        ("struct s { void f(); s() {} bool operator==(s); };", "s", False),
        ("struct alignas(8) n::s final : base { }; class c; union u {};", "s u", False),
        ("__device__ __attribute__((used)) auto f(int) noexcept(true) -> decltype(1);", "f", False),
        ("int a = f(), b = g(1);\nint h(int x = i());", "h i", False),
        ("template <class T = int> T f(T x);\nstatic auto a = [] { return g(); };", "f", False),
        ("float4 operator+(float4 a, float4 b) { return a; }", "operator", True),
        ("template <class T> T f(T x) { return x; }", "f", False),
        ("template <> int f<int>(int x);", "", True),
        ("template <class T> struct s : base<T> { void f(); };", "s", False),
        ("template <class T> struct s<T*> { };", "", True),
        ("template <class T> class alignas(8) n::s /* ; */ <T*> { };", "", True),
        ("template <class T> constexpr bool is<T*> = true;", "", True),
        ("template <class T> constexpr bool n::is<T*> {true};", "", True),
        ("template <class T> struct s : n::base<T> { }; template <class T> using u = s<T>;", "s", False),
        ("using n::f; using namespace std; using t = int;", "f std t", False),
        ("#define EACH(n) void n();\nEACH(f)", "EACH", False),
        ("#define CHECK(x) x\nvoid f() { CHECK(1); }", "f", False),
        ("void f() {\n#if A\n  if (a) {\n#else\n  if (b) {\n#endif\n  }\n}\nvoid g();", "f operator", True),
        ("// void f();\nconst char* s = \"void g() {\";\nchar c = '{';\nvoid h();", "h", False),
        ("void f() <% %>", "f", True),
        ("int (f)(int a); int *(*g (int))(int); int h [[nodiscard]] (int);", "f g h", False),
        ("using n::f, n::g; int a = b(1); void h(int c = 1), i(int);", "f g h i", False),
        ("template <class T = int> void f(T = g()) {}", "f g", False),
    ],
)
def test_what_a_source_declares(text: str, names: str, odd: bool) -> None:
    found = declared.of(text.encode())
    assert Declared(found.names, found.odd) == Declared(frozenset(names.encode().split()), odd)


def test_what_a_header_of_the_system_leaves_open() -> None:
    header = b"""
        // commented(1)
        struct made { made(int); int member(); };
        int declared(int);  char* named (char*);  std::vector<int> filled(int);
        template <class T> int inner(T x) { x.method(); p->other(); std::qualified(x); found(x); return last (x); }
        template <class T> auto asked(T x) -> decltype(shown(x));
        struct incomplete; class whole { class inner; };
        template <class T> int given(T x) { return made(1) + chosen<int>(x) + (a < b); }
        const char* text = "quoted(1)";
        #define DECLARE(n) int n(made)
    """
    assert left_open([called(header, of_library=False)], b"") == Open(
        frozenset([b"made", b"found", b"last", b"shown", b"chosen", b"incomplete", b"inner"])
    )
    assert left_open([called(header, of_library=True)], b"") == Open(
        frozenset(b"swap make_error_code make_error_condition begin end get iter_move iter_swap".split())
    )


def test_functions_that_a_header_calls_by_a_macro_of_the_command_line_are_open() -> None:
    macros = b"#define NAMED LAST\n#define found(x) shown(x)\n#define LAST other\n#define unused more\n"
    header = b"template <class T> int all(T x) { return NAMED(x) + found(x); }\n"
    assert left_open([called(header, of_library=False)], macros).names == {
        *(b"NAMED", b"LAST", b"other"),
        *(b"found", b"shown", b"x"),
    }


@pytest.mark.parametrize(
    ("header", "other", "source", "is_met"),
    [
        ("", "#define DECLARE(n) int n(thing)", "DECLARE(f);", True),
        ("", "", "#define DECLARE(n) \\\n  int n(thing)\nDECLARE(f);", True),
        ("", "#define DECLARE(n)", "DECLARE(f);", False),
        ("", "#define SHOW int f(thing);", "SHOW void g();", True),
        ("", "#define SHOW TOLD\n#define TOLD int f(thing);", "SHOW", True),
        ("", "#define OF_POINTERS struct traits<T*>", "template <class T> OF_POINTERS { };", True),
        ("", "#define NAME sh##own", "int NAME (thing);", True),
        ("int h() { return f(1); }", "#define NAME f", "int NAME(thing);", True),
        ("int h() { return f(1); }", "#define NAMED NAME\n#define NAME f", "int NAMED(thing);", True),
        ("struct s;", "#define NAME s", "struct NAME { };", True),
        ("", "#define WHOLE struct s { };", "WHOLE", True),
        ("int h() { return f(1); }", "#define TYPE f", "TYPE g(thing);", False),
        ("", "#define DECLARE(n) int n(thing)", "void g() { DECLARE(f); }", False),
        ("", '#define DEVICE __device__ __attribute__((section("x")))', "DEVICE void g() { f(1); }", False),
        ("", "#define KERNEL __global__ void __launch_bounds__(64)", "KERNEL g() { f(1); }", False),
        ("", "#define N (1 << 4)\n#define M N", "__device__ float values[M];", False),
        ("int h() { return f(1); }", "int f(thing);", "", True),
        ("int h() { return f(1); }", "", "int f(thing);", True),
        ("int h() { return f(1); }", "", "int g(thing);", False),
    ],
)
def test_what_is_open_is_met_by_a_declaration_or_by_a_macro(header: str, other: str, source: str, is_met: bool) -> None:
    opened = left_open([called(header.encode(), of_library=False)], b"")
    assert opened.is_met([declared.of(other.encode()), declared.of(source.encode())]) == is_met


def test_a_list_survives_the_store() -> None:
    opened = Open(frozenset([b"f", b"g\xff"]))
    for one in (Instances((b"_Z1fIiE", b"_Z1\xc3\xa9IiE"), opened), Instances((), Open())):
        assert Instances.unpack(one.pack()) == one
        assert Instances.unpack(one.pack()[:-9]) is None
        assert not one.are_in(b"_Z1fIcE")
    assert Instances((b"_Z1fIiE",), Open()).are_in(b"BC..main_Z1fIiEx")
