"""Kills: SIGKILL at a random moment of a compile, and the compile that comes after it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from random import Random

from campaigns.misfortune import Campaign
from campaigns.place import BY_ENGINE, end_group

# How long each kind of compile takes at most when the machine is free: the moment is chosen in that time.
SECONDS = {"cold": 0.9, "engine": 0.25, "direct": 0.02}
# One store lives through so many kills: damage may add up.
LIVES = 25


class Kills(Campaign):
    """SIGKILL at random moments of cold and warm compiles, of the whole group or of the first process alone."""

    name = "kills"
    trials = 1000
    sources = 2

    def trial(self, number: int, dice: Random) -> None:
        place = self.place
        kind = dice.choice(["cold", "cold", "engine", "direct"])
        resident = dice.random() < 0.5
        if number % LIVES == 0:
            place.restore(place.template)
        env = BY_ENGINE if kind == "engine" else {}
        if kind == "cold":
            # All of it is compiled anew, and put into the store again.
            env = {"HIPCACHE_RECACHE": "1"} if dice.random() < 0.5 else {}
            if not env:
                place.restore_cold(dice)
        source = dice.choice(sorted(place.golden))
        place.object_of(source).unlink(missing_ok=True)
        process = place.start(place.words(source), resident=resident, env=env)
        time.sleep(dice.random() * SECONDS[kind])
        ended = process.poll() is not None
        if dice.random() < 0.7:
            end_group(process)
        else:
            _kill_alone(process)
        self.tally[f"{kind} ended before" if ended else f"{kind} killed"] += 1
        place.check_object(source)
        place.check_untouched()
        for path in place.work.glob(".*"):
            path.unlink(missing_ok=True)
        place.compile(source, resident=resident)
        place.check_untouched()


def _kill_alone(process: subprocess.Popen[bytes]) -> None:
    """The first process; those that it started go on meanwhile, and are ended before the next compile."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    time.sleep(0.02)
    end_group(process)
