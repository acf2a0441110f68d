"""The driver's `-###` of a link of relocatable device code becomes a plan, or is left to the compiler."""

from __future__ import annotations

import random
import re

import pytest
from hipcache.base.errors import PassThrough
from hipcache.link import bundler
from hipcache.link.bundler import LinkPlan
from recordings import KNOWN, LINKS, SHAPES, parsed_or_left, text


def parsed(raw: str) -> LinkPlan | None:
    return parsed_or_left(bundler.parse, raw)


@pytest.mark.parametrize("name", LINKS)
def test_each_arch_is_linked_from_what_was_taken_apart(name: str) -> None:
    found = bundler.parse(text(name))
    assert [one.arch for one in found.devices] == ["gfx906", "gfx90a"]
    sources = ["one.o", "two.o"] if name.endswith("objects") else ["one.o", "./libtwo.a"]
    for device in found.devices:
        assert [found.origin(one) for one in device.inputs] == sources
        assert all(device.arch in one for one in device.inputs)
    assert found.output == "k"
    assert re.fullmatch("(clang.*: warning: argument unused.*\\n)+", found.messages)


@pytest.mark.parametrize("name", LINKS)
def test_the_script_is_the_one_that_the_driver_printed(name: str) -> None:
    found = bundler.parse(text(name))
    assert found.script.startswith("#       HIP Object Generator\n# ***")
    assert f'  .incbin "{found.bundle.arguments[-1].partition("=")[2]}"\n' in found.script
    assert found.script_file in found.embed.arguments
    assert found.script in text(name)
    assert '"' not in text(name).partition(found.script)[0]


def test_what_the_driver_says_is_no_part_of_the_script() -> None:
    raw = text("clang19-link-objects")
    script = bundler.parse(raw).script
    warning = "clang++-19: warning: argument unused during compilation: '-nogpulib'\n"
    for changed in (raw.replace(script, script + warning), raw.replace(script, warning + script), raw + warning):
        found = bundler.parse(changed)
        assert (found.script, found.messages.count(warning)) == (script, 1)


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (r'"-shared" "-plugin', '"-shared" "-Map=x" "-plugin', "-Map=x"),
        (r'"-allow-missing-bundles"', '"-new-option"', "new-option"),
        (r'"--filetype=obj"|"-x" "assembler"', r'\g<0> "/tmp/second.mcin"', "script"),
        (r'"-input=/dev/null" "-input=[^"]*"', '"-input=/dev/null" "-input=/tmp/else"', "bundled"),
        (r"#       HIP Object Generator", "#       Another", "0 scripts|a link with|HIP"),
    ],
    ids=["lld", "unbundle", "llvm-mc", "bundle", "script"],
)
def test_a_job_of_another_shape_is_left(name: str, old: str, new: str, why: str) -> None:
    raw, count = re.subn(old, new, text(name))
    assert count
    with pytest.raises(PassThrough, match=why):
        bundler.parse(raw)


@pytest.mark.parametrize("name", LINKS)
def test_a_link_without_one_of_its_jobs_or_with_one_twice_is_left_or_the_drivers_own(name: str) -> None:
    lines = text(name).splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.startswith(' "'):
            without = parsed("".join(lines[:number] + lines[number + 1 :]))
            assert without is None or "-unbundle" in line
            assert parsed("".join([*lines[:number], line, *lines[number:]])) is None


@pytest.mark.parametrize("name", [*KNOWN[:3], *SHAPES])
def test_the_plan_of_a_compile_is_none_of_a_link(name: str) -> None:
    assert parsed(text(name)) is None


@pytest.mark.parametrize("name", LINKS)
def test_a_plan_with_words_gone_doubled_or_exchanged_is_a_plan_or_left(name: str) -> None:
    whole = text(name)
    draw = random.Random(4)
    words = list(re.finditer(r' "(?:[^"\\]|\\.)*"', whole))
    for _ in range(120):
        raw = whole
        for word in sorted(draw.sample(words, draw.randint(1, 4)), key=lambda found: -found.start()):
            other = draw.choice(words).group()
            raw = raw[: word.start()] + draw.choice(["", word.group() * 2, other]) + raw[word.end() :]
        parsed(raw)
    for length in draw.sample(range(len(whole)), 100):
        parsed(whole[:length])
