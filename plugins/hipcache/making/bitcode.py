"""The part of a front end's bitcode that matters to a back end: all but the place of the source and the CUID of its
object.

CMake names a source from the root, SCons and Meson from a directory, and each front end notes the name in its bitcode
(`source_filename`). No back end for AMD GPUs writes it. It moves all that stands behind it, so two digests of the
file would differ: this one is of the module's contents.

From clang 18 on a module has a global variable `__hip_cuid_<hash of the CUID>`, which differs between all objects of a
project. It is one byte that nothing reads: a back end's object for one CUID is that for another one under another
name of the same length (the linker, which sorts by name, has to run again).

What such a module says is read in C (`native/bitcode.c`). What is not known there is taken by the bytes of the file.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from hipcache import native
from hipcache.inputs import assembly
from hipcache.inputs.keys import digest_bytes
from hipcache.making import unnamed
from hipcache.making.declarations import MAGIC
from hipcache.patterns import pattern
from hipcache.planning.cuid import clangs_hash
from hipcache.values import dataclass

_PREFIX = b"__hip_cuid_"
_MARK = 16
_FUNCTION = 8
# No library of the host has such functions.
_OF_LIBRARIES = (b"llvm.", b"__ocml_", b"__ockl_", b"__llvm_")
_NAMED = pattern(_PREFIX + rb"([0-9a-f]{16})(?![0-9a-f])")


@dataclass(frozen=True)
class Bitcode:
    """`digest`: of what it says to a back end; empty if a reader would change that. `neutral`: the same but for its
    CUID, `mark`, which is the hash in the name of that variable; both empty if it has no such variable, or may have the
    hash elsewhere too."""

    digest: str
    neutral: str = ""
    mark: bytes = b""


# What a back end would not read as the front end wrote it.
IN_ONE_STEP = Bitcode("")


def read(content: bytes, cuid: str) -> Bitcode:
    """`cuid` as the front end got it."""
    mark = clangs_hash(cuid).encode()
    if not names_only(content, mark):
        return Bitcode(_essence(content))
    neutral = _essence(content.replace(mark, b"0" * len(mark)))
    return Bitcode(_with_mark(neutral, mark), neutral, mark)


def digest_for(neutral: str, cuid: str) -> str:
    """The digest that another module would have which differs in nothing but its CUID; empty if that is not known."""
    mark = clangs_hash(cuid).encode()
    return _with_mark(neutral, mark) if len(mark) == _MARK else ""


def _with_mark(neutral: str, mark: bytes) -> str:
    return digest_bytes(neutral.encode() + mark)


def names_only(content: bytes, mark: bytes) -> bool:
    """Does the hash stand in the variable's name, and nowhere else? One of fewer digits might be found by chance."""
    return len(mark) == _MARK and 0 < content.count(mark) == content.count(_PREFIX + mark)


def names(content: bytes, path: str) -> bool:
    """May what it says to a back end show the path? (Where the source lies, it does not say.)"""
    said = native.bitcode(content) if path else None
    return bool(path) and unnamed.shows(content if said is None else said, os.fsencode(path))


def reads_files(content: bytes, path: Path) -> str:
    """The reason to think that who compiles it reads other files, if it is bitcode; `path` has that content, too."""
    return assembly.WHY if content.startswith(MAGIC) and assembly.reads_files(path) else ""


def lacks_functions(content: bytes) -> bool:
    """Does it declare a function that it does not define, and that is none of LLVM's or of the device libraries? (True
    if it does not read.)

    The text of `native/bitcode.c` has all records of the module, and the names (LangRef: MODULE_CODE_FUNCTION)."""
    said = native.bitcode(content)
    parts = list(_parts(said)) if said else []
    strings = next((part for kind, part in parts if kind == b"n"), None)
    if strings is None:
        return True
    records = (struct.unpack(f"<{len(part) // 8}Q", part) for kind, part in parts if kind == b"r")
    prototypes = (record for record in records if record[0] == _FUNCTION and record[5])
    return any(not strings[one[1] : one[1] + one[2]].startswith(_OF_LIBRARIES) for one in prototypes)


def _parts(said: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(said):
        start = at + 1 + 8
        (size,) = struct.unpack_from("<Q", said, at + 1)
        yield said[at : at + 1], said[start : start + size]
        at = start + size


def names_in_object(content: bytes) -> bytes:
    """The hash of the CUID in the name of the object's variable, if it is nowhere else; else nothing."""
    found = set(_NAMED.findall(content))
    mark = found.pop() if len(found) == 1 else b""
    return mark if mark and names_only(content, mark) else b""


def _essence(content: bytes) -> str:
    said = native.bitcode(content)
    return digest_bytes(content if said is None else said)
