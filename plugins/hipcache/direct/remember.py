"""Remembers a whole compile for direct hits: writes its record.

Contents: all that a compile depended on, known by what it is and not by the numbers that the file system gives it.

A fresh clone, an unpacked store and a container have the same files with other inodes, times and owners. There the
state of a record differs (`direct/record.py`), and the native program compares this instead (`native/contents.c`). The
engine does the same when it checks a trace (`inputs/trace.py`); but contents are compared plainly here: after an edit
of a comment the engine decides.

Format, for each path of a list in its order (numbers as 8 bytes, little-endian). *type* is the mode of `stat` without
permissions, but for who may execute a regular file:

    FILE     f   type, size, BLAKE3 of the content: 48 bytes. A directory that was listed: type, 0, as ENTRIES. A
                 character device: type, its number, 32 zeros
    MODE     m   type
    SAME     i   the number of the first such path in the list that has its device and inode: clang takes two names of
                 one file (or one directory of headers) for one
    NUMBER   o   device, inode
    LINK     l   type (lstat), length of the text of the link, that text
    ENTRIES  e   as in the state
    PROCESSOR  p  the same
    GONE, ABSENT, guards: nothing

Which content a status stood for is known from the compile, for files of any age. The content of other files is read
here, which is the one that was read before only if they are old.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hipcache import features
from hipcache.direct import guards, variables
from hipcache.direct.provenance import Provenance
from hipcache.direct.record import (
    NO_STATE,
    DirectRecord,
    each_once,
    is_of_system,
    key,
    of_project,
    pack_list,
    state_digest,
    system_digest,
    variables_digest,
)
from hipcache.engine import Engine
from hipcache.errors import StoreError
from hipcache.inputs import watched
from hipcache.inputs.keys import digest_file
from hipcache.inputs.readset import Status, status_of
from hipcache.inputs.watched import (
    ABSENT,
    ENTRIES,
    FILE,
    GONE,
    LINK,
    MODE,
    NUMBER,
    PROCESSOR,
    SAME,
    Watched,
    entries_digest,
)
from hipcache.processes import LIST, observe
from hipcache.report import statistics
from hipcache.report.outcome import CompileOutcome

_EXECUTABLE = 0o111


def remember(
    engine: Engine,
    argv: Sequence[str],
    cwd: str,
    environ: Mapping[str, str],
    provenance: Provenance,
    *,
    messages: bytes,
    terminal: bool,
    ended: Sequence[CompileOutcome],
    history: Sequence[str],
    settings: Iterable[Path],
    system: Sequence[str],
) -> str:
    """Write the record, if nothing has changed meanwhile. Gives in words why not; empty if it is written.

    `argv`: the command as typed; `environ`: of this process; `terminal`: did the messages go to one (where COLUMNS
    matters)? `ended`: how each compile of it ended; `history`: see `DirectRecord`; `settings`: where config files are
    looked for, besides the project's; `system`: directories of what is not worked on. Only speed is lost if the record
    cannot be kept."""
    config_files = [*map(str, settings), *(path for _, path in of_project(cwd))]
    depends = (*provenance.depends, *(Watched(FILE if os.path.lexists(one) else ABSENT, one) for one in config_files))
    outputs = provenance.outputs
    for entry in depends:
        if not entry.path.startswith("/"):
            return f"it depends on '{entry.path}', which is no absolute path"
    sizes = [engine.store.blob_size(output.digest) for output in outputs.files]
    if None in sizes:
        return "the store no longer has what it made"
    # Older than any look at it, so that no two contents have its status; also where the clock was set back meanwhile.
    old = min(provenance.began, engine.clock()) - engine.racy
    working = (cwd, *(os.path.dirname(output.path) for output in outputs.files))
    far: list[Watched] = []
    near: list[Watched] = []
    kinds = guards.kinds()
    is_system = is_of_system(system, working)
    for entry in guards.by_entries(depends, kinds):
        # Two names of one directory may stand in either part; so all are compared in one. The processor is no file.
        (far if entry.kind not in (SAME, PROCESSOR) and is_system(entry.path) else near).append(entry)
    guarded, system_guarded = guards.guard(near, old, kinds), guards.guard(far, old, kinds)
    files, system_files = watched.states(guards.unguarded(guarded)), watched.states(guards.unguarded(system_guarded))
    if files is None or system_files is None:
        return f"'{watched.changed([*near, *far])}' changed meanwhile"
    is_old, system_is_old = watched.are_old(files, old), watched.are_old(system_files, old)
    contents, unknown = known_contents(guarded, files, provenance.digests, old)
    system_contents, system_unknown = known_contents(system_guarded, system_files, provenance.digests, old)
    if not (is_old and system_is_old) and (unknown or system_unknown):
        return unknown or system_unknown
    written = [output.path for output in outputs.files]
    terminal = terminal and bool(messages)
    shared = engine.remote is not None
    ignored = variables.ignored(environ, provenance.tools, engine.memos, terminal=terminal, shared=shared)
    compared = variables.compared(environ, ignored, cwd)
    try:
        system_contents_blob = engine.store.put_blob(system_contents)
        system_list = engine.store.put_blob(pack_list(system_guarded))  # last but the record: see store/packs.py
        record = DirectRecord(
            variables_digest(compared),
            state_digest(guarded, files) if is_old else NO_STATE,
            engine.racy,
            ignored,
            tuple((output, size) for output, size in zip(outputs.files, sizes, strict=True) if size is not None),
            messages,
            b"".join(statistics.line_of_hit(compiled, written) for compiled in ended),
            tuple(history),
            (*provenance.uses, (False, system_list), (False, system_contents_blob)),
            guarded,
            contents,
            system_digest(system_guarded, system_files) if system_is_old else NO_STATE,
            system_list,
            system_contents_blob,
            outputs.rules,
        )
        engine.store.put_action(key(argv, cwd, terminal=terminal), record.pack())
        portable = None
        if provenance.everywhere and not terminal:
            from hipcache.direct import elsewhere

            tools = [file for files in provenance.tools.values() for file in files]
            places = elsewhere.places((*argv, *config_files), compared, tools)
            system_paths, pwd = [entry.path for entry in far], environ.get("PWD", "")
            portable = elsewhere.of(record, argv, cwd, compared, system_paths, places, pwd)
            if portable:
                engine.keep_for_speed(elsewhere.key(argv, cwd, engine.basedir), portable.pack())
        if engine.remote and provenance.anywhere and not terminal and contents and system_contents:
            for team in features.modules("WHOLE_COMPILE"):
                reads = team.project_reads(guarded, files, provenance.digests)
                made = team.WholeCompile(
                    record, portable, system_guarded, tuple(reads), provenance.tools, provenance.asked
                )
                if named := made.keep(engine.store, argv, cwd, engine.basedir):
                    engine.queue(named)
    except StoreError as error:
        return error.message
    except ValueError as error:
        return str(error)
    return ""


class ContentsUnknown(Exception):
    """Something is of another kind, has changed, or is too young; only speed is lost."""


def type_of(mode: int) -> int:
    return stat.S_IFMT(mode) | (mode & _EXECUTABLE if stat.S_ISREG(mode) else 0)


def known_contents(
    watched: Sequence[Watched], found: Mapping[tuple[str, str], bytes], digests: Mapping[Status, str], old: float
) -> tuple[bytes, str]:
    """The contents, and why they are not known: one of the two is empty, or both where nothing is watched. `found`:
    what `watched.states` gave for them just now; `digests`: of contents, by the status that their file had; `old`:
    seconds of the epoch, what changed after that is too young to be read here."""
    parts: list[bytes] = []
    places: dict[bytes, int] = {}
    try:
        for one in each_once(watched):
            state = found.get((one.kind, one.path), b"")
            if one.kind == SAME:
                parts.append(struct.pack("<Q", places.setdefault(state, len(places))))
            elif one.kind == FILE:
                parts.append(_file(one.path, one.known, state, digests, old))
            elif one.kind == MODE:
                parts.append(struct.pack("<Q", type_of(*struct.unpack("<Q", state))))
            elif one.kind == LINK:
                parts.append(struct.pack("<Q", type_of(struct.unpack_from("<Q", state)[0])) + state[8:])
            elif one.kind in (ENTRIES, NUMBER, PROCESSOR):
                parts.append(state)
            elif one.kind in (GONE, ABSENT):
                continue
    except (OSError, struct.error, ContentsUnknown) as unknown:
        return b"", str(unknown)
    return b"".join(parts), ""


def _file(path: str, listed: object, state: bytes, digests: Mapping[Status, str], old: float) -> bytes:
    """`listed`: of a directory, see `Watched`."""
    device, inode, mode, size, modified, changed = struct.unpack("<QQQQqq", state)
    status: Status = (device, inode, size, modified, changed)
    kind = type_of(mode)
    if stat.S_ISDIR(mode):
        entries = entries_digest(path)
        if status_of(os.stat(path)) != status or (isinstance(listed, str) and observe.sign(LIST, path) != listed):
            raise ContentsUnknown(f"'{path}' changed while hipcache listed it")
        return struct.pack("<QQ", kind, 0) + entries
    if stat.S_ISCHR(mode):
        return struct.pack("<QQ", kind, os.stat(path).st_rdev) + bytes(32)
    if not stat.S_ISREG(mode):
        raise ContentsUnknown(f"'{path}' is not a file")
    digest = digests.get(status)
    if digest is None:
        if max(modified, changed) >= old * 1e9:
            raise ContentsUnknown(f"'{path}' was changed too recently")
        digest = digest_file(path)
        if status_of(os.stat(path)) != status:
            raise ContentsUnknown(f"'{path}' changed while hipcache read it")
    return struct.pack("<QQ", kind, size) + bytes.fromhex(digest)
