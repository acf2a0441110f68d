"""What is known of a source, whatever its text is by now, so that its next pass does not try in vain what the last one
did. A wrong note costs time, never a wrong result."""

from __future__ import annotations

import os

from hipcache.execution.session import Session
from hipcache.inputs.keys import make_key
from hipcache.planning.frontend import FrontEnd
from hipcache.values import dataclass, field

# Which pass it is, and the look of its messages.
_OF_A_PASS = ("-triple", "-target-cpu", "-fcolor-diagnostics")
_RECORDS = {True: b'{"outputs": [], "holds": true}', False: b'{"outputs": []}'}


@dataclass(frozen=True)
class SourceNotes:
    """`what`: that which such a note says, in words; `of_passes`: does it hold for one pass over the source alone, as
    its messages look (with colours or without)?"""

    session: Session
    what: str
    of_passes: bool = False
    _known: dict[str, bool] = field(default_factory=dict)

    def holds(self, front: FrontEnd) -> bool:
        """False where nothing is known."""
        key = self._key(front)
        if key not in self._known:
            self._known[key] = self.session.shelves.near.actions.get([key]).get(key) == _RECORDS[True]
        return self._known[key]

    def note(self, front: FrontEnd, *, holds: bool) -> None:
        if self.holds(front) != holds:
            key = self._key(front)
            self._known[key] = holds
            self.session.shelves.near.put(key, _RECORDS[holds])

    def _key(self, front: FrontEnd) -> str:
        source = os.path.join(self.session.command.cwd, front.source)
        parts = [("source", source)]
        if self.of_passes:
            parts += [("option", " ".join(option.text)) for option in front.job.options if option.name in _OF_A_PASS]
        return make_key(self.what, parts).digest
