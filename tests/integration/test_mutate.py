"""Random mutation of small projects beside plain clang (`scripts/mutate.py`): some seeds that were chosen once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hip import FULL

SCRIPTS = Path(__file__).parents[2] / "scripts"
STEPS = 400 if FULL else 20
# 400 steps take 5 minutes on two cores, and as many times that as others use them.
SECONDS = 3000 if FULL else 600


@pytest.mark.parametrize(("compiler", "seed"), [("15", 715), ("19", 720)])
def test_a_random_mutation_is_seen_as_plain_clang_sees_it(compiler: str, seed: int) -> None:
    words = ["--steps", str(STEPS), "--each", "20", "--seed", str(seed), "--compiler", compiler]
    done = subprocess.run(
        [sys.executable, SCRIPTS / "mutate.py", *words], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["findings"] == 0
    assert said["steps"] == STEPS
    assert sum(said.get(name, 0) for name in ("hit", "partial", "miss")) > STEPS / 2


def test_a_difference_is_reported_with_its_seed_and_its_way() -> None:
    program = """\
import collections, mutate
from hipcache.app import launch as launcher
launch = launcher.launch
launcher.launch = lambda argv, environ, racy: launch([argv[0], "-DWANTED=7", *argv[1:]], environ, racy=racy)
found = (mutate.check(seed, 6, collections.Counter(), instead="/usr/bin/clang++-15") for seed in range(1, 9))
print(next(filter(None, found), None))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=SCRIPTS, capture_output=True, text=True, timeout=600, check=False
    )
    assert "seed " in done.stdout, done.stderr
    assert "the engine: " in done.stdout
    assert "clang++-15 " in done.stdout
