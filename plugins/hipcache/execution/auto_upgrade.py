"""LLVM's AutoUpgrade: whoever reads bitcode rewrites what an older LLVM would have written otherwise. Would the
compiler so change what its own front end has made? A compile in one step reads no bitcode, and never does.

The compiler itself is asked: it reads the bitcode, and writes it again. An item (`clang/bitcode`) that is not in
what it wrote has been upgraded. The answers are kept for each compiler, so that only bitcode with new items starts this
process: some 20 ms for small ones, 60 ms for a module of 400 KB.

Format of the memo, one for each compiler and target: JSON {"format": 1, "same": [digest of an item, ...], "changed":
[the same]}. Of two processes that write it at once one loses its answers, and asks again.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

from hipcache.base.errors import JobFailed
from hipcache.base.keys import make_key
from hipcache.base.values import dataclass, field
from hipcache.clang.bitcode import declared_items
from hipcache.clang.frontend import FrontEnd
from hipcache.execution.session import Session

_NAME = "reader of bitcode"  # in messages
_FORMAT = 1
# Answers in a memo; a set of new ones begins another memo.
_MOST = 1 << 14


@dataclass
class _Answers:
    same: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)

    def __contains__(self, item: str) -> bool:
        return item in self.same or item in self.changed


class AutoUpgrade:
    """For the passes of one compile."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._answers: dict[str, _Answers] = {}

    def changes(self, front: FrontEnd, bitcode: Path, content: bytes) -> bool:
        """Does the compiler of that pass change it? True if that is not known. `content`: of the file `bitcode`."""
        items = declared_items(content)
        if items is None:
            return True
        if not items:
            return False
        with self._lock:  # another pass may ask the same
            answers = self._known(front)
            if not all(item in answers for item in items) and not self._ask(front, bitcode, items):
                return True
        return not items <= answers.same

    def _known(self, front: FrontEnd) -> _Answers:
        key = self._key(front)
        if key not in self._answers:
            self._answers[key] = self._load(key)
        return self._answers[key]

    def _key(self, front: FrontEnd) -> str:
        tool = self._session.tool(front.job.program)
        return make_key("reader of bitcode", [("compiler", tool), ("target", _target(front))]).digest

    def _load(self, key: str) -> _Answers:
        raw = self._session.context.memos.load(key)
        try:
            memo = json.loads(raw) if raw else {}
            if memo.get("format") == _FORMAT and len(memo["same"]) + len(memo["changed"]) < _MOST:
                return _Answers(set(map(str, memo["same"])), set(map(str, memo["changed"])))
        except (ValueError, TypeError, KeyError, AttributeError):
            pass
        return _Answers()

    def _ask(self, front: FrontEnd, bitcode: Path, items: frozenset[str]) -> bool:
        """Note what becomes of the items; False if the compiler cannot read them, or if that cannot be said."""
        session, written = self._session, bitcode.with_suffix(".read.bc")
        argv = [front.job.program, "-cc1", "-triple", _target(front), "-emit-llvm-bc", "-disable-llvm-passes", "-w"]
        try:
            session.jobs.run(_NAME, [*argv, "-o", str(written), "-x", "ir", str(bitcode)])
            after = declared_items(written.read_bytes())
        except (JobFailed, OSError):
            return False
        if after is None:
            return False
        key = self._key(front)
        stored = self._load(key)  # with what others have asked meanwhile
        answers = self._answers[key]
        answers.same |= stored.same | (items & after)
        answers.changed |= stored.changed | (items - after)
        if not session.identities.changed():
            memo = {"format": _FORMAT, "same": sorted(answers.same), "changed": sorted(answers.changed)}
            session.context.memos.keep(key, json.dumps(memo).encode())
        return True


def _target(front: FrontEnd) -> str:
    return next((option.value for option in front.job.options if option.name == "-triple"), "")
