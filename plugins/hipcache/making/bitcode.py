"""What a front end's bitcode says to a back end: all but where the source lies, and which CUID its object has.

CMake names a source from the root, SCons and Meson from a directory, and each front end notes the name in its bitcode
(`source_filename`). No back end for AMD GPUs writes it. It moves all that stands behind it, so two digests of the
file would differ: this one is of the module's contents.

From clang 18 on a module has a global variable `__hip_cuid_<hash of the CUID>`, which differs between all objects of a
project. It is one byte that nothing reads: a back end's object for one CUID is that for another one under another
name of the same length (the linker, which sorts by name, has to run again).

Format: LLVM Language Reference, "LLVM Bitcode File Format" (llvm.org/docs/BitCodeFormat.html). A module of version 2
(LLVM 5 and newer) holds its names in a block of their own, and in a third one what linkers ask for. What is not
known here is taken by the bytes of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hipcache.inputs.keys import digest_bytes
from hipcache.planning.cuid import clangs_hash
from hipcache.values import dataclass

_MAGIC = b"BC\xc0\xde"
_PREFIX = b"__hip_cuid_"
# Blocks, and records of a module.
_BLOCKINFO, _MODULE, _IDENTIFICATION, _SYMBOLS, _STRTAB, _SYMTAB = 0, 8, 13, 14, 23, 25
_VERSION, _COMDAT, _VSTOFFSET, _SOURCE_FILENAME, _IFUNC = 1, 12, 13, 16, 15
# Records that name what they define: code -> where a second name (of a partition) stands.
_NAMED = {7: 16, 8: 19, 14: 11}
_END, _ENTER, _DEFINE, _UNABBREVIATED = range(4)
_CHAR6 = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"


class _Unknown(Exception):
    """Not bitcode as it is known here."""


@dataclass(frozen=True)
class Bitcode:
    """`digest`: of what it says to a back end. `neutral`: the same but for its CUID, `mark`, which is the hash in the
    name of that variable; both empty where it has no such variable, or may have the hash elsewhere too."""

    digest: str
    neutral: str = ""
    mark: bytes = b""


def read(content: bytes, cuid: str) -> Bitcode:
    """`cuid` as the front end got it."""
    mark = clangs_hash(cuid).encode()
    if not names_only(content, mark):
        return Bitcode(_essence(content))
    neutral = _essence(content.replace(mark, b"0" * len(mark)))
    return Bitcode(digest_bytes(neutral.encode() + mark), neutral, mark)


def names_only(content: bytes, mark: bytes) -> bool:
    """Does the hash stand in the variable's name, and nowhere else? One of fewer digits might be found by chance."""
    return len(mark) == 16 and 0 < content.count(mark) == content.count(_PREFIX + mark)


def _essence(content: bytes) -> str:
    try:
        return digest_bytes(b"\0".join(_parts(content)))
    except (_Unknown, IndexError, ValueError):
        return digest_bytes(content)


def _parts(content: bytes) -> Iterator[bytes]:
    if content[:4] != _MAGIC:
        raise _Unknown
    bits, names = _Bits(content, 32), 0
    while bits.position + 64 <= len(content) * 8:
        if bits.fixed(2) != _ENTER:
            raise _Unknown
        block, width, start, end = bits.enter()
        if block == _IDENTIFICATION:
            yield content[start:end]
        elif block == _MODULE:
            module = _Module(bits, width, end)
            yield from module.parts()
            names = module.names
        elif block == _STRTAB:
            ((_, *_), blob) = bits.only_record(width)
            yield blob[:names]
        elif block != _SYMTAB:
            raise _Unknown
        bits.position = end * 8


class _Module:
    """`names`: the end of the names that its records have in the block of names."""

    def __init__(self, bits: _Bits, width: int, end: int) -> None:
        self.names = 0
        self._bits, self._width, self._end = bits, width, end
        self._shared: list[list[_Operand]] = []  # abbreviations for symbols, from the block about blocks

    def parts(self) -> Iterator[bytes]:
        bits, abbreviations = self._bits, list[list[_Operand]]()
        while True:
            kind = bits.fixed(self._width)
            if kind == _END:
                return
            if kind == _ENTER:
                block, width, start, end = bits.enter()
                yield b"block %d %d" % (block, width)
                if block == _SYMBOLS:
                    yield self._symbols(width)
                else:
                    yield bits.content[start:end]
                    if block == _BLOCKINFO:
                        self._about_blocks(width)
                bits.position = end * 8
            elif kind == _DEFINE:
                abbreviations.append(bits.abbreviation())
            else:
                record, _ = bits.record(kind, abbreviations)
                yield self._record(record)

    def _record(self, record: list[int]) -> bytes:
        code, operands = record[0], record[1:]
        if code == _IFUNC or (code == _VERSION and operands != [2]):
            raise _Unknown
        if code == _SOURCE_FILENAME:
            return b"source " + bytes(operands).rpartition(b"/")[2]
        if code == _VSTOFFSET:
            return b"offset"  # where the symbols stand in the file
        for place in (0, _NAMED[code]) if code in _NAMED else (0,) if code == _COMDAT else ():
            self.names = max(self.names, sum(operands[place : place + 2]))
        return repr(record).encode()

    def _symbols(self, width: int) -> bytes:
        """Which functions have bodies, and where: from the first one on."""
        bits, abbreviations, found = self._bits, list(self._shared), list[tuple[int, int]]()
        while True:
            kind = bits.fixed(width)
            if kind == _END:
                break
            if kind == _DEFINE:
                abbreviations.append(bits.abbreviation())
                continue
            record, _ = bits.record(kind, abbreviations)
            if kind == _ENTER or len(record) != 3 or record[0] != 3:  # a function, and the word it begins at
                raise _Unknown
            found.append((record[1], record[2]))
        first = min((word for _, word in found), default=0)
        return repr([(value, word - first) for value, word in found]).encode()

    def _about_blocks(self, width: int) -> None:
        bits, block = self._bits, -1
        while True:
            kind = bits.fixed(width)
            if kind == _END:
                return
            if kind == _DEFINE:
                abbreviation = bits.abbreviation()
                if block == _SYMBOLS:
                    self._shared.append(abbreviation)
                continue
            record, _ = bits.record(kind, [])
            if record[0] == 1:
                block = record[1]


# A literal, or (encoding, width).
_Operand = int | tuple[int, int]
_FIXED, _VBR, _ARRAY, _CHAR, _BLOB = 1, 2, 3, 4, 5


class _Bits:
    """A stream of bits; the low ones of each byte come first. `position` counts bits."""

    def __init__(self, content: bytes, position: int) -> None:
        self.content = content
        self.position = position

    def fixed(self, width: int) -> int:
        start = self.position
        self.position = start + width
        if self.position > len(self.content) * 8:
            raise _Unknown
        window = int.from_bytes(self.content[start >> 3 : (self.position + 7) >> 3], "little")
        return (window >> (start & 7)) & ((1 << width) - 1)

    def vbr(self, width: int) -> int:
        value, shift, more = 0, 0, 1 << (width - 1)
        while True:
            piece = self.fixed(width)
            value |= (piece & (more - 1)) << shift
            if not piece & more:
                return value
            shift += width - 1

    def align(self) -> None:
        self.position = (self.position + 31) & ~31

    def enter(self) -> tuple[int, int, int, int]:
        """(block, width of its abbreviations' numbers, first byte, byte after the last one)."""
        block, width = self.vbr(8), self.vbr(4)
        self.align()
        words = self.fixed(32)
        start = self.position // 8
        if not width or start + words * 4 > len(self.content):
            raise _Unknown
        return block, width, start, start + words * 4

    def abbreviation(self) -> list[_Operand]:
        operands: list[_Operand] = []
        for _ in range(self.vbr(5)):
            if self.fixed(1):
                operands.append(self.vbr(8))
            else:
                encoding = self.fixed(3)
                operands.append((encoding, self.vbr(5) if encoding in (_FIXED, _VBR) else 0))
        return operands

    def record(self, kind: int, abbreviations: list[list[_Operand]]) -> tuple[list[int], bytes]:
        """(code and operands, blob)."""
        if kind == _UNABBREVIATED:
            code, count = self.vbr(6), self.vbr(6)
            return [code, *(self.vbr(6) for _ in range(count))], b""
        if not 0 <= kind - 4 < len(abbreviations):
            raise _Unknown
        values: list[int] = []
        blob = b""
        operands = iter(abbreviations[kind - 4])
        for operand in operands:
            if isinstance(operand, int):
                values.append(operand)
            elif operand[0] == _ARRAY:
                kinds = next(operands, 0)
                if isinstance(kinds, int):
                    raise _Unknown
                element = self._scalar(kinds)
                values += [element() for _ in range(self.vbr(6))]
            elif operand[0] == _BLOB:
                size = self.vbr(6)
                self.align()
                blob = self.content[self.position // 8 : self.position // 8 + size]
                self.position += size * 8
                self.align()
            else:
                values.append(self._scalar(operand)())
        if not values:
            raise _Unknown
        return values, blob

    def only_record(self, width: int) -> tuple[list[int], bytes]:
        """Of a block that defines its abbreviation, and holds one record."""
        abbreviations = []
        while (kind := self.fixed(width)) == _DEFINE:
            abbreviations.append(self.abbreviation())
        return self.record(kind, abbreviations)

    def _scalar(self, operand: tuple[int, int]) -> Callable[[], int]:
        encoding, width = operand
        if encoding == _CHAR:
            return lambda: ord(_CHAR6[self.fixed(6)])
        if encoding not in (_FIXED, _VBR) or not 0 < width <= 64:
            raise _Unknown
        return (lambda: self.fixed(width)) if encoding == _FIXED else (lambda: self.vbr(width))
