"""What the store keeps under the key of a job: small JSON records, read back as typed values.

    front end   a list of entries, newest first, each under the same command with other file contents:
                {"reads": blob, "output": digest, "text": str, "look": str, "whole": bool, "talks": bool,
                 "seconds": s, "base": path, "neutral": digest, "cuid": str, "auxiliary": [blob]}
    back end, assembler
                {"code": blob, "talks": bool, "seconds": s, "only_warns": bool}
    back end of any CUID
                {"object": blob (compressed by zlib), "mark": str, "talks": bool, "seconds": s,
                 "only_warns": bool}
    object      {"object": blob}
    device link {"code": blob, "text": str, "seconds": s}

Blobs are digests in the store. A record that does not read is a miss.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from hipcache.values import asdict, dataclass

Record = TypeVar("Record")

# The contents of headers that one command has met lately: branches, and the state before an edit.
MOST_ENTRIES = 16


@dataclass(frozen=True)
class FrontEntry:
    """One run of a pass over the source.

    `output`: digest of the bitcode (which is not stored), of the code object where `whole`, or of the host's object.
    `text`: all that the unit printed; `talks`: its back end has something to say, which only a pass in one
    step says as the user must read it (with source lines). `base`: the HIPCACHE_BASEDIR that the output or the text
    names, so that it holds there alone; empty where it names none. `neutral`: see `bitcode`. `cuid`: under a key for
    every spelling, the CUID that the output has in it, empty where it would be the same with another one. `auxiliary`:
    what was written beside the output, for each option that names a file; empty where the pass wrote none."""

    reads: str
    output: str
    text: str
    look: str
    whole: bool
    talks: bool
    seconds: float
    base: str = ""
    neutral: str = ""
    cuid: str = ""
    auxiliary: tuple[str, ...] = ()


@dataclass(frozen=True)
class BackRecord:
    """`only_warns`: is all that it has to say what -w silences?"""

    code: str
    talks: bool
    seconds: float
    only_warns: bool = False


@dataclass(frozen=True)
class NeutralRecord:
    """`mark`: what stands in the object for the CUID that it was made with (`bitcode`)."""

    object: str
    mark: str
    talks: bool
    seconds: float
    only_warns: bool = False


@dataclass(frozen=True)
class LinkRecord:
    """A code object that lld made; `text`: what it printed."""

    code: str
    text: str
    seconds: float


def with_newest(entry: FrontEntry, older: Iterable[FrontEntry]) -> list[FrontEntry]:
    """The entry, and those that it does not replace."""
    kind = entry.reads, entry.look, entry.base, entry.cuid
    return [entry, *(old for old in older if (old.reads, old.look, old.base, old.cuid) != kind)]


def pack_front(entries: Sequence[FrontEntry]) -> bytes:
    return _pack([asdict(entry) for entry in entries[:MOST_ENTRIES]])


def unpack_front(raw: bytes | None) -> list[FrontEntry]:
    try:
        entries = json.loads(raw) if raw else []
        return [FrontEntry(**{**entry, "auxiliary": tuple(entry.get("auxiliary", ()))}) for entry in entries]
    except (ValueError, TypeError, AttributeError):
        return []


def pack_back(record: BackRecord) -> bytes:
    return _pack(asdict(record))


def unpack_back(raw: bytes | None) -> BackRecord | None:
    return _unpack(BackRecord, raw)


def pack_neutral(record: NeutralRecord) -> bytes:
    return _pack(asdict(record))


def unpack_neutral(raw: bytes | None) -> NeutralRecord | None:
    return _unpack(NeutralRecord, raw)


def pack_link(record: LinkRecord) -> bytes:
    return _pack(asdict(record))


def unpack_link(raw: bytes | None) -> LinkRecord | None:
    return _unpack(LinkRecord, raw)


def pack_object(blob: str) -> bytes:
    return _pack({"object": blob})


def unpack_object(raw: bytes | None) -> str:
    try:
        return str(json.loads(raw)["object"]) if raw else ""
    except (ValueError, TypeError, KeyError):
        return ""


def _pack(data: object) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def _unpack(kind: Callable[..., Record], raw: bytes | None) -> Record | None:
    try:
        return kind(**json.loads(raw)) if raw else None
    except (ValueError, TypeError):
        return None
