"""Never a wrong object where inline assembly of device code reads a file, which only its back end does."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hip import HIT, MISS, Lab, only_15, only_19
from hipcache.clang import bitcode
from programs import Program
from test_bitcode import front_end

pytestmark = pytest.mark.archs(1)

WAYS = {
    "include": '".include \\"step.inc\\""',
    "incbin": '"s_branch 1\\n.incbin \\"step.inc\\"\\n.p2align 2"',
    "capitals": '".Include \\"step.inc\\""',
    "a macro of the source": "READ(.include, step.inc)",
    "a raw string": 'R"(.include "step.inc")"',
    "a name for the character": '".\\u0069nclude \\"step.inc\\""',
    "a macro of the assembler": '".macro read name\\n.in\\\\name \\"step.inc\\"\\n.endm\\nread clude"',
    "a loop of the assembler": '".irp name, clude\\n.in\\\\name \\"step.inc\\"\\n.endr"',
}


def source(text: str) -> str:
    return f"""#include "hip_in_short.hpp"
#define READ(how, name) #how " \\"" #name "\\""
extern "C" __global__ void kernel(int* p) {{ p[0] = 1; asm volatile({text}); }}
"""


def step(lab: Lab, number: int, directory: str = ".") -> None:
    lab.write(f"{directory}/step.inc", f"s_nop {number}\n")


def both(lab: Lab, text: str, *flags: str) -> None:
    step(lab, 1)
    lab.write("k.hip", text)
    before = lab.compile(*flags)
    assert before.status == 0, before.messages
    assert lab.compile(*flags).outcome != HIT
    step(lab, 2)
    lab.changed(before, *flags)


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_assembly_of_the_device_reads_is_seen(lab: Lab, way: str) -> None:
    both(lab, source(WAYS[way]))


@pytest.mark.parametrize(
    "text",
    [
        "struct Table { void incbin(); };\nvoid fill(Table& table) { table.incbin(); }\n",
        'const char* help() { return "an assembler knows .incbin and .include FILE"; }\n',
        '#define READ(name) asm(".incbin \\"" name "\\"")\n',
    ],
)
def test_words_that_nobody_assembles_are_a_hit(lab: Lab, text: str) -> None:
    lab.write(
        "k.hip", f'#include "hip_in_short.hpp"\n{text}__global__ void kernel(int* p) {{ asm volatile("s_nop 0"); }}\n'
    )
    lab.warm('-DSHARE="/usr/share/.include/data"')


def test_assembly_of_one_architecture_alone_is_seen(lab: Lab) -> None:
    both(lab, source('"s_nop 0"') + f"#ifdef __gfx906__\n{source(WAYS['incbin']).replace('kernel', 'other')}#endif\n")


@only_19
@pytest.mark.parametrize("spelled", ["\\N{LATIN SMALL LETTER I}", "\\x{69}", "\\o{151}", "\\u{69}"])
def test_so_it_is_however_its_letters_are_spelled(lab: Lab, spelled: str) -> None:
    both(lab, source(f'".{spelled}nclude \\"step.inc\\""'), "-Wno-delimited-escape-sequence-extension")


@only_19
def test_a_directive_of_the_command_line_is_seen(lab: Lab) -> None:
    both(lab, source('HOW " \\"step.inc\\""'), '-DHOW=".include"')


@pytest.mark.parametrize("flag", ["-foffload-lto", "-foffload-lto=thin", "-g"])
def test_so_it_is_by_lto_and_with_debug_information(lab: Lab, flag: str) -> None:
    both(lab, source(WAYS["include"]), flag)


def test_two_projects_with_one_source_and_other_files_have_their_own_objects(lab: Lab) -> None:
    objects = set()
    for number, name in enumerate("ab", 1):
        step(lab, number, name)
        lab.write(f"{name}/k.hip", source(WAYS["include"]))
        lab.write(f"{name}/hip_in_short.hpp", (lab.root / "hip_in_short.hpp").read_bytes())
        made = lab.compile(cwd=lab.root / name)
        assert made.outcome == MISS
        objects.add(made.object)
    assert len(objects) == 2


@pytest.mark.parametrize("new", [False, pytest.param(True, marks=only_19)])
def test_a_file_that_a_device_link_reads_is_seen(lab: Lab, *, new: bool) -> None:
    program = Program(lab, ("--offload-new-driver",) if new else (), ("--offload-arch=gfx906",))
    program.build()
    # (The linker wrapper of hipcache runs in another directory.)
    name = lab.root / "step.inc"
    step(lab, 1)
    text = f"""#include "hip_in_short.hpp"
void* other_address() {{ return nullptr; }}
__device__ int twice(int a) {{ asm volatile(".include \\"{name}\\""); return a; }}
"""
    lab.write("two.hip", text)
    words = [lab.compiler, "--offload-arch=gfx906", "-nogpuinc", "-nogpulib", "-O2", "-cuid=two", "-fgpu-rdc"]
    assert lab.run([*words, *program.flags, "-c", "two.hip", "-o", "two.o"]).status == 0
    first, _ = program.link()
    step(lab, 2)
    second, _ = program.link()
    assert first != second


@only_19
def test_a_program_of_one_command_is_linked_anew(lab: Lab) -> None:
    program = Program(lab, ("-O2", "-nogpuinc", "-nogpulib", "-cuid=p"), ("--offload-arch=gfx906",))
    program.build()
    lab.write("p.hip", source(WAYS["include"]) + "int main() {}\n")
    made = []
    for number in (1, 2):
        step(lab, number)
        words = [lab.compiler, *program.archs, *program.flags, "-fgpu-rdc", "p.hip", "-no-hip-rt", "-L.", "-lruntime"]
        made.append(lab.same([*words, "-Wl,-z,noexecstack", "-o", "out.o"]).object)
    assert made[0] != made[1]


@only_15
def test_other_assembly_of_a_kernel_is_kept(lab: Lab) -> None:
    lab.write("k.hip", source('"v_add_u32 v0, s0, v0 ; for headers"'))
    lab.warm()
    lab.write("k.hip", (lab.root / "k.hip").read_text() + "int host;\n")
    assert lab.compile().counted.missed == {"host"}


def test_its_letters_are_found_at_each_bit(tmp_path: Path) -> None:
    file = tmp_path / "module.bc"
    for shift, text in itertools.product(range(8), (b".include", b".INCBIN", b".irpc", b".inc$0")):
        bits = sum(((char & 31 | 32) | char >> 5 << 6) << 12 * number for number, char in enumerate(text))
        file.write_bytes(b"BC" + (bits << shift | 1 << 150).to_bytes(20, "little"))
        assert bitcode.may_include(file)
    file.write_bytes(b".include .incbin .macro" * 100)
    assert not bitcode.may_include(file)


@only_15
def test_other_texts_of_a_module_are_no_assembly(lab: Lab, tmp_path: Path) -> None:
    """The name of a section has no abbreviation, either; nor has "funclet", which LLVM 23 writes into each module."""
    named = '__device__ __attribute__((section("funclet.include"))) int of_section;\n'
    quiet, loud = "s_nop 1 ; in a section", ".in\\\\name \\n.macro no \\n.endm"
    for text, reads in ((quiet, False), (loud, True)):
        lab.write("k.hip", source(f'"{text}"') + named)
        content = front_end(lab, "k.hip")
        assert any(row in content for row in bitcode._directive_rows())
        for before in (b"", b"!<arch>\n", b"BC\xc0\xde", b"odd"):
            file = tmp_path / "module.bc"
            file.write_bytes(before + content + before)
            assert bitcode.may_include(file) == reads
        file.write_bytes(content + b"".join(bitcode._directive_rows()))
        assert bitcode.may_include(file)
