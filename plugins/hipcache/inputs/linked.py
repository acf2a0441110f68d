"""Files of the user for the device linker: which of them are all that it reads.

Whatever lld does not know by its first bytes is a linker script to it (llvm/lib/BinaryFormat/Magic.cpp), which may name
other files, as a thin archive does.
"""

from __future__ import annotations

from hipcache.errors import PassThrough

_ARCHIVE = b"!<arch>\n"
_KNOWN = (_ARCHIVE, b"BC\xc0\xde", b"\x7fELF")


def check(name: str, path: str) -> None:
    """Raises PassThrough if the file at `path` may name others, or cannot be read."""
    if not _head(name, path).startswith(_KNOWN):
        raise PassThrough("linker_option", f"'{name}' is no bitcode, object or archive that is complete")


def is_archive(name: str, path: str) -> bool:
    """Is it a static library with its members? Raises PassThrough if it cannot be read."""
    return _head(name, path) == _ARCHIVE


def _head(name: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(len(_ARCHIVE))
    except OSError as error:
        raise PassThrough("named_file", f"'{name}': {error.strerror}") from error
