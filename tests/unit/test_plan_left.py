"""Which texts of the driver are no plan: they are left to the compiler, whatever is cut, doubled or exchanged."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import recordings
from hipcache.base.errors import PassThrough
from hipcache.clang import plan
from hipcache.clang.jobs import split
from hipcache.clang.plan import Plan
from hipcache.link import bundler, program
from recordings import CLANGS, KNOWN, LEFT, parsed_or_left, recorded, text

# A plan of each kind, and what reads it.
KINDS = {
    "clang15-one-arch": plan.parse,
    "clang19-one-arch": plan.parse,
    "clang15-link-objects": bundler.parse,
    "clang19-link-library": bundler.parse,
    "clang15-left-link": program.parse,
    "clang19-left-relocatable": program.parse_relocatable,
    "clang19-left-relocatable-new-driver": program.parse_relocatable,
}
# Where `str.splitlines` ends a line; the first one ends the driver's lines, too.
SEPARATORS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def parsed(raw: str) -> Plan | None:
    return parsed_or_left(plan.parse, raw)


# What is left to the compiler


@pytest.mark.parametrize("name", LEFT)
def test_another_kind_of_compile_is_left_to_the_compiler(name: str) -> None:
    with pytest.raises(PassThrough) as left:
        recorded(name)
    named = {"plugin": "plugin"}.get(name.partition("-left-")[2])
    assert left.value.reason in ((named,) if named else ("plan", "compiler_option"))


@pytest.mark.parametrize("raw", ["", "\n", "error: no such file\n", ' "\n', ' "\\"\n', ' ""\n', ' "" ""\n', '"a"\n'])
def test_a_text_without_jobs_is_no_plan(raw: str) -> None:
    with pytest.raises(PassThrough):
        plan.parse(raw)


@pytest.mark.parametrize("clang", CLANGS)
def test_a_job_of_a_tool_that_is_not_known_is_left(clang: str) -> None:
    with pytest.raises(PassThrough, match="a job of 'new-tool'"):
        plan.parse(text(f"{clang}-one-arch") + ' "/usr/bin/new-tool" "-o" "k.o"\n')


@pytest.mark.parametrize("clang", CLANGS)
def test_the_order_of_jobs_does_not_matter(clang: str) -> None:
    lines = text(f"{clang}-three-archs").splitlines(keepends=True)
    backwards = plan.parse("".join(reversed(lines)))
    assert not backwards.in_order
    forwards = recorded(f"{clang}-three-archs")
    assert backwards.devices == forwards.devices[::-1]
    assert (backwards.bundle, backwards.host) == (forwards.bundle, forwards.host)


@pytest.mark.parametrize("clang", CLANGS)
def test_a_bundle_that_leaves_out_a_pass_is_left(clang: str) -> None:
    raw = text(f"{clang}-three-archs")
    raw = re.sub(r',hipv4-amdgcn-amd-amdhsa--gfx1030|"-input=/tmp/[^"]*gfx1030[^"]*" ', "", raw)
    with pytest.raises(PassThrough, match="not bundled"):
        plan.parse(raw)


@pytest.mark.parametrize("clang", CLANGS)
def test_a_bundle_with_a_host_part_is_left(clang: str) -> None:
    with pytest.raises(PassThrough, match="host part"):
        plan.parse(text(f"{clang}-one-arch").replace("-input=/dev/null", "-input=/tmp/host.o"))


@pytest.mark.parametrize("clang", CLANGS)
def test_a_host_that_embeds_another_file_is_left(clang: str) -> None:
    with pytest.raises(PassThrough, match="does not embed"):
        plan.parse(re.sub(r'(gpubinary" ")[^"]*', r"\1/tmp/other.hipfb", text(f"{clang}-one-arch")))


# Any text


@pytest.mark.parametrize("name", recordings.ALL)
def test_a_plan_cut_after_any_line_is_a_plan_or_left(name: str) -> None:
    whole = text(name)
    lines = whole.splitlines(keepends=True)
    for count in range(len(lines)):
        found = parsed("".join(lines[:count]))
        assert found is None or not lines[count].startswith(' "') or name not in KNOWN


@pytest.mark.parametrize("name", KNOWN)
def test_a_plan_without_one_of_its_jobs_is_left(name: str) -> None:
    lines = text(name).splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.startswith(' "'):
            assert parsed("".join(lines[:number] + lines[number + 1 :])) is None


@pytest.mark.parametrize("name", KNOWN)
def test_a_plan_with_a_job_twice_is_left(name: str) -> None:
    lines = text(name).splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.startswith(' "'):
            assert parsed("".join([*lines[:number], line, *lines[number:]])) is None


@pytest.mark.parametrize("name", ["clang15-three-archs", "clang19-features", "clang19-spaces", "clang15-dependencies"])
def test_a_plan_cut_anywhere_is_a_plan_or_left(name: str) -> None:
    whole = text(name)
    for length in random.Random(1).sample(range(len(whole)), 150):
        parsed(whole[:length])


@pytest.mark.parametrize("name", ["clang15-three-archs", "clang19-features", "clang15-debug", "clang19-dependencies"])
def test_a_plan_with_words_gone_doubled_or_exchanged_is_a_plan_or_left(name: str) -> None:
    whole = text(name)
    draw = random.Random(2)
    words = list(re.finditer(r' "(?:[^"\\]|\\.)*"', whole))
    for _ in range(120):
        raw = whole
        for word in sorted(draw.sample(words, draw.randint(1, 4)), key=lambda found: -found.start()):
            other = draw.choice(words).group()
            instead = draw.choice(["", word.group() * 2, other, other + word.group()])
            raw = raw[: word.start()] + instead + raw[word.end() :]
        parsed(raw)


@pytest.mark.parametrize("name", KINDS)
def test_a_plan_with_other_characters_is_a_plan_or_left(name: str) -> None:
    whole = text(name)
    draw = random.Random(3)
    for _ in range(120):
        at = draw.randrange(len(whole))
        raw = whole[:at] + draw.choice(f'"\\ \0=,-${SEPARATORS}') + whole[at + draw.randint(0, 1) :]
        parsed_or_left(KINDS[name], raw)


@pytest.mark.parametrize("name", KINDS)
def test_a_word_with_a_line_separator_is_a_word_of_its_job(name: str) -> None:
    """Of the last job: a compile's host pass, or a link."""
    whole = text(name)
    known, job = KINDS[name](whole), whole.rindex('\n "')
    draw = random.Random(6)
    for at in draw.sample([word.end() - 1 for word in re.finditer(r' "(?:[^"\\]|\\.)*"', whole[job:])], 12):
        for separator in SEPARATORS:
            raw = whole[: job + at] + separator + whole[job + at :]
            found = parsed_or_left(KINDS[name], raw)
            assert found is None or (separator != "\n" and found.messages == known.messages)


@pytest.mark.parametrize("raw", [' "ld" "a\nb" "c"\n', ' "ld" "a" b\n', ' "ld" "a"  "b"\n', ' "ld" "a\n', 'x" "y\n'])
def test_a_part_of_a_job_is_left(raw: str) -> None:
    with pytest.raises(PassThrough, match="plan"):
        split(f' "ld" "first"\n{raw}')


def test_the_recordings_name_no_place_but_the_neutral_one() -> None:
    for path in Path(recordings.PLANS).glob("*.txt"):
        places = set(re.findall(r"-dir=(/[^\"]*)", path.read_text()))
        assert places <= {"/src/demo"}, path.name


@pytest.mark.parametrize("clang", CLANGS)
def test_a_device_pass_that_alone_writes_a_dependency_file_is_left(clang: str) -> None:
    raw = text(f"{clang}-one-arch")
    only = raw.replace('"-fcuda-is-device"', '"-fcuda-is-device" "-dependency-file" "k.d" "-MT" "k.o"', 1)
    assert only != raw
    assert parsed(only) is None


@pytest.mark.parametrize("clang", CLANGS)
def test_two_device_passes_of_one_architecture_are_left(clang: str) -> None:
    """As with -Xclang -target-cpu: their actions would have one name."""
    raw = re.sub(r'("-target-cpu" )"gfx\w+"', r'\1"gfx906"', text(f"{clang}-three-archs"))
    with pytest.raises(PassThrough, match="two device passes of one architecture"):
        plan.parse(raw)
