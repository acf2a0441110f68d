"""Words of a link that have in them what may end a line: the program is plain clang's."""

from __future__ import annotations

from pathlib import Path

import pytest
from at_once import both
from hip import HIT, PASSED_THROUGH, Lab, kernel, only_19
from programs import Program, pack
from rdc_program import NEW, OLD, OLD_19, Sources, sources

__all__ = ["sources"]

SEPARATORS = ("\x85", "\u2028", "\f", "\r", "\n")


@pytest.mark.parametrize("driver", [NEW, OLD_19, OLD], ids=["new", "19", "15"])
def test_what_stands_behind_such_a_word_is_linked(tmp_path: Path, driver: tuple[str, tuple[str, ...]]) -> None:
    lab = Lab.make(tmp_path, driver[0])
    program = Program(lab, driver[1])
    program.build()
    for separator in SEPARATORS:
        program.link("one.o", f"-Wl,-rpath,/opt/a{separator}b", "two.o", "main.o")
        _, counted = program.link("one.o", f"-Wl,-rpath,/opt/a{separator}b", "two.o", "main.o")
        if separator == "\n":
            assert (counted.outcome, counted.reason) == (PASSED_THROUGH, "plan")
        else:
            assert counted.outcome == HIT


@pytest.mark.parametrize("driver", [NEW, OLD_19], ids=["new", "19"])
def test_what_lies_in_such_a_directory_is_linked(tmp_path: Path, driver: tuple[str, tuple[str, ...]]) -> None:
    lab = Lab.make(tmp_path, driver[0])
    program = Program(lab, driver[1])
    program.build()
    lab.write("own.hip", '#include "hip_in_short.hpp"\nextern "C" __global__ void own(int* p) { p[0] = 3; }\n')
    words = [lab.compiler, *program.archs, "-nogpuinc", "-nogpulib", "-cuid=own", "-fgpu-rdc", *driver[1]]
    for separator in SEPARATORS:
        directory = lab.root / f"caf{separator}"
        directory.mkdir()
        assert lab.run([*words, "-c", "own.hip", "-o", directory / "own.o"]).status == 0
        for _ in range(2):
            made, _ = program.link("one.o", "two.o", f"{directory.name}/own.o", "main.o")
            assert b"\0own.kd\0" in made
        pack(lab, f"{directory.name}/own.o", library=f"{directory.name}/libown.a")
        program.link("one.o", "two.o", "main.o", f"-L{directory.name}", "-lown")


@pytest.mark.parametrize("sources", [OLD, NEW, OLD_19], indirect=True, ids=["15", "new", "19"])
def test_a_program_of_relocatable_code_is_linked(sources: Sources) -> None:
    for separator in SEPARATORS:
        found = sources.both("one.hip", f"-Wl,-rpath,/opt/a{separator}b")
        assert found.ended.status == 0
        assert (found.counted.outcome == PASSED_THROUGH) == (separator == "\n")


@only_19
def test_a_program_is_linked(lab: Lab) -> None:
    lab.write("k.hip", kernel("1"))
    for separator in SEPARATORS:
        found = both(lab, "k.hip", f"-Wl,-rpath,/opt/a{separator}b", "-shared", "-fPIC", libraries=("-no-hip-rt",))
        assert found.ended.status == 0
        assert (found.counted.outcome == PASSED_THROUGH) == (separator == "\n")
