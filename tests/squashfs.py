"""Writes images of squashfs 4.0 (the kernel's Documentation/filesystems/squashfs.rst), nothing in them compressed."""

from __future__ import annotations

import struct
from collections.abc import Mapping

_BLOCK, _NONE = 1 << 17, (1 << 64) - 1


def image(files: Mapping[str, bytes], modified: int) -> bytes:
    """Files of less than 128 KiB in one directory, all of that time (seconds of the epoch)."""
    data = inodes = b""
    entries = []
    for number, (name, content) in enumerate(sorted(files.items()), 2):
        assert 0 < len(content) < _BLOCK
        entries.append((len(inodes), number, name.encode()))
        inodes += struct.pack(
            "<HHHHIIIIII", 2, 0o644, 0, 0, modified, number, 96 + len(data), _NONE >> 32, 0, len(content)
        )
        inodes += struct.pack("<I", len(content) | 1 << 24)
        data += content
    names = struct.pack("<III", len(entries) - 1, 0, 1)
    for place, number, name in entries:
        names += struct.pack("<HhHH", place, number - 1, 2, len(name) - 1) + name
    root = len(inodes)
    inodes += struct.pack("<HHHHIIIIHHI", 1, 0o755, 0, 0, modified, 1, 0, 2, len(names) + 3, 0, len(entries) + 2)
    tables = [_block(inodes), _block(names), _block(struct.pack("<I", 0))]
    starts = [96 + len(data) + sum(map(len, tables[:number])) for number in range(4)]
    head = struct.pack("<IIIIIHHHHHH", 0x73717368, len(entries) + 1, modified, _BLOCK, 0, 1, 17, 0xA1B, 1, 4, 0)
    head += struct.pack("<8Q", root, starts[3] + 8, starts[3], _NONE, starts[0], starts[1], _NONE, _NONE)
    whole = head + data + b"".join(tables) + struct.pack("<Q", starts[2])
    return whole + bytes(-len(whole) % 4096)


def _block(content: bytes) -> bytes:
    return struct.pack("<H", len(content) | 1 << 15) + content
