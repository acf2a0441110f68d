"""A whole compile for a team: its direct record without what is of one machine, in the manifest of its command
(`remote/invocation`).

The record has no state, since a status says nothing on another machine: contents decide there, and no guard counts as
it stands. What a compile comes to must follow from that (`surroundings.is_of_any_machine`).

Which variables matter is known by name, and another machine has others: `adopted` adds those of its own that the tools
of the record never ask for (`direct/variables`). Are the tools others, the record does not hold in any case.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence

from hipcache.direct import variables
from hipcache.direct.guards import DIGITS, GUARD
from hipcache.direct.record import NO_STATE, DirectRecord, pack_list
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.memos import Memos
from hipcache.inputs.readset import Status
from hipcache.inputs.watched import FILE, Watched
from hipcache.remote import invocation
from hipcache.remote.invocation import Invocation, Manifest, merged, unpack
from hipcache.store import Store
from hipcache.values import dataclass, replace

_IGNORED_AT = 32 + 32 + 8
_NO_MEMOS = Memos(lambda key: None, lambda key, memo: None)


@dataclass(frozen=True)
class Made:
    """A whole compile as its record has it. `everywhere`: that for every checkout, if there is one; `system`: what is
    in the system list; `reads`, `asked`: see `remote/invocation`; `tools`: as of `Whole`."""

    record: DirectRecord
    everywhere: DirectRecord | None
    system: Sequence[Watched]
    reads: tuple[tuple[str, str], ...]
    tools: Mapping[str, tuple[str, ...]]
    asked: tuple[str, ...]

    def keep(self, store: Store, argv: Sequence[str], cwd: str, base: str) -> str:
        """Put it into the manifest of its command; the key of that, empty where it is there already. `base`: the base
        directory. Raises StoreError, and ValueError as `DirectRecord.pack`."""
        basedir = Basedir(base)
        key = invocation.key(argv, cwd, basedir.portable)
        mine = self._invocation(argv, basedir.portable if self.everywhere else str, store.put_blob)
        old = store.get_action(key)
        new = merged(Manifest((mine,), self.asked), unpack(old)).pack()
        if new == old:
            return ""
        store.put_action(key, new)
        return key

    def _invocation(
        self, argv: Sequence[str], portable: Callable[[str], str], put_blob: Callable[[bytes], str]
    ) -> Invocation:
        record = self.everywhere or self.record
        system_list = put_blob(pack_list(_without_guards(self.system)))
        shared = replace(
            record,
            state=NO_STATE,
            system=NO_STATE,
            history=(),
            watched=_without_guards(record.watched),
            system_list=system_list,
            uses=((False, system_list), (False, record.system_contents)),
        )
        needs = (system_list, record.system_contents, *(one.digest for one, _ in record.outputs))
        return Invocation(
            tuple(map(portable, argv)),
            put_blob(shared.pack()),
            tuple(dict.fromkeys(needs)),
            tuple((portable(path), digest) for path, digest in self.reads),
            tuple(sorted({file for files in self.tools.values() for file in files})),
            everywhere=self.everywhere is not None,
        )


def _without_guards(watched: Iterable[Watched]) -> tuple[Watched, ...]:
    """A guard of no status: it is renewed by who finds all as it was."""
    return tuple(Watched(GUARD, "0" * DIGITS + one.path[DIGITS:]) if one.kind == GUARD else one for one in watched)


def project_reads(
    watched: Iterable[Watched], found: Mapping[tuple[str, str], bytes], digests: Mapping[Status, str]
) -> list[tuple[str, str]]:
    """Files and the digests of their contents, where these are known. `found`: as of `watched.look`."""
    reads = []
    for one in watched:
        text = found.get((one.kind, one.path), b"")
        if one.kind == FILE and text:
            device, inode, _, size, modified, changed = struct.unpack("<QQQQqq", text)
            digest = digests.get((device, inode, size, modified, changed))
            if digest:
                reads.append((one.path, digest))
    return reads


class Variables:
    """Which variables of this environment the tools of a record never ask for. Each set of tools is looked at once, and
    nothing of it is kept: the digests of these files are another machine's word."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._never: dict[tuple[str, ...], set[str]] = {}

    def adopted(self, record: bytes, tools: tuple[str, ...]) -> bytes:
        """The record, in which these are ignored, too."""
        if len(record) < _IGNORED_AT + 4 or not tools:
            return record
        (size,) = struct.unpack_from("<I", record, _IGNORED_AT)
        names = record[_IGNORED_AT + 4 : _IGNORED_AT + 4 + size]
        if tools not in self._never:
            self._never[tools] = variables.never_asked(self._environ, {"": tools}, _NO_MEMOS)
        raw = {name.encode("utf-8", "surrogateescape") for name in self._never[tools]}
        ignored = b"".join(name + b"\0" for name in sorted(raw | set(filter(None, names.split(b"\0")))))
        return b"".join(
            [
                record[:_IGNORED_AT],
                struct.pack("<I", len(ignored)),
                ignored,
                record[_IGNORED_AT + 4 + size :],
            ]
        )
