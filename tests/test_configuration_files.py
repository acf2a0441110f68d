"""Options of configuration files and of CCC_OVERRIDE_OPTIONS: the driver puts them before those of the command, and so
before hipcache's own."""

from __future__ import annotations

import re
import time

import pytest
from at_once import both
from hip import BARE, CUID, HIT, LAUNCHER, Lab, explained, in_terminal, only_19

pytestmark = [pytest.mark.takes_turns("lab"), pytest.mark.archs(1)]

STATIC = """\
#include "hip_in_short.hpp"
static __device__ int counter = 1;
void* address() { return (void*)&counter; }
int main() { return address() == 0; }
"""


def configured(lab: Lab, config: str) -> list[str]:
    """The words that read such a configuration file."""
    lab.write("own.cfg", config)
    return ["--config", "./own.cfg"]


def without_cuid(lab: Lab, *flags: str) -> list[str]:
    return [word for word in lab.words(*flags) if word != CUID]


# A CUID


@pytest.mark.parametrize("option", ["-cuid=mine", "-fuse-cuid=none"])
@pytest.mark.parametrize("flag", ["-fgpu-rdc", "-fno-gpu-rdc"])
def test_a_cuid_of_a_configuration_file_is_the_objects(lab: Lab, option: str, flag: str) -> None:
    lab.write("k.hip", STATIC)
    command = without_cuid(lab, flag, *configured(lab, option))
    assert lab.same(command).status == 0
    assert lab.same(command).outcome == HIT, explained(lab.environ)


@only_19
def test_that_of_an_edit_is(lab: Lab) -> None:
    lab.write("k.hip", STATIC)
    for edit in ("#^-fuse-cuid=none", "#+-cuid=mine"):
        for _ in range(2):
            made = lab.same(without_cuid(lab), env={"CCC_OVERRIDE_OPTIONS": edit})
        assert made.outcome == HIT, (edit, explained(lab.environ))


@pytest.mark.parametrize("flag", ["-fgpu-rdc", "-fno-gpu-rdc"])
def test_a_cuid_of_a_configuration_file_is_the_programs(lab: Lab, monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    monkeypatch.setattr("at_once.CUID", "-DQ")
    lab.write("k.hip", STATIC)
    flags = ["-nostdlib", "-shared", "-fPIC", flag, *configured(lab, "-cuid=mine")]
    for _ in range(2):
        made = both(lab, "k.hip", *lab.archs, *flags, libraries=("-no-hip-rt",))
        assert made.ended.status == 0, made.ended.err
    assert made.counted.outcome == HIT, explained(lab.environ)


# The width of messages


NARROW = {"TERM": "xterm", "COLUMNS": "60"}
WIDE = """\
[[nodiscard]] int a_function_with_a_long_name(int, int);
int use() { a_function_with_a_long_name(1000000, 2000000); return a_function_with_a_long_name(3000000, 4000000); }
"""


@pytest.mark.parametrize("edit", [False, True], ids=["file", "edit"])
def test_a_width_of_messages_is_the_one_on_a_terminal(lab: Lab, edit: bool) -> None:
    lab.write("k.hip", WIDE)
    if edit and lab.version == "15":
        pytest.skip("it knows no such edits")
    words = lab.words(*([] if edit else configured(lab, "-fmessage-length=0")))
    env = lab.environ | NARROW | ({"CCC_OVERRIDE_OPTIONS": "#^-fmessage-length=0"} if edit else {})
    time.sleep(0.05)
    plain = in_terminal(words, lab.root, env)
    assert b"a_function_with_a_long_name" in plain[1]
    assert b"..." not in plain[1]
    for _ in range(2):
        assert in_terminal([*LAUNCHER, *words], lab.root, env) == plain


def test_it_is_that_of_a_program(lab: Lab) -> None:
    lab.write("k.hip", WIDE)
    for flag in ("-fno-gpu-rdc", "-fgpu-rdc"):
        end = ["-nostdlib", "-no-hip-rt", "-shared", "-fPIC", flag, "k.hip", "-o", "k.so"]
        words = [lab.compiler, *lab.archs, *BARE, CUID, *configured(lab, "-fmessage-length=0"), *end]
        plain, cached = (in_terminal([*first, *words], lab.root, lab.environ | NARROW)[1] for first in ([], LAUNCHER))
        assert b"..." not in plain
        # ld names temporary objects.
        assert re.sub(rb"-[0-9a-f]{6}\b", b"", cached) == re.sub(rb"-[0-9a-f]{6}\b", b"", plain)
