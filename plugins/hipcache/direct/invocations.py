"""A whole compile for a team: its direct record without what is of one machine, in the manifest of its command
(`remote/invocation`).

The record has no state, since a status says nothing on another machine: contents decide there, and no guard counts as
it stands. What a compile comes to must follow from that: where the driver has looked at the processor (`-march=native`)
or at the GPUs that are there, nothing is shared. So each offload arch, and a processor that is not the usual one, must
be named by the command itself.

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
from hipcache.inputs.watched import FILE, Watched
from hipcache.planning.cc1 import Role
from hipcache.planning.plan import Plan
from hipcache.remote.invocation import Invocation, Manifest, merged, unpack
from hipcache.store import Store
from hipcache.values import replace

# Of the host, where no option names one; "generic" is that of AArch64.
_USUAL = ("", "x86-64", "generic")
_IGNORED_AT = 32 + 32 + 8
_NO_MEMOS = Memos(lambda key: None, lambda key, memo: None)


def is_of_any_machine(plan: Plan, words: Iterable[str], environ: Mapping[str, str]) -> bool:
    """Does the plan follow from the command and from files alone?"""
    told = [*words, *environ.values()]
    processor = plan.host.value(Role.PLAIN, "-target-cpu") if plan.host else ""
    named = [*(device.arch for device in plan.devices), *([] if processor in _USUAL else [processor])]
    return not any("=native" in word for word in told) and all(any(one in word for word in told) for one in named)


def invocation(
    record: DirectRecord,
    argv: Sequence[str],
    basedir: Basedir | None,
    system: Sequence[Watched],
    put_blob: Callable[[bytes], str],
    reads: Iterable[tuple[str, str]],
    tools: Iterable[str],
) -> Invocation:
    """`basedir`: of a record for every checkout; `system`: what is in the system list. Raises StoreError, and ValueError as `DirectRecord.pack`."""
    portable: Callable[[str], str] = basedir.portable if basedir else str
    system_list = put_blob(pack_list(_without_guards(system)))
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
        tuple((portable(path), digest) for path, digest in reads),
        tuple(sorted(set(tools))),
        everywhere=basedir is not None,
    )


def keep(store: Store, key: str, mine: Manifest) -> bool:
    """Put it before what is kept under the key; False where that is there already. Raises StoreError."""
    old = store.get_action(key)
    new = merged(mine, unpack(old)).pack()
    if new != old:
        store.put_action(key, new)
    return new != old


def _without_guards(watched: Iterable[Watched]) -> tuple[Watched, ...]:
    """A guard of no status: it is renewed by who finds all as it was."""
    return tuple(
        Watched(GUARD, "0" * DIGITS + one.path[DIGITS:]) if one.kind == GUARD else one for one in watched
    )


def project_reads(
    watched: Iterable[Watched], found: Mapping[tuple[str, str], bytes], digests: Mapping[tuple[int, ...], str]
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
