"""Sources whose passes came to nothing with the precompiled header, so that their next passes do not try in vain.

A note is about one pass over one source, whatever its text is by now. A wrong one costs time, never a wrong result.
"""

from __future__ import annotations

import os

from hipcache.clang.frontend import FrontEnd
from hipcache.execution.session import Session
from hipcache.inputs.keys import make_key
from hipcache.values import dataclass

_OF_PASS = ("-triple", "-target-cpu", "-fcolor-diagnostics")
_RECORDS = {True: b'{"outputs": [], "holds": true}', False: b'{"outputs": []}'}


@dataclass(frozen=True)
class HeaderNotes:
    session: Session

    def holds(self, front: FrontEnd) -> bool:
        key = self._key(front)
        return self.session.shelves.near.actions.get([key]).get(key) == _RECORDS[True]

    def note(self, front: FrontEnd, *, holds: bool) -> None:
        if self.holds(front) != holds:
            self.session.shelves.near.put(self._key(front), _RECORDS[holds])

    def _key(self, front: FrontEnd) -> str:
        options = (option for option in front.job.options if option.name in _OF_PASS)
        parts = [("source", os.path.join(self.session.command.cwd, front.source))]
        parts += [("option", " ".join(option.text)) for option in options]
        return make_key("pass in vain with the driver's header", parts).digest
