"""The driver's `-###` of a program that is compiled and linked at once becomes a plan, or is left to the compiler."""

from __future__ import annotations

import re

import pytest
from hipcache.errors import PassThrough
from hipcache.planning import program_plan
from hipcache.planning.cc1 import Role
from hipcache.planning.plan import Plan, ToolJob
from hipcache.planning.program_plan import Other, ProgramPlan, outputs_of, with_cuid
from recordings import parsed_or_left, text

VERSIONS = pytest.mark.parametrize("clang", ["clang15", "clang19"])


def recorded(clang: str) -> tuple[ProgramPlan, Plan]:
    found = program_plan.parse(text(f"{clang}-left-link"))
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
    found = program_plan.parse("".join(jobs))
    assert [one.source for one in found.libraries] == ["libm.a"]
    assert found.compiles == recorded(clang)[0].compiles


@VERSIONS
def test_a_source_of_another_language_is_a_job_of_its_own(clang: str) -> None:
    jobs = lines(clang)
    other = ' "clang" "-cc1" "-emit-obj" "-o" "/tmp/m-1.o" "-x" "c++" "m.cpp"\n'
    raw = "".join([*jobs[:-1], other, jobs[-1].replace('"/tmp/k-', '"/tmp/m-1.o" "/tmp/k-')])
    compiled, beside = program_plan.parse(raw).compiles
    assert isinstance(compiled, Plan)
    assert isinstance(beside, Other)
    assert beside.object == "/tmp/m-1.o"
    with pytest.raises(PassThrough, match="several_sources"):
        program_plan.parse(raw.replace('"-x" "c++"', '"-dependency-file" "m.d" "-x" "c++"'))


@VERSIONS
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (r'\n "/usr/bin/ld" [^\n]*', "", "no job links"),
        (r'\n "/usr/bin/ld" ', '\n "llvm-mc" "-o" "/tmp/x.o"\n "ld" ', "jobs between"),
        (r'("-o" "k" .*)"/tmp/k-[^"]*"', r"\1", "no job compiles"),
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
        program_plan.parse(changed)


@VERSIONS
def test_a_plan_that_lacks_any_line_is_left_or_the_same(clang: str) -> None:
    jobs = lines(clang)
    for number in range(len(jobs)):
        found = parsed_or_left(program_plan.parse, "".join(jobs[:number] + jobs[number + 1 :]))
        assert found is None or not jobs[number].startswith(' "')


@VERSIONS
def test_a_cuid_of_ours_takes_the_place_of_the_drivers(clang: str) -> None:
    _, compiled = recorded(clang)
    changed = with_cuid(compiled, "5eed")
    jobs = [*(device.compile for device in changed.devices), changed.host]
    assert [job.value(Role.CUID) for job in jobs if job] == ["5eed"] * 2
    assert with_cuid(changed, compiled.first.value(Role.CUID)) == compiled
