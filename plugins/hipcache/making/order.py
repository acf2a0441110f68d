"""The names of a module in their order, but for those of clang's own that move behind a precompiled header."""

from __future__ import annotations

import re

from hipcache.patterns import pattern

# Names that clang 16 and later list in another order. Tables of virtual functions use them.
_PURE = b"__cxa_pure_virtual"
_MOVED = pattern(_PURE + rb"|__cxa_deleted_virtual|llvm\.trap")
_NAMES = pattern(rb"[!-~]{18,}")
_LINE = pattern(rb"^(?:(?:define|declare) [^@\n]*)?@(\"[^\"\n]*\"|[\w.$-]+)", re.MULTILINE)


def of_bitcode(bitcode: bytes) -> bytes:
    """The names in its table of strings, which has them in the module's order; empty if clang's own are not there. All
    is there that is always emitted of headers, whatever the source uses."""
    found = next((run for run in _NAMES.findall(bitcode) if _PURE in run), b"")
    return _MOVED.sub(b"", found)


def of_assembly(assembly: bytes) -> list[bytes]:
    """Those of variables and functions, of LLVM's assembly."""
    return [name for name in _LINE.findall(assembly) if not _MOVED.fullmatch(name)]
