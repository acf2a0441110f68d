"""Another CUID in a host object: the names of its symbols, as the compiler would have written them.

The string table is laid out as LLVM does (llvm/lib/MC/StringTableBuilder.cpp): the names of sections and symbols,
sorted from their ends, and one that ends another within that one. All else in the object stays as it is, so the CUID
must be nowhere else.

Formats: ELF-64 little-endian, relocatable (System V ABI, chapter 4).
"""

from __future__ import annotations

import struct

from hipcache.inputs import elf

_SYMBOLS = 2  # SHT_SYMTAB


def renamed(content: bytes, old: bytes, new: bytes) -> bytes | None:
    """The object with `new` for `old` in the names of its symbols; None if that is not all that would differ, or the
    object is not laid out as this module knows it."""
    try:
        table = _Table(content)
        # The same way must lead to the object that there is.
        if len(old) != len(new) or table.with_names(b"", b"") != content:
            return None
        made = table.with_names(old, new)
    except (struct.error, IndexError, ValueError):
        return None
    return made if made is not None and old not in made else None


class _Table:
    """The names in an object. Raises ValueError, struct.error, IndexError."""

    def __init__(self, content: bytes) -> None:
        header = elf.HEADER.unpack_from(content)
        ident, kind, start, entry, count, names = header[0], header[1], header[6], header[11], header[12], header[13]
        if ident[:6] != elf.IDENT or kind != 1 or entry != elf.SECTION.size:
            raise ValueError("not a relocatable ELF-64 object")
        self._content = content
        sections = {start + i * entry: elf.SECTION.unpack_from(content, start + i * entry) for i in range(count)}
        places = list(sections)
        _, _, _, _, self._offset, self._size, *_ = sections[places[names]]
        for fields in sections.values():
            if fields[1] == _SYMBOLS:
                if fields[6] != names:
                    raise ValueError("names of symbols and of sections are apart")
                places += range(fields[4], fields[4] + fields[5], elf.SYMBOL.size)
        self._places = {place: name for place in places if (name := self._name(place))}

    def _name(self, place: int) -> bytes:
        """That which the word there points to."""
        (at,) = struct.unpack_from("<I", self._content, place)
        begin = self._offset + at
        return self._content[begin : self._content.index(b"\0", begin)] if at else b""

    def with_names(self, old: bytes, new: bytes) -> bytes | None:
        names = {place: name.replace(old, new) if old else name for place, name in self._places.items()}
        offsets: dict[bytes, int] = {}
        text = b"\0"
        before = b""
        for name in sorted(set(names.values()), key=_from_end):
            if before.endswith(name):
                offsets[name] = len(text) - len(name) - 1
                continue
            offsets[name] = len(text)
            text += name + b"\0"
            before = name
        if len(text) != self._size:
            return None
        out = bytearray(self._content)
        out[self._offset : self._offset + self._size] = text
        for place, name in names.items():
            struct.pack_into("<I", out, place, offsets[name])
        return bytes(out)


def _from_end(name: bytes) -> list[int]:
    """The last bytes first, the highest one first, the end of a name behind all bytes."""
    return [-byte for byte in reversed(name)] + [1]
