#!/usr/bin/env python3
"""Many trials of one kind of misfortune: no wrong object, no lost build, no hang, no write outside of the store.

    scripts/campaign.py NAME [--trials N] [--seed N] [--first N] [--seconds S] [--compiler CLANG] [--keep DIR]

NAME is one of those that `scripts/campaign.py --list` shows. A trial is a seed and a number: the same two give the same
trial again (`--first 17 --trials 1`). Prints how many trials there were, what they came to, and each finding; ends with
status 1 if there was one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from campaigns.corruptions import Corruptions
from campaigns.crowds import Crowds
from campaigns.disks import Disks
from campaigns.kills import Kills
from campaigns.limits import Limits
from campaigns.misfortune import Campaign
from campaigns.packets import Packets
from campaigns.place import Finding, Place
from campaigns.signals import Signals
from campaigns.users import Users
from hip_toolchain import chosen

ALL: tuple[type[Campaign], ...] = (Kills, Corruptions, Users, Disks, Limits, Signals, Crowds, Packets)
CAMPAIGNS = {one.name: one for one in ALL}
LAUNCHER = (str(Path(sys.executable).with_name("hipcache")),)
COMPILER = f"/usr/bin/{chosen()[-1].name}"


def run(
    name: str,
    trials: int,
    seed: int,
    *,
    first: int = 0,
    seconds: float = 0,
    launcher: Sequence[str] = LAUNCHER,
    compiler: str = COMPILER,
    settled: float = 2.2,
    keep: Path | None = None,
) -> tuple[int, list[str], str]:
    """(trials that were run, findings, what the trials came to). `settled`: see `Place`; `keep`: where to leave the
    place; `seconds`: stop after so many."""
    root = keep or Path(tempfile.mkdtemp(prefix="hc-"))
    root.mkdir(parents=True, exist_ok=True)
    campaign = CAMPAIGNS[name](Place(root, launcher, compiler, settled))
    findings: list[str] = []
    done = 0
    try:
        try:
            campaign.begin()
        except Finding as finding:
            findings.append(f"{name}, seed {seed}, before the first trial: {finding}")
            print(findings[-1], file=sys.stderr, flush=True)
            return done, findings, ""
        begun = time.monotonic()
        for number in range(first, first + trials):
            if seconds and time.monotonic() - begun > seconds:
                break
            done += 1
            try:
                campaign.trial(number, Random(f"{seed} {number}"))
            except Finding as finding:
                findings.append(f"{name}, seed {seed}, trial {number}: {finding}")
                print(findings[-1], file=sys.stderr, flush=True)
        try:
            campaign.end()
        except Finding as finding:
            findings.append(f"{name}, seed {seed}, at the end: {finding}")
            print(findings[-1], file=sys.stderr, flush=True)
    finally:
        campaign.place.end()
        if keep is None:
            shutil.rmtree(root, ignore_errors=True)
    came_to = ", ".join(f"{count} {what}" for what, count in sorted(campaign.tally.items()))
    return done, findings, came_to


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=sorted(CAMPAIGNS))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--trials", type=int, default=0, help="default: those of a campaign in full")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first trial")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--compiler", default=COMPILER)
    parser.add_argument("--keep", type=Path, help="an empty directory with a short path, which stays")
    options = parser.parse_args()
    if options.list or not options.name:
        for name, campaign in CAMPAIGNS.items():
            print(f"{name:<14}{campaign.trials:>6} trials  {(campaign.__doc__ or '').splitlines()[0]}")
        return 0
    trials = options.trials or CAMPAIGNS[options.name].trials
    # Started in the background of a shell, it ignores SIGINT, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    begun = time.monotonic()
    done, findings, came_to = run(
        options.name,
        trials,
        options.seed,
        first=options.first,
        seconds=options.seconds,
        compiler=options.compiler,
        keep=options.keep,
    )
    with open(LAUNCHER[0], "rb") as launcher:
        native = launcher.read(4) == b"\x7fELF"
    took = time.monotonic() - begun
    print(f"{options.name}: {done} trials, {len(findings)} findings (seed {options.seed}, {took:.0f} s, {_commit()})")
    print(f"  {came_to}{'' if native else '; without the native launcher, which was not built'}")
    return 1 if findings else 0


def _commit() -> str:
    words = ["git", "-C", os.path.dirname(os.path.abspath(__file__)), "log", "-1", "--format=%h of %cs"]
    asked = subprocess.run(words, capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "no commit"


if __name__ == "__main__":
    sys.exit(main())
