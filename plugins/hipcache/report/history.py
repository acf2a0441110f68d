"""The history: the last compile of each object, with all inputs of its units, to explain why the next one misses.

A directory for each object in `<HIPCACHE_DIR>/v1/history/`, named by the digest of the object's absolute path, with a
file for each of its last commands, named by the digest of that (and of the namespace and key). A command that failed or
was left to the compiler has another file, with ".left" behind the digest: what it was made from before stays. Replaced
by rename; a file that does not read counts as none. The modification time is the compile's: a direct hit sets it, and
leaves the record as it is.

Format: zlib-compressed JSON of `Record`, with "format": 1; `namespace` and `key` may be missing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from hipcache.disk.inflating import pack_json, unpack_json
from hipcache.inputs.keys import digest_bytes
from hipcache.inputs.readset import ReadSet
from hipcache.report.outcome import FAILED, HIT, PASSED_THROUGH
from hipcache.store.layout import HISTORY
from hipcache.store.local import LocalStore
from hipcache.store.notes import Notes
from hipcache.values import asdict, dataclass, replace

_FORMAT = 1
_MOST_FILES = 4
_MOST_COMMANDS = 4  # of either kind
_LEFT = ".left"
# Nanoseconds that a time may lose in a file system.
_ROUNDING = 1_000_000
RECACHED = "HIPCACHE_RECACHE is set: no hits are served"
FIRST_COMPILE = "first compile of this object with this store"
_OTHER_CUID = "the CUID changed (different macros, or a different source or object name)"
# Begins the names of inputs that are variables (`planners/iree_surroundings`).
_VARIABLE = "variable "
_BUNDLED = "the code objects are bundled differently"

# Variables that reach a compile through the driver or the loader.
VARIABLES = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("ROCM_PATH", "HIP_PATH", "HIP_DEVICE_LIB_PATH", "HIP_VISIBLE_DEVICES", "CCC_OVERRIDE_OPTIONS"),
    *("CLANG_CONFIG_FILE_SYSTEM_DIR", "CLANG_CONFIG_FILE_USER_DIR", "SOURCE_DATE_EPOCH", "LD_LIBRARY_PATH"),
    *("LD_PRELOAD", "PATH", "HIPCACHE_BASEDIR"),
)


@dataclass(frozen=True)
class UnitRecord:
    """One unit: its name, how it ended (None: no such job), why it missed, and what it was made from."""

    name: str
    hit: bool
    frontend: bool | None
    backend: bool | None
    why: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    reads: str


@dataclass(frozen=True)
class Record:
    """One compile. `when`: seconds of the epoch; `object`: absolute path, empty if it is not known; `namespace` and
    `key`: as `Seal` of the store's records has them."""

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


class History:
    """The records among the notes of a store (`store/notes.py`)."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    @staticmethod
    def of_store(root: Path) -> History:
        """Read-only; empty if there is no store."""
        return History(LocalStore(root, max_bytes=0, read_only=True).notes(HISTORY))

    @staticmethod
    def name(record: Record) -> str:
        """The path of the record, below `v1/`."""
        return f"history/{_place(record)}"

    def save(self, record: Record) -> bool:
        """False if it could not be written: only an explanation is lost."""
        place = _place(record)
        if not self._notes.put(place, pack_json({"format": _FORMAT, **asdict(record)}), when=record.when):
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
        for record in self._records(one for one in self._notes.listing(_name(path)) if not one[1].endswith(_LEFT)):
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
        return self._newest([file for one in self._notes.directories() for file in self._notes.listing(one)])

    def _newest(self, files: Iterable[tuple[int, str]]) -> Record | None:
        return next(self._records(files), None)

    def _records(self, files: Iterable[tuple[int, str]]) -> Iterator[Record]:
        for used, name in sorted(files, reverse=True):
            record = self._read(name)
            if record is not None and used > int(record.when * 1e9) + _ROUNDING:
                units = tuple(replace(unit, hit=True, why=()) for unit in record.units)
                yield replace(record, when=used / 1e9, outcome=HIT, notes=(), units=units)
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
    apart = [one for one in (record.namespace, record.key) if one]
    words = [*apart, record.directory, *record.command]
    command = digest_bytes("\0".join(words).encode("utf-8", "surrogateescape"))
    kind = _LEFT if record.outcome in (FAILED, PASSED_THROUGH) else ""
    return f"{_name(record.object) if record.object else 'unnamed'}/{command[:16]}{kind}"


def _name(path: str) -> str:
    return digest_bytes(os.fsencode(os.path.normpath(path)))[:32]


def why(
    unit: UnitRecord,
    found: str,
    old: Record | None,
    variables: Mapping[str, str],
    read_set: Callable[[str], ReadSet | None],
    namespace: str = "",
    key: str = "",
) -> tuple[str, ...]:
    """Why `unit` missed, in words: the differences from the last compile of its object.

    `found`: the reason that the lookup gave; `read_set` gets a read set from the store; `namespace`, `key`: as in
    `Record`.
    """
    if old is None:
        return (f"{FIRST_COMPILE}; {found}" if found else FIRST_COMPILE,)
    before = next((one for one in old.units if one.name == unit.name), None)
    if before is None and not old.units:
        return (found,)
    if before is None:
        return (f"{unit.name} is new for this object",)
    words = [
        _changed(name, old.variables.get(name), variables.get(name))
        for name in VARIABLES
        if old.variables.get(name) != variables.get(name)
    ]
    if any(name.startswith(_VARIABLE) for name, _ in (*before.inputs, *unit.inputs)):
        words = []  # those that count are inputs
    inputs = differences(before.inputs, unit.inputs)
    if not inputs:
        words = []  # a variable that changed nothing
    words = [*_seals(old, namespace, key), *words, *inputs]
    words += _files(read_set(before.reads) if before.reads else None, read_set(unit.reads) if unit.reads else None)
    return tuple(words) or (found,)


def _seals(old: Record, namespace: str, key: str) -> list[str]:
    """What keeps the results of one from the other."""
    words = []
    if old.namespace != namespace:
        was, now = (_shown(name or None) for name in (old.namespace, namespace))
        words.append(f"the namespace was {was}, now {now} (HIPCACHE_NAMESPACE)")
    if old.key != key:
        words.append("the key of the store changed (HIPCACHE_KEY)")
    return words


def differences(old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]) -> list[str]:
    """The differences between the named inputs of two keys, in words."""
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    was, names_come = dict(gone.keys()), {name for name, _ in come}
    words: list[str] = []
    for name, value in come:
        if name in ("compiler", "linker", "bundler"):
            words.append(f"the {name} changed, or a library that it loads")
        elif name.startswith("bitcode "):
            changed = "changed" if name in was else "is new"
            words.append(f"device library '{name.removeprefix('bitcode ')}' {changed}")
        elif name.startswith("device code of "):
            words.append(f"{name} {'changed' if name in was else 'is new'}")
        elif name == "text of the source":
            words.append("the source changed")
        elif name == "way of bundling":
            words.append(_BUNDLED)
        elif name.startswith("content of "):
            changed = "changed" if name in was else "is new"
            words.append(f"file '{name.removeprefix('content of ')}', which an option names, {changed}")
        elif name.startswith(_VARIABLE):
            words.append(_changed(name.removeprefix(_VARIABLE), was.get(name), value))
        elif value.startswith("-cuid="):
            words.append(_OTHER_CUID)
        elif name == "source":
            words.append(f"the source is now named '{value}'")
        elif name == "dependencies":
            words.append("the kind of dependency file changed (-MD or -MMD)")
        else:
            words.append(f"{name} '{value}' is new")
    for name, value in gone:
        if name in ("option", "linker option") and not value.startswith("-cuid="):
            words.append(f"{name} '{value}' is gone")
        elif name.startswith("device code of ") and name not in names_come:
            words.append(f"{name} is gone")
        elif name.startswith(("bitcode ", "content of ")) and name not in names_come:
            words.append(f"'{name.removeprefix('bitcode ').removeprefix('content of ')}' is no longer used")
        elif name.startswith(_VARIABLE) and name not in names_come:
            words.append(_changed(name.removeprefix(_VARIABLE), value, None))
    if not words and Counter(old) == Counter(new) and list(old) != list(new):
        words.append("the order of the options changed")
    for follows in (_OTHER_CUID, _BUNDLED):  # from the others
        if len(words) > 1 and follows in words:
            words.remove(follows)
    return list(dict.fromkeys(words))


def _files(old: ReadSet | None, new: ReadSet | None) -> list[str]:
    if old is None or new is None:
        return []
    before = {file.path: file.digest for file in old.files}
    now = {file.path: file.digest for file in new.files}
    words = [f"file '{path}' changed" for path in now if before.get(path, now[path]) != now[path]]
    words += [f"file '{path}' is now read" for path in now if path not in before]
    words += [f"file '{path}' is no longer read" for path in before if path not in now]
    if len(words) > _MOST_FILES:
        words = [*words[:_MOST_FILES], f"and {len(words) - _MOST_FILES} more files"]
    return words


def _changed(name: str, before: str | None, now: str | None) -> str:
    return f"variable '{name}' was {_shown(before)}, now {_shown(now)}"


def _shown(value: str | None) -> str:
    return "not set" if value is None else f"'{value}'"
