"""Invocation manifests: what a whole command came to, as a team shares it, so that it can be fetched before it runs.

A direct record is found by the command as it was typed, and a list of commands such as compile_commands.json leaves out
the options of dependency files. So the manifest is kept under a key without these, and without offload archs: one
manifest for a command, whatever archs it is for.

Format, JSON:

    {"invocations": [{"argv": [word, ...], "record": hash, "needs": [hash, ...], "reads": [[path, hash], ...],
                      "tools": [path, ...], "everywhere": bool}, ...],
     "asked": [key, ...]}

The newest invocation is the first. With HIPCACHE_BASEDIR a mark stands for it in words and paths.

    argv        the command; where its direct record belongs follows from it (a manifest names no place in the store)
    record      the direct record, without what is of one machine, as a content
    needs       the contents that the record names
    reads       files of the project and their contents: a hint whether the record is worth its bytes
    tools       the files of the programs that ran; none where any variable may matter
    everywhere  is it the record for every checkout (`direct/elsewhere`)?
    asked       the keys that the command has asked for: what it needs where the record does not hold
"""

from __future__ import annotations

import json
import os
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

from hipcache import __version__
from hipcache.base.errors import StoreError
from hipcache.base.keys import digest_file, is_digest, make_key
from hipcache.base.values import dataclass, field, replace
from hipcache.cache import records
from hipcache.config.files import project_file
from hipcache.direct import elsewhere, record
from hipcache.direct.record import NO_STATE, DirectRecord, pack_list
from hipcache.inputs import variables
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.identity import Memos
from hipcache.inputs.readset import Status, known_by
from hipcache.inputs.watched import FILE, GUARD, GUARD_DIGITS, Watched
from hipcache.store.local import LocalStore

# Of one command: it may be for other archs in another configuration.
MOST_INVOCATIONS, MOST_ASKED, MOST_NEEDS, MOST_READS = 2, 512, 64, 4096
_START = b'{"invocations":'
_ALONE = frozenset(["-MD", "-MMD", "-MP", "-MV"])
_WITH_VALUE = ("-MF", "-MT", "-MQ")
_ARCHES = ("--offload-arch=", "--cuda-gpu-arch=")
_NO_MEMOS = Memos(lambda key: None, lambda key, memo: None)


@dataclass(frozen=True)
class Invocation:
    argv: tuple[str, ...]
    record: str
    needs: tuple[str, ...]
    reads: tuple[tuple[str, str], ...]
    tools: tuple[str, ...] = ()
    everywhere: bool = False

    @property
    def contents(self) -> tuple[str, ...]:
        return (self.record, *self.needs)

    @property
    def arches(self) -> list[str]:
        return arches(self.argv)


@dataclass(frozen=True)
class Manifest:
    invocations: tuple[Invocation, ...] = ()
    asked: tuple[str, ...] = ()

    def pack(self) -> bytes:
        invocations = [
            {
                "argv": invocation.argv,
                "record": invocation.record,
                "needs": invocation.needs,
                "reads": invocation.reads,
                "tools": invocation.tools,
                "everywhere": invocation.everywhere,
            }
            for invocation in self.invocations
        ]
        return json.dumps({"invocations": invocations, "asked": self.asked}, separators=(",", ":")).encode("ascii")


def arches(argv: Sequence[str]) -> list[str]:
    """As the command names them."""
    named = [word.partition("=")[2].split(",") for word in argv if word.startswith(_ARCHES)]
    return list(dict.fromkeys(arch for some in named for arch in some if arch))


def is_manifest(record: bytes) -> bool:
    return record.startswith(_START)


def outputs(record: bytes) -> list[str] | None:
    """The contents of a manifest, or as of `cache/records`."""
    if not is_manifest(record):
        return records.outputs(record)
    return (
        list(dict.fromkeys(name for invocation in unpack(record).invocations for name in invocation.contents)) or None
    )


@lru_cache(maxsize=128)
def unpack(record: bytes | None) -> Manifest:
    """An empty one for what is none."""
    try:
        found = json.loads(record or b"{}")
        invocations = tuple(
            Invocation(
                tuple(invocation["argv"]),
                invocation["record"],
                tuple(invocation["needs"]),
                tuple((path, digest) for path, digest in invocation["reads"]),
                tuple(invocation["tools"]),
                bool(invocation["everywhere"]),
            )
            for invocation in found["invocations"]
        )
        manifest = Manifest(invocations[:MOST_INVOCATIONS], tuple(found["asked"])[:MOST_ASKED])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Manifest()
    return manifest if all(map(_is_good, manifest.invocations)) and all(map(is_digest, manifest.asked)) else Manifest()


def merged(first: Manifest, second: Manifest) -> Manifest:
    """Both; of one command the first's counts."""
    known = {invocation.argv for invocation in first.invocations}
    more = (*first.invocations, *(invocation for invocation in second.invocations if invocation.argv not in known))
    asked = tuple(dict.fromkeys((*first.asked, *second.asked)))
    return replace(first, invocations=more[:MOST_INVOCATIONS], asked=asked[:MOST_ASKED])


def manifest_key(argv: Sequence[str], cwd: str, portable: Callable[[str], str]) -> str:
    """Of the manifest of a command. `portable` puts the mark in the base directory's place."""
    words = [word for word in plain(argv) if not word.startswith(_ARCHES)]
    inputs = [("version", __version__), ("directory", portable(cwd)), *(("word", portable(word)) for word in words)]
    project = project_file(cwd)
    if project:  # who has another one has other settings
        with suppress(OSError):
            inputs += [("settings", portable(str(project))), ("settings", digest_file(project))]
    return make_key("invocation manifest", inputs).digest


def plain(argv: Iterable[str]) -> tuple[str, ...]:
    """The command without options of dependency files."""
    found = []
    words = iter(argv)
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif word not in _ALONE and not word.startswith(_WITH_VALUE):
            found.append(word)
    return tuple(found)


def behind_launchers(argv: Sequence[str]) -> tuple[str, ...]:
    """The command of the compiler, where hipcache stands before it."""
    words = list(argv)
    while words and os.path.basename(words[0]) == "hipcache":
        del words[0]
    return tuple(words)


def _is_good(invocation: Invocation) -> bool:
    sizes_are_good = (
        bool(invocation.argv) and len(invocation.needs) <= MOST_NEEDS and len(invocation.reads) <= MOST_READS
    )
    texts = (*invocation.argv, *invocation.tools, *(path for path, _ in invocation.reads))
    hashes = (*invocation.contents, *(digest for _, digest in invocation.reads))
    return sizes_are_good and all(isinstance(text, str) for text in texts) and all(map(is_digest, hashes))


@dataclass(frozen=True)
class WholeCompile:
    """A whole compile for a team: its direct record without what is of one machine, in the manifest of its command.

    The record has no state, since a status says nothing on another machine: contents decide there, and no guard counts
    as it stands. What a compile comes to must follow from that (`Provenance.anywhere`). `Adoption` takes it into
    another store.

    `everywhere`: that for every checkout, if there is one; `system`: what is in the system list; `reads`, `asked`: see
    above; `tools`: as of `Provenance`.
    """

    record: DirectRecord
    everywhere: DirectRecord | None
    system: Sequence[Watched]
    reads: tuple[tuple[str, str], ...]
    tools: Mapping[str, tuple[str, ...]]
    asked: tuple[str, ...]

    def keep(self, store: LocalStore, argv: Sequence[str], cwd: str, base: str) -> str:
        """Put it into the manifest of its command; the key of that, empty if it is there already. `base`: the base
        directory. Raises StoreError, and ValueError as `DirectRecord.pack`."""
        basedir = Basedir(base)
        key = manifest_key(argv, cwd, basedir.portable)
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
        needs = (system_list, record.system_contents, *(output.digest for output, _ in record.outputs))
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
    return tuple(
        Watched(GUARD, "0" * GUARD_DIGITS + need.path[GUARD_DIGITS:]) if need.kind == GUARD else need
        for need in watched
    )


def project_reads(
    watched: Iterable[Watched], found: Mapping[tuple[str, str], bytes], digests: Mapping[Status, str]
) -> list[tuple[str, str]]:
    """Files and the digests of their contents, where these are known. `found`: as of `watched.states`."""
    reads = []
    for need in watched:
        text = found.get((need.kind, need.path), b"")
        if need.kind == FILE and text:
            device, inode, _, size, modified, changed = struct.unpack("<QQQQqq", text)
            digest = digests.get((device, inode, size, modified, changed))
            if digest:
                reads.append((need.path, digest))
    return reads


@dataclass
class Searches:
    """Finds the names of variables that the tools never ask for. Each set of tools is searched once for the same names,
    by one thread. Nothing of it is stored, since another machine says which tools these are."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[tuple[object, ...], set[str]] = field(default_factory=dict)

    def never_asked(self, names: frozenset[str], tools: tuple[str, ...]) -> set[str]:
        with self._lock:
            key = (names, *((tool, _state(tool)) for tool in tools))
            if key not in self._known:
                self._known[key] = variables.never_asked(names, {"": tools}, _NO_MEMOS)
            return self._known[key]


@dataclass
class Adoption:
    """Takes a whole compile of a team's into `store`: its direct record goes where the very command looks for it.

    Whether the record is worth that follows from the manifest: the command is the same, and so are the project's files
    that it has read. The native launcher compares all that the record lists, as ever.

    Which variables matter is known by name, and another machine has others: those that the tools of the record never
    ask for are added to those that it ignores (`inputs/variables`). Are the tools others, the record does not hold in
    any case.

    `environ`: of the command; `base`: the base directory, or nothing; `content`: who has direct records, where not only
    the store does."""

    store: LocalStore
    environ: Mapping[str, str]
    base: str
    searches: Searches = field(default_factory=Searches)
    content: Callable[[str], bytes | None] | None = None
    _digests: dict[str, str] = field(default_factory=dict)
    _variables: dict[tuple[frozenset[str], str, bool], str] = field(default_factory=dict)

    def key(self, argv: Sequence[str], cwd: str) -> str:
        """The key of the manifest of a command."""
        return manifest_key(argv, cwd, self._basedir.portable)

    def fitting(self, manifest: Manifest, argv: Sequence[str]) -> Invocation | None:
        """The compile that the command stands for, as far as the project's own files show it."""
        for known in manifest.invocations:
            local = self._local(known)
            if plain(map(local, known.argv)) == plain(argv) and all(
                self._digest(local(path)) == digest for path, digest in known.reads
            ):
                return known
        return None

    def is_of(self, known: Invocation, argv: Sequence[str]) -> bool:
        """Is it that very command, with the options of dependency files?"""
        return tuple(map(self._local(known), known.argv)) == tuple(argv)

    def is_here(self, known: Invocation, cwd: str) -> bool:
        return self.store.get_action(self._direct_key(known, cwd)) is not None

    def adopt(self, known: Invocation, cwd: str) -> bool:
        """False if not all of its contents are in the store, or nothing can be written there."""
        with suppress(StoreError):
            record = self.record(known, cwd)
            self.store.put_actions(record)
            return bool(record)
        return False

    def record(self, known: Invocation, cwd: str) -> dict[str, bytes]:
        """The record that `adopt` puts into the store, by its key; none if not all of its contents are there."""
        content = (self.content or self.store.get_blob)(known.record)
        if content is None or not all(map(self.store.has_blob, known.needs)):
            return {}
        return {self._direct_key(known, cwd): self._with_variables(content, known, cwd)}

    def _direct_key(self, known: Invocation, cwd: str) -> str:
        """The key of the direct record of this command; no manifest can choose another one."""
        argv = tuple(map(self._local(known), known.argv))
        return elsewhere.key(argv, cwd, self.base) if known.everywhere else record.key(argv, cwd)

    def _with_variables(self, content: bytes, known: Invocation, cwd: str) -> bytes:
        ignored = record.ignored_in(content)
        if ignored is None or not known.tools:
            return content
        if record.has_variables(content, self._variables_digest(ignored, cwd, everywhere=known.everywhere)):
            return content  # most machines of a team have the same: the tools are large
        return record.ignoring(
            content, ignored | self.searches.never_asked(frozenset(self.environ) - ignored, known.tools)
        )

    def _variables_digest(self, ignored: frozenset[str], cwd: str, *, everywhere: bool) -> str:
        """The digest of the variables that count for this command; records of one build ignore the same ones."""
        if (ignored, cwd, everywhere) not in self._variables:
            portable = self._basedir.portable if everywhere else str
            mine = variables.compared(self.environ, ignored, cwd)
            digest = record.variables_digest({name: portable(value) for name, value in mine.items()})
            self._variables[ignored, cwd, everywhere] = digest
        return self._variables[ignored, cwd, everywhere]

    @property
    def _basedir(self) -> Basedir:
        return Basedir(self.base)

    def _local(self, known: Invocation) -> Callable[[str], str]:
        return self._basedir.local if known.everywhere else str

    def _digest(self, path: str) -> str:
        """Empty if it cannot be read."""
        if path not in self._digests:
            self._digests[path] = ""
            with suppress(OSError, ValueError):
                self._digests[path] = digest_file(path)
        return self._digests[path]


def _state(path: str) -> object:
    with suppress(OSError, ValueError):
        return known_by(path)
    return ()
