"""Precompiled preambles with standard headers whose names are in quotes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hip import Compiled, Lab
from preamble_lab import BOTH, counts, prelab, words

__all__ = ["prelab"]
pytestmark = pytest.mark.archs(1)

NAME = "hip/quoted.hpp"
QUOTED = '#pragma once\n#include "next.hpp"\n#define QUOTED {}\ninline const char* file() {{ return __FILE__; }}\n'


def quoting(lab: Lab, number: int, name: str = NAME) -> str:
    """The path of a source in a directory of its own, whose first include is in quotes."""
    text = f'// {number}\n#include "{name}"\n#include <hip/in_short.hpp>\n#include "{name}"\n'
    text += f'extern "C" __global__ void k(int* p) {{ p[0] = QUOTED * {number} + __LINE__; }}\n'
    return str(lab.write(f"src/q{number}.hip", text + 'extern "C" const char* host() { return file(); }\n'))


def quote(lab: Lab, place: str, number: int = 7) -> None:
    lab.write(f"{place}/hip/next.hpp", f"enum {{ next = {number} }};\n")
    lab.write(f"{place}/hip/quoted.hpp", QUOTED.format(number))


def quoted(lab: Lab, number: int, *flags: str, name: str = NAME) -> Compiled:
    done = lab.compile(*words(lab), *flags, source=quoting(lab, number, name))
    assert done.dependencies == done.plain_dependencies
    return done


def test_a_standard_header_in_quotes(prelab: Lab) -> None:
    quote(prelab, "own")
    for number in (1, 2, 3):
        quoted(prelab, number)
    assert counts(prelab) == {"used": BOTH, "made": BOTH, "checked": BOTH, "different": 0}


@pytest.mark.parametrize("place", ["src", "inc", "src/.."])
def test_a_header_in_quotes_that_is_the_users(prelab: Lab, place: str) -> None:
    quote(prelab, place)
    for number in (1, 2, 3):
        quoted(prelab, number, name=f"../{NAME}" if place == "src/.." else NAME)
    assert not any(counts(prelab).values())


@pytest.mark.parametrize("place", ["src", "inc"])
def test_a_header_in_quotes_that_appears_before_the_standard_one(prelab: Lab, place: str) -> None:
    quote(prelab, "own")
    for number in (1, 2):
        quoted(prelab, number)
    before = quoted(prelab, 3)
    assert counts(prelab)["used"] == BOTH
    quote(prelab, place, 8)
    prelab.changed(before, *words(prelab), source=str(prelab.root / "src/q3.hip"))
    assert counts(prelab)["used"] == BOTH


def test_a_header_in_quotes_that_is_gone_from_beside_the_source(prelab: Lab) -> None:
    quote(prelab, "own")
    for number in (1, 2):
        quoted(prelab, number)
    quote(prelab, "src", 8)
    before = quoted(prelab, 3)
    assert counts(prelab)["used"] == 0
    (prelab.root / "src" / NAME).unlink()
    prelab.changed(before, *words(prelab), source=str(prelab.root / "src/q3.hip"))
    assert counts(prelab)["used"] == BOTH


def test_the_same_name_in_quotes_is_another_header_in_another_directory(prelab: Lab) -> None:
    quote(prelab, "own")
    for number in (1, 2, 3):
        quoted(prelab, number)
    assert counts(prelab)["used"] == BOTH
    quote(prelab, "other/src", 9)
    text = Path(quoting(prelab, 4)).read_text()
    prelab.compile(*words(prelab), source=str(prelab.write("other/src/q4.hip", text)))
    assert counts(prelab)["used"] == BOTH


def test_headers_in_quotes_that_go_without(prelab: Lab) -> None:
    """Directories for names in quotes alone; a source that is named by a relative path."""
    quote(prelab, "own")
    for number in (1, 2, 3):
        quoted(prelab, number, f"-iquote{prelab.root}/nowhere")
        quoting(prelab, number)
        prelab.compile(*words(prelab), "-O1", source=f"src/q{number}.hip")
    assert not any(counts(prelab).values())


def test_a_header_in_quotes_that_goes_on_to_the_next_of_its_name(prelab: Lab) -> None:
    quote(prelab, "own")
    prelab.write("before/hip/quoted.hpp", f"#include_next <{NAME}>\n#define FIRST 1\n")
    prelab.write("before/hip/hip_runtime.h", "")
    for number in (1, 2, 3):
        assert quoted(prelab, number, "-Xclang", "-internal-isystem", "-Xclang", f"{prelab.root}/before").object
    assert counts(prelab)["used"] == BOTH
