"""The driver's `-###` of a program that is compiled and linked at once becomes a plan, or is left to the compiler."""

from __future__ import annotations

import re

import pytest
from hipcache.base.errors import PassThrough
from hipcache.clang.cc1 import Role
from hipcache.clang.cuid import clangs_hash
from hipcache.clang.jobs import ToolJob
from hipcache.clang.plan import Plan, with_cuid
from hipcache.link import program
from hipcache.link.bundler import LinkPlan, rename_in_script
from hipcache.link.program import Other, ProgramPlan, outputs_of, with_cuids
from hipcache.link.wrapper import WrapperPlan
from recordings import parsed_or_left, text

VERSIONS = pytest.mark.parametrize("clang", ["clang15", "clang19"])


def recorded(clang: str) -> tuple[ProgramPlan, Plan]:
    found = program.parse(text(f"{clang}-left-link"))
    (compiled,) = found.compiles
    assert isinstance(compiled, Plan)
    return found, compiled


def lines(clang: str) -> list[str]:
    return text(f"{clang}-left-link").splitlines(keepends=True)


@VERSIONS
def test_a_source_is_a_compile_whose_object_is_linked(clang: str) -> None:
    found, compiled = recorded(clang)
    assert [device.arch for device in compiled.devices] == ["gfx906"]
    assert compiled.embeds
    assert isinstance(found.link, ToolJob)
    assert [found.link.arguments.count(name) for name in outputs_of(compiled)] == [1]
    assert (found.output, found.libraries, found.link.program) == ("k", (), "/usr/bin/ld")


@VERSIONS
def test_a_library_that_is_taken_apart_is_no_part_of_the_device_link(clang: str) -> None:
    jobs = lines(clang)
    at = next(number for number, line in enumerate(jobs) if '"-flavor"' in line)
    jobs[at] = jobs[at].rstrip("\n") + ' "/tmp/libbc-m.a"\n'
    bundler = '"clang-offload-bundler" "-unbundle" "-type=a" "-input=libm.a" "-targets=hip-x"'
    jobs.insert(at, f' {bundler} "-output=/tmp/libbc-m.a"\n')
    found = program.parse("".join(jobs))
    assert [one.source for one in found.libraries] == ["libm.a"]
    assert found.compiles == recorded(clang)[0].compiles


@VERSIONS
def test_a_source_of_another_language_is_a_job_of_its_own(clang: str) -> None:
    jobs = lines(clang)
    other = ' "clang" "-cc1" "-emit-obj" "-o" "/tmp/m-1.o" "-x" "c++" "m.cpp"\n'
    raw = "".join([*jobs[:-1], other, jobs[-1].replace('"/tmp/k-', '"/tmp/m-1.o" "/tmp/k-')])
    compiled, beside = program.parse(raw).compiles
    assert isinstance(compiled, Plan)
    assert isinstance(beside, Other)
    assert beside.object == "/tmp/m-1.o"
    with pytest.raises(PassThrough, match="several_sources"):
        program.parse(raw.replace('"-x" "c++"', '"-dependency-file" "m.d" "-x" "c++"'))


@VERSIONS
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (r'\n "/usr/bin/ld" [^\n]*', "", "no job links"),
        (r'\n "/usr/bin/ld" ', '\n "llvm-mc" "-o" "/tmp/x.o"\n "ld" ', "jobs between"),
        (r'("-o" "k" .*) "/tmp/k-[^"]*"', r"\1", "no job compiles"),
        (r'"-o" "k" ', "", "0 of '-o'"),
        (r'"-target-cpu" "gfx906"', '"-target-cpu" "gfx906" "-new-option"', "-new-option"),
    ],
    ids=["no link", "a job between", "another object", "no output", "cc1"],
)
def test_a_plan_of_another_shape_is_left_to_the_compiler(clang: str, old: str, new: str, why: str) -> None:
    raw = text(f"{clang}-left-link")
    changed = re.sub(old, new, raw)
    assert changed != raw
    with pytest.raises(PassThrough, match=re.escape(why)):
        program.parse(changed)


@VERSIONS
def test_a_plan_that_lacks_any_line_is_left_or_the_same(clang: str) -> None:
    jobs = lines(clang)
    for number in range(len(jobs)):
        found = parsed_or_left(program.parse, "".join(jobs[:number] + jobs[number + 1 :]))
        assert found is None or not jobs[number].startswith(' "')


@VERSIONS
def test_a_cuid_of_ours_takes_the_place_of_the_drivers(clang: str) -> None:
    _, compiled = recorded(clang)
    changed = with_cuid(compiled, "5eed")
    jobs = [*(device.compile for device in changed.devices), changed.host]
    assert [job.value(Role.CUID) for job in jobs if job] == ["5eed"] * 2
    assert with_cuid(changed, compiled.first.value(Role.CUID)) == compiled


# Relocatable device code


@VERSIONS
def test_by_the_old_driver_the_link_reads_what_each_pass_writes(clang: str) -> None:
    found = program.parse_relocatable(text(f"{clang}-left-relocatable"))
    assert isinstance(found.link, LinkPlan)
    assert [one.arch for one in found.link.devices] == ["gfx906", "gfx90a"]
    assert len(found.compiles) == 2
    for number, one in enumerate(found.compiles):
        assert isinstance(one, Plan)
        assert (one.bundle, one.embeds, one.first.source) == (None, False, ["k.hip", "l.hip"][number])
        assert [device.arch for device in one.devices] == ["gfx906", "gfx90a"]
        *bitcode, obj = outputs_of(one)
        assert obj in found.link.host.arguments
        assert bitcode == [link.inputs[number] for link in found.link.devices]
    # Both hosts' passes, then for each arch two device passes and its link.
    assert [name for name in found.order if name.endswith(".out")] == [found.order[4], found.order[7]]


def test_by_the_new_driver_the_wrapper_links() -> None:
    found = program.parse_relocatable(text("clang19-left-relocatable-new-driver"))
    assert isinstance(found.link, WrapperPlan)
    names = [one.name for one in found.link.inputs]
    assert [names.count(name) for one in found.compiles for name in outputs_of(one)] == [1, 1]
    assert all(isinstance(one, Plan) and one.embeds for one in found.compiles)


@pytest.mark.parametrize(
    "name", ["clang15-left-relocatable", "clang19-left-relocatable", "clang19-left-relocatable-new-driver"]
)
def test_a_plan_of_relocatable_code_that_lacks_any_job_is_left(name: str) -> None:
    jobs = text(name).splitlines(keepends=True)
    for number, line in enumerate(jobs):
        if line.startswith(' "'):
            assert parsed_or_left(program.parse_relocatable, "".join(jobs[:number] + jobs[number + 1 :])) is None


def test_cuids_of_ours_stand_in_the_script_in_the_drivers_order() -> None:
    found = program.parse_relocatable(text("clang19-left-relocatable"))
    for cuids in (("a", "b"), ("b", "a")):
        changed = with_cuids(found, dict(zip(("k.hip", "l.hip"), cuids, strict=True)))
        assert [one.first.value(Role.CUID) for one in changed.compiles if isinstance(one, Plan)] == list(cuids)
        assert isinstance(changed.link, LinkPlan)
        named = re.findall(r"globl __hip_fatbin_(\w+)", changed.link.script)
        assert named == sorted(clangs_hash(cuid) for cuid in cuids)


def test_a_script_without_the_names_of_an_object_is_not_understood() -> None:
    found = program.parse_relocatable(text("clang19-left-relocatable"))
    assert isinstance(found.link, LinkPlan)
    script = found.link.script
    first, second = re.findall(r"globl __hip_fatbin_(\w+)", script)
    assert rename_in_script(script, {}) == script
    assert rename_in_script("none", {"ab": "cd"}) == "none"
    for names in ({"ab": "cd"}, {first: second}, {first: "ab", second: "ab"}):
        with pytest.raises(PassThrough, match="plan"):
            rename_in_script(script, names)
