"""The native library: the C files of `native/`, called in this process. Each function raises LibraryError if the
library is missing, or was built from other sources than these (a checkout that was updated and not installed again)."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hipcache.base import shared
from hipcache.base.errors import LibraryError
from hipcache.base.values import dataclass

PATH = Path(__file__).parents[1] / "native" / "libhipcache.so"
# Packagers' tools rename it as they would a module of Python: dh_python3 puts .cpython-311-x86_64-linux-gnu into it.
_RENAMED = "libhipcache.*.so"
# That of `hipcache_interface` in native/library/library.c: raise both when a function is another one.
_INTERFACE = 14
_NO_MEMORY = 8
# As of `hipcache_statuses`.
_STATUS, _READABLE = struct.Struct("<QQQQqq"), 2
_AT_SYMLINK_NOFOLLOW = 0x100
_PT_INTERP = b"\3\0\0\0"
#: Behind this, a list has what the pass has listed itself. As in observe.h.
SELF_LISTED = b"\0--\0"
# Why there is no list of what a pass looked at.
_WHY = {
    shared.OBSERVED: "",
    shared.NO_FILTER: "the kernel has no seccomp user notification (needs Linux 5.5 or newer)",
    shared.NO_THREAD: "the observer has no thread or no directory",
    shared.NOT_READABLE: "the kernel does not let us read its memory (process_vm_readv)",
    shared.UNKNOWN_CALL: "it made a system call that a list of paths cannot describe",
    shared.TOO_MANY: "it used too many paths",
    shared.LEFT_BEHIND: "it left processes behind",
}
_NOT_RUN = shared.NO_THREAD
_HINT = "reinstall hipcache (in a checkout: pip install -e .)"


class Bytes(ctypes.Structure):
    _fields_ = (
        *(("at", ctypes.c_void_p), ("size", ctypes.c_size_t), ("room", ctypes.c_size_t)),
        *(("lent", ctypes.c_bool), ("failed", ctypes.c_bool)),
    )

    def take(self, library: ctypes.CDLL) -> bytes:
        content = ctypes.string_at(self.at, self.size) if self.at else b""
        library.hipcache_free(ctypes.byref(self))
        return content


class _Lexed(ctypes.Structure):
    _fields_ = (
        *((name, Bytes) for name in ("bare", "lines", "strings", "words")),
        ("looked", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
    )


@dataclass(frozen=True)
class DirectHit:
    """A compile whose outputs are written and counted. `rule`: the content of its dependency file;
    `counted`: what the statistics got."""

    messages: bytes
    rule: bytes
    counted: bytes


def load() -> ctypes.CDLL:
    """Raises LibraryError."""
    library = _open()
    if library is None:
        raise LibraryError(f"the native library '{PATH}' cannot be loaded", _HINT)
    if _interface(library) != _INTERFACE:
        raise LibraryError("the native library does not match these sources", _HINT)
    return library


def reads_packs() -> bool:
    """Does the launcher? Then packs are of use."""
    try:
        return bool(load().hipcache_reads_packs())
    except LibraryError:
        return False


@cache
def _open() -> ctypes.CDLL | None:
    for path in _names():
        try:
            return ctypes.CDLL(os.fspath(path))
        except OSError:
            continue
    return None


def _names() -> Iterator[Path]:
    yield PATH
    yield from sorted(PATH.parent.glob(_RENAMED))


@cache
def _interface(library: ctypes.CDLL) -> int:
    try:
        return int(library.hipcache_interface())
    except AttributeError:
        return 0


def hit(
    store: str,
    directory: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    terminal: bool,
    resident: bool,
    secret: bytes = b"",
) -> DirectHit | None:
    """Serve the command if nothing has changed for it since it was remembered. `terminal`: would messages go to one?
    `resident`: may the resident be asked? `secret`: as in `store.seal`. Other threads run meanwhile."""
    library = load()
    messages, rule, counted = Bytes(), Bytes(), Bytes()
    variables = [f"{name}={value}" for name, value in environ.items()]
    done = library.hipcache_hit(
        os.fsencode(store),
        os.fsencode(directory),
        texts(argv),
        texts(variables),
        int(terminal),
        int(resident),
        secret or None,
        ctypes.byref(messages),
        ctypes.byref(rule),
        ctypes.byref(counted),
    )
    found = DirectHit(messages.take(library), rule.take(library), counted.take(library))
    return found if done else None


class PathStatus(NamedTuple):
    """What is at a path. `status`: device, inode, size, both times in nanoseconds; `readable`: by this user."""

    status: tuple[int, int, int, int, int]
    mode: int
    readable: bool


def listed(names: Sequence[str], directory: str = "") -> bytes:
    """The paths for `look` and `not_missing`; of names in a directory, if one is given (with a slash at its end).
    Raises ValueError for what can be no path."""
    found = os.fsencode(directory + ("\0" + directory).join(names) + "\0") if names else b""
    if found.count(b"\0") != len(names):
        raise ValueError("a path has a NUL")
    return found


def look(paths: bytes, *, links: bool = False) -> bytes:
    """What is at each of the `listed` paths, for `statuses_in`; with `links` of a link itself. Other threads run
    meanwhile."""
    count = paths.count(b"\0")
    found = bytearray(count * (1 + _STATUS.size))
    how = (ctypes.c_uint8 * count).from_buffer(found)
    rows = (ctypes.c_uint8 * (_STATUS.size * count)).from_buffer(found, count)
    load().hipcache_statuses(paths, ctypes.c_size_t(count), _AT_SYMLINK_NOFOLLOW if links else 0, how, rows)
    return bytes(found)


def statuses_in(found: bytes) -> list[PathStatus | None]:
    """The same, or None where nothing is."""
    count = len(found) // (1 + _STATUS.size)
    return [
        PathStatus((device, inode, size, modified, changed), mode, how == _READABLE) if how else None
        for how, (device, inode, mode, size, modified, changed) in zip(
            found[:count], _STATUS.iter_unpack(found[count:]), strict=True
        )
    ]


def statuses(paths: Sequence[str], *, links: bool = False) -> list[PathStatus | None]:
    return statuses_in(look(listed(paths), links=links))


def not_missing(paths: bytes) -> str:
    """The first of the `listed` paths that lstat(2) does not find missing, empty if there is none."""
    library = load()
    library.hipcache_not_missing.restype = ctypes.c_size_t
    at = library.hipcache_not_missing(paths, ctypes.c_size_t(len(paths)))
    return os.fsdecode(paths[at:].partition(b"\0")[0])


def search(path: str, texts: Sequence[bytes]) -> set[bytes]:
    """Those of the texts, all of one length, that stand in the file. Raises OSError."""
    found = (ctypes.c_uint8 * len(texts))()
    sizes = [ctypes.c_size_t(size) for size in (len(texts[0]), len(texts))]
    if load().hipcache_search(os.fsencode(path), b"".join(texts), *sizes, found) != 0:
        raise OSError(errno.EIO, "it cannot be searched", path)
    return {text for text, there in zip(texts, found, strict=True) if there}


def search_in(content: bytes, texts: Sequence[bytes]) -> set[bytes]:
    """Those of the texts, all of one length, that stand in the content. Raises MemoryError."""
    found = (ctypes.c_uint8 * len(texts))()
    sizes = [ctypes.c_size_t(size) for size in (len(content), len(texts[0]), len(texts))]
    if load().hipcache_search_in(content, sizes[0], b"".join(texts), sizes[1], sizes[2], found) != 0:
        raise MemoryError
    return {text for text, there in zip(texts, found, strict=True) if there}


def bitcode(content: bytes) -> bytes | None:
    """The part of a module that matters to a back end, as `native/library/bitcode.c` writes it; None if it is not
    known."""
    library = load()
    said = Bytes()
    known = library.hipcache_bitcode(content, ctypes.c_size_t(len(content)), ctypes.byref(said))
    text = said.take(library)
    return text if known else None


def declarations(content: bytes, at: int = 0) -> tuple[list[tuple[bytes, bytes]], int] | None:
    """What the module declares whose bitcode begins `at` that byte, in `parts`, and where its bitcode ends; None if it
    is not known."""
    library, said, end = load(), Bytes(), ctypes.c_size_t(0)
    sizes = ctypes.c_size_t(len(content)), ctypes.c_size_t(at)
    known = library.hipcache_declarations(content, *sizes, ctypes.byref(end), ctypes.byref(said))
    text = said.take(library)
    return (list(parts(text)), end.value) if known else None


def parts(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(letter, content) of each part that `native/library/bitcode.c` writes."""
    at = 0
    while at < len(text):
        start = at + 1 + 8
        size = int.from_bytes(text[at + 1 : start], sys.byteorder)
        yield text[at : at + 1], text[start : start + size]
        at = start + size


def processor() -> bytes:
    """The digest of the processor as `native/direct/processor.c` takes it; empty if there is none."""
    digest = (ctypes.c_uint8 * 32)()
    return bytes(digest) if load().hipcache_processor(digest) else b""


@dataclass(frozen=True)
class Lexed:
    """As `native/lexer/lexer.c` tells of them."""

    bare: bytes
    lines: bytes
    strings: bytes
    words: bytes
    flags: int
    looked: int


def lex(content: bytes, table: bytes, asked: int) -> Lexed:
    """`table` and `asked`: see `native/lexer/lexer.c`. Other threads run meanwhile. Raises MemoryError."""
    library, found = load(), _Lexed()
    size, words = ctypes.c_size_t(len(content)), _table(table)
    library.hipcache_lex(content, size, words, ctypes.c_uint(asked), ctypes.byref(found))
    if found.flags & _NO_MEMORY:
        library.hipcache_lexed_free(ctypes.byref(found))
        raise MemoryError
    bare, lines, strings, spelled = (
        ctypes.string_at(part.at, part.size) if part.at else b""
        for part in (found.bare, found.lines, found.strings, found.words)
    )
    flags, looked = int(found.flags), int(found.looked)
    library.hipcache_lexed_free(ctypes.byref(found))
    return Lexed(bare, lines, strings, spelled, flags, looked)


@cache
def _table(text: bytes) -> ctypes.c_void_p:
    """The words of a text, kept for as long as the process runs. Raises MemoryError."""
    library = load()
    library.hipcache_lexer_words.restype = ctypes.c_void_p
    made = library.hipcache_lexer_words(text, ctypes.c_size_t(len(text)))
    if not made:
        raise MemoryError
    return ctypes.c_void_p(made)


def texts(words: Iterable[str]) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [os.fsencode(word) for word in words]
    return (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)


def _loader(program: str) -> bytes:
    """The path of the dynamic loader that an ELF-64 program names; empty if it has none. Such a one would not load us,
    and begin at once."""
    try:
        with open(program, "rb") as file:
            ident, place, size, count = struct.unpack("<6s26xQ14xHH6x", file.read(64))  # e_phoff, e_phentsize, e_phnum
            if ident != b"\x7fELF\2\1":
                return b""
            file.seek(place)
            headers = [struct.unpack("<4s4xQ16xQ16x", file.read(size)[:56]) for _ in range(count)]
            for kind, offset, length in headers:
                if kind == _PT_INTERP:
                    file.seek(offset)
                    return file.read(length)
    except (OSError, ValueError, struct.error):
        pass  # it will not begin, or we cannot tell
    return b""


def for_plans(program: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables by which clang prints a plan in one go (`native/observer/gather.c`). Empty where it may not bear that:
    for a program of another loader than ours, and where the user has the loader do something else."""
    loader = _loader(program)
    if not loader or loader != _loader("/proc/self/exe") or tells_loader(environ):
        return {}
    return _preload()


def tells_loader(environ: Mapping[str, str]) -> bool:
    """Does the user have the loader do more than look for libraries (LD_PRELOAD, LD_AUDIT ...)?"""
    return any(name.startswith("LD_") and name != "LD_LIBRARY_PATH" for name in environ)


def _preload() -> dict[str, str]:
    """The variable by which a program loads this library; none if it cannot be named there."""
    library = load()._name
    # These two are between the names.
    return {} if any(letter in library for letter in ": ") else {"LD_PRELOAD": library}


# For the server, whose `malloc` what it begins goes on with: memory in huge pages takes 5 to 10 % off a pass of clang
# (glibc 2.35 and later: GNU C library manual, "Memory Allocation Tunables"). Other libraries of C read past it.
_HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


class ForkServer:
    """A loaded program, which begins anew for each command (`native/observer/fork_server.c`)."""

    def __init__(self, program: str, directory: str, environ: Mapping[str, str]) -> None:
        """It is loaded as one that is started in that directory. Raises OSError if it cannot be so, LibraryError."""
        self.handle = ctypes.c_void_p()
        self._library = load()
        preload = _preload()
        variables = {**_HUGE_PAGES, **environ, **preload}  # what it begins has `environ` alone
        with open(os.devnull, "rb") as null, open(os.memfd_create("said"), "rb") as said:
            if preload and _loader(program):
                self._library.hipcache_fork_server.restype = ctypes.c_void_p
                self.handle.value = self._library.hipcache_fork_server(
                    os.fsencode(program),
                    texts(f"{name}={value}" for name, value in variables.items()),
                    os.fsencode(directory),
                    (ctypes.c_int * 3)(null.fileno(), said.fileno(), said.fileno()),
                )
            if self.handle and os.fstat(said.fileno()).st_size:
                self.close()
                raise OSError(errno.ENOEXEC, "it prints before it begins", program)
        if not self.handle:
            raise OSError(errno.ENOEXEC, "it cannot be loaded once for several processes", program)

    def close(self) -> None:
        """It ends, and with it what it has begun."""
        if self.handle:
            self._library.hipcache_fork_server_end(self.handle)

    def __del__(self) -> None:
        if self.handle:
            self._library.hipcache_fork_server_free(self.handle)


class Observing:
    """A process that native code starts and waits for (`native/observer/start.c`), under the observer if that is asked
    for. `kill` may be called from any thread, and at any time."""

    def __init__(self) -> None:
        """Raises LibraryError, MemoryError."""
        self._handle = ctypes.c_void_p()
        self._library = load()
        self._library.hipcache_observing.restype = ctypes.c_void_p
        self._handle.value = self._library.hipcache_observing()
        if not self._handle:
            raise MemoryError

    def __del__(self) -> None:
        if self._handle:
            self._library.hipcache_observing_free(self._handle)

    def kill(self) -> None:
        self._library.hipcache_observing_kill(self._handle)

    def run(
        self,
        program: str,
        argv: Sequence[str],
        directory: str,
        environ: Mapping[str, str],
        streams: tuple[int, int, int],
        *,
        server: ForkServer | None = None,
        observed: bool = True,
    ) -> tuple[int, float, bytes, str]:
        """(status of waitpid, seconds of processor time, list of what it looked at, why there is none). The program is
        a path. `streams`: where standard input comes from (negative: from nowhere), where output and error go.
        `server`: has loaded the program. Other threads run meanwhile. Raises OSError if it did not run."""
        seen, status, used = Bytes(), ctypes.c_int(), ctypes.c_int64()
        ended = self._library.hipcache_observe(
            self._handle,
            server.handle if server else None,
            os.fsencode(program),
            texts(argv),
            texts(f"{name}={value}" for name, value in environ.items()),
            os.fsencode(directory),
            (ctypes.c_int * 3)(*streams),
            ctypes.byref(seen) if observed else None,
            ctypes.byref(status),
            ctypes.byref(used),
        )
        looked = seen.take(self._library)
        if ended < 0 or ended == _NOT_RUN:
            raise OSError(-ended, os.strerror(-ended) if ended < 0 else _WHY[_NOT_RUN])
        return status.value, used.value / 1e6, looked, _WHY[ended]
