"""A lab in which Debian's real hipcc compiles: the one in Perl with clang 15, or a newer one, a program."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hip import ARCHS, BARE, COMPILERS, CUID, FULL, HIT, PASSED_THROUGH, Compiled, Lab

SOURCE = """\
#include "hip_in_short.hpp"
#ifndef VALUE
#define VALUE 3
#endif
extern "C" __global__ void kernel(int* p) { p[0] = p[1] * VALUE; }
extern "C" int host() { return VALUE; }
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab.make(tmp_path, COMPILERS[0])
    lab.write("k.cpp", SOURCE)
    time.sleep(0.02)
    return lab


def words(*flags: str, hipcc: str = "hipcc", source: str = "k.cpp") -> list[str]:
    """For one architecture in a short run, where `flags` name none."""
    archs = () if any("-arch=" in flag or "amdgpu-target" in flag for flag in flags) else ARCHS[: 2 if FULL else 1]
    return [hipcc, *archs, *BARE, CUID, *flags, "-c", source, "-o", "out.o"]


def warm(lab: Lab, *flags: str, env: dict[str, str] | None = None) -> Compiled:
    lab.same(words(*flags), env=env)
    second = lab.same(words(*flags), env=env)
    assert second.outcome == HIT, second.counted
    return second


def pass_wrapper(lab: Lab, command: list[str], reason: str = "wrapper", env: dict[str, str] | None = None) -> None:
    ended = lab.same(command, env=env)
    assert (ended.outcome, ended.counted.reason) == (PASSED_THROUGH, reason)
