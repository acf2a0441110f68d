"""Reads direct records for tests: the engine only writes them, and the launcher only reads them."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from hipcache.store.layout import HEADER_BYTES
from hipcache.store.local import LocalStore

_BEFORE_WATCHED = 6


def states(store: Path) -> dict[str, dict[str, object]]:
    """For each direct record of a store, by its name: each path that it watches, with its kind, and what stat says of
    it now."""
    reader, found = LocalStore(store, max_bytes=0, read_only=True), {}
    for name in sorted(reader.names("actions")):
        lists = _lists(reader, (reader.get_raw(name) or b"")[HEADER_BYTES:])
        if lists:
            found[name] = {text: _status(text) for text in lists}
    return found


def changes(before: dict[str, dict[str, object]], after: dict[str, dict[str, object]]) -> list[str]:
    """In words, for a failing assertion."""
    said = [f"record {name} is new" for name in after.keys() - before.keys()]
    for name, paths in before.items():
        now = after.get(name)
        if now is None:
            said.append(f"record {name} is gone")
        elif now.keys() != paths.keys():
            said.append(f"record {name} watches other paths: {sorted(now.keys() ^ paths.keys())}")
        else:
            said += [f"{text}: {status} -> {now[text]}" for text, status in paths.items() if now[text] != status]
    return said or [f"nothing that {len(before)} records watch has changed"]


def _lists(store: LocalStore, record: bytes) -> list[str]:
    """Both lists of a record (`direct/record.py`); empty for what is none."""
    at, strings = 32, []
    for _ in range(_BEFORE_WATCHED + 1):
        if at + 4 > len(record):
            return []
        (size,) = struct.unpack_from("<I", record, at)
        strings.append(record[at + 4 : at + 4 + size])
        at += 4 + size
    digest = record[at + 32 : at + 64].hex()
    system = store.get_blob(digest) if len(digest) == 64 else None
    return [*_texts(strings[_BEFORE_WATCHED]), *_texts(system)] if system is not None else []


def _texts(packed: bytes) -> list[str]:
    at, found, before = 0, [], b""
    while at < len(packed):
        shared, more = struct.unpack_from("<HH", packed, at)
        before = before[:shared] + packed[at + 4 : at + 4 + more]
        at += 4 + more
        found.append(os.fsdecode(before))
    return found


def _status(text: str) -> object:
    kind, path = text[0], text[33:] if text[0] == "d" else text[1:]
    try:
        found = os.lstat(path) if kind in "la" else os.stat(path)
    except OSError as error:
        return type(error).__name__
    if kind in "an":
        return "there"
    if kind == "m":
        return found.st_mode
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns
