"""Options of configuration files and of CCC_OVERRIDE_OPTIONS: the driver puts them before those of the command, and so
before hipcache's own."""

from __future__ import annotations

import pytest
from at_once import both
from hip import CUID, HIT, Lab, explained, only_19

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
