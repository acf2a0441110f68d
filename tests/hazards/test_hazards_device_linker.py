"""Never a wrong object through files and options that the user gives the device linker (-Xoffload-linker)."""

from __future__ import annotations

import pytest
from hip import HIT, PASSED_THROUGH, Lab, only_19, with_19
from hipcache.base.errors import PassThrough
from hipcache.clang import jobs
from programs import RUNTIME, Program

pytestmark = pytest.mark.archs(1)

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
    if b"undefined" in lab.run(lab.words("-Xoffload-linker", "b.bc")).err:
        pytest.skip("this clang takes no function of another file in an object")
    before = lab.warm(*give(lab, how))
    bitcode(lab, 7)
    lab.changed(before, *give(lab, how))


@pytest.mark.parametrize("how", ["script", "thin archive"])
def test_a_file_that_names_others_is_left_to_the_compiler(lab: Lab, how: str) -> None:
    lab.write("k.hip", USER)
    bitcode(lab, 5)
    if b"undefined" in lab.run(lab.words("-Xoffload-linker", "b.bc")).err:
        pytest.skip("this clang takes no function of another file in an object")
    words = give(lab, how)
    before = lab.compile(*words)
    assert (before.outcome, before.counted.reason) == (PASSED_THROUGH, "linker_option")
    bitcode(lab, 7)
    lab.changed(before, *words)


def test_a_file_that_becomes_a_script_is_left_to_the_compiler(lab: Lab) -> None:
    lab.write("k.hip", USER)
    bitcode(lab, 5)
    if b"undefined" in lab.run(lab.words("-Xoffload-linker", "b.bc")).err:
        pytest.skip("this clang takes no function of another file in an object")
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


@pytest.mark.parametrize("flags", [("-mllvm",), ("-Xoffload-linker", "-plugin-opt=")], ids=["mllvm", "plugin-opt"])
def test_a_file_that_an_option_of_llvm_names_is_seen_in_links(lab: Lab, flags: tuple[str, ...]) -> None:
    program = Program(lab, (), (ARCH,))
    program.build()
    option = "-cgscc-inline-replay=replay.txt"
    words = (*flags, option) if flags[0] == "-mllvm" else (flags[0], flags[1] + option)
    if f"-plugin-opt={option}".encode() not in lab.run([*program.words(*words), "-###"]).err:
        pytest.skip("this clang does not hand it on to its linker")
    for word in ("inlined", "will not be inlined"):
        lab.write("replay.txt", f"two: '_Z5twicei' {word} into 'kernel' at callsite kernel:0:42;\n")
        _, counted = program.link(*words)
        assert counted.missed == {"gfx906", "link"}
    _, counted = program.link(*words)
    assert counted.outcome == HIT


@with_19
def test_a_file_that_an_option_of_llvm_names_is_left_to_the_new_driver(lab: Lab) -> None:
    program = Program(lab, ("--offload-new-driver",), (ARCH,))
    program.build()
    lab.write("replay.txt", "two: '_Z5twicei' inlined into 'kernel' at callsite kernel:0:42;\n")
    _, counted = program.link(f"-Wl,-mllvm,-cgscc-inline-replay={lab.root}/replay.txt")
    assert (counted.outcome, counted.reason) == (PASSED_THROUGH, "linker_option")


@pytest.mark.parametrize(
    ("word", "known"),
    [
        *[(f"-plugin-opt={word}", True) for word in ("mcpu=gfx906", "O3", "thinlto", "jobs=4", "-mattr=+x")],
        ("--plugin-opt=mcpu=gfx906", True),
        ("--plugin-opt=opt-remarks-format=yaml", True),
        *[(f"-plugin-opt={word}", False) for word in ("save-temps", "thinlto-index-only", "emit-asm", "O3x", "obj")],
        ("--plugin-opt=save-temps", False),
    ],
)
def test_options_of_llds_own_that_write_files_are_left_to_the_compiler(word: str, known: bool) -> None:
    arguments = ("-flavor", "gnu", word)
    if known:
        assert jobs.known_link(arguments) == arguments
        return
    with pytest.raises(PassThrough):
        jobs.known_link(arguments)


@only_19
def test_a_member_of_a_thin_library_that_gets_device_code(lab: Lab) -> None:
    """Nothing of the library itself changes."""
    lab.write("p.hip", USER.replace("dv(p[1])", "3").replace("__device__ int dv(int);\n", "") + "int main() {}\n")
    lab.write("runtime.cpp", RUNTIME)
    lab.write("e.cpp", "int e() { return 1; }\n")
    for name, output in (("runtime", "runtime.o"), ("e", "m.o")):
        assert lab.run([lab.compiler, "-c", f"{name}.cpp", "-o", output]).status == 0
    assert lab.run([f"llvm-ar-{lab.version}", "rcsDT", "libx.a", "m.o"]).status == 0
    words = [lab.compiler, ARCH, "-nogpuinc", "-nogpulib", "-no-hip-rt", "-O2", "-cuid=a", "-x", "hip", "p.hip"]
    words += ["-x", "none", "runtime.o", "-L.", "-lx", "-o", "out.o"]
    for _ in range(2):
        lab.same(words)
    lab.write("b.hip", '#include "hip_in_short.hpp"\n__device__ int dv(int x) { return x * 3; }\n')
    compiling = [
        lab.compiler,
        ARCH,
        "-nogpuinc",
        "-nogpulib",
        "-O2",
        "-cuid=b",
        "-fgpu-rdc",
        "-c",
        "b.hip",
        "-o",
        "m.o",
    ]
    assert lab.run(compiling).status == 0
    lab.same(words)
