"""Crowds: many processes at once in one store, with `gc` and `clear` beside them."""

from __future__ import annotations

import os
import subprocess
import time
from random import Random

from campaigns.misfortune import Campaign
from campaigns.place import Ended, Finding, end_group

PROCESSES = 256
SOURCES = 4
BOUND = 600.0
BESIDE = (["gc"], ["clear"], ["gc", "--max-size", "100k"], ["verify"], ["stats", "--json"])


class Crowds(Campaign):
    """256 compiles at once of few sources into objects of their own, and `gc`, `clear` and `verify` beside them."""

    name = "crowds"
    trials = 10
    processes = PROCESSES

    sources = SOURCES

    def trial(self, number: int, dice: Random) -> None:
        place = self.place
        place.restore(None if dice.random() < 0.4 else place.template)
        bound = {"HIPCACHE_MAX_SIZE": "60k"} if dice.random() < 0.3 else {}
        started: list[tuple[str, str, subprocess.Popen[bytes]]] = []
        beside: list[subprocess.Popen[bytes]] = []
        try:
            for one in range(self.processes):
                source = dice.choice(sorted(place.golden))
                output = f"crowd-{one}.o"
                words = place.words(source, output)
                started.append((source, output, place.start(words, resident=dice.random() < 0.5, env=bound)))
                if dice.random() < 0.04:
                    beside.append(place.start([*place.launcher, *dice.choice(BESIDE)]))
            end = time.monotonic() + BOUND
            wrong = [self._ended(*one, end) for one in started]
            wrong += [self._verb_ended(process, end) for process in beside]
        finally:
            for process in (*(one[2] for one in started), *beside):
                if process.poll() is None:
                    end_group(process)
        self.tally["compiles"] += len(started)
        self.tally["verbs"] += len(beside)
        for name in os.listdir(place.work):
            if name.startswith("crowd-"):
                (place.work / name).unlink()
        found = [text for text in wrong if text]
        if found:
            raise Finding(f"{len(found)} of {len(wrong)}: {found[0]}")
        place.compile()
        place.check_untouched()
        self._verify()

    def _ended(self, source: str, output: str, process: subprocess.Popen[bytes], end: float) -> str:
        ended = self._wait(process, end)
        if isinstance(ended, str):
            return ended
        path = self.place.work / output
        if ended.status != 0 or "Traceback" in ended.err:
            return f"lost build: status {ended.status}: {ended.err[-300:]}"
        return "" if path.read_bytes() == self.place.golden[source] else f"wrong object of '{source}'"

    def _verb_ended(self, process: subprocess.Popen[bytes], end: float) -> str:
        ended = self._wait(process, end)
        if isinstance(ended, str):
            return ended
        # `verify` may find that a record's blob has just been removed.
        bad = ended.status not in (0, 1) or "Traceback" in ended.err
        return f"{process.args!r} ends with {ended.status}: {ended.err[-300:]}" if bad else ""

    def _wait(self, process: subprocess.Popen[bytes], end: float) -> Ended | str:
        try:
            return self.place.wait(process, max(1.0, end - time.monotonic()))
        except Finding as finding:
            return str(finding)

    def _verify(self) -> None:
        """When all have ended, no entry is damaged (but what was evicted may be missed by its record)."""
        ended = self.place.run([*self.place.launcher, "verify"])
        damaged = [line for line in ended.out.splitlines() if "digest" in line or "read" in line.partition(":")[2]]
        if damaged:
            raise Finding(f"damaged: {damaged[0]}")
