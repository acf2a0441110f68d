"""LLVM's libraries with their relocations done beforehand, so that a clang starts in a third of the CPU time.

Each start of clang, lld or a bundler writes 600,000 pointers into the pages of libLLVM and libclang-cpp, one for each
that is relative to where the library was loaded, and looks up 40,000 by name: 22 ms, most of them page faults. That is
nearly all that a compile of a small kernel takes, seven times over, and was a third of the whole suite. So the
libraries are copied with an address of their own, as prelink(8) did (`prelink`): the pointers are in the file, and
pages that nobody writes are shared by all processes. Code and data are the same.

Names are bound beforehand too where there is one answer only: a name of LLVM's, clang's or of the tables of C++'s types
(in libstdc++, which has an address of its own for that), defined once in these libraries, and in no program of LLVM's.

The copies of a run lie in memory, in pages of 2 MiB where the kernel gives them: to map the small pages of a disk's
file into each process takes a fifth of the suite's system time.

A run of tests sees the copies in the place of the libraries, by a mount that nobody else sees. Only root can do that:
elsewhere, and with TEST_AS_USERS=1 or TEST_FULL=1, the libraries are loaded as they are.

The loader of glibc 2.36 and later asks for the address in the program headers, and Linux gives it where it is free. It
is: these lie above what sanitizers take for shadows, and below all that Linux chooses by itself.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import tempfile
import time
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import private_mounts
from prelink import prelink, symbols

#: Of the first library; the next ones follow at a distance that none of them fills.
FIRST_ADDRESS, DISTANCE = 0x1100_0000_0000, 0x1_0000_0000

# Bytes by which a file may take more in huge pages.
_PAGE = 2 << 20
_STANDARD = Path("/usr/lib/x86_64-linux-gnu/libstdc++.so.6")
# Names that no other library or program defines, but those that are looked at.
_OURS = re.compile(rb"_ZTVN10__cxxabiv1|_Z.*(4llvm|5clang)")


def libraries(clang: Path) -> list[Path]:
    """libLLVM and libclang-cpp of LLVM's program."""
    root = clang.parent.parent
    version = root.name.removeprefix("llvm-")
    found = set()
    for name in f"libLLVM-{version}.so*", f"libLLVM.so.{version}*", f"libclang-cpp.so.{version}*":
        for path in (*root.glob(f"lib/{name}"), *root.parent.glob(f"x86_64-linux-gnu/{name}")):
            found.add(path.resolve())
    return sorted(path for path in found if path.is_file())


def use(place: Path) -> None:
    """Let this process and its children load copies, which are kept in `place`. Does nothing where that cannot be."""
    copies = _copies(place)
    if not copies:
        return
    with _in_memory(copies.values()) as at:
        for library, copy in copies.items():
            private_mounts.bind(at / copy.name, library)
    for old in set(place.glob("lib*")).difference(copies.values()):
        if old.stat().st_mtime < time.time() - 86400:  # another run may have it, to which it would look changed
            old.unlink(missing_ok=True)


@contextmanager
def _in_memory(copies: Collection[Path]) -> Iterator[Path]:
    """Where the copies are in memory; where they are on the disk if that cannot be. What is mounted from there stays
    when the place itself is gone."""
    size = sum(copy.stat().st_size + _PAGE for copy in copies)
    with tempfile.TemporaryDirectory(prefix="prelinked-") as name:
        mounted = private_mounts.memory(Path(name), size, huge=True)
        try:
            for copy in copies if mounted else ():
                shutil.copy(copy, name)
            yield Path(name) if mounted else next(iter(copies)).parent
        finally:
            if mounted:
                private_mounts.detach(Path(name))


def in_use() -> list[str]:
    """The libraries that this process sees copies of."""
    return [field[4] for field in private_mounts.listed() if f"/{Path(field[4]).name}-" in field[3]]


def _copies(place: Path) -> dict[Path, Path]:
    """The library -> its copy, of each that can be copied: all of a clang's, or none."""
    made: dict[Path, Path] = {}
    next_address = FIRST_ADDRESS
    with suppress(ValueError, KeyError, struct.error, OSError):
        standard = {_STANDARD.resolve(): next_address}
        made.update(_of_one(standard, standard, [], place))
        for clang in sorted(Path("/usr/lib").glob("llvm-*/bin/clang")):
            addresses = dict(standard)
            for library in libraries(clang):
                next_address += DISTANCE
                addresses[library] = next_address
            programs = [path.resolve() for path in sorted(clang.parent.iterdir()) if path.is_file()]
            made.update(
                _of_one({one: at for one, at in addresses.items() if one not in standard}, addresses, programs, place)
            )
    return made


def _of_one(
    ours: Mapping[Path, int], addresses: Mapping[Path, int], programs: list[Path], place: Path
) -> dict[Path, Path]:
    """Copies of `ours`, which are bound to those that have `addresses`; made once for all that they are made of."""
    inputs = [(path, path.stat().st_size, path.stat().st_mtime_ns) for path in (*addresses, *programs)]
    name = zlib.crc32(repr((inputs, addresses, _text())).encode())
    copies = {library: place / f"{library.name}-{name:08x}" for library in ours}
    if not all(copy.exists() for copy in copies.values()):
        known = _bound(addresses, programs) if programs else {}
        place.mkdir(exist_ok=True)
        for library, copy in copies.items():
            with tempfile.NamedTemporaryFile(dir=place) as part:
                part.write(prelink(library.read_bytes(), ours[library], known))
                part.flush()
                os.fchmod(part.fileno(), 0o644)
                with suppress(FileExistsError):
                    os.link(part.name, copy)
    return copies


def _text() -> list[bytes]:
    return [Path(__file__).with_name(name).read_bytes() for name in ("prelink.py", "prelinked.py")]


def _bound(addresses: Mapping[Path, int], programs: list[Path]) -> dict[bytes, int]:
    """Where names are that are defined once."""
    found: dict[bytes, list[int | None]] = {}
    for library, base in addresses.items():
        for one in symbols(library.read_bytes()):
            if one.defined and _OURS.match(one.name):
                found.setdefault(one.name, []).append(None if one.address is None else one.address + base)
    for program in programs:
        content = program.read_bytes()
        for one in symbols(content) if content.startswith(b"\x7fELF") else ():
            if one.defined and one.name in found:
                found[one.name].append(None)
    return {name: at[0] for name, at in found.items() if len(at) == 1 and at[0] is not None}
