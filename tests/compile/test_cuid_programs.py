"""Programs of several objects under hipcache's own CUIDs: they link where they do with plain clang's, and nothing in
them becomes one that is two (`scripts/fuzz_programs.py` has more of them)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hip import BARE, HIP_IN_SHORT, HIT, Lab, only_19, settle

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from fuzz_programs import symbols_of

pytestmark = pytest.mark.archs(1)

STATIC = """\
#include "hip_in_short.hpp"
static __global__ void fill(int* p) {{ p[0] = {number}; }}
__attribute__((used)) static void* kept() {{ return (void*)fill; }}
"""
RDC = ("-fgpu-rdc",)


@pytest.fixture
def bare(lab: Lab) -> Lab:
    lab.write("inc/hip_in_short.hpp", HIP_IN_SHORT)
    return lab


def words(lab: Lab, *more: str) -> list[str]:
    return [lab.compiler, "--offload-arch=gfx906", *BARE, "-x", "hip", "-fPIC", "-O1", f"-I{lab.root}/inc", *more]


def link(lab: Lab, objects: Sequence[str], *rdc: str) -> dict[str, int]:
    """The kernels of the program, by name."""
    device = [*rdc, "--hip-link", "--offload-arch=gfx906", "-nogpulib"] if rdc else []
    line = [lab.compiler, *device, *objects, "-shared", "-no-hip-rt", "-Wl,--unresolved-symbols=ignore-all"]
    ended = lab.run([*line, "-o", "program.so"])
    assert ended.status == 0, ended.err
    found = symbols_of((lab.root / "program.so").read_bytes(), lab.root)
    return {name: number for name, number in found.items() if name.endswith(".kd")}


@pytest.mark.parametrize("rdc", [(), RDC], ids=["", "rdc"])
@pytest.mark.parametrize("top", [".git", ""], ids=["submodules", "working copies"])
def test_sources_of_one_name_in_two_working_copies_are_two(bare: Lab, top: str, rdc: tuple[str, ...]) -> None:
    if top:
        (bare.root / top).mkdir()
    for number, name in enumerate(("a", "b")):
        bare.write(f"{name}/src/k.hip", STATIC.format(number=number))
        (bare.root / name / ".git").mkdir()
        assert bare.hipcache(*words(bare, *rdc, "-c", "src/k.hip", "-o", "k.o"), cwd=bare.root / name).status == 0
    assert list(link(bare, ["a/k.o", "b/k.o"], *rdc).values()) == [2]


@pytest.mark.parametrize("rdc", [(), RDC], ids=["", "rdc"])
def test_a_source_that_is_compiled_twice_with_other_options_to_one_name_is_two(bare: Lab, rdc: tuple[str, ...]) -> None:
    bare.write("k.hip", STATIC.format(number="NUMBER").replace("#include", '#include "number.hpp"\n#include', 1))
    objects = []
    for number in ("1", "2"):
        bare.write(f"n{number}/number.hpp", f"#define NUMBER {number}\n")
        assert bare.hipcache(*words(bare, *rdc, f"-In{number}", "-c", "k.hip", "-o", "k.o")).status == 0
        (bare.root / "k.o").rename(bare.root / f"moved{number}.o")
        objects.append(f"moved{number}.o")
    assert list(link(bare, objects, *rdc).values()) == [2]


@only_19
def test_sources_of_one_name_and_text_in_one_command_are_two(bare: Lab) -> None:
    for name in ("a", "b"):
        bare.write(f"{name}/k.hip", STATIC.format(number=1))
        (bare.root / name / ".git").mkdir()
    (bare.root / "build").mkdir()
    line = words(bare, "../a/k.hip", "../b/k.hip", "-shared", "-no-hip-rt", "-Wl,--unresolved-symbols=ignore-all")
    ended = bare.hipcache(*line, "-o", "program.so", cwd=bare.root / "build")
    assert ended.status == 0, ended.err


@only_19
@pytest.mark.parametrize("way", ["configuration file", "CCC_OVERRIDE_OPTIONS"])
def test_options_that_are_not_in_the_command_count(bare: Lab, way: str) -> None:
    bare.write("k.hip", STATIC.format(number="NUMBER"))
    objects = []
    for number in ("1", "2"):
        bare.write("own.cfg", f"-DNUMBER={number}\n")
        settle()
        edits = {} if way == "configuration file" else {"CCC_OVERRIDE_OPTIONS": f"# +-DNUMBER={number}"}
        more = [] if edits else ["--config=./own.cfg"]
        assert bare.hipcache(*words(bare, *more, "-c", "k.hip", "-o", "k.o"), env=edits).status == 0
        (bare.root / "k.o").rename(bare.root / f"moved{number}.o")
        objects.append(f"moved{number}.o")
    assert list(link(bare, objects).values()) == [2]


@only_19
@pytest.mark.archs(2)
def test_a_comment_and_an_architecture_leave_the_objects_units_hits(bare: Lab) -> None:
    (bare.root / ".git").mkdir()
    for archs, text in (("gfx906", ""), ("gfx906,gfx90a", ""), ("gfx906", "// a comment\n")):
        bare.write("k.hip", STATIC.format(number=1).rstrip() + f" {text}\n")
        settle()
        # (clang 21 takes the first of a list alone.)
        flags = [f"--offload-arch={arch}" for arch in archs.split(",")]
        assert bare.hipcache(*words(bare, "-c", "k.hip", "-o", "k.o", *flags)).status == 0
        counted = bare.counted()
        assert counted.missed == ({"gfx90a"} if "90a" in archs else counted.missed)
    assert counted.outcome == HIT
