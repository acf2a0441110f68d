"""The record of a whole compile: all that it depended on, and all that it wrote.

Its key is the digest of the command as it was typed and of the working directory, and of whether its messages went to
a terminal: there they look otherwise. (Without messages it is the same record.) A store holds the newest compile of
each command only: after an edit and back again, the units are there (the engine finds them), and the record is made
anew.

The variables and every path that mattered are in the record twice. Once as one digest of their *state*, which takes a
`stat` for each file (`inputs/watched.py`). Where that differs (a fresh clone has other inodes and times; so has a store
in a container), their *contents* decide, as in ccache's direct mode (see below). If these are as they were, the native
program writes the state that it found into the record, in place of the old one, so that the next hit takes the short
way (`native/direct/refresh.c`). A state stands for the contents only if all files in it were old enough when they were
read (git calls the others racily clean). So a record of young files has no state, until it is refreshed.

Format, an action of the store; a string is its length (4 bytes, little-endian) and its bytes:

    variables     32 bytes, BLAKE3 of DOMAIN and the variables
    state         32 bytes, BLAKE3 of STATE_DOMAIN and what `watched.states` gives for `watched`; NO_STATE if not known
    racy          8 bytes, little-endian: nanoseconds after which a file is old enough
    ignored       string: the names of variables that do not matter, each followed by NUL; PWD among them still
                  matters where it is another name of the working directory (`inputs/variables.py`)
    outputs       string: for each one "x" if it is executable, else "-"; 32 bytes: digest of the blob; 8 bytes,
                  little-endian: its size; string: absolute path, which must be one that the command names
                  (`native/direct/places.c`)
    messages      string: for standard error
    counted       string: what is appended to the log of the statistics
    history       string: paths below `v2/` of the records that `explain` reads, each followed by NUL; the modification
                  time of each is the last use
    uses          string: entries that the units would have used, each "a" (action) or "b" (blob) and 32 bytes
    watched       string: list of the kind (1 byte) and the absolute path of each; and of guards, "d" with 32
                  hexadecimal digits (of the digest of what FILE gives for the directory) before the path: while that
                  is so, all that follows needs no look, up to the next that is neither "n" nor "a"
    contents      string: of `watched` (see below); empty if they are not known
    system        32 bytes, BLAKE3 of SYSTEM_DOMAIN and, for each of the next, that text, NUL, and what
                  `watched.states` gives for it: so the digest means the same without the record
                  (`native/direct/ask.c`); NO_STATE if not known
    system list   32 bytes: digest of a blob, a list as `watched`, of paths of the system (see `is_of_system`). Apart
                  because there is a process that can answer for them: then nobody reads it. Sources that include
                  the same of the system share one
    system contents  32 bytes: digest of a blob, the contents of those
    rules         string: for each dependency file string: absolute path, empty if none is written (SCons keeps the
                  content); string: list of its lines

    list          for each text: bytes that it shares with the one before (2 bytes), more bytes (2 bytes), these
    variables     sorted; each NAME=VALUE followed by NUL

The paths of 1,000 headers take 25 KB so (80 KB in full). The blobs of object and list are among `uses`.

The *contents* are all that a compile depended on, known by what it is and not by the numbers that the file system gives
it: a fresh clone, an unpacked store and a container have the same files with other inodes, times and owners. The native
program compares them (`native/direct/contents.c`). The engine does the same when it checks a trace
(`inputs/file_manager.py`); but contents are compared plainly here: after an edit of a comment the engine decides.

Their format, for each path of a list in its order (numbers as 8 bytes, little-endian). *type* is the mode of `stat`
without permissions, but for who may execute a regular file:

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

Which content a status stood for is known from the compile, for files of any age. The content of other files is read,
which is the one that was read before only if they are old.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence

from hipcache import __version__
from hipcache.base import shared
from hipcache.base.keys import digest_bytes, digest_file, make_key
from hipcache.base.shared import terminated
from hipcache.base.values import dataclass
from hipcache.config.files import project_file
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

DOMAIN = terminated(shared.VARIABLES_DOMAIN)
STATE_DOMAIN = terminated(shared.STATE_DOMAIN)
NO_STATE = bytes(32).hex()
SYSTEM_DOMAIN = terminated(shared.SYSTEM_DOMAIN)
_LONGEST = 0xFFFF
_EXECUTABLE = 0o111
# Places of parts of the format.
_DIGEST = 32
_IGNORED_AT = 2 * _DIGEST + 8


@dataclass(frozen=True)
class Output:
    """A file that was written: absolute path, the digest of its content, and whether who may read it may run it."""

    path: str
    digest: str
    executable: bool = False

    def pack(self, size: int) -> bytes:
        """`size`: of its content."""
        mark = b"x" if self.executable else b"-"
        return mark + bytes.fromhex(self.digest) + struct.pack("<Q", size) + _string(os.fsencode(self.path))


@dataclass(frozen=True)
class Rule:
    """A dependency file: absolute path (empty if none is written), content."""

    path: str
    content: bytes

    def pack(self) -> bytes:
        lines = self.content.splitlines(keepends=True)
        return _string(os.fsencode(self.path)) + _string(_list((line, (b"",)) for line in lines))


@dataclass(frozen=True)
class Outputs:
    """The files that a compile wrote, the dependency files (at most one for each source) first."""

    rules: tuple[Rule, ...]
    files: tuple[Output, ...]


@dataclass(frozen=True)
class DirectRecord:
    """See above. `racy`: seconds; `outputs`: each with the size of its content; `uses`: (is it an action, digest)."""

    variables: str
    state: str
    racy: float
    ignored: tuple[str, ...]
    outputs: tuple[tuple[Output, int], ...]
    messages: bytes
    counted: bytes
    history: tuple[str, ...]
    uses: tuple[tuple[bool, str], ...]
    watched: tuple[Watched, ...]
    contents: bytes
    system: str
    system_list: str
    system_contents: str
    rules: tuple[Rule, ...]

    def pack(self) -> bytes:
        """Raises ValueError if a path or a line is longer than any system allows."""
        return b"".join(
            [
                bytes.fromhex(self.variables),
                bytes.fromhex(self.state),
                struct.pack("<Q", int(self.racy * 1e9)),
                _string(_names(self.ignored)),
                _string(b"".join(output.pack(size) for output, size in self.outputs)),
                _string(self.messages),
                _string(self.counted),
                _string(_names(self.history)),
                _string(b"".join((b"a" if action else b"b") + bytes.fromhex(digest) for action, digest in self.uses)),
                _string(pack_list(self.watched)),
                _string(self.contents),
                bytes.fromhex(self.system),
                bytes.fromhex(self.system_list),
                bytes.fromhex(self.system_contents),
                _string(b"".join(rule.pack() for rule in self.rules)),
            ]
        )


def key(argv: Sequence[str], cwd: str, *, terminal: bool = False) -> str:
    """The key of the record of a command: `argv` as typed, without hipcache itself. `terminal`: the record whose
    messages went to a terminal."""
    words = [("word", word) for word in argv]
    kind = shared.DIRECT_KIND_ON_TERMINAL if terminal else shared.DIRECT_KIND
    return make_key(kind, [("version", __version__), ("directory", cwd), *of_project(cwd), *words]).digest


def of_project(cwd: str) -> list[tuple[str, str]]:
    """The project's config file in a key: if one comes or goes, another record counts. The record watches what is in
    it, as it does all others, for which it is known where they would be."""
    found = project_file(cwd)
    return [("settings", str(found))] if found else []


def variables_digest(variables: Mapping[str, str]) -> str:
    """`variables`: those that matter (`variables.compared`)."""
    pairs = sorted(os.fsencode(name) + b"=" + os.fsencode(value) for name, value in variables.items())
    return digest_bytes(DOMAIN + b"".join(pair + b"\0" for pair in pairs))


def ignored_in(packed: bytes) -> frozenset[str] | None:
    """The names of variables that do not matter to a packed record; None for what is none."""
    if len(packed) < _IGNORED_AT + 4:
        return None
    end = _end_of_ignored(packed)
    names = packed[_IGNORED_AT + 4 : end].split(b"\0")
    return frozenset(map(os.fsdecode, filter(None, names))) if end <= len(packed) else None


def ignoring(packed: bytes, names: Iterable[str]) -> bytes:
    """The packed record, to which these variables alone do not matter."""
    ignored = _string(_names(sorted(names)))
    return b"".join([packed[:_IGNORED_AT], ignored, packed[_end_of_ignored(packed) :]])


def has_variables(packed: bytes, digest: str) -> bool:
    """Is this the digest of its variables?"""
    return packed[:_DIGEST] == bytes.fromhex(digest)


def _end_of_ignored(packed: bytes) -> int:
    (size,) = struct.unpack_from("<I", packed, _IGNORED_AT)
    return int(_IGNORED_AT + 4 + size)


def state_digest(watched: Sequence[Watched], found: Mapping[tuple[str, str], bytes]) -> str:
    """`found`: see `watched.states`."""
    return digest_bytes(
        STATE_DOMAIN + b"".join(found.get((entry.kind, entry.path), b"") for entry in each_once(watched))
    )


def pack_list(watched: Sequence[Watched]) -> bytes:
    """Raises ValueError as `pack` does."""
    return _list(_parts(entry) for entry in each_once(watched))


def system_digest(watched: Sequence[Watched], found: Mapping[tuple[str, str], bytes]) -> str:
    """`found`: what `watched.states` gives."""
    parts = (
        head + tail + b"\0" + found.get((entry.kind, entry.path), b"")
        for entry in each_once(watched)
        for head, tails in [_parts(entry)]
        for tail in tails
    )
    return digest_bytes(SYSTEM_DOMAIN + b"".join(parts))


def is_of_system(roots: Iterable[str], working: Iterable[str]) -> Callable[[str], bool]:
    """Does a path lie in one of `roots`, and not where somebody works? `working`: directories that are worked in; where
    one lies in a root, what both have in common with the next step (/usr/src, /opt/project) is not the system's."""
    trees: dict[str, tuple[str, ...]] = {}
    for root in roots:
        within = [
            directory.split("/")[: root.count("/") + 2] for directory in working if directory.startswith(root + "/")
        ]
        trees[root + "/"] = tuple("/".join(steps) + "/" for steps in within)
    every = tuple(trees)

    def is_system(path: str) -> bool:
        whole = path + "/"
        if not whole.startswith(every):
            return False
        return not whole.startswith(next(trees[entry] for entry in every if whole.startswith(entry)))

    return is_system


def each_once(watched: Sequence[Watched]) -> Iterable[Watched]:
    """Each once, as a list has them."""
    return {(entry.kind, entry.path): entry for entry in watched}.values()


def _parts(entry: Watched) -> tuple[bytes, tuple[bytes, ...]]:
    """(with what its texts begin, what follows in each)."""
    return os.fsencode(entry.kind + entry.path), tuple(map(os.fsencode, entry.names)) or (b"",)


def _behind(size: int, tails: tuple[bytes, ...]) -> bytes:
    """The rows of a list that share the first `size` bytes of the row before them."""
    return b"".join(struct.pack("<HH", size, len(tail)) + tail for tail in tails)


def _names(names: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(name) + b"\0" for name in names)


def _string(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def _list(texts: Iterable[tuple[bytes, tuple[bytes, ...]]]) -> bytes:
    """Of texts given as by `_parts`. Those of one share their beginning at least, and no more is looked for."""
    parts = []
    before = b""
    for head, tails in texts:
        text = head + tails[0]
        if len(head) + max(map(len, tails)) > _LONGEST:
            raise ValueError("a path or line is too long for a record")
        length = min(len(before), len(text))
        different = int.from_bytes(before[:length], "big") ^ int.from_bytes(text[:length], "big")
        shared = length - (different.bit_length() + 7) // 8
        parts.append(struct.pack("<HH", shared, len(text) - shared) + text[shared:])
        parts.append(_behind(len(head), tails[1:]))
        before = head + tails[-1]
    return b"".join(parts)


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
        for entry in each_once(watched):
            state = found.get((entry.kind, entry.path), b"")
            if entry.kind == SAME:
                parts.append(struct.pack("<Q", places.setdefault(state, len(places))))
            elif entry.kind == FILE:
                parts.append(_file(entry.path, entry.known, state, digests, old))
            elif entry.kind == MODE:
                parts.append(struct.pack("<Q", type_of(*struct.unpack("<Q", state))))
            elif entry.kind == LINK:
                parts.append(struct.pack("<Q", type_of(struct.unpack_from("<Q", state)[0])) + state[8:])
            elif entry.kind in (ENTRIES, NUMBER, PROCESSOR):
                parts.append(state)
            elif entry.kind in (GONE, ABSENT):
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
