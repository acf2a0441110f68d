"""Preambles with instances of templates: which sources they do not suit, and that the object is plain clang's there."""

from __future__ import annotations

import pytest
from hip import Lab
from hipcache.execution.preamble_values import Candidate
from hipcache.planning import instances
from hipcache.planning.instances import Declared, Instances
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
_HEAD = "#include <templates.hpp>\n"
_KERNEL = 'extern "C" __global__ void more(int* p) {{ p[1] = {}; }}\n'


def _prepared(lab: Lab) -> None:
    lab.write("inc/templates.hpp", _HEADER)
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
    assert b"_Z5timesILi3EEii" in listed.read_bytes()
    build(prelab, 1, head=_HEAD)
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
        "namespace other { __device__ int shown(thing); }\nusing other::shown;\n"
        + _KERNEL.format("has_shown<thing>::value"),
        "struct later { int x; };\n" + _KERNEL.format("is_whole<later>::value"),
    ],
    ids=["order", "partial specialization", "declared function", "using", "completed class"],
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
def test_a_header_with_a_macro_that_specializes_gets_none_with_instances(prelab: Lab) -> None:
    prelab.write("inc/templates.hpp", _HEADER + "#define OF_POINTERS(n) template <class T> struct traits<T*> n\n")
    for number in range(1, 5):
        build(prelab, number, head=_HEAD)
    assert [one.why for one in _candidates(prelab) if "specializes" in one.why]
    body = "OF_POINTERS({ static constexpr int value = 2; });\n" + _KERNEL.format("traits<int*>::value")
    build(prelab, 5, head=_HEAD, body=body)
    assert counts(prelab)["used"] and not counts(prelab)["different"]


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


@pytest.mark.parametrize(
    ("text", "names", "odd"),
    [
        ("__global__ void k(int* p) { g(p); }\nint main() { return h(); }", "k main", False),
        ("__global__ void __launch_bounds__(64) k(float4 x);", "__launch_bounds__ k", False),
        ("namespace a { namespace b::c { void f(); } inline namespace d { int g(int); } }", "f g", False),
        ('extern "C" { void f(); }\nextern "C" void g() { h(); }', "f g", False),
        ("struct s { void f(); s() {} bool operator==(s); };", "s", False),
        ("struct alignas(8) n::s final : base { }; class c; union u {};", "s u", False),
        ("__device__ __attribute__((used)) auto f(int) noexcept(true) -> decltype(1);", "f", False),
        ("int a = f(), b = g(1);\nint h(int x = i());", "h", False),
        ("template <class T = int> T f(T x);\nstatic auto a = [] { return g(); };", "f", False),
        ("float4 operator+(float4 a, float4 b) { return a; }", "operator", True),
        ("template <class T> T f(T x) { return x; }", "f", False),
        ("template <> int f<int>(int x);", "int", True),
        ("template <class T> struct s : base<T> { void f(); };", "s", False),
        ("template <class T> struct s<T*> { };", "", True),
        ("template <class T> class alignas(8) n::s /* ; */ <T*> { };", "", True),
        ("template <class T> constexpr bool is<T*> = true;", "", True),
        ("using n::f; using namespace std; using t = int;", "f int std", False),
        ("#define EACH(n) void n();\nEACH(f)", "EACH", True),
        ("#define CHECK(x) x\nvoid f() { CHECK(1); }", "f", False),
        ("void f() {\n#if A\n  if (a) {\n#else\n  if (b) {\n#endif\n  }\n}\nvoid g();", "f operator", True),
        ("// void f();\nconst char* s = \"void g() {\";\nchar c = '{';\nvoid h();", "h", False),
        ("void f() <% %>", "f", True),
    ],
)
def test_what_a_source_declares(text: str, names: str, odd: bool) -> None:
    assert instances.declares(text.encode()) == Declared(frozenset(names.encode().split()), odd)


def test_what_a_header_leaves_open() -> None:
    header = b"""
        // commented(1)
        struct made { made(int); int member(); };
        int declared(int);  char* named (char*);  std::vector<int> filled(int);
        template <class T> int inner(T x) { x.method(); p->other(); std::qualified(x); found(x); return last (x); }
        template <class T> auto asked(T x) -> decltype(shown(x));
        struct incomplete; class whole { class inner; };
        template <class T> int given(T x) { return made(1) + chosen<int>(x) + (a < b); }
        const char* text = "quoted(1)";
    """
    assert instances.open_names([instances.read(header, of_library=False)]) == {
        *(b"found", b"last", b"shown", b"chosen", b"decltype", b"incomplete", b"inner"),
    }


def test_a_macro_that_specializes() -> None:
    header = b"#define S(t) \\\n  template <class T> struct s<t<T>>\n"
    assert instances.read(header, of_library=False).specializes
    header = b"#define S(t) struct t\ntemplate <class T> struct s<T*>;\n"
    assert not instances.read(header, of_library=False).specializes


def test_a_list_survives_the_store() -> None:
    for one in (Instances((b"_Z1fIiE", b"_Z1gIiE"), frozenset([b"f", b"g"])), Instances((), frozenset())):
        assert Instances.unpack(one.pack()) == one
        assert not one.are_in(b"_Z1fIcE")
    assert Instances((b"_Z1fIiE",), frozenset()).are_in(b"BC..main_Z1fIiEx")
