"""A lab with a source of the GPU's assembler."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hip import HIT, LAUNCHER, LLVM, MISS, Compiled, Lab, script
from hipcache.clang import assembler

SOURCE = (
    """\
    .text
    .globl kernel
    .p2align 8
    .type kernel,@function
kernel:
    s_load_dword s0, s[4:5], 0x0
    s_waitcnt lgkmcnt(0)
    v_add_u32 v0, s0, v0
    s_endpgm
"""
    + ("; " + "a line of a large kernel " * 4 + "\n") * (assembler.WORTH // 100)
)
GPU = ("-target", "amdgcn-amd-amdhsa")
AS = ("-x", "assembler", *GPU, "-mcpu=gfx90a")


def words(lab: Lab, *flags: str, source: str = "k.s", output: str = "out.o") -> list[str]:
    return [str(LLVM[lab.version] / "bin/clang"), *(flags or AS), "-c", source, "-o", output]


@pytest.fixture
def kernel(lab: Lab) -> Lab:
    lab.write("k.s", SOURCE)
    return lab


def warm(lab: Lab, command: list[str], cwd: Path | None = None) -> Compiled:
    """Served from now on, as the second one shows."""
    first = lab.same(command, cwd=cwd)
    assert (first.outcome, first.counted.missed) == (MISS, {"gfx90a"})
    second = lab.same(command, cwd=cwd)
    assert (second.outcome, second.counted.served) == (HIT, {"gfx90a"})
    return second


def is_direct(lab: Lab, command: list[str], place: Path) -> bool:
    """Does the native launcher serve it, beside an engine that does nothing?"""
    if not place.exists():
        place.mkdir()
        shutil.copy(LAUNCHER[0], place)
        script(place / "hipcache-engine", "exit 99\n")
    (lab.root / "out.o").unlink(missing_ok=True)
    ended = lab.run([place / "hipcache", *command])
    assert ended.status in (0, 99), ended.err
    assert (lab.root / "out.o").exists() == (ended.status == 0)
    lab.counted()
    return ended.status == 0
