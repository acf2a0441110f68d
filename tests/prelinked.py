"""LLVM's libraries with their relocations done beforehand, so that a clang starts in half the CPU time.

Each start of clang, lld or a bundler writes 600,000 pointers into the pages of libLLVM and libclang-cpp, one for each
that is relative to where the library was loaded: 25 ms, of which 17 are page faults. That is all that a compile of a
small kernel takes, seven times over, and was a third of the whole suite. So the libraries are copied with an address of
their own (as prelink(8) did): the pointers are in the file, the list of them is empty, and pages that nobody writes are
shared by all processes. Code and data are the same; the loader still binds all symbols by name.

A run of tests sees the copies in the place of the libraries, by a mount that nobody else sees. Only root can do that:
elsewhere, and with TEST_AS_USERS=1 or TEST_FULL=1, the libraries are loaded as they are.

The loader of glibc 2.36 and later asks for the address in the program headers, and Linux gives it where it is free. It
is: these lie above what sanitizers take for shadows, and below all that Linux chooses by itself.
"""

from __future__ import annotations

import ctypes
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

#: Of the first library; the next ones follow at a distance that none of them fills.
FIRST_ADDRESS, DISTANCE = 0x1100_0000_0000, 0x1_0000_0000

_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_SLAVE = 0x20000, 0x1000, 0x4000, 0x80000

# elf(5), and the psABI of x86-64 for the relocations.
_PT_LOAD, _PT_DYNAMIC, _SHT_DYNSYM, _SHF_ALLOC, _STT_TLS, _SHN_UNDEF, _SHN_ABS = 1, 2, 11, 2, 6, 0, 0xFFF1
_RELATIVE, _JUMP_SLOT = 8, 7
# By symbol, and those of variables of threads: what the loader writes does not depend on what was there.
_BY_SYMBOL = (1, 6, 16, 17, 18)
_PLTRELSZ, _PLTGOT, _RELA, _RELASZ, _TEXTREL, _JMPREL, _RELACOUNT = 2, 3, 7, 8, 22, 23, 0x6FFFFFF9
# The tags of the dynamic section that hold addresses: those, HASH, STRTAB, SYMTAB, INIT, FINI, INIT_ARRAY, FINI_ARRAY,
# GNU_HASH, VERSYM, VERDEF and VERNEED.
_ADDRESSES = (_PLTGOT, _RELA, _JMPREL, 4, 5, 6, 12, 13, 25, 26, 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFE)


def libraries(root: Path = Path("/usr/lib")) -> list[Path]:
    """libLLVM and libclang-cpp of each clang that is installed."""
    found = set()
    for clang in root.glob("llvm-*/bin/clang"):
        version = clang.parent.parent.name.removeprefix("llvm-")
        for name in f"libLLVM-{version}.so*", f"libLLVM.so.{version}*", f"libclang-cpp.so.{version}*":
            for path in (*clang.parent.parent.glob(f"lib/{name}"), *root.glob(f"x86_64-linux-gnu/{name}")):
                found.add(path.resolve())
    return sorted(path for path in found if path.is_file())


def use(place: Path) -> None:
    """Let this process and its children load copies, which are kept in `place`. Does nothing where that cannot be."""
    libc = ctypes.CDLL(None, use_errno=True)
    copies = {library: _copy(library, address, place) for library, address in _addresses()}
    if not copies or libc.unshare(_CLONE_NEWNS) or libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None):
        return
    for library, copy in copies.items():
        if copy is not None:
            libc.mount(os.fsencode(copy), os.fsencode(library), None, _MS_BIND, None)


def in_use() -> list[Path]:
    """The libraries that this process sees copies of."""
    mounts = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    return [library for library in libraries() if str(library) in mounts]


def _addresses() -> Iterator[tuple[Path, int]]:
    for number, library in enumerate(libraries()):
        yield library, FIRST_ADDRESS + number * DISTANCE


def _copy(library: Path, address: int, place: Path) -> Path | None:
    """Made once for each content. None where the library is not as expected, or the disk is full."""
    found = library.stat()
    copy = place / f"{library.name}-{found.st_size:x}-{found.st_mtime_ns:x}-{address:x}"
    with suppress(ValueError, KeyError, struct.error, OSError):
        if not copy.exists():
            place.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=place) as part:
                part.write(prelink(library.read_bytes(), address))
                part.flush()
                os.fchmod(part.fileno(), 0o644)
                with suppress(FileExistsError):
                    os.link(part.name, copy)
        return copy
    return None


@dataclass(frozen=True)
class _Moved:
    """A library on its way to `base`. `parts`: what of the file is loaded where, as (address, offset, size)."""

    library: bytes
    made: bytearray
    base: int
    parts: list[tuple[int, int, int]] = field(default_factory=list)

    def offset_of(self, address: int) -> int:
        for begin, offset, size in reversed(self.parts):
            if begin <= address < begin + size:
                return address - begin + offset
        raise ValueError(f"nothing in the file is loaded at {address:#x}")

    def move(self, offset: int) -> None:
        """The address that is there."""
        self.put(offset, struct.unpack_from("<Q", self.made, offset)[0] + self.base)

    def put(self, offset: int, value: int) -> None:
        struct.pack_into("<Q", self.made, offset, value)

    def headers(self) -> range:
        """Moves what the program headers say. Returns where the tags of the dynamic section are."""
        begin, size, count = *struct.unpack_from("<32xQ", self.library), *struct.unpack_from("<54xHH", self.library)
        dynamic = range(0)
        for at in range(begin, begin + count * size, size):
            kind, offset, address, filled, in_memory = struct.unpack_from("<I4xQQ8xQQ", self.library, at)
            if kind == _PT_LOAD:
                self.parts.append((address, offset, filled))
            elif kind == _PT_DYNAMIC:
                dynamic = range(offset, offset + filled, 16)
            if in_memory:
                self.move(at + 16)
                self.move(at + 24)
        return dynamic

    def sections(self) -> None:
        """Moves the sections and the symbols."""
        begin, size, count = *struct.unpack_from("<40xQ", self.library), *struct.unpack_from("<58xHH", self.library)
        for at in range(begin, begin + count * size, size):
            kind, flags, offset, length = struct.unpack_from("<4xIQ8xQQ", self.library, at)
            if flags & _SHF_ALLOC:
                self.move(at + 16)
            for symbol in range(offset, offset + length, 24) if kind == _SHT_DYNSYM else ():
                info, section = struct.unpack_from("<4xBxH", self.library, symbol)
                if section not in (_SHN_UNDEF, _SHN_ABS) and info & 15 != _STT_TLS:
                    self.move(symbol + 8)

    def relative(self, begin: int, size: int) -> None:
        """Does these relocations."""
        for address, info, addend in struct.iter_unpack("<QQq", self.library[begin : begin + size]):
            if info != _RELATIVE:
                raise ValueError("another relocation among the relative ones")
            self.put(self.offset_of(address), addend + self.base)

    def others(self, begin: int, size: int) -> None:
        """Moves these relocations, which the loader does."""
        for at in range(begin, begin + size, 24):
            address, kind = struct.unpack_from("<QI", self.library, at)
            if kind == _JUMP_SLOT:
                self.move(self.offset_of(address))  # the way to the loader, until the function is called first
            elif kind not in _BY_SYMBOL:
                raise ValueError(f"a relocation of the kind {kind}")
            self.move(at)


def prelink(library: bytes, base: int) -> bytearray:
    """A shared library of x86-64 as it is at `base`. Errors: ValueError, KeyError, struct.error: it has something
    that is not foreseen."""
    moved = _Moved(library, bytearray(library), base)
    if library[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", library, 16) != (3, 62):
        raise ValueError("no shared library of x86-64")
    tags: dict[int, tuple[int, int]] = {}
    for at in moved.headers():
        tag, value = struct.unpack_from("<QQ", library, at)
        tags.setdefault(tag, (value, at + 8))
        if tag in _ADDRESSES:
            moved.move(at + 8)
        if tag == 0:
            break
    if _TEXTREL in tags:
        raise ValueError("relocations of code")
    moved.sections()
    begin, done, size = moved.offset_of(tags[_RELA][0]), 24 * tags[_RELACOUNT][0], tags[_RELASZ][0]
    moved.relative(begin, done)
    moved.others(begin + done, size - done)
    if _JMPREL in tags:
        moved.others(moved.offset_of(tags[_JMPREL][0]), tags[_PLTRELSZ][0])
    if _PLTGOT in tags:
        moved.move(moved.offset_of(tags[_PLTGOT][0]))
    moved.put(tags[_RELA][1], tags[_RELA][0] + base + done)
    moved.put(tags[_RELASZ][1], size - done)
    moved.put(tags[_RELACOUNT][1], 0)
    return moved.made
