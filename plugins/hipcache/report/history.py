"""The history: the last compile of each object, with all inputs of its units, to explain why the next one misses.

A directory for each object in `<HIPCACHE_DIR>/v2/history/`, named by the digest of the object's absolute path, with a
file for each of its last commands, named by the digest of that (and of the namespace and key). A command that failed or
was left to the compiler has another file, with ".left" behind the digest: what it was made from before stays. Replaced
by rename; a file that does not read counts as none. The modification time is the compile's: a direct hit sets it, and
leaves the record as it is.

Format: zlib-compressed JSON of `Record`, with "format": 1; `namespace` and `key` are missing where they are empty:
version 1.0.0 reads no record with them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from hipcache.base.compression import pack_json, unpack_json
from hipcache.base.keys import digest_bytes
from hipcache.base.values import asdict, dataclass, replace
from hipcache.report.outcome import FAILED, HIT, PASSED_THROUGH
from hipcache.store.local import LocalStore, Notes

_FORMAT = 1
_MOST_COMMANDS = 4  # of either kind
_LEFT = ".left"
# Nanoseconds that a time may lose in a file system.
_ROUNDING = 1_000_000

# Variables that reach a compile through the driver or the loader.
VARIABLES = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("ROCM_PATH", "HIP_PATH", "HIP_DEVICE_LIB_PATH", "HIP_VISIBLE_DEVICES", "CCC_OVERRIDE_OPTIONS"),
    *("CLANG_CONFIG_FILE_SYSTEM_DIR", "CLANG_CONFIG_FILE_USER_DIR", "SOURCE_DATE_EPOCH", "LD_LIBRARY_PATH"),
    *("LD_PRELOAD", "PATH", "HIPCACHE_BASEDIR"),
)


@dataclass(frozen=True)
class UnitRecord:
    """One unit: its name, how it ended (None: no such job), why it missed, what it was made from, and the `seconds` of
    its compilers (at a hit those saved)."""

    name: str
    hit: bool
    frontend: bool | None
    backend: bool | None
    why: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    reads: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Record:
    """One compile. `when`: its end, seconds of the epoch; `seconds`: wall-clock time, 0 if unknown; `object`: absolute
    path, empty if it is not known; `namespace` and `key`: as `Seal` of the store's records has them."""

    object: str
    when: float
    command: tuple[str, ...]
    directory: str
    outcome: str
    reason: str
    detail: str
    notes: tuple[str, ...]
    variables: dict[str, str]
    units: tuple[UnitRecord, ...]
    namespace: str = ""
    key: str = ""
    seconds: float = 0.0


class History:
    """The records among the notes of a store (`store/local.py`)."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    @staticmethod
    def of_store(root: Path) -> History:
        """Read-only; empty if there is no store."""
        return History(LocalStore(root, max_bytes=0, read_only=True).notes())

    @staticmethod
    def name(record: Record) -> str:
        """The path of the record, below `v2/`."""
        return f"history/{_place(record)}"

    def save(self, record: Record) -> bool:
        """False if it could not be written: only an explanation is lost."""
        place, data = _place(record), asdict(record)
        for name in ("namespace", "key"):
            if not data[name]:
                del data[name]
        if not self._notes.put(place, pack_json({"format": _FORMAT, **data}, level=9), when=record.when):
            return False
        kind = [
            (used, name)
            for used, name in self._notes.listing(os.path.dirname(place))
            if name.endswith(_LEFT) == place.endswith(_LEFT)
        ]
        for _, old in sorted(kind, reverse=True)[_MOST_COMMANDS:]:
            self._notes.remove(old)
        return True

    def load(self, path: str) -> Record | None:
        """The last record of the object at absolute `path`."""
        return self._newest(self._notes.listing(_name(path)))

    def compared(self, path: str, namespace: str = "", key: str = "") -> Record | None:
        """The record of it that explains why the next compile misses: the last one with units, one of this namespace
        and key if possible."""
        other: Record | None = None
        for record in self._records(name for name in self._notes.listing(_name(path)) if not name[1].endswith(_LEFT)):
            if record.units and (record.namespace, record.key) == (namespace, key):
                return record
            other = other or (record if record.units else None)
        return other or self.load(path)

    def each(self) -> Iterator[Record]:
        """The last record of each object whose name is known."""
        for directory in self._notes.directories():
            record = self._newest(self._notes.listing(directory))
            if record is not None and record.object:
                yield record

    def last(self) -> Record | None:
        """The compile that ended last."""
        return self._newest([file for name in self._notes.directories() for file in self._notes.listing(name)])

    def _newest(self, files: Iterable[tuple[int, str]]) -> Record | None:
        return next(self._records(files), None)

    def _records(self, files: Iterable[tuple[int, str]]) -> Iterator[Record]:
        for used, name in sorted(files, reverse=True):
            record = self._read(name)
            if record is not None and used > int(record.when * 1e9) + _ROUNDING:
                units = tuple(replace(unit, hit=True, why=()) for unit in record.units)
                yield replace(record, when=used / 1e9, seconds=0.0, outcome=HIT, notes=(), units=units)
            elif record is not None:
                yield record

    def _read(self, name: str) -> Record | None:
        try:
            data = unpack_json(self._notes.get(name) or b"")
            if data.pop("format") != _FORMAT:
                return None
            units = tuple(
                UnitRecord(
                    **{
                        **unit,
                        "why": tuple(unit["why"]),
                        "inputs": tuple((key, value) for key, value in unit["inputs"]),
                    }
                )
                for unit in data.pop("units")
            )
            for field in ("command", "notes"):
                data[field] = tuple(data[field])
            return Record(**data, units=units)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


def _place(record: Record) -> str:
    apart = [text for text in (record.namespace, record.key) if text]
    words = [*apart, record.directory, *record.command]
    command = digest_bytes("\0".join(words).encode("utf-8", "surrogateescape"))
    kind = _LEFT if record.outcome in (FAILED, PASSED_THROUGH) else ""
    return f"{_name(record.object) if record.object else 'unnamed'}/{command[:16]}{kind}"


def _name(path: str) -> str:
    return digest_bytes(os.fsencode(os.path.normpath(path)))[:32]
