"""Preambles, and what headers do with variables of the device. Clang does not write into a precompiled header which of
them the host's code uses (`ASTContext::CUDADeviceVarODRUsedByHost`). Each compile here is compared with plain clang's.
"""

from __future__ import annotations

import pytest
from hip import Lab
from hipcache.planning import device_variables
from preamble_lab import BOTH, add_to_header, build, counts, prelab, prepare

__all__ = ["prelab"]
pytestmark = pytest.mark.archs(1)

_PUT = 'extern "C" int put(const void*);\n'
_FILL = "inline int fill() { return put(&table); }\n"
_DIRECT = 'extern "C" int direct() { return put(&table); }\n'
_FILLS = 'extern "C" int fills() { return fill(); }\n'


@pytest.mark.parametrize(
    "variable",
    [
        "static __device__ int table[4];\n",
        "namespace { __constant__ int table[4]; }\n",
        "inline __device__ int table[4];\n",
        "#define TABLE static __constant__\n#define TABLES TABLE int\nTABLES table[4];\n",
    ],
    ids=["static", "unnamed namespace", "inline", "macro"],
)
def test_a_variable_that_only_a_headers_host_code_uses_is_in_the_devices_object(prelab: Lab, variable: str) -> None:
    """The sources by which a preamble would come to trust use the variable themselves."""
    add_to_header(prelab, _PUT + variable + _FILL)
    for number in (1, 2, 3):
        build(prelab, number, "-std=c++17", body=_DIRECT)
    for number in (4, 5):
        build(prelab, number, "-std=c++17", body=f"int more{number};\n")
    assert counts(prelab)["different"] == 0


@pytest.mark.parametrize(
    ("variable", "flags"),
    [
        ("inline __device__ int table[4];\n", ["-std=c++17"]),
        ("static __device__ int table[4];\n", ["-fgpu-rdc"]),
        ("extern __device__ int table[4];\n", ["-fgpu-rdc"]),
    ],
    ids=["inline", "static", "extern"],
)
def test_the_host_registers_it_by_the_devices_name(prelab: Lab, variable: str, flags: list[str]) -> None:
    """The sources by which a preamble would come to trust do not use it."""
    add_to_header(prelab, _PUT + variable + _FILL)
    for number in (1, 2, 3):
        build(prelab, number, *flags, body=f"int more{number};\n")
    for number in (4, 5):
        build(prelab, number, *flags, body=_FILLS)
    assert counts(prelab)["different"] == 0


@pytest.mark.parametrize(
    "text",
    [
        "namespace one { __global__ void inner(int* p) { p[0] = 1; } }\n__global__ void outer(int* p) { p[0] = 2; }\n",
        "namespace one { int inner(int x) { return x; } }\nint outer(int x) { return x + 1; }\n",
    ],
    ids=["kernels", "functions"],
)
def test_a_header_whose_own_code_comes_in_another_order_ends_no_other_preamble(prelab: Lab, text: str) -> None:
    """Clang begins with what is not in namespaces when it reads a precompiled header."""
    prelab.write("inc/ordered.hpp", f"#pragma once\n{text}")
    for number in (1, 2, 3):
        build(prelab, number, head="#include <ordered.hpp>\n")
    assert counts(prelab)["different"] == 0
    for number in range(10, 14):
        build(prelab, number)
    assert counts(prelab)["used"] >= BOTH


def test_a_function_of_the_device_is_no_variable(prelab: Lab) -> None:
    add_to_header(prelab, "#define ON_DEVICE __device__ inline\nON_DEVICE int thrice(int x) { return 3 * x; }\n")
    prepare(prelab)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("static __device__ int x;", True),
        ("int x __attribute__((device));", True),
        ("__attribute__((constant)) float x[3] = {1, 2};", True),
        ("[[clang::constant]] float x;", False),  # no such attribute
        ("template <class T> __device__ T x;", True),
        ("struct S { static inline __constant__ int x = f(3); };", True),
        ("__device__ __align__(16) int x;", True),
        ("__device__ ALIGNED(16) static int x;", True),
        ("__device__ decltype(f(1)) x{};", True),
        ("__device__ S x(3);", True),
        ("__managed__ int x;", True),
        ("#define HERE __device__\n#define THERE HERE\nTHERE int x;", True),
        ("#define MAKE(name) __device__ int name;\nMAKE(x)", True),
        ("__device__ int f(int x);", False),
        ("template <int N> __device__ __launch_bounds__(N) int f(int x = 3) { return x; }", False),
        ("__host__ __device__ S& operator=(const S&) = default;", False),
        ("__device__ explicit operator bool() const { return true; }", False),
        ("__device__ ~S() {}", False),
        ("void f() { g([=] __device__(int x) { return x; }); }", False),
        ("#define HERE __device__\nHERE int f(int);", False),
        ("__device__ auto f(int x) noexcept -> int { return x; }", False),
        ('extern "C" __device__ __attribute__((const)) float f(float);', False),
        ("// __device__ int x;\nint y;", False),
        ("int device = 3, constant;", False),
        ("extern __shared__ int x[];", False),
    ],
)
def test_variables_of_the_device_are_seen_in_the_text(text: str, found: bool) -> None:
    assert device_variables.are_declared([text.encode()]) == found


def test_a_macro_of_another_header_counts() -> None:
    assert device_variables.are_declared([b"#define HERE __device__", b"HERE int x;"])
    assert not device_variables.are_declared([b"#define HERE __device__", b"HERE int f();"])
