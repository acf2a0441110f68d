"""The passes of one compile that may share a front end (`execution.shared_front_ends`), in groups of GPUs that are the
same to clang: which pass of a group leads, and how long the others wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext

from hipcache.execution.attempt import Attempt, Way
from hipcache.execution.gpu_features import GpuFeatures
from hipcache.execution.session import Session
from hipcache.model import Pass
from hipcache.planning.alike import Kind
from hipcache.planning.frontend import FrontEnd
from hipcache.values import dataclass, field

# Passes that begin within so many seconds choose a leader together.
_GATHERING = 0.02
# One of all that wait looks so often (seconds) whether there is a free slot. Other passes need one soon if it was not
# free so many times in a row: their engines prepare them.
_PAUSE = 0.05
_IDLE = 5


@dataclass(frozen=True)
class Text:
    """The text that a pass reads. `digest`: of the text; `read`: the run that wrote it."""

    digest: str
    read: Attempt


@dataclass
class Member:
    """A pass that may serve others, or be served. `name`: of the pass, in messages; `way`: how it is run, with another
    stem for its files in the scratch; `plainly`: runs it so; `alone`: runs it as if there were no other, maybe with a
    preamble. `leads`: is it to serve others? `ended`: it has come to something, which is `attempt` if it went well.
    `text`, `assembly`: of one that leads, what it has read, or why that serves nobody, and what its bitcode says (empty
    if clang cannot tell); None where it is not known yet. `number`: that of its GPU, if its bitcode says it."""

    name: str
    work: Pass
    kind: Kind
    way: Callable[[str], Way]
    plainly: Callable[[], Attempt]
    alone: Callable[[], Attempt]
    leads: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    attempt: Attempt | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    text: Text | str | None = None
    assembly: bytes | None = None
    number: int | None = None

    @property
    def front(self) -> FrontEnd:
        return self.work.front

    @property
    def arch(self) -> str:
        return self.kind.arch


class GpuGroups:
    """Those of one compile."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._groups: dict[str, list[Member]] = {}
        self._features = GpuFeatures(session)
        self._looked, self._idle = 0.0, 0

    def leader(self, mine: Member) -> Member:
        """That which the pass is to wait for; or itself, as one for others. They begin at about the same time. The
        first by name leads: the next time it is the same one, which has its preamble, and whose pairs are known."""
        with self._lock:
            group = self._groups.setdefault(mine.kind.key.digest, [])
            group.append(mine)
        time.sleep(_GATHERING)
        with self._lock:
            first = min(group, key=lambda one: one.arch)
            if first is mine and not any(one.leads for one in group):
                mine.leads = True  # whoever is like it
                return mine
        for one in (mine, *group):
            self._features.of(one.front, one.arch)  # before the lock: this may run a compiler
        with self._lock:
            same = [one for one in group if one is mine or self._have_same_features(one, mine)]
            leader = next((one for one in same if one.leads), None) or min(same, key=lambda one: one.arch)
            leader.leads = True
            return leader

    def is_slot_free(self) -> bool:
        """Has one been free for a while? Only one of those that ask is told so."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked < _PAUSE:
                return False
            self._looked = now
            slot = self._session.engine.slots.attempt()
            with slot or nullcontext():
                self._idle = self._idle + 1 if slot else 0
            if self._idle < _IDLE:
                return False
            self._idle = 0
            return True

    def _have_same_features(self, one: Member, other: Member) -> bool:
        known = self._features.known(one.front, one.arch)
        return bool(known) and known == self._features.known(other.front, other.arch)
