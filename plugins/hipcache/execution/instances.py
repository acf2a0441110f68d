"""Which preambles may have instances of templates (`planning/instances`), and for which passes these do not matter."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from hipcache.execution.attempt import Attempt
from hipcache.execution.own_texts import OwnTexts
from hipcache.execution.preamble_values import NAME, Preamble, Refused
from hipcache.execution.session import Session
from hipcache.execution.source_notes import SourceNotes
from hipcache.inputs.readset import ReadSet
from hipcache.making import bitcode
from hipcache.planning import declared, header_rules, instances
from hipcache.planning.declared import Declared
from hipcache.planning.frontend import FrontEnd
from hipcache.planning.instances import Instances
from hipcache.values import dataclass, field

# In the path of each header of libstdc++ and of libc++.
_LIBRARY = "/c++/"


@dataclass(frozen=True)
class InstancesInUse:
    """For the passes of one compile."""

    session: Session
    own: OwnTexts
    _without: SourceNotes
    _headers: dict[tuple[str, str], frozenset[bytes]] = field(default_factory=dict)
    _declared: dict[str, Declared] = field(default_factory=dict)

    def suit(self, front: FrontEnd) -> bool:
        """Does the source go with them, as far as it is known?"""
        return not self._without.holds(front)

    def unsuited(self, front: FrontEnd) -> None:
        """From now on the source gets preambles without instances: it would fail with the others time and again."""
        self._without.note(front, holds=True)

    def stored(self, digest: str) -> Instances | None:
        """Those that the content lists; None if it is lost or damaged."""
        packed = self.session.shelves.shelf.contents.read(digest)
        return None if packed is None else Instances.unpack(packed)

    def listed(self, front: FrontEnd, text: Path, reads: ReadSet) -> Instances:
        """Those that the preamble has whose text is in that file, and which was made of `reads`. Raises Refused,
        JobFailed."""
        called = [self._called(one.path, one.digest) for one in reads.files]
        opened = declared.left_open(called, header_rules.macros(front))
        output = text.with_suffix(".ll")
        self.session.jobs.run(NAME, instances.listing(front, str(text), str(output)))
        return Instances(instances.names(output.read_bytes()), opened)

    def _called(self, path: str, digest: str) -> frozenset[bytes]:
        """What a header calls (`declared.called`). Raises Refused."""
        key = (path, digest)
        if key not in self._headers:
            try:
                content = Path(path).read_bytes()
            except OSError as error:
                raise Refused(f"'{path}': {error.strerror}") from error
            self._headers[key] = declared.called(content, of_library=_LIBRARY in path)
        return self._headers[key]

    def matter(self, front: FrontEnd, one: Preamble, made: Attempt) -> bool:
        """Could the bitcode of a pass with that preamble be another one because of its instances?"""
        if one.instances is None:
            return False
        output = made.output.read_bytes()
        if one.instances.are_in(output) or bitcode.VTABLE in output:
            return True
        macros = declared.of(header_rules.macros(front))
        users = self._all_declared(self.own.paths(front, made.trace.files))
        try:
            return one.instances.open.is_met(chain([macros], users))
        except OSError:  # one of them is gone
            return True

    def _all_declared(self, paths: Iterable[str]) -> Iterable[Declared]:
        for path in paths:
            if path not in self._declared:
                self._declared[path] = declared.of(self.own.text(path))
            yield self._declared[path]


def of(session: Session) -> InstancesInUse:
    return InstancesInUse(session, OwnTexts(session), SourceNotes(session, "source without instances in preambles"))
