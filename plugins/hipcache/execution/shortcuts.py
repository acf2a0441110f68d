"""The ways for a pass to do less than its command says: another GPU's front end, or a precompiled preamble. Each is
loaded when the first pass may use it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from hipcache.execution.attempt import Attempt, Way
from hipcache.execution.session import Session
from hipcache.model import Pass

if TYPE_CHECKING:
    from hipcache.execution.preamble_use import WithPreambles
    from hipcache.execution.shared_front_ends import SharedFrontEnds


class Shortcuts:
    """Those of one compile, as the engine allows them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._shared: SharedFrontEnds | None = None
        self._with_preambles: WithPreambles | None = None

    def run(self, name: str, work: Pass, way: Callable[[str], Way], plainly: Callable[[], Attempt]) -> Attempt:
        """`name`: of the pass, in messages; `way`: how it is run, with another stem for its files in the scratch;
        `plainly`: runs it so. Raises as `plainly`."""
        engine = self._session.engine

        def alone() -> Attempt:
            return self._preambles().run(name, work, way, plainly) if engine.preambles else plainly()

        may_share = engine.sharing and work.bitcode and work.one_of_several
        if may_share and not (engine.preambles and self._preambles().suffice(work)):
            return self._sharing().run(name, work, way, plainly, alone)
        return alone()

    def _preambles(self) -> WithPreambles:
        with self._lock:
            if self._with_preambles is None:
                from hipcache.execution import preamble_use

                self._with_preambles = preamble_use.WithPreambles(self._session)
            return self._with_preambles

    def _sharing(self) -> SharedFrontEnds:
        with self._lock:
            if self._shared is None:
                from hipcache.execution import shared_front_ends

                self._shared = shared_front_ends.SharedFrontEnds(self._session)
            return self._shared
