"""Headers that are not there: where one would be found before another one, or `__has_include` asked for it.

SCons knows the files that a compile read, and a scanner the places of CPPPATH. Where else a header may appear, or may
no longer be there, the traces of the engine know. They are kept in its store under the object's path; when SCons
decides whether the object is up to date, what appeared or went stands in the signature of its command. As long as
nothing did, and if the store has no list (the cache was off, or has been cleared), nothing stands there.

Format of a list (an action of the store): zlib-compressed JSON `{"absent": [path, ...], "present": [path, ...],
"command": [word, ...]}`, paths as in a read set, from the directory of the SConstruct, and what made the object.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from hipcache.base.compression import pack_json, unpack_json
from hipcache.base.keys import make_key
from hipcache.build.context import Context
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.readset import ReadSet, paths
from hipcache.report.history import Record


def read_sets(context: Context, record: Record) -> list[ReadSet]:
    """Those of the passes; none if the store does not have all of them."""
    sets = []
    for digest in dict.fromkeys(unit.reads for unit in record.units):
        packed = context.store.get_blob(digest) if digest else None
        try:
            sets.append(ReadSet.unpack(packed or b""))
        except ValueError:
            return []
    return sets


def note(context: Context, path: str, sets: Iterable[ReadSet], command: Sequence[str] = ()) -> None:
    """`path`: of the object, absolute; `sets`: of all of its passes, none if they are not known; `command`: what
    made it."""
    local = Basedir(context.basedir or context.source_dir).local
    absent, present = set[str](), set[str]()
    for reads in sets:
        absent.update(map(local, paths(reads.absent)))
        present.update(map(local, reads.present))
    data = {"absent": sorted(absent), "present": sorted(present), "command": list(command)}
    context.keep_for_speed(_key(path), pack_json(data))


def seen(context: Context, path: str, cwd: str) -> str:
    """The headers that have appeared or gone since the object was made, in words; empty if there are none."""
    data = _read(context, path)
    appeared = [name for name in data.get("absent", ()) if os.path.exists(os.path.join(cwd, name))]
    gone = [name for name in data.get("present", ()) if not os.path.exists(os.path.join(cwd, name))]
    return " ".join([*(f"appeared: {name}" for name in appeared), *(f"gone: {name}" for name in gone)])


def is_of(context: Context, path: str, command: Sequence[str]) -> bool:
    """Is what is noted for the object that of this command?"""
    return bool(command) and _read(context, path).get("command") == list(command)


def _read(context: Context, path: str) -> dict[str, list[str]]:
    raw = context.store.get_action(_key(path))
    try:
        found = unpack_json(raw) if raw else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _key(path: str) -> str:
    return make_key("scons", [("object", os.path.normpath(path))]).digest
