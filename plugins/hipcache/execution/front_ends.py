"""The ways to run a front end: as its command says, or as a feature knows better."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from hipcache import features
from hipcache.clang.frontend import Pass
from hipcache.execution.attempt import Attempt, Way
from hipcache.execution.session import Session


class FrontEndWay(Protocol):
    def run(self, name: str, work: Pass, way: Callable[[str], Way], plainly: Callable[[], Attempt]) -> Attempt:
        """`name`: of the pass, in messages; `way`: how it is run, with another stem for its files in the scratch;
        `plainly`: runs it so. Raises as `plainly`."""


class FrontEndWays:
    """Those of one compile, loaded when its first pass runs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._found: FrontEndWay | None = None

    def run(self, name: str, work: Pass, way: Callable[[str], Way], plainly: Callable[[], Attempt]) -> Attempt:
        engine = self._session.engine
        found = self._feature() if engine.preambles and not engine.recache else None
        return found.run(name, work, way, plainly) if found else plainly()

    def _feature(self) -> FrontEndWay | None:
        with self._lock:
            for front_end in () if self._found else features.added("front_end"):
                self._found = front_end(self._session)
            return self._found
