"""Packs: what a compile has put, in one compressed file.

An entry is put in a file of its own, whole and at once, so that a compile that is killed leaves what it has made, and
who waits for its key finds it. When the compile ends, its entries go into one pack, and their files are removed. So a
store has a file for each compile in the place of forty, and nothing in it twice: an object has its code objects in it,
and these are matches to zstd. What stands in a pack of before (the digests of the same headers, the code objects of
architectures that an edit left alone) is not written again: a frame may have a frame of that pack for its base.

    v2/packs/NAME     12 hexadecimal digits, by chance
    v2/packs/index    in which pack an entry is; made anew from the packs' tables when entries are counted

A pack, all numbers little-endian::

    magic      8 bytes   89 "hcP2" 0d 0a 1a
    check      8 bytes   of BLAKE3 of the numbers and the table
    made       8 bytes   nanoseconds of the epoch: of two packs with one entry the newer one counts
    entries    4 bytes   their number
    frames     4 bytes   their number
    table                of each frame its bytes here (4), and of its content (4), its base: name of the pack (6) and
                         frame there (4), 0 if it has none; of each entry its kind (1: "a" for an action, "b" for a
                         blob), its frame (1), 0 (2), bytes of the frame's content before it (4), its size (4), key or
                         digest (32)
    frames               zstd's, of which each may be empty: the newest records and lists, the others, code

An entry stands in the content as in a file of its own: so it is checked by its digest, as ever, and where anything is
wrong with the pack there is no entry. What a direct hit reads stands in the first frame, and its object first in that
of code: a frame is unpacked no further than it is needed.

The index, a hash table::

    magic      8 bytes   89 "hcI2" 0d 0a 1a
    slots      8 bytes   their number
    slot      12 bytes   fingerprint (6 bytes of the key, from the seventh on, or of the digest, from the first on),
                         name of the pack (6); 0: empty. It is the first free one behind fingerprint modulo slots, of 64

It is written in place, under the ledger's lock. A slot says where to look, and no more: one that is torn, or whose pack
is gone, costs a miss. A pack's file is removed as a whole, when none of it was used for longest (upkeep.py).

zstd takes the first MOST_PREFIX bytes of the base's content for what stands before the frame's own ("prefix"). A base
has no base, but other frames of its pack may. It is used whenever a pack is that needs it, and leaves behind that
(upkeep.py); if it has left, the pack is as absent.

Entries that are larger than MOST stay in files of their own, which a file system may share with the build; so does
what the engine takes of its own user alone, where others may write the packs.
`native/direct/pack.c` reads the same.
"""

from __future__ import annotations

import os
import struct
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from hipcache.base import compression
from hipcache.base.hashing import blake3
from hipcache.store.confined import MOST_BLOB, Confined
from hipcache.store.layout import ACTIONS, BLOBS, PACKS, TMP, DamagedEntry, random_name

INDEX = f"{PACKS}/index"
MOST = 64 << 20
# Of the entries of one pack, which are held in memory.
MOST_TOGETHER = 256 << 20
_MAGIC, _INDEX_MAGIC = b"\x89hcP2\r\n\x1a", b"\x89hcI2\r\n\x1a"
_HEAD, _FRAME, _ENTRY = struct.Struct("<QII"), struct.Struct("<II6sI"), struct.Struct("<BBHII32s")
_HEAD_AT, _TABLE_AT = 16, 32
_MOST_ENTRIES, _MOST_FRAMES, _MOST_FRAME = 1 << 16, 256, 1 << 29
_SLOTS_AT, _SLOT, _PROBES = 16, 12, 64
_EMPTY = bytes(_SLOT)
_NAME_BYTES = _FINGERPRINT_BYTES = 6
_NO_BASE = bytes(_NAME_BYTES)
_LONGEST_CHAIN = 100
MOST_PREFIX = 4 << 20
_CODE = (b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB", b"BC\xc0\xde")
_LARGE = 1 << 18
# Bytes of a frame of code up to which the high level costs 1 part in 400 of the compile (compression.py).
_SHORT = 1 << 16
# In the first frame: a direct record and its list (direct/remember.py).
_NEWEST = 2
# The number of the last frame.
CODE = 2
_KINDS = {ord("a"): ACTIONS, ord("b"): BLOBS}


class Frame(NamedTuple):
    """`pack`: its name below `v2/`; `number`: in that; `at`, `stored`: its bytes there; `size`: of its content; `base`:
    the pack and the number of its base, if it has one."""

    pack: str
    number: int
    at: int
    stored: int
    size: int
    base: tuple[str, int] | None


class Place(NamedTuple):
    """Where an entry lies. `before`: bytes of the frame's content before it."""

    frame: Frame
    before: int
    size: int

    @property
    def pack(self) -> str:
        return self.frame.pack


class Table(NamedTuple):
    """`made`: in nanoseconds of the epoch."""

    made: int = 0
    frames: tuple[Frame, ...] = ()
    entries: Mapping[str, Place] = {}

    @property
    def bases(self) -> set[str]:
        return {frame.base[0] for frame in self.frames if frame.base}


def is_packed(name: str) -> bool:
    """May there be an entry of that name in a pack?"""
    return name.startswith((f"{ACTIONS}/", f"{BLOBS}/"))


def new_name() -> str:
    return f"{PACKS}/{random_name()[: 2 * _NAME_BYTES]}"


def build(entries: Mapping[str, bytes], now: float, bases: Mapping[int, tuple[Frame, bytes]]) -> bytes:
    """A pack of these entries, in that order, the newest first. `now`: seconds of the epoch; `bases`: by the number of
    the frame, with what they begin with. Raises ZstdError."""
    parts: tuple[list[tuple[str, bytes]], ...] = [], []
    for name, content in entries.items():
        parts[name.startswith(BLOBS) and is_code(content)].append((name, content))
    others, code = parts
    frames = [others[:_NEWEST], others[_NEWEST:], code]
    packed, table = [], []
    for number, frame in enumerate(frames):
        whole = b"".join(content for _, content in frame)
        base, prefix = bases.get(number, (None, b"")) if whole else (None, b"")
        packed.append(compression.compress(whole, prefix))
        if number == CODE and not prefix and len(packed[-1]) < _SHORT:
            packed[-1] = compression.compress(whole, level=compression.HIGH)
        table.append(
            _FRAME.pack(len(packed[-1]), len(whole), _key(base.pack) if base else _NO_BASE, base.number if base else 0)
        )
    for number, frame in enumerate(frames):
        before = 0
        for name, content in frame:
            table.append(_ENTRY.pack(ord(name[0]), number, 0, before, len(content), _key(name)))
            before += len(content)
    checked = _HEAD.pack(int(now * 1e9), len(entries), len(frames)) + b"".join(table)
    return b"".join([_MAGIC, blake3(checked).digest()[:8], checked, *packed])


def is_code(content: bytes) -> bool:
    """Is the blob an object, device code or bitcode (or as large)?"""
    return content.startswith(_CODE) or len(content) > _LARGE


def _key(name: str) -> bytes:
    """The digest in the name of an entry, or of a pack."""
    return bytes.fromhex(name.rpartition("/")[2])


def _fingerprint(name: str) -> bytes:
    key = _key(name)
    return key[_FINGERPRINT_BYTES:][:_FINGERPRINT_BYTES] if name.startswith(ACTIONS) else key[:_FINGERPRINT_BYTES]


class Packs:
    """Those of one store."""

    def __init__(self, confined: Confined) -> None:
        self._confined = confined
        self._lock = threading.Lock()
        self._tables: dict[str, Table] = {}
        self._contents: dict[tuple[str, int], bytes] = {}
        self._used: Counter[tuple[str, int]] = Counter()
        self._listed: dict[str, list[str]] | None = None

    def list_all(self) -> None:
        """From now on find what is in the packs that are there now, whatever the index tells. Raises OSError."""
        listed: dict[str, list[str]] = {}
        for pack in sorted((name for name, _ in self.names()), key=lambda name: -self.table(name).made):
            for name in self.table(pack).entries:
                listed.setdefault(name, []).append(pack)
        self._listed = listed

    def find(self, name: str) -> Place | None:
        """Raises nothing."""
        for pack in self._named(name) if self._listed is None else self._listed.get(name, ()):
            place = self.table(pack).entries.get(name)
            if place:
                return place
        return None

    def read(self, place: Place) -> bytes:
        """Unchecked, but as long as it is to be. Raises DamagedEntry, OSError."""
        end = place.before + place.size
        with self._lock:
            self._used[place.frame.base or (place.pack, place.frame.number)] += 1
            return self._content(place.frame, end)[place.before : end]

    def bases(self) -> dict[int, tuple[Frame, bytes]]:
        """By number, the frames that were read from most since this was last asked. Raises nothing."""
        with self._lock:
            used, self._used = self._used.most_common(), Counter()
            found: dict[int, tuple[Frame, bytes]] = {}
            for (pack, read), _ in used:
                # The engine does not read the first one: a direct record of before is like the new one.
                for number in (0, 1) if read == 1 else (read,):
                    if number not in found:
                        with suppress(OSError, DamagedEntry, IndexError):
                            frame = self.table(pack).frames[number]
                            found[number] = frame, self._prefix(frame)
            return found

    def _prefix(self, base: Frame) -> bytes:
        if base.base:
            raise DamagedEntry
        return self._content(base, min(base.size, MOST_PREFIX))[:MOST_PREFIX]

    def _content(self, frame: Frame, end: int) -> bytes:
        """At least the first `end` bytes."""
        key = frame.pack, frame.number
        content = self._contents.get(key, b"")
        if len(content) < end:
            try:
                prefix = self._prefix(self.table(frame.base[0]).frames[frame.base[1]]) if frame.base else b""
                content = compression.decompress(self._bytes(frame.pack, frame.at, frame.stored), end, prefix)
            except (compression.ZstdError, IndexError) as error:
                raise DamagedEntry from error
            if sum(map(len, self._contents.values())) + end > MOST:
                self._contents.clear()
            self._contents[key] = content
        return content

    def table(self, pack: str, needing: tuple[str, ...] = ()) -> Table:
        """None of its entries if it, or a base of it, is gone or damaged. `needing`: the packs, each of which the next
        one is a base of: what has been exchanged may need itself. Raises nothing."""
        if pack not in self._tables:
            table = Table()
            with suppress(OSError, DamagedEntry):
                table = self._read_table(pack)
            chain = (*needing, pack)
            if len(chain) > _LONGEST_CHAIN or not all(
                base not in chain and self.table(base, chain).entries for base in table.bases
            ):
                table = Table()
            if len(self._tables) > 1000:
                self._tables.clear()
            self._tables[pack] = table
        return self._tables[pack]

    def needs(self, pack: str) -> set[str]:
        """All packs without which it is as absent."""
        found, waiting = set[str](), [pack]
        while waiting:
            more = self.table(waiting.pop()).bases - found
            found |= more
            waiting += more
        return found

    def forget(self, pack: str) -> None:
        """It is gone."""
        self._tables.pop(pack, None)

    def names(self) -> Iterator[tuple[str, os.stat_result]]:
        """(name below `v2/`, status) of each pack."""
        for last, status in self._confined.listing(PACKS):
            if f"{PACKS}/{last}" != INDEX:
                yield f"{PACKS}/{last}", status

    def _read_table(self, pack: str) -> Table:
        head = self._bytes(pack, 0, _TABLE_AT)
        made, entries, frames = _HEAD.unpack(head[_HEAD_AT:])
        if not head.startswith(_MAGIC) or entries > _MOST_ENTRIES or frames > _MOST_FRAMES:
            raise DamagedEntry
        table = self._bytes(pack, _TABLE_AT, frames * _FRAME.size + entries * _ENTRY.size)
        if blake3(head[_HEAD_AT:] + table).digest()[:8] != head[8:_HEAD_AT]:
            raise DamagedEntry
        at, listed = _TABLE_AT + len(table), list[Frame]()
        for number, (stored, size, base, of_base) in enumerate(_FRAME.iter_unpack(table[: frames * _FRAME.size])):
            based = None if base == _NO_BASE else (f"{PACKS}/{base.hex()}", of_base)
            listed.append(Frame(pack, number, at, stored, size, based))
            at += stored
        found: dict[str, Place] = {}
        for kind, frame, _, before, size, key in _ENTRY.iter_unpack(table[frames * _FRAME.size :]):
            if kind not in _KINDS or frame >= frames or before + size > min(listed[frame].size, _MOST_FRAME):
                raise DamagedEntry
            found[f"{_KINDS[kind]}/{key.hex()}"] = Place(listed[frame], before, size)
        return Table(made, tuple(listed), found)

    def _bytes(self, name: str, at: int, size: int) -> bytes:
        """Raises DamagedEntry if there are not so many, OSError."""
        with self._confined.open(name, MOST_BLOB) as fd:
            if at + size > os.fstat(fd).st_size:
                raise DamagedEntry
            return os.pread(fd, size, at)

    # The index

    def _named(self, name: str) -> Iterator[str]:
        """The packs in which it may be."""
        with suppress(OSError), self._confined.open(INDEX, MOST_BLOB) as fd:
            fingerprint = _fingerprint(name)
            for _, slot in _slots(fd, _slot_count(fd), fingerprint):
                if slot == _EMPTY:
                    return
                if slot.startswith(fingerprint):
                    yield f"{PACKS}/{slot[_FINGERPRINT_BYTES:].hex()}"

    def note(self, pack: str, names: Iterable[str]) -> None:
        """Write into the index that these entries are in the pack; for who holds the ledger's lock. Raises OSError."""
        # (An error: whatever is there in its place.)
        with suppress(OSError), self._confined.open(INDEX, MOST_BLOB, os.O_RDWR) as fd:
            slots = _slot_count(fd)
            if slots and all(self._insert(fd, slots, _fingerprint(name), _key(pack)) for name in names):
                return
        self.index()

    def _insert(self, fd: int, slots: int, fingerprint: bytes, pack: bytes) -> bool:
        for number, slot in _slots(fd, slots, fingerprint):
            if slot == _EMPTY or slot.startswith(fingerprint):
                os.pwrite(fd, fingerprint + pack, _SLOTS_AT + number * _SLOT)
                return True
        return False

    def index(self) -> None:
        """Make the index anew from the tables; for who holds the ledger's lock. Raises OSError."""
        newest: dict[bytes, bytes] = {}
        for pack in sorted((name for name, _ in self.names()), key=lambda name: self.table(name).made):
            if len(pack) == len(PACKS) + 1 + 2 * _NAME_BYTES:
                newest |= dict.fromkeys(map(_fingerprint, self.table(pack).entries), _key(pack))
        if not newest:
            with suppress(FileNotFoundError):
                self._confined.unlink(INDEX)
            return
        slots = len(newest) * 3 // 2 + _PROBES
        while (table := _hashed(newest, slots)) is None:
            slots += slots // 2
        content = _INDEX_MAGIC + slots.to_bytes(8, "little") + table
        self._confined.replace(INDEX, content, f"{TMP}/put-{random_name()}")


def _slot_count(fd: int) -> int:
    """0 if it is no index."""
    head = os.pread(fd, _SLOTS_AT, 0)
    slots = int.from_bytes(head[8:], "little")
    whole = head.startswith(_INDEX_MAGIC) and os.fstat(fd).st_size >= _SLOTS_AT + slots * _SLOT
    return slots if whole and slots >= _PROBES else 0


def _slots(fd: int, slots: int, fingerprint: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, slot) of each in which it may be."""
    if not slots:
        return
    first = int.from_bytes(fingerprint, "little") % slots
    before = min(_PROBES, slots - first)
    window = os.pread(fd, before * _SLOT, _SLOTS_AT + first * _SLOT)
    window += os.pread(fd, (_PROBES - before) * _SLOT, _SLOTS_AT)
    for at in range(0, len(window) - _SLOT + 1, _SLOT):
        yield (first + at // _SLOT) % slots, window[at : at + _SLOT]


def _hashed(packs: Mapping[bytes, bytes], slots: int) -> bytearray | None:
    """The slots; None if these are too few."""
    table = bytearray(slots * _SLOT)
    for fingerprint, pack in packs.items():
        first = int.from_bytes(fingerprint, "little") % slots
        for step in range(_PROBES):
            at = (first + step) % slots * _SLOT
            if table[at : at + _SLOT] == _EMPTY:
                table[at : at + _SLOT] = fingerprint + pack
                break
        else:
            return None
    return table
