"""Signals: SIGINT, SIGTERM and SIGHUP in the first moments of a compile, as Ctrl-C and a closed terminal send them."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from random import Random

from campaigns.misfortune import Campaign
from campaigns.place import BY_ENGINE, Finding, end_group

FIRST = 0.2  # seconds
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BOUND = 20.0


class Signals(Campaign):
    """SIGINT, SIGTERM and SIGHUP in the first 200 ms: it ends soon, by the signal, and says nothing of its own."""

    name = "signals"
    trials = 500

    def trial(self, number: int, dice: Random) -> None:
        place = self.place
        if dice.random() < 0.6:
            place.restore_cold(dice)
            env = {}
        else:
            place.restore(place.template)
            env = BY_ENGINE
        which = dice.choice(SIGNALS)
        place.object_of().unlink(missing_ok=True)
        process = place.start(place.words(), env=env)
        time.sleep(dice.random() * FIRST)
        group = dice.random() < 0.5
        with suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(process.pid, which)
        ended = place.wait(process, BOUND)
        told = f"{which.name} to {'the group' if group else 'it alone'}"
        if ended.status not in (0, -which):
            raise Finding(f"{told}: status {ended.status}: {ended.err.strip()[-300:]}")
        if "Traceback" in ended.err or "Exception" in ended.err:
            raise Finding(f"{told}: {ended.err.strip()[-300:]}")
        self.tally["ended before" if ended.status == 0 else f"ended by {which.name}"] += 1
        end_group(process)
        place.check_object("k0.hip", must=ended.status == 0)
        if ended.status and number % 4 == 0:
            place.compile()
        place.check_untouched()
