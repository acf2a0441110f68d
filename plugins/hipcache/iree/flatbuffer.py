"""Reads FlatBuffers: tables, vectors and texts by the numbers of their fields, each within the bytes that there are.

Format: flatbuffers.dev, "internals". All numbers are little-endian. A table begins with the distance (4 bytes, signed)
to its list of offsets: bytes of that list and of the table (2 each), then 2 bytes for each field, 0 if it is not
there. A vector is reached by 4 bytes (distance), and begins with its length (4 bytes).
"""

from __future__ import annotations

import struct

from hipcache.values import dataclass


class Malformed(ValueError):
    """The bytes to be read lie outside."""


@dataclass(frozen=True)
class Table:
    data: bytes
    at: int

    def number(self, field: int, kind: str = "I") -> int:
        """0 if it is not there, as FlatBuffers have it. `kind`: of `struct`."""
        place = self._place(field)
        return unpack(self.data, place, kind) if place else 0

    def content(self, field: int) -> bytes | None:
        """The content of a vector of bytes, or of a text."""
        place = self._place(field)
        if not place:
            return None
        begin, size = _vector(self.data, place)
        if begin + size > len(self.data):
            raise Malformed("a vector goes beyond the end")
        return self.data[begin : begin + size]

    def tables(self, field: int) -> list[Table]:
        place = self._place(field)
        if not place:
            return []
        begin, count = _vector(self.data, place)
        if begin + 4 * count > len(self.data):
            raise Malformed("a vector goes beyond the end")
        places = range(begin, begin + 4 * count, 4)
        return [Table(self.data, one + unpack(self.data, one, "I")) for one in places]

    def _place(self, field: int) -> int:
        fields = self.at - unpack(self.data, self.at, "i")
        if unpack(self.data, fields, "H") < 4 + 2 * (field + 1):
            return 0
        offset = unpack(self.data, fields + 4 + 2 * field, "H")
        return self.at + offset if offset else 0


def root(data: bytes, identifier: bytes) -> Table:
    if data[4:8] != identifier:
        raise Malformed(f"it has no identifier '{identifier.decode()}'")
    return Table(data, unpack(data, 0, "I"))


def unpack(data: bytes, at: int, kind: str) -> int:
    if not 0 <= at <= len(data) - struct.calcsize(f"<{kind}"):
        raise Malformed("an offset leads outside")
    found: int = struct.unpack_from(f"<{kind}", data, at)[0]
    return found


def _vector(data: bytes, place: int) -> tuple[int, int]:
    begin = place + unpack(data, place, "I")
    return begin + 4, unpack(data, begin, "I")
