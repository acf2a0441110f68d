"""A whole compile for a team: its direct record without what is of one machine, in the manifest of its command
(`remote/invocation`).

The record has no state, since a status says nothing on another machine: contents decide there, and no guard counts as
it stands. What a compile comes to must follow from that (`surroundings.is_of_any_machine`).

How it is taken into another store: `remote/helper/adoption`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence

from hipcache.direct.guards import DIGITS, GUARD
from hipcache.direct.record import NO_STATE, DirectRecord, pack_list
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.readset import Status
from hipcache.inputs.watched import FILE, Watched
from hipcache.remote import invocation
from hipcache.remote.invocation import Invocation, Manifest, merged, unpack
from hipcache.store import Store
from hipcache.values import dataclass, replace


@dataclass(frozen=True)
class Made:
    """A whole compile as its record has it. `everywhere`: that for every checkout, if there is one; `system`: what is
    in the system list; `reads`, `asked`: see `remote/invocation`; `tools`: as of `Provenance`."""

    record: DirectRecord
    everywhere: DirectRecord | None
    system: Sequence[Watched]
    reads: tuple[tuple[str, str], ...]
    tools: Mapping[str, tuple[str, ...]]
    asked: tuple[str, ...]

    def keep(self, store: Store, argv: Sequence[str], cwd: str, base: str) -> str:
        """Put it into the manifest of its command; the key of that, empty if it is there already. `base`: the base
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
    """Files and the digests of their contents, where these are known. `found`: as of `watched.states`."""
    reads = []
    for one in watched:
        text = found.get((one.kind, one.path), b"")
        if one.kind == FILE and text:
            device, inode, _, size, modified, changed = struct.unpack("<QQQQqq", text)
            digest = digests.get((device, inode, size, modified, changed))
            if digest:
                reads.append((one.path, digest))
    return reads
