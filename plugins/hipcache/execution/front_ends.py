"""The ways to run a front end: as its command says, or as a feature knows better."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Protocol

from hipcache.execution.attempt import Attempt, Way
from hipcache.execution.session import Session
from hipcache.model import Pass

# The features, each a package that may be missing; its WAY is a `FrontEndWay`.
_FEATURES = ("hipcache.driver_header",)


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
            for name in () if self._found else _FEATURES:
                try:
                    self._found = importlib.import_module(name).WAY(self._session)
                except ModuleNotFoundError as error:
                    if error.name != name:
                        raise
            return self._found
