"""Bitcode that its own compiler would change as it reads it (LLVM's AutoUpgrade): a compile in one step never does."""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path

import pytest
from hip import BARE, LAUNCHER, LLVM, Lab, kernel, only_19
from hipcache.clang import bitcode
from test_bitcode import front_end

pytestmark = pytest.mark.archs(1)

LDS = "typedef float __attribute__((address_space(3)))* local;"
GLOBAL = "typedef float __attribute__((address_space(1)))* global;"
# (declarations, type of the function, its label, a call)
LABELS = {
    "ldexp": ("", "float f(float, int)", "llvm.amdgcn.ldexp.f32", "f(p[1], 3)"),
    "ds.fadd": (
        LDS,
        "float f(local, float, int, int, bool)",
        "llvm.amdgcn.ds.fadd.f32",
        "f((local)s, 1, 0, 0, 0)",
    ),
    "ds.fmax": (
        LDS,
        "float f(local, float, int, int, bool)",
        "llvm.amdgcn.ds.fmax.f32",
        "f((local)s, 1, 0, 0, 0)",
    ),
    "alignbit": ("", "int f(int, int, int)", "llvm.amdgcn.alignbit", "f(p[1], p[2], p[3])"),
    "flt.rounds": ("", "int f()", "llvm.flt.rounds", "f()"),
    "objectsize": ("", "long f(void*, bool)", "llvm.objectsize.i64.p0i8", "f(p, false)"),
    "fadd": (GLOBAL, "float f(global, float)", "llvm.amdgcn.global.atomic.fadd.f32.p1.f32", "f((global)p, 1)"),
    "memcpy": (
        "",
        "void f(void*, const void*, long, int, bool)",
        "llvm.memcpy.p0i8.p0i8.i64",
        "(f(p, p, 8, 4, 0), 0)",
    ),
    "ctlz": ("", "int f(int)", "llvm.ctlz.i32", "f(p[1])"),
    "atomic.inc": (
        "",
        "int f(int*, int, int, int, bool)",
        "llvm.amdgcn.atomic.inc.i32.p0i32",
        "f((int*)p, 7, 0, 0, 0)",
    ),
    "arc.use": ("", "void f(float*)", "clang.arc.use", "(f(p), 0)"),
    "nobody": ("", "float f(float)", "llvm.nobody.knows", "f(p[1])"),
}
LASTING = {
    "fma": ("", "float f(float, float, float)", "llvm.fma.f32", "f(p[1], p[2], p[3])"),
    "ctlz": ("", "int f(int, bool)", "llvm.ctlz.i32", "f(p[1], false)"),
    "cos": ("", "float f(float)", "llvm.amdgcn.cos.f32", "f(p[1])"),
}


def labelled(before: str, function: str, label: str, call: str) -> str:
    return f"""#include "hip_in_short.hpp"
{before}
extern "C" __device__ {function} __asm("{label}");
extern "C" __global__ void kernel(float* p) {{ __shared__ float s[4]; s[0] = p[0]; p[1] = {call} + s[1]; }}
"""


def compiled(lab: Lab, source: str) -> None:
    """Compile twice, as plain clang does. (lld's messages name temporary files, those of a crash places
    in memory.)"""
    lab.write("k.hip", source)
    words = [lab.compiler, "--offload-arch=gfx90a", *BARE, "-O3", "-cuid=1", "-c", "k.hip", "-o", "out.o"]

    def run(*launcher: str) -> tuple[int, bytes, bytes]:
        (lab.root / "out.o").unlink(missing_ok=True)
        end = lab.run([*launcher, *words])
        made = (lab.root / "out.o").read_bytes() if end.status == 0 else b""
        text = b"crash" if b"Stack dump" in end.err else re.sub(rb"-[0-9a-f]{6}", b"", end.err)
        return end.status, made, text

    plain, cached = lab.by_both(run, words, without=[lab.root / "out.o"])
    assert plain == cached == run(*LAUNCHER)


@pytest.mark.parametrize("label", LABELS)
def test_a_label_of_another_llvm_is_compiled_as_plain_clang_does(lab: Lab, label: str) -> None:
    compiled(lab, labelled(*LABELS[label]))


@pytest.mark.skipif(not LLVM["22"].exists(), reason="clang 22 is not installed")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("label", LABELS)
def test_so_it_is_by_clang_22(tmp_path: Path, label: str) -> None:
    compiled(Lab.make(tmp_path, "22"), labelled(*LABELS[label]))


@pytest.mark.parametrize("label", LASTING)
def test_an_intrinsic_that_this_llvm_has_keeps_its_back_end(lab: Lab, label: str) -> None:
    text = labelled(*LASTING[label])
    compiled(lab, text)
    lab.count_anew()
    lab.write("k.hip", text + "int more;\n")
    words = [lab.compiler, "--offload-arch=gfx90a", *BARE, "-O3", "-cuid=1", "-c", "k.hip", "-o", "out.o"]
    assert lab.same(words).counted.missed == {"host"}


@only_19
@pytest.mark.parametrize(
    "text",
    [
        'extern "C" __device__ int v __asm("llvm.my.v"); __device__ int v;',
        '__device__ __attribute__((section("__DATA, __objc_catlist,  regular"))) int v;',
        'extern "C" __device__ int f(int) __asm("llvm.amdgcn.rcp.f32"); __device__ int f(int x) { return x; }',
    ],
)
def test_other_texts_that_a_reader_upgrades_are_plain_clangs(lab: Lab, text: str) -> None:
    compiled(lab, labelled(*LASTING["fma"]) + text + "\n")


def memos(lab: Lab) -> list[dict[str, list[str]]]:
    """The answers of readers in the store."""
    found = []
    for path in (lab.store / "v2" / "actions").rglob("*"):
        raw = path.read_bytes() if path.is_file() else b""
        start = raw.find(b"\x78\x01")
        try:
            memo = json.loads(zlib.decompress(raw[start:])) if start >= 0 else {}
        except (zlib.error, ValueError):
            continue
        found += [memo] if "same" in memo else []
    return found


@pytest.mark.files
@only_19
def test_a_compiler_is_asked_once_for_all_sources_that_declare_the_same(lab: Lab) -> None:
    """(The answers that the run's other tests have got are in its store, too: `shared_memos`.)"""
    first = labelled("", "int f(int)", "llvm.asked.once", "f(p[1])")
    compiled(lab, first)
    (memo,) = memos(lab)
    compiled(lab, first.replace("+ s[1]", "* s[1]"))
    assert memos(lab) == [memo]
    compiled(lab, labelled("", "long f(long)", "llvm.asked.once", "f(p[1])"))
    (second,) = memos(lab)
    more = [set(second[name]) - set(memo[name]) for name in ("same", "changed")]
    assert sum(map(len, more)) == 1


@only_19
def test_an_item_is_the_same_in_each_module(lab: Lab) -> None:
    """Numbers of types and attributes differ between the two."""
    one = labelled(*LASTING["fma"])
    lab.write("one.hip", one)
    lab.write("two.hip", one.replace("__global__", "__device__ double half(double x) { return x / 2; }\n__global__", 1))
    found = [bitcode.declared_items(front_end(lab, name)) for name in ("one.hip", "two.hip")]
    assert found[0]
    assert found[0] == found[1]


def test_damaged_bitcode_has_no_items_or_some(lab: Lab) -> None:
    lab.write("k.hip", kernel("1"))
    content = front_end(lab, "k.hip")
    for size in range(4, len(content), 7):
        assert bitcode.declared_items(content[:size]) is None
    for place in range(0, len(content), 3):
        turned = bytearray(content)
        turned[place] ^= 0x55
        bitcode.declared_items(bytes(turned))


@pytest.mark.parametrize(("size", "known"), [(1, True), (0, False)])
def test_a_block_that_is_longer_than_its_head_says_is_not_known(size: int, known: bool) -> None:
    """It would be read again behind its head's end, and again in each block around it: a thousand times a thousand."""
    module, types, strings = 1 | 8 << 2 | 3 << 10, 1 | 17 << 3 | 3 << 11, 1 | 23 << 2 | 3 << 10
    inner = [types, size, *[0] * (size + 1)]
    words = [int.from_bytes(bitcode.MAGIC, "little"), module, len(inner), *inner, strings, 1, 3 | 1 << 3]
    assert (bitcode.declared_items(struct.pack(f"<{len(words)}I", *words)) is not None) == known
