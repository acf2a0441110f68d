"""Precompiled preambles with headers in quotes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hip import Compiled, Lab
from preamble_lab import BOTH, counts, prelab, words

__all__ = ["prelab"]
pytestmark = pytest.mark.archs(1)


def quoting(lab: Lab, number: int, name: str = "deep/quoted.hpp") -> str:
    """The path of a source in a directory of its own, whose first include is in quotes."""
    text = f'// {number}\n#include "{name}"\n#include <hip_in_short.hpp>\n#include "{name}"\n'
    text += f'extern "C" __global__ void k(int* p) {{ p[0] = QUOTED * {number} + __LINE__; }}\n'
    return str(lab.write(f"src/q{number}.hip", text + 'extern "C" const char* host() { return file(); }\n'))


QUOTED = '#pragma once\n#include "next.hpp"\n#define QUOTED {}\ninline const char* file() {{ return __FILE__; }}\n'


def quote(lab: Lab, place: str, number: int = 7) -> None:
    lab.write(f"{place}/deep/next.hpp", f"enum {{ next = {number} }};\n")
    lab.write(f"{place}/deep/quoted.hpp", QUOTED.format(number))


def quoted(lab: Lab, number: int, *flags: str, name: str = "deep/quoted.hpp") -> Compiled:
    done = lab.compile(*words(lab), *flags, source=quoting(lab, number, name))
    assert done.dependencies == done.plain_dependencies
    return done


@pytest.mark.parametrize("place", ["src", "inc", "src/.."])
def test_a_header_in_quotes(prelab: Lab, place: str) -> None:
    quote(prelab, place)
    name = "../deep/quoted.hpp" if place == "src/.." else "deep/quoted.hpp"
    for number in (1, 2, 3):
        quoted(prelab, number, name=name)
    assert counts(prelab) == {"used": BOTH, "made": BOTH, "checked": BOTH, "different": 0}


def test_a_header_in_quotes_that_appears_beside_the_source(prelab: Lab) -> None:
    quote(prelab, "inc")
    for number in (1, 2):
        quoted(prelab, number)
    before = quoted(prelab, 3)
    assert counts(prelab)["used"] == BOTH
    quote(prelab, "src", 8)
    prelab.changed(before, *words(prelab), source=str(prelab.root / "src/q3.hip"))


def test_a_header_in_quotes_that_is_gone_from_beside_the_source(prelab: Lab) -> None:
    quote(prelab, "src", 8)
    quote(prelab, "inc")
    for number in (1, 2):
        quoted(prelab, number)
    before = quoted(prelab, 3)
    assert counts(prelab)["used"] == BOTH
    (prelab.root / "src/deep/quoted.hpp").unlink()
    prelab.changed(before, *words(prelab), source=str(prelab.root / "src/q3.hip"))


def test_the_same_name_in_quotes_is_another_header_in_another_directory(prelab: Lab) -> None:
    quote(prelab, "src", 8)
    for number in (1, 2, 3):
        quoted(prelab, number)
    assert counts(prelab)["used"] == BOTH
    quote(prelab, "other/src", 9)
    text = Path(quoting(prelab, 4)).read_text()
    prelab.compile(*words(prelab), source=str(prelab.write("other/src/q4.hip", text)))
    assert counts(prelab)["used"] == BOTH


def test_headers_in_quotes_that_go_without(prelab: Lab) -> None:
    """Directories for names in quotes alone; a source that is named by a relative path."""
    quote(prelab, "inc")
    for number in (1, 2, 3):
        quoted(prelab, number, f"-iquote{prelab.root}/nowhere")
        quoting(prelab, number)
        prelab.compile(*words(prelab), "-O1", source=f"src/q{number}.hip")
    assert not any(counts(prelab).values())


def test_a_header_in_quotes_that_goes_on_to_the_next_of_its_name(prelab: Lab) -> None:
    quote(prelab, "inc")
    prelab.write("first/deep/quoted.hpp", "#include_next <deep/quoted.hpp>\n#define FIRST 1\n")
    for number in (1, 2, 3):
        assert quoted(prelab, number).object
    assert counts(prelab)["used"] == BOTH
