#!/usr/bin/env python3
"""Writes plugins/hipcache/native/direct/shared.h from plugins/hipcache/base/shared.py."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "plugins"))

from hipcache.base import shared  # noqa: E402

HEADER = ROOT / "plugins/hipcache/native/direct/shared.h"
FRAME = """\
/* Values that Python and C share. Written by scripts/shared_header.py from shared.py, where the reasons are. */
#ifndef HIPCACHE_SHARED_H
#define HIPCACHE_SHARED_H

/* clang-format off */
{lines}

#endif
"""


def text() -> str:
    """The content of the header."""
    names = [name for name in vars(shared) if name.isupper()]
    return FRAME.format(lines="\n".join(f"#define {name} {_value(getattr(shared, name))}" for name in names))


def _value(value: object) -> str:
    if isinstance(value, int):
        return f"{value}ll" if value >= 1 << 31 else str(value)
    if isinstance(value, str) and value.isprintable() and not set(value) & set('"\\?'):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "{" + ", ".join([*map(_value, value), "NULL"]) + "}"
    raise TypeError(f"{value!r} has no form in C here")


if __name__ == "__main__":
    HEADER.write_text(text())
