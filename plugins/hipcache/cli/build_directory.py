"""A build directory: the commands of its compile_commands.json, and the entries of a store that its objects have used:
those that `hipcache gc --not-used-by` leaves, and `hipcache export --used-by` takes.

A direct record (`direct/record.py`) names the files that it wrote, and each entry that its units used; a
direct hit notes the use of the same ones. So all records are read, and those count that wrote an object of the build,
or a file below its directory. Of several for one object (other flags) those count that wrote the bytes which are there.
A link has no such record: the keys of its units are in the history.

Answers of drivers, scans of headers and memos of tools are all among them: nobody noted whose they are, and they are
small.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from hipcache.base.errors import HipcacheError, PassThrough
from hipcache.base.keys import digest_file, make_key
from hipcache.cache import records
from hipcache.clang import tools
from hipcache.clang.command import Command, parse_each
from hipcache.inputs.basedir import Basedir
from hipcache.report.history import History, Record
from hipcache.report.outcome import HIT, MISS, PARTIAL
from hipcache.store.layout import ACTIONS, TOOLS, action_name, blob_name
from hipcache.store.local import LocalStore

LIST = "compile_commands.json"
# The kind in the key of a unit of a link (link/steps.py).
_LINK = "device link"
_HINT = "nothing was changed; build it again with this store"


def commands(build: Path, environ: Mapping[str, str]) -> list[Command]:
    """Each HIP compile of the list in directory `build` (or of that file itself). Raises HipcacheError."""
    file = build / LIST if build.is_dir() else build
    hint = "have the build tool write it (CMake: -DCMAKE_EXPORT_COMPILE_COMMANDS=ON), and name its directory"
    try:
        listed = json.loads(file.read_bytes())
    except OSError as error:
        raise HipcacheError(f"cannot read '{file}': {error.strerror}", hint) from error
    except (ValueError, RecursionError) as error:
        raise HipcacheError(f"'{file}' is no JSON: {error}", hint) from error
    if not isinstance(listed, list):
        raise HipcacheError(f"'{file}' is no list of compiles", hint)
    return [command for entry in listed for command in _of(entry, environ, file)]


def _of(entry: Any, environ: Mapping[str, str], file: Path) -> Iterator[Command]:
    """The commands of an entry; none if hipcache would leave it to the compiler."""
    try:
        words = entry.get("arguments") or shlex.split(entry["command"])
        directory = os.path.normpath(file.absolute().parent / entry["directory"])
        argv = tools.behind([str(word) for word in words])
        if "\0" in directory:
            raise ValueError("its directory is no path")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise HipcacheError(f"'{file}' holds an entry that is no compile: {str(entry)[:80]}") from error
    try:
        yield from parse_each(argv, directory, environ)
    except PassThrough:
        return


class Build(NamedTuple):
    """`name`: for messages; `directory`: absolute; `objects`: those that it lists, absolute paths."""

    name: str
    directory: str
    objects: frozenset[str]

    @classmethod
    def at(cls, path: Path, environ: Mapping[str, str]) -> Build:
        """The build of a build directory, or of its list of compiles. Raises HipcacheError."""
        objects = frozenset(
            command.path(command.output or os.path.splitext(os.path.basename(command.source))[0] + ".o")
            for command in commands(path, environ)
        )
        return cls(str(path), str((path if path.is_dir() else path.parent).absolute()), objects)


class Names(frozenset[str]):
    """Names of entries below `v2/`; those of memos are all among them."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and name.startswith(f"{TOOLS}/"))


class Used(NamedTuple):
    """`names`: the entries; `unknown`: the objects of the build of which the store does not tell it."""

    names: Names
    unknown: tuple[str, ...]


def all_used_by(build: Build, store: LocalStore, basedir: str, progress: Callable[[int], object]) -> Names:
    """As `used_by`. Raises HipcacheError also if it is not known of all objects."""
    names, unknown = used_by(build, store, basedir, progress)
    if unknown:
        count = f"{len(unknown)} objects" if len(unknown) > 1 else "an object"
        raise HipcacheError(
            f"the store does not know which entries {count} of '{build.name}' used, such as '{unknown[0]}'", _HINT
        )
    return names


def used_by(build: Build, store: LocalStore, basedir: str, progress: Callable[[int], object]) -> Used:
    """`basedir`: HIPCACHE_BASEDIR, or nothing; `progress` is given the number of records that were read. Raises
    HipcacheError if the store knows no object of the build."""
    if not build.objects:
        raise HipcacheError(f"'{build.name}' lists no HIP compile", "nothing was changed; name another build")
    reader = store.whole()
    listed = {_place(path): path for path in build.objects}
    below = _place(os.path.join(build.directory, ""))
    kept: set[str] = set()
    made: dict[str, list[_Made]] = {}
    for number, (name, payload) in enumerate(_records(reader), 1):
        progress(number)
        if records.kind_of(payload) == records.ANSWER:
            kept.add(action_name(name))
        for path, digest, direct in _outputs(payload):
            place = _place(Basedir(basedir).local(path))
            if place in listed or place.startswith(below):
                made.setdefault(place, []).append(_Made(name, digest, direct))
    if not made:
        raise HipcacheError(f"the store in '{store.root}' knows no object of '{build.name}'", _HINT)
    for place, candidates in made.items():
        digest = _digest(place)
        for candidate in [candidate for candidate in candidates if candidate.digest == digest] or candidates:
            kept |= {action_name(candidate.record), *candidate.direct.history, *_used(reader, candidate.direct)}
    history = History(reader.notes())
    others = {place: history.load(path) for place, path in listed.items() if place not in made}
    for last in history.each():
        place = _place(last.object)
        if place.startswith(below) and place not in made:
            others[place] = last
    unknown = []
    for place, found in others.items():
        names = _of_others(reader, found) if os.path.lexists(place) else set()
        kept |= names or set()
        unknown += [place] if names is None else []
    for pack, bases, entries in reader.packs():
        if not kept.isdisjoint(entries):
            kept |= {pack, *bases}
    return Used(Names(kept), tuple(unknown))


class _Made(NamedTuple):
    """A direct record of a command that wrote an object; `digest`: of the object."""

    record: str
    digest: str
    direct: records.DirectNames


def _records(reader: LocalStore) -> Iterator[tuple[str, bytes]]:
    for name in reader.names(ACTIONS):
        payload = reader.get_record(name)
        if payload is not None:
            yield name, payload


def _outputs(payload: bytes) -> Iterator[tuple[str, str, records.DirectNames]]:
    """(path, digest, record) of each output that a direct record names; none of another record."""
    if records.kind_of(payload) == records.DIRECT:
        with suppress(ValueError):
            direct = records.direct_record(payload)
            yield from ((path, digest, direct) for path, digest in direct.outputs)


def _used(reader: LocalStore, direct: records.DirectNames) -> Iterator[str]:
    for is_action, digest in direct.uses:
        if is_action:
            yield from _with_contents(reader, reader.seal.name(digest))
        else:
            yield blob_name(digest)
    yield from map(blob_name, (*direct.lists, *(digest for _, digest in direct.outputs)))


def _with_contents(reader: LocalStore, name: str) -> Iterator[str]:
    """A record, and what it is of no use without. Of a pass, `uses` names the contents of the entry that served."""
    payload = reader.get_record(name) or b""
    yield action_name(name)
    with suppress(ValueError):
        if records.kind_of(payload) == records.UNIT:
            yield from map(blob_name, records.blobs(payload))


def _of_others(reader: LocalStore, last: Record | None) -> set[str] | None:
    """The entries of an object that no direct record tells of: those of a link's units, none of a command
    that failed or was left to the compiler; None if they are not known. `last`: its last command."""
    if last is None:
        return None
    names = {History.name(last)}
    for unit in last.units if last.outcome in (HIT, PARTIAL, MISS) else ():
        name = reader.seal.name(make_key(_LINK, unit.inputs).digest)
        if reader.get_record(name) is None:
            return None
        names.update(_with_contents(reader, name))
    return names


def _place(path: str) -> str:
    """The path, its directory without links."""
    directory, last = os.path.split(path)
    return os.path.join(_real(directory), last)


@lru_cache(maxsize=4096)
def _real(directory: str) -> str:
    return os.path.realpath(directory)


def _digest(path: str) -> str:
    with suppress(OSError):
        return digest_file(path)
    return ""
