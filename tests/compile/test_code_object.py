"""A code object with another CUID is the one that clang's linker makes, to the byte; any other layout is refused."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path

import pytest
from hip import COMPILERS
from hipcache.clang.bitcode import names_in_object
from hipcache.clang.code_object import renamed

KERNEL = "__attribute__((global)) void kernel%d(int* p) { p[0] = %d; }\n"
VARIABLE = "__attribute__((device)) int variable%d = %d;\n"
OUTSIDE = (
    'extern "C" __attribute__((device, weak)) int outside(int);\n__attribute__((device)) int (*table)(int) = outside;\n'
)
SOURCES = {
    "empty": "int host;\n",
    "kernel": KERNEL % (1, 1),
    "many": "".join(KERNEL % (n, n) + VARIABLE % (n, n) for n in range(40)),
    "weak": OUTSIDE + KERNEL % (1, 1),
}
FLAGS = ["-O0", "-O2 -fPIC", "-O2 -ffunction-sections -fdata-sections", "-O2 -fvisibility=default"]


def linked(directory: Path, version: str, source: str, flags: str, cuid: str) -> bytes:
    (directory / "k.hip").write_text(SOURCES[source])
    words = [
        f"clang++-{version}",
        "-nogpuinc",
        "-nogpulib",
        "--offload-arch=gfx906",
        "--cuda-device-only",
        "--no-gpu-bundle-output",
    ]
    subprocess.run([*words, *flags.split(), f"-cuid={cuid}", "-c", "k.hip", "-o", "k.co"], cwd=directory, check=True)
    return (directory / "k.co").read_bytes()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("version", [version for version in COMPILERS if int(version) >= 18])
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_renamed_code_object_is_the_linkers_own(source: str, flags: str, version: str, tmp_path: Path) -> None:
    made = linked(tmp_path, version, source, flags, "the first one")
    old = names_in_object(made)
    assert len(old) == 16
    for number in range(4):
        wanted = linked(tmp_path, version, source, flags, f"another {number}")
        assert renamed(made, old, names_in_object(wanted)) == wanted


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return linked(tmp_path_factory.mktemp("code"), COMPILERS[-1], "many", "-O2", "1")


def test_a_name_of_another_length_is_refused(code: bytes) -> None:
    assert renamed(code, names_in_object(code), b"0" * 15) is None


def test_a_name_that_is_there_is_refused(code: bytes) -> None:
    assert renamed(code, names_in_object(code), names_in_object(code)) is None


def test_what_is_no_code_object_is_refused(code: bytes) -> None:
    for content in (b"", b"\x7fELF", code[:64], Path("/bin/true").read_bytes()):
        assert renamed(content, b"0" * 16, b"1" * 16) is None


def test_damage_is_refused_or_stays(code: bytes) -> None:
    """No error comes out of it, and what is made differs from the damaged one in the tables and the name alone."""
    draw = random.Random(1)
    old = names_in_object(code)
    for _ in range(300):
        damaged = bytearray(code)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        made = renamed(bytes(damaged), old, b"0" * 16)
        assert made is None or len(made) == len(code)


@pytest.mark.parametrize("value", [0, 1, 1 << 31, (1 << 63) - 1, (1 << 64) - 1])
def test_any_number_in_a_section_header_is_refused_or_stays(code: bytes, value: int) -> None:
    (table,) = struct.unpack_from("<Q", code, 40)
    (count,) = struct.unpack_from("<H", code, 60)
    for section in range(count):
        for field, form in ((4, "I"), (24, "Q"), (32, "Q"), (40, "I")):
            damaged = bytearray(code)
            struct.pack_into(
                f"<{form}", damaged, table + section * 64 + field, value & (1 << 8 * struct.calcsize(form)) - 1
            )
            made = renamed(bytes(damaged), names_in_object(code), b"0" * 16)
            assert made is None or len(made) == len(code)
