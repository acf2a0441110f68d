"""The identity of a tool: its content and that of the libraries it loads, not its name or version. And the memos of
what was found out about tools.

Digesting clang's libraries takes a second, so the answer is remembered, under the status (device, inode, size,
both times) of every file that it was made of. The change time cannot be set by a program, so a file replaced by one
of the same size and modification time is seen; where there is none (`base/times`), nothing is remembered. Which
libraries a tool loads is asked of the dynamic loader (as `ldd` does: LD_TRACE_LOADED_OBJECTS) and depends on
LD_LIBRARY_PATH, the loader's cache, and the directories in RUNPATH: every place in them where one of the libraries
could appear is watched too, those for some processors alone included.

A script in the place of a tool (a wrapper of lld) is its content, and all programs that its words may name: by path, on
PATH, or beside it. Known weakness: a name that is put together when it runs.

Format of a memo (an action of the store), one for each tool and loader environment: JSON {"format": 4, "watch": {path:
status or null, ...}, "files": [path, ...], "digests": {path: hex of its content, ...}, "digest": hex}.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hipcache.base import native
from hipcache.base.compression import STORED, inflate
from hipcache.base.errors import PassThrough
from hipcache.base.keys import digest_file, make_key
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass
from hipcache.inputs.file_manager import RACY
from hipcache.inputs.readset import tells
from hipcache.inputs.watched import FILE, GONE, Watched
from hipcache.processes.runner import Runner

# Bytes of a memo.
MOST_MEMO = 16 << 20
_LOADER_VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "LD_HWCAP_MASK", "GLIBC_TUNABLES")
_LOADER_FILES = ("/etc/ld.so.cache", "/etc/ld.so.preload")
_FORMAT = 4
# What the loader puts for a word in a path: $LIB as Debian, Fedora and Arch have it, $PLATFORM by the processor.
_TOKENS = {
    "LIB": ("lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"),
    "PLATFORM": ("x86_64", "haswell", "xeon_phi", "aarch64"),
}
_OLD_NAMES = ("tls", "haswell", "xeon_phi", "avx512_1", "x86_64", "atomics", "aarch64")
_WORD = pattern(rb"[\w./+-]*[A-Za-z][\w./+-]*")

Status = list[int]


class Identities:
    """Digests of tools for one compile. `memos`: None to remember nothing; `racy`: see `Context`."""

    def __init__(
        self, runner: Runner, environ: Mapping[str, str], memos: Memos | None, now: float, *, racy: float = RACY
    ) -> None:
        self._runner = runner
        self._environ = environ
        self._memos = memos
        self._now = now
        self._racy = racy
        self._digests: dict[str, str] = {}
        self._watched: dict[str, Status | None] = {}
        self._contents: dict[str, tuple[str, ...]] = {}
        self._of_files: dict[str, str] = {}

    def digest(self, tool: str) -> str:
        """Digest of the program at path `tool`. Raises OSError if it cannot be read."""
        if tool not in self._digests:
            self._digests[tool] = self._recall(tool) or self._take(tool)
        return self._digests[tool]

    def tool(self, program: str, path: str) -> str:
        """Digest of the program that a plan names `program`, and that is at `path`. Raises PassThrough."""
        try:
            return self.digest(path)
        except OSError as error:
            raise PassThrough("tool", f"'{program}': {error}") from error

    def changed(self) -> str:
        """The first file of a tool that is another one by now than when it was looked at; empty if there is none."""
        watched = [*self._watched.items()]  # another thread may look at one more tool meanwhile
        found = native.statuses([path for path, _ in watched])
        pairs = zip(watched, found, strict=True)
        return next((path for (path, status), now in pairs if (list(now.status) if now else None) != status), "")

    def knows(self, path: str) -> bool:
        """Is it a file of a tool of this compile, or of the loader?"""
        return path in self._watched

    def contents(self) -> dict[str, tuple[str, ...]]:
        """The files that each tool of this compile consists of, its own first, by the digest of the tool."""
        return dict(self._contents)

    def digests(self) -> Iterator[tuple[list[int], str]]:
        """(status that it had before it was read, digest of its content) of each of their files."""
        for path, digest in self._of_files.items():
            status = self._watched.get(path)
            if status:
                yield status, digest

    def watched(self) -> Iterator[Watched]:
        """The files that identify the tools of this compile, and the libraries that they load."""
        for path, status in self._watched.items():
            yield Watched(FILE, path, tuple(status)) if status else Watched(GONE, path)

    def _key(self, tool: str) -> str:
        names = (*_LOADER_VARIABLES, "PATH") if is_script(tool) else _LOADER_VARIABLES
        return make_key("tool", [("path", tool), *((name, self._environ.get(name, "")) for name in names)]).digest

    def _recall(self, tool: str) -> str:
        raw = self._memos.load(self._key(tool)) if self._memos else None
        if raw is None:
            return ""
        try:
            memo = json.loads(raw)
            if memo["format"] == _FORMAT and all(_status(p) == s and _tells(s) for p, s in memo["watch"].items()):
                self._watched.update(memo["watch"])
                self._contents[str(memo["digest"])] = tuple(memo["files"])
                self._of_files.update(memo["digests"])
                return str(memo["digest"])
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return ""  # one that does not read: taken again below, and written anew
        return ""

    def _take(self, tool: str) -> str:
        watch: dict[str, Status | None] = {path: _status(path) for path in (tool, *_LOADER_FILES)}
        contents = [("tool", self._digest_of(tool))]
        libraries = self._libraries(tool)
        for directory in self._directories([tool, *libraries]):
            places = [os.path.join(directory, os.path.basename(library)) for library in libraries]
            watch.update((path, _status(path)) for path in (*places, *_for_processors(directory)))
        for library in libraries:
            watch[library] = _status(library)
            contents.append((Path(library).name, self._digest_of(library)))
        if is_script(tool):
            self._digests[tool] = ""  # it may name itself
            contents += [(os.path.basename(program), self._any(program)) for program in self._named(tool, watch)]
            watch.update(self._watched)  # with the libraries of those
        self._watched.update(watch)
        digest = make_key("tool", contents).digest
        self._contents[digest] = (tool, *libraries)
        self._remember(tool, watch, digest)
        return digest

    def _digest_of(self, path: str) -> str:
        # Most tools of a compiler load the same libraries.
        if path not in self._of_files or self._watched.get(path) != _status(path):
            self._of_files[path] = digest_file(path)
        return self._of_files[path]

    def _named(self, script: str, watch: dict[str, Status | None]) -> list[str]:
        """The programs that the words of a script may name; puts every place looked at into `watch`."""
        with open(script, "rb") as file:
            words = dict.fromkeys(map(os.fsdecode, _WORD.findall(file.read())))
        path = [place for place in self._environ.get("PATH", os.defpath).split(":") if place.startswith("/")]
        found: dict[str, None] = {}
        for word in words:
            name = word.rpartition("/")[2]
            for places in ([word] if word.startswith("/") else path, [os.path.dirname(script)]):
                for place in places:
                    program = place if place == word else os.path.join(place, name)
                    watch[program] = _status(program)
                    if os.path.isfile(program) and os.access(program, os.X_OK):
                        found[program] = None
                        break
        return list(found)

    def _any(self, program: str) -> str:
        """Digest of a program that perhaps nobody runs, and that need not run."""
        try:
            return self.digest(program)
        except OSError:
            with contextlib.suppress(OSError):
                return digest_file(program)
            return ""

    def _remember(self, tool: str, watch: dict[str, Status | None], digest: str) -> None:
        young = (self._now - self._racy) * 1e9
        if self._memos is None or any(status and status[4] >= young for status in watch.values()):
            return  # too young to tell a second change from the first
        if not all(map(_tells, watch.values())):
            return
        if any(_status(path) != status for path, status in watch.items()):
            return
        files = self._contents[digest]
        digests = {path: self._of_files[path] for path in files}
        memo = {"format": _FORMAT, "watch": watch, "files": files, "digests": digests, "digest": digest}
        self._memos.keep(self._key(tool), json.dumps(memo).encode())

    def _libraries(self, tool: str) -> list[str]:
        """Paths of the shared objects that the loader maps for `tool`; none for a script or a static program."""
        if _dynamic_paths(tool) is None:
            return []
        env = {name: self._environ[name] for name in _LOADER_VARIABLES if name in self._environ}
        answer = self._runner.run([tool], env={**env, "LD_TRACE_LOADED_OBJECTS": "1"})
        if answer.status != 0 or b"=> not found" in answer.stdout:
            # A library that is not there yet could not be watched.
            raise OSError(f"the loader does not list the libraries of '{tool}'")
        paths = re.findall(r"^\s*(?:\S+ => )?(\S.*?) \(0x[0-9a-f]+\)$", os.fsdecode(answer.stdout), re.MULTILINE)
        # The kernel's own (linux-vdso.so.1) has no file; a bare name that has one is in the working directory.
        return [path for path in dict.fromkeys(paths) if "/" in path or os.path.exists(path)]

    def _directories(self, objects: list[str]) -> list[str]:
        """Directories in which a library could appear before the one that is loaded now."""
        given = self._environ.get("LD_LIBRARY_PATH", "")
        found = [d or "." for d in re.split("[:;]", given)] if given else []  # an empty one is the working directory
        for path in objects:
            origin = os.path.dirname(os.path.realpath(path))
            for entry in _dynamic_paths(path) or []:
                found.append(entry.replace("$ORIGIN", origin).replace("${ORIGIN}", origin))
        return list(dict.fromkeys(meant for entry in found for meant in _expanded(entry)))


def _expanded(directory: str) -> Iterator[str]:
    """The directories that it may stand for on this machine and others."""
    for token, words in _TOKENS.items():
        for written in (f"${token}", f"${{{token}}}"):
            if written in directory:
                for word in words:
                    yield from _expanded(directory.replace(written, word))
                return
    yield directory


def _for_processors(directory: str, deep: int = 4) -> Iterator[str]:
    """Directories in it where the loader looks before it looks there: that of glibc-hwcaps with all in it, and those
    with old names, which glibc before 2.37 combines (elf/dl-hwcaps.c). One that is there tells by its times what comes
    into it."""
    hwcaps = os.path.join(directory, "glibc-hwcaps")
    yield hwcaps
    with contextlib.suppress(OSError):
        yield from (os.path.join(hwcaps, name) for name in os.listdir(hwcaps))
    for name in _OLD_NAMES:
        path = os.path.join(directory, name)
        yield path
        if os.path.isdir(path) and deep > 1:
            yield from _for_processors(path, deep - 1)


def is_script(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _status(path: str) -> Status | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _tells(status: Status | None) -> bool:
    """Would it be another one after a change?"""
    return status is None or tells(status)


def _dynamic_paths(path: str) -> list[str] | None:
    """Entries of DT_RPATH and DT_RUNPATH (System V ABI, chapter 5); None if `path` is not a dynamic ELF-64 file."""
    with open(path, "rb") as file:
        head = file.read(64)
        if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
            return None
        table, size, count = (*struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54))
        file.seek(table)
        rows = file.read(size * count)
        segments = [struct.unpack_from("<IIQQQQQQ", rows, i * size) for i in range(count)]
        dynamic = next((s for s in segments if s[0] == 2), None)
        if dynamic is None:
            return None
        file.seek(dynamic[2])
        raw = file.read(dynamic[5])
        entries = list(struct.iter_unpack("<QQ", raw[: len(raw) // 16 * 16]))
        strings = next((value for tag, value in entries if tag == 5), 0)
        base = next((s for s in segments if s[0] == 1 and s[3] <= strings < s[3] + s[5]), None)
        paths = []
        for tag, value in entries:
            if tag in (15, 29) and base is not None:
                file.seek(strings - base[3] + base[2] + value)
                text = file.read(4096).split(b"\0", 1)[0]
                paths += [entry for entry in os.fsdecode(text).split(":") if entry]
        return paths


@dataclass(frozen=True)
class Memos:
    """What was found out once about tools, kept as actions of the store: there it is limited, checked and sealed like
    everything else.

    `load` gives the memo of a key, None if there is none; `keep` stores one (only speed is lost if it cannot)."""

    load: Callable[[str], bytes | None]
    keep: Callable[[str, bytes], None]


def memos_in(get: Callable[[str], bytes | None], put: Callable[[str, bytes], None]) -> Memos:
    """Those in a store whose actions these functions get and put."""

    def load(key: str) -> bytes | None:
        packed = get(key)
        with contextlib.suppress(zlib.error):
            return inflate(packed, MOST_MEMO) if packed else None
        return None

    return Memos(load, lambda key, memo: put(key, zlib.compress(memo, STORED)))
