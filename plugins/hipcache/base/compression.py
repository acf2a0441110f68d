"""Compression: JSON by zlib, contents by zstd (the system's library: programs of every distribution have it). What is
unpacked has a bound: a few kilobytes of a store can be a terabyte of zeros.
"""

from __future__ import annotations

import ctypes
import json
import zlib
from functools import cache
from typing import Any

MOST = 64 << 20
# The level for actions, which packs compress (`store/packs`): in what zlib has made smaller, these find nothing.
STORED = 0


def inflate(packed: bytes, most: int = MOST) -> bytes:
    """The content, if that is not more than `most` bytes. Raises zlib.error."""
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(packed, most)
    if not unpacker.eof:
        raise zlib.error("cut short, or more than there may be")
    return content


def pack_json(value: object, level: int = STORED) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode("utf-8", "surrogateescape"), level)


def unpack_json(packed: bytes) -> Any:
    """Raises ValueError for anything that `pack_json` did not write."""
    try:
        return json.loads(inflate(packed).decode("utf-8", "surrogateescape"))
    except (RecursionError, zlib.error) as error:
        raise ValueError(f"not packed JSON: {error}") from error


# zstd, by the system's library: programs of every distribution have it.

# Level 6 costs a cold compile some three milliseconds, and takes a twentieth less than level 3; level 9 costs as much
# again for one part in a hundred. Level 15 takes a tenth less of code than level 6, for some 6 ms of a small program's
# compile; level 18 another hundredth, for 10 ms more. Matches are looked for far away: what an object has of its code
# objects may be many megabytes before them.
_LEVEL, HIGH, _WINDOW = 6, 15, 27
# ZSTD_cParameter of zstd.h.
_OF_LEVEL, _OF_WINDOW, _LONG_DISTANCE = 100, 101, 160
_NAME = "libzstd.so.1"


class ZstdError(Exception):
    """It is no frame, or none of that size."""


class _Buffer(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t))


@cache
def library() -> Any:
    """None where it is missing."""
    try:
        found = ctypes.CDLL(_NAME)
        for name in ("ZSTD_createCCtx", "ZSTD_createDStream"):
            getattr(found, name).restype = ctypes.c_void_p
        for name in ("ZSTD_compress2", "ZSTD_compressBound", "ZSTD_decompressStream"):
            getattr(found, name).restype = ctypes.c_size_t
    except (OSError, AttributeError):
        return None
    return found


def compress(content: bytes, prefix: bytes = b"", level: int = _LEVEL) -> bytes:
    """One frame, to be unpacked with the same `prefix`: what is in that need not be in the frame. Raises ZstdError,
    MemoryError."""
    zstd = library()
    context = ctypes.c_void_p(zstd.ZSTD_createCCtx())
    if not context:
        raise MemoryError
    try:
        window = min(_WINDOW, max(10, (len(prefix) + len(content)).bit_length()))
        for name, value in ((_OF_LEVEL, level), (_OF_WINDOW, window), (_LONG_DISTANCE, 1)):
            zstd.ZSTD_CCtx_setParameter(context, name, value)
        zstd.ZSTD_CCtx_refPrefix(context, prefix, ctypes.c_size_t(len(prefix)))
        room = ctypes.create_string_buffer(zstd.ZSTD_compressBound(ctypes.c_size_t(len(content))))
        sizes = ctypes.c_size_t(len(room)), ctypes.c_size_t(len(content))
        size = zstd.ZSTD_compress2(context, room, sizes[0], content, sizes[1])
        if zstd.ZSTD_isError(ctypes.c_size_t(size)):
            raise ZstdError
        return room.raw[:size]
    finally:
        zstd.ZSTD_freeCCtx(context)


def decompress(frame: bytes, size: int, prefix: bytes = b"") -> bytes:
    """The first `size` bytes of a frame's content. Raises ZstdError, MemoryError."""
    zstd = library()
    stream = ctypes.c_void_p(zstd.ZSTD_createDStream()) if zstd else None
    if not stream:
        raise ZstdError("there is no zstd")
    try:
        zstd.ZSTD_DCtx_refPrefix(stream, prefix, ctypes.c_size_t(len(prefix)))
        room = ctypes.create_string_buffer(size or 1)
        target = _Buffer(ctypes.addressof(room), size, 0)
        source = _Buffer(ctypes.cast(ctypes.c_char_p(frame), ctypes.c_void_p), len(frame), 0)
        while target.position < size:
            before = target.position
            left = zstd.ZSTD_decompressStream(stream, ctypes.byref(target), ctypes.byref(source))
            ended = target.position == before and source.position == len(frame)
            if zstd.ZSTD_isError(ctypes.c_size_t(left)) or ended:
                raise ZstdError
        return room.raw[:size]
    finally:
        zstd.ZSTD_freeDStream(stream)
