"""Programs of relocatable device code that one command compiles and links: as their compiles and their link apart."""

from __future__ import annotations

import re
from dataclasses import replace as with_changes
from pathlib import Path

import pytest
from at_once import words
from hip import ARCHS, CUID, HIT, LLVM, MISS, PARTIAL, replace, script, settle
from programs import linking_toolchain
from rdc_program import ONE, Sources, each_driver, sources

__all__ = ["sources"]
pytestmark = pytest.mark.takes_turns("sources")

UNITS, LINKS = {"gfx906", "gfx90a", "host"}, {"gfx906", "gfx90a", "link"}


def test_a_program_is_plain_clangs_and_the_next_one_runs_no_compiler(sources: Sources) -> None:
    first = sources.both("one.hip")
    assert (first.counted.outcome, first.counted.missed) == (MISS, UNITS | LINKS)
    assert set(first.files) == {"program"}
    second = sources.both("one.hip", "--hip-link")
    assert (second.counted.outcome, second.counted.missed, second.program) == (HIT, frozenset(), first.program)
    assert re.search(rb"link of gfx90a +hit", sources.lab.hipcache("explain", "program").out)
    sources.lab.write("program", first.program).chmod(0o755)
    assert sources.lab.run([sources.lab.root / "program"]).status == 0


def test_several_sources_are_what_their_objects_are_linked_to(sources: Sources) -> None:
    """Each has a CUID of its own, which clang does not give them in one command: the driver's are others."""
    lab = sources.lab
    line = [word for word in words(lab, "-fgpu-rdc", *sources.flags, "one.hip", "two.hip") if word != CUID]
    plain = lab.run(line)
    assert plain.status == 0
    made = []
    for expected in (MISS, HIT):
        settle()
        ended = lab.hipcache(*line)
        # Names of temporary files differ in every run of clang.
        said = [re.sub(rb"-[0-9a-f]{6}\b", b"-", one.err) for one in (ended, plain)]
        assert (ended.status, said[0]) == (0, said[1])
        assert lab.counted().outcome == expected
        made.append((lab.root / "program").read_bytes())
    assert lab.run([lab.root / "program"]).status == 0
    alone = [word for word in words(lab, "-fgpu-rdc", *sources.flags, libraries=()) if word not in (CUID, "program")]
    for name in ("one.hip", "two.hip"):
        assert lab.hipcache(*alone[:-1], "-c", name).status == 0
        assert lab.counted().outcome == HIT
    objects = [word.replace(".hip", ".o") for word in line]
    assert lab.run([*objects, "--hip-link"]).status == 0
    assert made == [(lab.root / "program").read_bytes()] * 2


@each_driver
def test_an_edit_of_host_code_runs_no_device_link(sources: Sources) -> None:
    before = sources.warm("one.hip")
    sources.lab.write("host.hpp", "int host() { return 7; }\n")
    after = sources.both("one.hip")
    assert after.program != before.program
    assert (after.counted.missed, after.counted.outcome) == ({"host"}, PARTIAL)


@each_driver
def test_an_edit_within_one_arch_runs_that_ones_link_alone(sources: Sources) -> None:
    before = sources.warm("one.hip")
    sources.lab.write("only.hpp", "#define FACTOR 5\n")
    after = sources.both("one.hip")
    assert after.program != before.program
    assert after.counted.missed == {"gfx90a", "link"}
    assert {"gfx906", "host", "link"} <= after.counted.served
    said = sources.lab.hipcache("explain", "program").out.decode()
    assert re.search(r"link of gfx906 +hit", said)
    assert re.search(r"link of gfx90a +miss\n +device code of 'one.hip' changed", said)


@each_driver
def test_an_architecture_added_is_compiled_and_linked_alone(sources: Sources) -> None:
    sources.warm("one.hip")
    assert sources.both("one.hip", *ARCHS, "--offload-arch=gfx1030").counted.missed == {"gfx1030", "link"}


@each_driver
def test_another_option_is_another_compile(sources: Sources) -> None:
    sources.warm("one.hip")
    assert sources.both("one.hip", "-O2").counted.missed >= UNITS


@each_driver
def test_another_linker_links_again(sources: Sources, tmp_path: Path) -> None:
    lab = with_changes(sources.lab, compiler=str(linking_toolchain(tmp_path / "llvm", sources.lab.version)))
    sources = Sources(lab, sources.flags)
    lld = tmp_path / "llvm/bin/lld"
    real = LLVM[lab.version] / "bin" / ("ld.lld" if sources.flags else "lld")
    lines = [f'exec {real} "$@" --build-id={id}\n' for id in ("none", "0xab")]
    script(lld, lines[0])
    before = sources.warm("one.hip")
    replace(lld, b"#!/bin/sh\n" + lines[1].encode())
    after = sources.both("one.hip")
    assert after.program != before.program
    assert after.counted.missed == LINKS


@each_driver
def test_another_compiler_compiles_and_links_again(sources: Sources, tmp_path: Path) -> None:
    lab = with_changes(sources.lab, compiler=str(linking_toolchain(tmp_path / "llvm", sources.lab.version)))
    sources = Sources(lab, sources.flags)
    sources.warm("one.hip")
    for name in ("clang", *(("clang-linker-wrapper",) if sources.flags else ())):
        with (tmp_path / "llvm/bin" / name).open("ab") as file:
            file.write(b"\0")
        settle()
        assert {"gfx906", "gfx90a"} <= sources.both("one.hip").counted.missed


@each_driver
def test_objects_and_libraries_with_device_code_are_read_each_time(sources: Sources) -> None:
    lab = sources.lab
    lab.write("more.cpp", "int more() { return 1; }\n")
    assert lab.run([lab.compiler, "-c", "more.cpp"]).status == 0
    lab.write("one.hip", ONE.replace(" { return a * FACTOR + counter; }", ";"))
    # Clang 15 looks for device code in -l alone, clang 19 does not see there that the host needs a fat binary.
    library = "-lpart" if lab.version == "15" else "libpart.a"
    for names in (["part.o", "more.o"], [library, "more.o"]):
        programs = []
        for value in "23":
            lab.write(
                "part.hip", f'#include "hip_in_short.hpp"\n__device__ int twice(int a) {{ return a * {value}; }}\n'
            )
            sources.compile("part.hip", "-cuid=1")
            (lab.root / "libpart.a").unlink(missing_ok=True)
            assert lab.run(["ar", "rc", "libpart.a", "part.o"]).status == 0
            found = sources.both("one.hip", "-L.", *names)
            programs.append(found.program)
        assert (found.counted.missed, found.counted.outcome) == (LINKS, PARTIAL)
        assert programs[0] != programs[1]
        assert sources.both("one.hip", "-L.", *names).counted.outcome == HIT


@each_driver
@pytest.mark.parametrize("more", [["-g"], ["-shared", "-fPIC"], ["-fuse-ld=lld"], ["-Wl,--warn-common,-z,nonsense"]])
def test_other_ways_to_link_are_plain_clangs(sources: Sources, more: list[str]) -> None:
    sources.warm("one.hip", *more)


@each_driver
def test_a_source_of_another_language_is_compiled_as_the_driver_plans_it(sources: Sources) -> None:
    sources.lab.write("plain.cpp", "#warning third\nint plain() { return 1; }\n")
    before = sources.warm("one.hip", "plain.cpp")
    sources.lab.write("plain.cpp", "int plain() { return 2; }\n")
    after = sources.both("one.hip", "plain.cpp")
    assert after.program != before.program
    assert after.counted.outcome == HIT


@each_driver
def test_its_dependency_file_lists_the_headers_of_all_passes(sources: Sources) -> None:
    for more in (["-MD"], ["-MMD", "-MP", "-MF", "rules.d"]):
        for _ in range(2):
            found = sources.both("one.hip", *more)
        assert found.counted.outcome == HIT
        rule = next(content.decode() for name, (content, _) in found.files.items() if name.endswith(".d"))
        assert rule.startswith("program:")
        assert {"one.hip", "only.hpp", "host.hpp", "hip_in_short.hpp"} <= set(rule.replace("\\\n", " ").split())


def test_without_a_name_each_source_has_a_dependency_file(sources: Sources) -> None:
    lab = sources.lab
    line = [word for word in words(lab, "-fgpu-rdc", *sources.flags, "one.hip", "two.hip", "-MD") if word != CUID]
    listed = []
    for run in (lab.run, lambda line: lab.hipcache(*line)):
        assert run(line[:-2]).status == 0
        listed.append({path.name for path in lab.root.glob("*.d")})
        assert (lab.root / "a.out").exists()
        (lab.root / "a.out").unlink()
        for name in listed[-1]:
            assert name.replace(".d", ".hip") in (lab.root / name).read_text()
            (lab.root / name).unlink()
    assert listed == [{"one.d", "two.d"}] * 2


@each_driver
def test_a_source_that_is_compiled_alone_shares_its_units(sources: Sources) -> None:
    line = words(sources.lab, "-fgpu-rdc", *sources.flags, "-c", "one.hip", "-o", "one.o", libraries=())
    assert sources.lab.hipcache(*line).status == 0
    assert sources.lab.counted().outcome == MISS
    assert sources.both("one.hip").counted.missed == LINKS
