"""Byte identity: object, messages, exit status and dependency file are plain clang's, cold and warm.

TEST_FULL=1 (`make test-full`) runs every source with every flag and every set of architectures; otherwise each
source meets each compiler once, with flags and architectures that take turns.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hip import BARE, CUID, FULL, HIP_FLAGS, HIT, PASSED_THROUGH, Lab
from hip_toolchain import installed
from hipcache.build.depfile import parse

SOURCES = sorted((Path(__file__).parents[1] / "sources").glob("*.hip"))
EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "cmake" / "src").glob("*.hip"))
FLAGS = [("-O0",), ("-O2",), ("-O3",), ("-O2", "-g"), ("-O1", "-fPIC"), ("-O2", "-ffast-math"), ("-O3", "-g", "-gz")]
ARCHS = [("gfx906",), ("gfx90a:xnack-", "gfx906"), ("gfx1030", "gfx90a", "gfx803")]


def cases(sources: list[Path]) -> list[object]:
    """Every case in a full run. In a short one each source once, with the next flags and the next architectures."""
    everything = itertools.product(sources, FLAGS, ARCHS)
    turns = ((s, FLAGS[i % len(FLAGS)], ARCHS[i % len(ARCHS)]) for i, s in enumerate(sources))
    chosen = list(everything if FULL else turns)
    return [pytest.param(*case, id=f"{case[0].stem}{''.join(case[1])}-{'+'.join(case[2])}") for case in chosen]


def check(lab: Lab, source: Path, flags: tuple[str, ...], archs: tuple[str, ...], headers: tuple[str, ...]) -> None:
    words = [
        lab.compiler,
        *lab.driver,
        *(f"--offload-arch={arch}" for arch in archs),
        *headers,
        "-std=c++17",
        "-Wall",
        *flags,
        CUID,
    ]
    command = [*words, "-MD", "-c", os.fspath(source), "-o", "out.o"]
    cold = lab.same(command)
    assert cold.status == 0, cold.messages
    warm = lab.same(command)
    assert warm.object == cold.object
    if "__TIME__" not in source.read_text():
        assert warm.outcome == HIT, warm.counted
    for made in (cold, warm):
        assert set(parse(made.plain_dependencies)) <= set(parse(made.dependencies))
        assert made.dependencies.split(":")[0] == made.plain_dependencies.split(":")[0]
        assert parse(made.dependencies)[: len(parse(made.plain_dependencies))] == parse(made.plain_dependencies)


def hips_headers(lab: Lab) -> None:
    """Skips a test of a clang that has no device libraries here."""
    if not installed()[lab.version].device_libraries:
        pytest.skip(f"HIP's headers here are not for clang {lab.version}")


@pytest.mark.every_compiler
@pytest.mark.parametrize(("source", "flags", "archs"), cases([s for s in SOURCES if s.stem != "real_headers"]))
def test_a_small_source(lab: Lab, source: Path, flags: tuple[str, ...], archs: tuple[str, ...]) -> None:
    check(lab, source, flags, archs, (*BARE, "-I", str(lab.root)))


@pytest.mark.parametrize("flags", FLAGS if FULL else FLAGS[3:4], ids="".join)
def test_a_source_with_hips_own_headers(lab: Lab, flags: tuple[str, ...]) -> None:
    source = Path(__file__).parents[1] / "sources" / "real_headers.hip"
    hips_headers(lab)
    check(lab, source, flags, ("gfx906", "gfx1030"), HIP_FLAGS)


@pytest.mark.skipif(not FULL, reason="minutes: make test-full")
@pytest.mark.parametrize(("source", "flags", "archs"), cases(EXAMPLES))
def test_an_example(lab: Lab, source: Path, flags: tuple[str, ...], archs: tuple[str, ...]) -> None:
    include = Path(__file__).parents[2] / "examples" / "cmake" / "include"
    check(lab, source, flags, archs, (*HIP_FLAGS, "-I", str(include)))


def test_one_example(lab: Lab) -> None:
    if not EXAMPLES:
        pytest.skip("no examples in this tree")
    include = Path(__file__).parents[2] / "examples" / "cmake" / "include"
    hips_headers(lab)
    check(lab, EXAMPLES[0], ("-O3",), ("gfx906", "gfx90a"), (*HIP_FLAGS, "-I", str(include)))


def test_an_object_without_kernels_has_no_place_for_a_fat_binary(lab: Lab) -> None:
    source = Path(__file__).parents[1] / "sources" / "no_kernels.hip"
    assert b".hip_fatbin" not in lab.compile("-I", lab.root, source=source).object


@pytest.mark.parametrize("more", [(), ("-Rpass=inline",), ("-Rpass-analysis=kernel-resource-usage",)], ids="".join)
def test_what_a_back_end_says_is_said_as_clang_says_it(lab: Lab, more: tuple[str, ...]) -> None:
    source = Path(__file__).parents[1] / "sources" / "unrolled.hip"
    flags = ("-I", str(lab.root), *more)
    cold = lab.compile(*flags, source=source)
    # By LTO the device's remarks go to standard output, in an order of its own: such a compile passes through.
    to_output = installed()[lab.version].has_new_driver and "-Rpass-analysis=kernel-resource-usage" in more
    assert lab.compile(*flags, source=source).outcome == (PASSED_THROUGH if to_output else HIT)
    assert "unrolled.hip" in cold.messages or more
