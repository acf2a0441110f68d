"""Remembers a whole compile for direct hits: writes its record."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hipcache.base import features, times
from hipcache.base.errors import StoreError
from hipcache.base.values import dataclass
from hipcache.build.context import Context
from hipcache.direct.provenance import Provenance
from hipcache.direct.record import (
    NO_STATE,
    DirectRecord,
    is_of_system,
    key,
    known_contents,
    of_project,
    pack_list,
    state_digest,
    system_digest,
    variables_digest,
)
from hipcache.inputs import variables, watched
from hipcache.inputs.readset import Status
from hipcache.inputs.watched import ABSENT, FILE, PROCESSOR, SAME, Watched
from hipcache.report import statistics
from hipcache.report.outcome import CompileOutcome


def remember(
    context: Context,
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
    depends = (
        *provenance.depends,
        *(Watched(FILE if os.path.lexists(path) else ABSENT, path) for path in config_files),
    )
    outputs = provenance.outputs
    for entry in depends:
        if not entry.path.startswith("/"):
            return f"it depends on '{entry.path}', which is no absolute path"
    sizes = [context.store.blob_size(output.digest) for output in outputs.files]
    if None in sizes:
        return "the store no longer has what it made"
    # Older than any look at it, so that no two contents have its status; also where the clock was set back meanwhile.
    old = min(provenance.began, context.clock()) - context.racy
    working = (cwd, *(os.path.dirname(output.path) for output in outputs.files))
    far: list[Watched] = []
    near: list[Watched] = []
    kinds = times.kinds()
    is_system = is_of_system(system, working)
    for entry in watched.by_entries(depends, kinds):
        # Two names of one directory may stand in either part; so all are compared in one. The processor is no file.
        (far if entry.kind not in (SAME, PROCESSOR) and is_system(entry.path) else near).append(entry)
    project = _part(near, kinds, provenance.digests, old)
    surroundings = _part(far, kinds, provenance.digests, old) if project else None
    if project is None or surroundings is None:
        return f"'{watched.changed([*near, *far])}' changed meanwhile"
    if not (project.is_old and surroundings.is_old) and (project.unknown or surroundings.unknown):
        return project.unknown or surroundings.unknown
    written = [output.path for output in outputs.files]
    terminal = terminal and bool(messages)
    if terminal and provenance.of_terminal:
        return "its messages are as wide as this terminal, and the next may have another width"
    shared = context.remote is not None
    ignored = variables.ignored(environ, provenance.tools, context.memos, terminal=terminal, shared=shared)
    compared = variables.compared(environ, ignored, cwd)
    try:
        system_contents_blob = context.store.put_blob(surroundings.contents)
        system_list = context.store.put_blob(pack_list(surroundings.guarded))  # last but the record: see store/packs.py
        record = DirectRecord(
            variables_digest(compared),
            state_digest(project.guarded, project.states) if project.is_old else NO_STATE,
            context.racy,
            ignored,
            tuple((output, size) for output, size in zip(outputs.files, sizes, strict=True) if size is not None),
            messages,
            b"".join(statistics.line_of_hit(compiled, written) for compiled in ended),
            tuple(history),
            (*provenance.uses, (False, system_list), (False, system_contents_blob)),
            project.guarded,
            project.contents,
            system_digest(surroundings.guarded, surroundings.states) if surroundings.is_old else NO_STATE,
            system_list,
            system_contents_blob,
            outputs.rules,
        )
        context.store.put_action(key(argv, cwd, terminal=terminal), record.pack())
        portable = None
        if provenance.everywhere and not terminal:
            from hipcache.direct import elsewhere

            tools = [file for files in provenance.tools.values() for file in files]
            places = elsewhere.places((*argv, *config_files), compared, tools)
            system_paths, pwd = [entry.path for entry in far], environ.get("PWD", "")
            portable = elsewhere.of(record, argv, cwd, compared, system_paths, places, pwd)
            if portable:
                context.keep_for_speed(elsewhere.key(argv, cwd, context.basedir), portable.pack())
        if context.remote and provenance.anywhere and not terminal and project.contents and surroundings.contents:
            for team in features.modules("WHOLE_COMPILE"):
                reads = team.project_reads(project.guarded, project.states, provenance.digests)
                made = team.WholeCompile(
                    record, portable, surroundings.guarded, tuple(reads), provenance.tools, provenance.asked
                )
                if named := made.keep(context.store, argv, cwd, context.basedir):
                    context.queue(named)
    except StoreError as error:
        return error.message
    except ValueError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class _Part:
    """The paths of the project, or of the system around it, with their guards; their states, and whether these stand
    for the contents; the contents, or in words why they are not known."""

    guarded: tuple[Watched, ...]
    states: Mapping[tuple[str, str], bytes]
    is_old: bool
    contents: bytes
    unknown: str


def _part(
    paths: Sequence[Watched], kinds: Mapping[str, str], digests: Mapping[Status, str], old: float
) -> _Part | None:
    """None if one of the paths is not in its known state."""
    guarded = watched.guard(paths, old, kinds)
    states = watched.states(watched.unguarded(guarded))
    if states is None:
        return None
    contents, unknown = known_contents(guarded, states, digests, old)
    return _Part(guarded, states, watched.are_old(states, old), contents, unknown)
