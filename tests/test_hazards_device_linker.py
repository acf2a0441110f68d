"""Never a wrong object through files and options that the user gives the device linker (-Xoffload-linker)."""

from __future__ import annotations

import pytest
from hip import HIT, PASSED_THROUGH, Lab
from programs import Program

pytestmark = [pytest.mark.takes_turns("lab"), pytest.mark.archs(1)]

ARCH = "--offload-arch=gfx906"
USER = """#include "hip_in_short.hpp"
__device__ int dv(int);
extern "C" __global__ void kernel(int* p) { p[0] = dv(p[1]); }
"""


def bitcode(lab: Lab, number: int, *flags: str) -> None:
    lab.write("b.hip", f'#include "hip_in_short.hpp"\n__device__ int dv(int x) {{ return x * {number}; }}\n')
    words = [lab.compiler, ARCH, "-nogpuinc", "-nogpulib", "-O2", "-cuid=b", "-fgpu-rdc", *flags]
    alone = ("--cuda-device-only", "--no-gpu-bundle-output", "-emit-llvm")
    assert lab.run([*words, *alone, "-c", "b.hip", "-o", "b.bc"]).status == 0


def archive(lab: Lab, kind: str) -> None:
    (lab.root / "dev.a").unlink(missing_ok=True)
    assert lab.run([f"llvm-ar-{lab.version}", kind, "dev.a", "b.bc"]).status == 0


def give(lab: Lab, how: str) -> tuple[str, ...]:
    """What the device linker gets for it to read b.bc."""
    if how == "script":
        lab.write("dev.ld", "INPUT(b.bc)\n")
    elif how != "file":
        archive(lab, "rcs" if how == "archive" else "rcsT")
    return ("-Xoffload-linker", {"file": "b.bc", "script": "dev.ld"}.get(how, "dev.a"))


@pytest.mark.parametrize("how", ["file", "archive"])
def test_a_file_for_the_device_linker_is_seen(lab: Lab, how: str) -> None:
    lab.write("k.hip", USER)
    bitcode(lab, 5)
    before = lab.warm(*give(lab, how))
    bitcode(lab, 7)
    lab.changed(before, *give(lab, how))


@pytest.mark.parametrize("how", ["script", "thin archive"])
def test_a_file_that_names_others_is_left_to_the_compiler(lab: Lab, how: str) -> None:
    lab.write("k.hip", USER)
    bitcode(lab, 5)
    words = give(lab, how)
    before = lab.compile(*words)
    assert (before.outcome, before.counted.reason) == (PASSED_THROUGH, "linker_option")
    bitcode(lab, 7)
    lab.changed(before, *words)


def test_a_file_that_becomes_a_script_is_left_to_the_compiler(lab: Lab) -> None:
    lab.write("k.hip", USER)
    bitcode(lab, 5)
    lab.write("object", (lab.root / "b.bc").read_bytes())
    before = lab.warm("-Xoffload-linker", "object")
    bitcode(lab, 7)
    lab.write("object", "INPUT(b.bc)\n")
    after = lab.changed(before, "-Xoffload-linker", "object")
    assert after.outcome == PASSED_THROUGH
    bitcode(lab, 9)
    lab.changed(after, "-Xoffload-linker", "object")


@pytest.mark.parametrize("how", ["file", "script", "thin archive"])
def test_so_it_is_in_links_of_relocatable_device_code(lab: Lab, how: str) -> None:
    program = Program(lab, (), (ARCH,))
    program.build()
    lab.write("one.hip", USER + "int host() { return 0; }\nvoid* other_address() { return nullptr; }\n")
    words = [lab.compiler, ARCH, "-nogpuinc", "-nogpulib", "-O2", "-cuid=one", "-fgpu-rdc"]
    assert lab.run([*words, "-c", "one.hip", "-o", "one.o"]).status == 0
    bitcode(lab, 5)
    more = ("one.o", "main.o", *give(lab, how))
    program.link(*more)
    first, counted = program.link(*more)
    assert first
    assert (counted.outcome, counted.reason) == ((HIT, "") if how == "file" else (PASSED_THROUGH, "linker_option"))
    bitcode(lab, 7)
    second, _ = program.link(*more)
    assert second != first
