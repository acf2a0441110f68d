"""What of bitcode matters to a back end: real front ends, and back ends that serve several spellings and CUIDs."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest
from hip import BARE, FULL, HIT, LLVM, Lab, only_19, script, since_18
from hipcache.base.keys import digest_bytes
from hipcache.clang import bitcode
from hipcache.clang.cuid import clangs_hash

CUID = "5eed"
SOURCE = """\
#include "hip_in_short.hpp"
__device__ __attribute__((noinline)) int twice(int x) { return x * 2; }
struct Base { __device__ virtual int get() { return 1; } };
struct More : Base { __device__ int get() override { return 2; } };
extern "C" __global__ void kernel(int* p) { More more; Base* base = &more; p[0] = twice(p[1]) + base->get(); }
"""
# The first eight bytes of MD5("5eed"), the other way round.
HASH = "6169d72867d09236"

STATIC = """\
static __device__ int table[4];
namespace { __global__ void hidden(int* p) { *p = table[p[1] & 3]; } }
int use(int* p) { hidden<<<1, 1>>>(p); void* at = (void*)&table; return at != 0; }
"""


def front_end(lab: Lab, source: str | Path, *flags: str, cuid: str = CUID) -> bytes:
    """The bitcode of `source` for one arch."""
    words = [lab.compiler, "-x", "hip", "--offload-arch=gfx906", *BARE, "-O2", f"-cuid={cuid}", *flags, "-c", source]
    said = lab.run([*words, "-o", "x.o", "-###"]).err.decode()
    line = next(line for line in said.splitlines() if "-fcuda-is-device" in line)
    command = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    command[command.index("-emit-obj")] = "-emit-llvm-bc"
    command[command.index("-o") + 1] = "x.bc"
    done = lab.run([*command, "-emit-llvm-uselists", "-disable-llvm-passes"])
    assert done.status == 0, done.err
    return (lab.root / "x.bc").read_bytes()


@pytest.fixture(autouse=True)
def source(lab: Lab) -> None:
    lab.write("k.hip", SOURCE)


def test_it_is_the_same_however_the_source_is_named(lab: Lab) -> None:
    (lab.root / "sub").mkdir()
    names = ("k.hip", "./k.hip", "sub/../k.hip", lab.root / "k.hip", f"{lab.root}/sub/..//{'./' * 40}k.hip")
    contents = [front_end(lab, name) for name in names]
    assert len(set(contents)) == len(names)
    assert len({bitcode.read(content, CUID).digest for content in contents}) == 1


def test_a_name_that_the_program_uses_matters(lab: Lab) -> None:
    lab.write("k.hip", SOURCE + "__device__ const char* name() { return __FILE__; }\n")
    found = {bitcode.read(front_end(lab, name), CUID).digest for name in ("k.hip", lab.root / "k.hip")}
    assert len(found) == 2
    lab.write("k.hip", SOURCE)
    found = {bitcode.read(front_end(lab, name, "-g"), CUID).digest for name in ("k.hip", lab.root / "k.hip")}
    assert len(found) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x * 2", "x * 4"),
        ("__device__ __attribute__((noinline)) int twice", "__device__ __attribute__((noinline)) long twice"),
        ("__device__ __attribute__((noinline))", "__device__"),
        ("__device__ __attribute__((noinline))", "static __device__ __attribute__((noinline))"),
        ('extern "C" __global__', 'extern "C" __global__ __attribute__((amdgpu_waves_per_eu(2)))'),
        ('extern "C" __global__', '__device__ int more;\nextern "C" __global__'),
        ("int get() override", "__attribute__((cold)) int get() override"),
    ],
)
def test_each_change_of_the_program_matters(lab: Lab, old: str, new: str) -> None:
    before = bitcode.read(front_end(lab, "k.hip"), CUID)
    lab.write("k.hip", SOURCE.replace(old, new, 1))
    after = bitcode.read(front_end(lab, lab.root / "k.hip"), CUID)
    assert after.digest != before.digest
    assert after.neutral != before.neutral or not before.neutral


def test_no_bit_is_left_out_that_the_module_would_show(lab: Lab) -> None:
    """Each bit is turned in its turn: where that leaves the digest as it was, the module reads as before."""

    def module(content: bytes) -> tuple[int, str]:
        command = [LLVM[lab.version] / "bin" / "llvm-dis", "-", "-o", "-"]
        done = subprocess.run(command, input=content, capture_output=True, check=False)
        return done.returncode, re.sub(r"source_filename.*|; ModuleID.*", "", done.stdout.decode(errors="replace"))

    content = front_end(lab, "k.hip")
    before, reads = bitcode.read(content, CUID), module(content)
    places = range(len(content) * 8) if FULL else random.Random(5).sample(range(len(content) * 8), 2000)
    same = 0
    for place in places:
        turned = bytearray(content)
        turned[place >> 3] ^= 1 << (place & 7)
        after = bitcode.read(bytes(turned), CUID)
        if after.digest == before.digest or (before.neutral and after.neutral == before.neutral):
            same += 1
            status, text = module(bytes(turned))
            assert status or (status, text) == reads, f"bit {place}"
    assert same, "the source's name is left out"


def test_what_is_no_bitcode_is_taken_as_it_stands(lab: Lab) -> None:
    content = front_end(lab, "k.hip")
    for size in [0, 3, 4, 8, 20, 100, len(content) // 2, len(content) - 8]:
        found = bitcode.read(content[:size], "another")
        assert found.digest in (
            digest_bytes(content[:size]),
            bitcode.read(content[:size] + b"\0\0\0\0", "another").digest,
        )
    assert bitcode.read(b"\x0b\x17\xc0\xde" + content, "another").digest == digest_bytes(b"\x0b\x17\xc0\xde" + content)


def test_the_cuid_is_told_apart_where_a_variable_alone_has_it(lab: Lab) -> None:
    one, two = (bitcode.read(front_end(lab, "k.hip", cuid=cuid), cuid) for cuid in (CUID, "aaaa"))
    if int(lab.version) < 18:
        assert (one, one.neutral) == (two, "")
    else:
        assert one.digest != two.digest
        assert one.neutral == two.neutral != ""
    lab.write("k.hip", SOURCE + f"__device__ int x{HASH};\n")
    assert bitcode.read(front_end(lab, "k.hip"), CUID).neutral == ""


@pytest.mark.parametrize("flags", [(), ("-g",), ("-O0", "-fdata-sections"), ("-g", "-gz")], ids=" ".join)
def test_a_back_end_serves_every_spelling_and_cuid(lab: Lab, flags: tuple[str, ...]) -> None:
    """The objects are plain clang's with the same CUID."""
    assert lab.compile("-cuid=first", *flags).counted.back_ends == 2
    for cuid in ("first", "second", "third"):
        absolute = lab.compile(f"-cuid={cuid}", *flags, source=lab.root / "k.hip")
        relative = lab.compile(f"-cuid={cuid}", *flags)
        if "-g" not in flags:  # whose names of files differ
            assert absolute.counted.back_ends == 0
            assert absolute.counted.missed in ({"host"}, frozenset())
        if "-gz" not in flags or cuid == "first":
            assert relative.counted.back_ends == 0


@since_18
def test_a_program_that_has_the_hash_itself_is_compiled_for_each_cuid(lab: Lab) -> None:
    lab.write("k.hip", SOURCE + f'__device__ char text[] = "{HASH}";\n')
    lab.compile(f"-cuid={CUID}")
    assert lab.compile("-cuid=other").counted.back_ends == 2
    assert lab.compile(f"-cuid={CUID}").outcome == HIT
    assert lab.compile("-cuid=third").counted.back_ends == 0


@only_19
def test_statics_that_the_host_must_find_are_plain_clangs(lab: Lab) -> None:
    lab.write("k.hip", SOURCE + STATIC)
    for cuid in ("first", "second"):
        lab.compile(f"-cuid={cuid}")


@only_19
def test_what_another_back_end_said_is_said_again(lab: Lab) -> None:
    loop = '#pragma unroll\nfor (int i = 0; i < n; i++) if (p[i] == n) asm volatile("s_nop 1");\n'
    lab.write("k.hip", SOURCE + f"__global__ void loop(int* p, int n) {{\n{loop}}}\n")
    assert "loop not unrolled" in lab.compile("-cuid=first").messages
    assert lab.compile("-cuid=second").counted.back_ends == 0


@pytest.mark.files
@only_19
@pytest.mark.parametrize("damage", [b"", b"damaged"])
def test_an_object_that_the_store_has_lost_is_compiled_again(lab: Lab, damage: bytes) -> None:
    lab.compile("-cuid=first")
    for blob in [path for path in (lab.store / "v2" / "blobs").rglob("*") if path.is_file()]:
        blob.write_bytes(damage) if damage else blob.unlink()
    assert lab.compile("-cuid=second").counted.back_ends == 2


@since_18
@pytest.mark.parametrize("name", ["f", "1", "{hash}_x", "__hip_cuid_{hash}_x", '"__hip_cuid_{hash}"'])
def test_what_is_named_like_a_part_of_the_cuid_keeps_its_name(lab: Lab, name: str) -> None:
    """Of an object LLVM keeps a name that ends another one within that one."""
    cuid = next(
        f"cuid{number}" for number in range(1000) if clangs_hash(f"cuid{number}").endswith(name[:1]) or name[1:]
    )
    named = name.format(hash=clangs_hash(cuid))
    is_text = named.startswith('"')
    form = "__device__ char text[] = {};\n" if is_text else '__device__ int number asm("{}");\n'
    lab.write("k.hip", SOURCE + form.format(named))
    for other in (cuid, "other", "third"):
        lab.compile(f"-cuid={other}")


@since_18
def test_a_devices_code_alone_is_there_with_every_cuid(lab: Lab) -> None:
    alone = ("--cuda-device-only", "--no-gpu-bundle-output", "--offload-arch=gfx906")
    for cuid in ("first", "second", "second"):
        lab.compile(f"-cuid={cuid}")
        lab.compile(f"-cuid={cuid}", *alone)


@since_18
def test_a_script_in_the_place_of_the_linker_runs_for_every_cuid(lab: Lab) -> None:
    """It says what it has linked, behind it."""
    linked = '"$@" || exit 1\nwhile [ "$1" != -o ]; do shift; done\nsha256sum <"$2" >>"$2"\n'
    (lab.root.parent / "bin").mkdir()
    script(lab.root.parent / "bin" / "lld", f"{LLVM[lab.version]}/bin/lld {linked}")
    for cuid in ("first", "second", "third"):
        lab.compile(f"-cuid={cuid}", "-B", lab.root.parent / "bin")
