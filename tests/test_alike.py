"""What makes two front ends alike is in the text that clang's preprocessor writes."""

from __future__ import annotations

import subprocess

import pytest
from hip import LLVM
from hipcache.inputs.keys import make_key
from hipcache.planning import alike
from hipcache.planning.cc1 import parse
from hipcache.planning.frontend import FrontEnd
from hipcache.planning.jobs import Cc1Job

# All that reach the code. Those that only the preprocessor obeys (push_macro, poison) show by what follows them.
PRAGMAS = """\
clang optimize off
clang fp contract(off)
clang fp reassociate(on)
STDC FP_CONTRACT OFF
STDC FENV_ACCESS ON
float_control(precise, on)
pack(1)
weak symbol
redefine_extname symbol other
GCC visibility push(default)
clang force_cuda_host_device begin
clang attribute push(__attribute__((noinline)), apply_to=function)
clang loop unroll(full)
unroll 4
nounroll
clang section bss="x"
comment(lib, "x")
ms_struct on
options align=packed
OPENCL EXTENSION cl_khr_fp64 : enable
""".splitlines()


@pytest.mark.parametrize("version", LLVM)
def test_the_text_shows_each_pragma_that_reaches_the_code(version: str) -> None:
    lines = "".join(f"#ifdef __gfx1031__\n#pragma {one}\n#endif\nint after_{n};\n" for n, one in enumerate(PRAGMAS))
    shown = []
    for arch in ("gfx1030", "gfx1031"):
        words = ["-cc1", "-triple", "amdgcn-amd-amdhsa", "-fcuda-is-device", "-target-cpu", arch, "-E", "-dD"]
        argv = [str(LLVM[version] / "bin" / "clang"), *words, "-x", "hip", "-"]
        done = subprocess.run(argv, input=lines.encode(), capture_output=True, check=True, timeout=60)
        shown.append(alike.neutral(done.stdout, arch).decode())
    texts = [text.split("int after_") for text in shown]
    same = [pragma for pragma, one, other in zip(PRAGMAS, *texts, strict=False) if one == other]
    assert not same


def front(*options: str, cpu: str = "gfx1030") -> FrontEnd:
    words = ("-cc1", "-triple", "amdgcn-amd-amdhsa", "-emit-obj", "-fcuda-is-device", "-target-cpu", cpu, *options)
    job = Cc1Job("clang", parse((*words, "-o", f"k-{cpu}.o", "-x", "hip", "k.hip")))
    library = [(f"bitcode oclc_isa_version_{cpu[3:]}.bc", f"digest of {cpu}")]
    return FrontEnd(job, make_key("device", [("compiler", "clang 15"), *library]), "")


def kinds(*options: str, others: tuple[str, ...] = (), cpu: str = "gfx1031") -> tuple[alike.Kind, alike.Kind]:
    one, other = alike.kind(front(*options)), alike.kind(front(*(others or options), cpu=cpu))
    assert one is not None
    assert other is not None
    return one, other


def test_the_name_and_the_number_alone_may_differ() -> None:
    libraries = ("-mlink-builtin-bitcode", "/libs/ocml.bc", "-mlink-builtin-bitcode", "/libs/oclc_isa_version_1030.bc")
    others = (*libraries[:3], "/libs/oclc_isa_version_1031.bc")
    one, other = kinds("-O2", "-DX=1", *libraries, others=("-O2", "-DX=1", *others))
    assert one.key == other.key
    assert (one.library, other.library) == ("digest of gfx1030", "digest of gfx1031")
    assert alike.trust_key(front(), one, other, "", False) == alike.trust_key(front(), other, one, "", False)
    assert alike.trust_key(front(), one, other, "", False) != alike.trust_key(front(), one, other, "", True)


@pytest.mark.parametrize("others", [("-O3",), ("-O2", "-DX=1"), ("-O2", "-target-feature", "+xnack")])
def test_another_option_makes_another_kind(others: tuple[str, ...]) -> None:
    one, other = kinds("-O2", others=others)
    assert one.key != other.key


def test_the_library_of_another_gpu_makes_another_kind() -> None:
    one, other = kinds("-mlink-builtin-bitcode", "/libs/oclc_isa_version_1030.bc")
    assert one.key != other.key


def test_names_of_another_length_make_another_kind() -> None:
    one, other = kinds(cpu="gfx906")
    assert one.key != other.key


@pytest.mark.parametrize("option", ["-debug-info-kind=limited", "-Rpass=inline", "-S", "-P", "-C", "-Wdocumentation"])
def test_output_of_more_than_the_text_has_no_kind(option: str) -> None:
    assert alike.kind(front(option)) is None


@pytest.mark.parametrize("cpu", ["generic", "gfx9-generic", "gfx9"])
def test_a_gpu_without_a_number_has_no_kind(cpu: str) -> None:
    assert alike.kind(front(cpu=cpu)) is None


def test_a_text_that_may_ask_for_the_gpu() -> None:
    assert alike.may_ask(b'if (__builtin_amdgcn_processor_is("gfx1030")) {}')
    assert alike.may_ask(b'__attribute__((__target__ ("arch=gfx900")))')
    assert alike.may_ask(b'__attribute__((target(\n# 1 "./arch.inc" 1\n"arch=gfx900"\n# 3 "k.hip" 2\n)))')
    assert alike.may_ask(b'__attribute__((target\n# 30 "k.hip"\n("arch=gfx900")))')
    assert alike.may_ask(b'__attribute__((target(("arch=gfx900"))))')
    assert alike.may_ask(b"#pragma clang attribute push(__attribute__((target(T))), apply_to = function)")
    assert alike.may_ask(b"extern const int __oclc_ISA_version = 10300;")
    assert not alike.may_ask(b"Node* target(int at); Node* next = target(3);")
    assert alike.may_ask(b"int column = __builtin_COLUMN();")
    assert not alike.may_ask(b"_Functor* target() noexcept; processor")


def test_the_number_is_that_of_the_devices_library_alone() -> None:
    libraries = ("-mlink-builtin-bitcode", "/libs/oclc_isa_version_1030.bc")
    one, other = kinds(*libraries, others=(libraries[0], "/libs/oclc_isa_version_1031.bc"))
    line = b"@__oclc_ISA_version = internal addrspace(4) constant i32 10300, align 4\n"
    assert alike.number_in(b"; a\n" + line, one) == 10300
    assert alike.number(other.arch) == 10301
    assert alike.number_in(line.replace(b"@__", b"@about__"), one) is None
    assert alike.number_in(line, kinds()[0]) is None


def test_clangs_own_macros_alone_lose_the_name() -> None:
    own = b'# 1 "<built-in>" 1\n#define __gfx1030__ 1\n# 1 "<command line>" 1\n'
    assert alike.neutral(own + b"int gfx1030;", "gfx1030") == own.replace(b"gfx1030", b"gfx") + b"int gfx1030;"
    assert alike.neutral(b"int x;", "gfx1030") == b""
