"""One kind of misfortune: what all campaigns share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from campaigns.place import Finding, Place


class Campaign:
    """One kind of misfortune. `trials`: how many make a campaign in full; `sources`: of its project."""

    name = ""
    trials = 1000
    sources = 1

    def __init__(self, place: Place) -> None:
        self.place = place
        self.tally: Counter[str] = Counter()

    def begin(self) -> None:
        """Before the first trial."""
        self.place.prepare(self.sources)

    def trial(self, number: int, dice: Random) -> None:
        """Raises Finding."""
        raise NotImplementedError

    def end(self) -> None:
        """After the last one; raises Finding."""

    def verb(self, words: Sequence[str]) -> None:
        """A subcommand of hipcache: none may end with a traceback or hang, whatever it finds."""
        ended = self.place.run([*self.place.launcher, *words])
        if "Traceback" in ended.err or ended.status not in (0, 1):
            raise Finding(f"'hipcache {' '.join(words)}' ends with {ended.status}: {ended.err[-300:]}")
