"""A spliced object is the one that clang writes, to the byte; what is not laid out as LLVM does it is refused."""

from __future__ import annotations

import contextlib
import random
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hip import COMPILERS
from hipcache.clang.host_object import PLACEHOLDER, UnknownObject, has_fat_binary, splice

KERNEL = """\
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*);
extern "C" unsigned __hipPushCallConfiguration(dim3, dim3, unsigned long = 0, void* = nullptr);
extern "C" unsigned __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, void*);
"""
SOURCES = {
    "kernel": KERNEL
    + "__global__ void kernel(int* p) { p[0] = 1; } static int table[100]; int* host() { return table; }\n",
    "many": KERNEL
    + "template <int N> __global__ void kernel(int* p) { p[0] = N; }\n"
    + 'thread_local int t = 3; int zero[5000]; alignas(256) int far[64] = {1}; const char* s = "text";\n'
    + "struct S { S(); ~S(); }; S global; __device__ int variable = 4;\n"
    + "".join(
        f"template __global__ void kernel<{n}>(int*); int f{n}(int a) {{ return a + {n}; }}\n" for n in range(20)
    ),
    "none": "int host() { return 1; }\n",
}
FLAGS = {
    "O0": ["-O0"],
    "O2": ["-O2"],
    "O3 fPIC": ["-O3", "-fPIC"],
    "g": ["-g"],
    "gz": ["-g", "-gz", "-O2"],
    "g4": ["-gdwarf-4", "-O2"],
    "sections": ["-O2", "-ffunction-sections", "-fdata-sections"],
    "temporary labels": ["-O2", "-g", "-Wa,-L"],
    "no addrsig": ["-O2", "-fno-addrsig"],
    "no unwind": ["-O2", "-fno-asynchronous-unwind-tables", "-fno-exceptions"],
}
FAT_BINARIES = {
    "1": b"f",
    "7": b"\0" * 7,
    "4095": b"f" * 4095,
    "4096": bytes(range(256)) * 16,
    "4097": b"f" * 4097,
    "100K": b"f" * 100_003,
}

Compile = Callable[[bytes], bytes]


def host_pass(directory: Path, version: str, source: str, flags: list[str]) -> Compile:
    """Compiles the source for the host with any gpubinary, by the words of the driver's own plan."""
    (directory / "k.hip").write_text(source)
    done = subprocess.run(
        [
            f"clang++-{version}", "-###", "-nogpuinc", "-nogpulib", "--offload-arch=gfx906", "-cuid=1",
            *flags, "-c", "k.hip", "-o", "k.o",
        ],
        cwd=directory, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (line,) = [line for line in done.stderr.splitlines() if "-fcuda-include-gpubinary" in line]
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r' "((?:[^"\\]|\\.)*)"', line)]
    words[words.index("-fcuda-include-gpubinary") + 1] = "fat"

    def compile(fat_binary: bytes) -> bytes:
        (directory / "fat").write_bytes(fat_binary)
        subprocess.run(words, cwd=directory, check=True, capture_output=True)
        return (directory / "k.o").read_bytes()

    return compile


@pytest.mark.sampled(3)
@pytest.mark.parametrize("version", COMPILERS)
@pytest.mark.parametrize("kind", FLAGS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_spliced_object_is_clangs_own(source: str, kind: str, version: str, tmp_path: Path) -> None:
    compile = host_pass(tmp_path, version, SOURCES[source], FLAGS[kind])
    template = compile(PLACEHOLDER)
    assert splice(template, PLACEHOLDER) == template
    assert has_fat_binary(template) == (source != "none")
    for fat_binary in (FAT_BINARIES["4095"], FAT_BINARIES["100K"]):
        assert splice(template, fat_binary) == compile(fat_binary)


@pytest.fixture(params=COMPILERS)
def compile(request: pytest.FixtureRequest, tmp_path: Path) -> Compile:
    return host_pass(tmp_path, request.param, SOURCES["kernel"], ["-O2", "-g"])


@pytest.mark.parametrize("size", FAT_BINARIES)
def test_a_fat_binary_of_any_size_fits(size: str, compile: Compile) -> None:
    assert splice(compile(PLACEHOLDER), FAT_BINARIES[size]) == compile(FAT_BINARIES[size])


def test_an_object_without_a_fat_binary_stays_as_it_is(tmp_path: Path) -> None:
    template = host_pass(tmp_path, COMPILERS[0], SOURCES["none"], ["-O2"])(PLACEHOLDER)
    assert splice(template, b"fat binary") == template


# Objects that are something else


def test_a_section_that_does_not_begin_with_the_placeholder_is_refused(compile: Compile) -> None:
    with pytest.raises(UnknownObject):
        splice(compile(b"another" + PLACEHOLDER[:-7]), b"fat binary")


def test_a_placeholder_that_stands_twice_is_refused(compile: Compile) -> None:
    with pytest.raises(UnknownObject, match="exactly once"):
        splice(compile(PLACEHOLDER * 2), b"fat binary")


def test_a_placeholder_outside_of_its_section_is_refused(compile: Compile) -> None:
    with pytest.raises(UnknownObject):
        splice(compile(PLACEHOLDER).replace(b".hip_fatbin\0", b".other_name\0"), b"fat binary")


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"BC\xc0\xde" + b"\0" * 100, b"\x7fELF\x02\x01" + b"\0" * 58])
def test_what_is_no_object_is_refused(content: bytes) -> None:
    with pytest.raises(UnknownObject):
        splice(content, b"fat binary")


def test_a_linked_program_is_refused() -> None:
    with pytest.raises(UnknownObject):
        splice(Path("/bin/true").read_bytes(), b"fat binary")


def test_a_section_that_was_moved_is_refused(compile: Compile) -> None:
    """Bytes between sections that the layout does not explain."""
    template = bytearray(compile(PLACEHOLDER))
    (table,) = struct.unpack_from("<Q", template, 40)
    struct.pack_into("<Q", template, 40, table + 8)
    with pytest.raises(UnknownObject):
        splice(bytes(template[:table] + b"\0" * 8 + template[table:]), b"fat binary")


# Damage


def spliced_or_refused(template: bytes) -> None:
    """Nothing but UnknownObject may be raised, and no object may be out of all proportion."""
    with contextlib.suppress(UnknownObject):
        assert len(splice(template, b"fat binary")) <= 2 * len(template) + 1000


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return host_pass(tmp_path_factory.mktemp("template"), COMPILERS[0], SOURCES["kernel"], ["-O2", "-g", "-gz"])(
        PLACEHOLDER
    )


def test_an_object_cut_at_any_length_is_refused(template: bytes) -> None:
    for length in [*range(0, 200), *range(200, len(template), 13), *range(len(template) - 100, len(template))]:
        with pytest.raises(UnknownObject):
            splice(template[:length], b"fat binary")


def test_flipped_bits_are_refused_or_harmless(template: bytes) -> None:
    draw = random.Random(1)
    for _ in range(1500):
        damaged = bytearray(template)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        spliced_or_refused(bytes(damaged))


HUGE = [0, 1, 3, 1 << 31, 1 << 40, (1 << 62) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


@pytest.mark.parametrize("value", HUGE)
def test_any_number_in_a_section_header_is_refused_or_harmless(template: bytes, value: int) -> None:
    (table,) = struct.unpack_from("<Q", template, 40)
    (count,) = struct.unpack_from("<H", template, 60)
    for section in range(count):
        for field, form in ((0, "I"), (4, "I"), (8, "Q"), (24, "Q"), (32, "Q"), (40, "I"), (48, "Q"), (56, "Q")):
            damaged = bytearray(template)
            limit = (1 << 8 * struct.calcsize(form)) - 1
            struct.pack_into(f"<{form}", damaged, table + section * 64 + field, value & limit)
            spliced_or_refused(bytes(damaged))


@pytest.mark.parametrize("value", HUGE)
def test_any_number_in_the_file_header_is_refused_or_harmless(template: bytes, value: int) -> None:
    for field, form in (
        (16, "H"),
        (18, "H"),
        (24, "Q"),
        (32, "Q"),
        (40, "Q"),
        (52, "H"),
        (58, "H"),
        (60, "H"),
        (62, "H"),
    ):
        damaged = bytearray(template)
        struct.pack_into(f"<{form}", damaged, field, value & ((1 << 8 * struct.calcsize(form)) - 1))
        spliced_or_refused(bytes(damaged))


def test_any_alignment_of_a_compressed_section_is_refused_or_harmless(template: bytes) -> None:
    (table,) = struct.unpack_from("<Q", template, 40)
    (count,) = struct.unpack_from("<H", template, 60)
    compressed = 0
    for section in range(count):
        flags, _, offset = struct.unpack_from("<QQQ", template, table + section * 64 + 8)
        if flags & 0x800:
            compressed += 1
            for value in HUGE:
                damaged = bytearray(template)
                struct.pack_into("<Q", damaged, offset + 16, value)
                spliced_or_refused(bytes(damaged))
    assert compressed
