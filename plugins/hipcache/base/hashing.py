"""BLAKE3: the package `blake3` if it is installed, else our own C (native/direct/blake3.c). Both give the same digests.

Debian and others have no such package. Our own class has the part of its interface that hipcache uses. It keeps what it
is given, and hashes all of it in the end: so a file that is mapped is the whole content.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

from hipcache.base import native

if TYPE_CHECKING:
    import mmap

__all__ = ["OwnBlake3", "blake3"]

_BYTES = 32


class OwnBlake3:
    """As `blake3.blake3`. Raises LibraryError."""

    def __init__(
        self, data: bytes = b"", /, *, key: bytes | None = None, derive_key_context: str | None = None
    ) -> None:
        if key is not None and (derive_key_context is not None or len(key) != _BYTES):
            raise ValueError("a key has 32 bytes, and no context beside it")
        self._library = native.load()
        self._key = key
        self._context = derive_key_context
        self._pieces = [bytes(data)]
        self._mapped: mmap.mmap | None = None

    def update(self, data: bytes, /) -> OwnBlake3:
        if self._mapped is not None:
            self._pieces, self._mapped = [self._mapped[:]], None
        self._pieces.append(bytes(data))
        return self

    def update_mmap(self, path: str | os.PathLike[str]) -> OwnBlake3:
        import mmap  # where there is the package, nobody needs it

        with open(path, "rb") as file:
            if any(self._pieces) or self._mapped is not None or not os.fstat(file.fileno()).st_size:
                return self.update(file.read())
            # ctypes takes a buffer's address only where it may be written: into copies of its pages.
            self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        return self

    def digest(self, length: int = _BYTES) -> bytes:
        """The first `length` bytes, at most 32."""
        if not 0 <= length <= _BYTES:
            raise ValueError(f"a digest of {length} bytes")
        made = (ctypes.c_uint8 * _BYTES)()
        content: object
        if self._mapped is not None:
            content = (ctypes.c_char * len(self._mapped)).from_buffer(self._mapped)
            size = ctypes.c_size_t(len(self._mapped))
        else:
            self._pieces = [b"".join(self._pieces)]
            content, size = self._pieces[0], ctypes.c_size_t(len(self._pieces[0]))
        if self._context is not None:
            self._library.blake3_derive_key(self._context.encode(), content, size, made)
        elif self._key is not None:
            self._library.blake3_keyed(self._key, content, size, made)
        else:
            self._library.blake3(content, size, made)
        return bytes(made)[:length]

    def hexdigest(self, length: int = _BYTES) -> str:
        return self.digest(length).hex()


if TYPE_CHECKING:
    from blake3 import blake3
else:
    try:
        from blake3 import blake3
    except ImportError:
        blake3 = OwnBlake3
        blake3()  # where there is no library: an error now, and not amid a compile
