"""The campaigns in short (`scripts/campaign.py`): each of them, so that they work, and a few trials of misfortune."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hip import FULL, LAUNCHER, LLVM

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import campaign
from campaigns import crowds

# Trials of a short run; ten times as many in a full one.
TRIALS = {"kills": 25, "corruptions": 8, "disks": 2, "limits": 3, "signals": 4, "crowds": 1, "packets": 500, "users": 6}


@pytest.mark.parametrize("name", sorted(campaign.CAMPAIGNS))
def test_no_trial_finds_anything(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds.Crowds, "processes", crowds.PROCESSES if FULL else 8)
    trials = TRIALS[name] * (10 if FULL else 1)
    compiler = str(LLVM["19"] / "bin" / "clang++")
    try:
        done, findings, _ = campaign.run(name, trials, 1, launcher=LAUNCHER, compiler=compiler, settled=0.06)
    except SystemExit as impossible:  # who is not root can neither mount a small file system nor become others
        pytest.skip(str(impossible))
    assert (done, findings) == (trials, [])


def test_a_wrong_object_is_a_finding(capfd: pytest.CaptureFixture[str]) -> None:
    """A launcher that compiles something else: else the campaigns show nothing."""
    other = ("/bin/sh", "-c", 'exec "$0" "$@" -DOTHER=1 -g')
    compiler = str(LLVM["19"] / "bin" / "clang++")
    done, findings, _ = campaign.run("corruptions", 2, 1, launcher=other, compiler=compiler, settled=0.06)
    assert (done, len(findings)) == (0, 1)
    assert "wrong object" in findings[0]
    assert "wrong object" in capfd.readouterr().err
