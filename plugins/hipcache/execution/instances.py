"""Which preambles may have instances of templates (`planning/instances`), and for which passes these do not matter."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hipcache.execution.attempt import Attempt
from hipcache.execution.preamble_values import NAME, Preamble, Refused
from hipcache.execution.session import Session
from hipcache.execution.source_notes import SourceNotes
from hipcache.inputs.readset import ReadSet
from hipcache.inputs.search import SearchPath
from hipcache.making import bitcode
from hipcache.planning import declared, header_rules, instances
from hipcache.planning.declared import Declared, Header
from hipcache.planning.frontend import FrontEnd
from hipcache.planning.instances import Instances
from hipcache.values import dataclass, field

# In the path of each header of libstdc++ and of libc++.
_LIBRARY = "/c++/"


@dataclass(frozen=True)
class InstancesInUse:
    """For the passes of one compile."""

    session: Session
    _without: SourceNotes
    _headers: dict[tuple[str, str], Header] = field(default_factory=dict)
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
        headers = [self._header(front.search, one.path, one.digest) for one in reads.files]
        try:
            macros = declared.read(header_rules.macros(front), of_library=False, of_system=False)
            opened = declared.left_open([*headers, macros])
        except declared.Unclear as why:
            raise Refused(str(why)) from why
        output = text.with_suffix(".ll")
        self.session.jobs.run(NAME, instances.listing(front, str(text), str(output)))
        again = tuple(one.path for one, header in zip(reads.files, headers, strict=True) if header.says_more)
        return Instances(instances.names(output.read_bytes()), opened, again)

    def _header(self, search: SearchPath, path: str, digest: str) -> Header:
        """Raises Refused."""
        key = (path, digest)
        if key not in self._headers:
            try:
                content = Path(path).read_bytes()
            except OSError as error:
                raise Refused(f"'{path}': {error.strerror}") from error
            of_system = search.is_own(path, self.session.files.basedir)
            of_library = of_system and _LIBRARY in path
            self._headers[key] = declared.read(content, of_library=of_library, of_system=of_system)
        return self._headers[key]

    def matter(self, front: FrontEnd, one: Preamble, made: Attempt) -> bool:
        """Could the bitcode of a pass with that preamble be another one because of its instances?"""
        if one.instances is None:
            return False
        output = made.output.read_bytes()
        if one.instances.are_in(output) or bitcode.VTABLE in output:
            return True
        known = set(one.headers.read).difference(one.instances.again)
        basedir = self.session.files.basedir
        others = (file.path for file in made.trace.files if file.path not in known)
        users = (path for path in others if not front.search.is_own(path, basedir))
        return one.instances.open.is_met(self._all_declared(users))

    def _all_declared(self, paths: Iterable[str]) -> Iterable[Declared]:
        for path in paths:
            if path not in self._declared:
                with open(self.session.files.resolve(path), "rb") as file:
                    self._declared[path] = declared.of(file.read())
            yield self._declared[path]


def of(session: Session) -> InstancesInUse:
    return InstancesInUse(session, SourceNotes(session, "source without instances in preambles"))
