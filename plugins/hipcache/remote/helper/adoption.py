"""Takes a whole compile of a team's into this store: its direct record goes where the very command looks for it.

Whether the record is worth that follows from the manifest (`remote/invocation`): the command is the same, and so are
the project's files that it has read. The native launcher compares all that the record lists, as ever.

Which variables matter is known by name, and another machine has others: those that the tools of the record never ask
for are added to those that it ignores (`direct/variables`). Are the tools others, the record does not hold in any case.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from hipcache.base.errors import StoreError
from hipcache.base.values import dataclass, field
from hipcache.direct import elsewhere, record, variables
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.keys import digest_file
from hipcache.inputs.memos import Memos
from hipcache.inputs.readset import known_by
from hipcache.remote import invocation
from hipcache.remote.invocation import Invocation, Manifest
from hipcache.store import Store

_NO_MEMOS = Memos(lambda key: None, lambda key, memo: None)


@dataclass
class Searches:
    """Finds the names of variables that the tools never ask for. Each set of tools is searched once for the same names,
    by one thread. Nothing of it is stored, since another machine says which tools these are."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[tuple[object, ...], set[str]] = field(default_factory=dict)

    def never_asked(self, names: frozenset[str], tools: tuple[str, ...]) -> set[str]:
        with self._lock:
            key = (names, *((tool, _state(tool)) for tool in tools))
            if key not in self._known:
                self._known[key] = variables.never_asked(names, {"": tools}, _NO_MEMOS)
            return self._known[key]


@dataclass
class Adoption:
    """Into `store`, by a command with these variables. `base`: the base directory, or nothing; `content`: who has
    direct records, where not only the store does."""

    store: Store
    environ: Mapping[str, str]
    base: str
    searches: Searches = field(default_factory=Searches)
    content: Callable[[str], bytes | None] | None = None
    _digests: dict[str, str] = field(default_factory=dict)
    _variables: dict[tuple[frozenset[str], str, bool], str] = field(default_factory=dict)

    def key(self, argv: Sequence[str], cwd: str) -> str:
        """The key of the manifest of a command."""
        return invocation.manifest_key(argv, cwd, self._basedir.portable)

    def fitting(self, manifest: Manifest, argv: Sequence[str]) -> Invocation | None:
        """The compile that the command stands for, as far as the project's own files show it."""
        for known in manifest.invocations:
            local = self._local(known)
            if invocation.plain(map(local, known.argv)) == invocation.plain(argv) and all(
                self._digest(local(path)) == digest for path, digest in known.reads
            ):
                return known
        return None

    def is_of(self, known: Invocation, argv: Sequence[str]) -> bool:
        """Is it that very command, with the options of dependency files?"""
        return tuple(map(self._local(known), known.argv)) == tuple(argv)

    def is_here(self, known: Invocation, cwd: str) -> bool:
        return self.store.get_action(self._direct_key(known, cwd)) is not None

    def adopt(self, known: Invocation, cwd: str) -> bool:
        """False if not all of its contents are in the store, or nothing can be written there."""
        with suppress(StoreError):
            record = self.record(known, cwd)
            self.store.put_actions(record)
            return bool(record)
        return False

    def record(self, known: Invocation, cwd: str) -> dict[str, bytes]:
        """The record that `adopt` puts into the store, by its key; none if not all of its contents are there."""
        content = (self.content or self.store.get_blob)(known.record)
        if content is None or not all(map(self.store.has_blob, known.needs)):
            return {}
        return {self._direct_key(known, cwd): self._with_variables(content, known, cwd)}

    def _direct_key(self, known: Invocation, cwd: str) -> str:
        """The key of the direct record of this command; no manifest can choose another one."""
        argv = tuple(map(self._local(known), known.argv))
        return elsewhere.key(argv, cwd, self.base) if known.everywhere else record.key(argv, cwd)

    def _with_variables(self, content: bytes, known: Invocation, cwd: str) -> bytes:
        ignored = record.ignored_in(content)
        if ignored is None or not known.tools:
            return content
        if record.has_variables(content, self._variables_digest(ignored, cwd, everywhere=known.everywhere)):
            return content  # most machines of a team have the same: the tools are large
        return record.ignoring(
            content, ignored | self.searches.never_asked(frozenset(self.environ) - ignored, known.tools)
        )

    def _variables_digest(self, ignored: frozenset[str], cwd: str, *, everywhere: bool) -> str:
        """The digest of the variables that count for this command; records of one build ignore the same ones."""
        if (ignored, cwd, everywhere) not in self._variables:
            portable = self._basedir.portable if everywhere else str
            mine = variables.compared(self.environ, ignored, cwd)
            digest = record.variables_digest({name: portable(value) for name, value in mine.items()})
            self._variables[ignored, cwd, everywhere] = digest
        return self._variables[ignored, cwd, everywhere]

    @property
    def _basedir(self) -> Basedir:
        return Basedir(self.base)

    def _local(self, known: Invocation) -> Callable[[str], str]:
        return self._basedir.local if known.everywhere else str

    def _digest(self, path: str) -> str:
        """Empty if it cannot be read."""
        if path not in self._digests:
            self._digests[path] = ""
            with suppress(OSError, ValueError):
                self._digests[path] = digest_file(path)
        return self._digests[path]


def _state(path: str) -> object:
    with suppress(OSError, ValueError):
        return known_by(path)
    return ()
