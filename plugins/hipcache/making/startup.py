"""The code of an object that initializes its variables at the start of a program.

Formats: ELF-64 little-endian, relocatable (System V ABI, chapter 4). LLVM puts that code into sections that begin with
`.text.startup`, also without optimization (clang/lib/CodeGen/CGDeclCXX.cpp).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from hipcache.inputs import elf
from hipcache.inputs.keys import digest_bytes
from hipcache.patterns import pattern

_NAME = b".text.startup"
_RELA = 4  # SHT_RELA

# In LLVM's assembly: what initializes a variable; how many functions a program runs at its start.
_VARIABLE = pattern(rb"^define [^\n]*@__cxx_global_var_init\b", re.MULTILINE)
_FUNCTIONS = pattern(rb"^@llvm\.global_ctors = appending [^\n]*\[(\d+) x ", re.MULTILINE)

NOT_READ = "not read"


def count(assembly: bytes) -> tuple[int, int]:
    """(variables that are initialized when a program or a thread starts, functions that run then) of a module in LLVM's
    assembly, not optimized."""
    functions = _FUNCTIONS.search(assembly)
    return len(_VARIABLE.findall(assembly)), int(functions.group(1)) if functions else 0


def code(content: bytes) -> str:
    """A digest of it and of all that it refers to; empty if there is none, NOT_READ for an object of another form.
    Where in a section a variable lies that it refers to does not count."""
    if _NAME not in content:
        return ""
    try:
        parts = list(_parts(content))
    except (struct.error, IndexError, ValueError):
        return NOT_READ
    return digest_bytes(b"".join(b"%d:%s" % (len(part), part) for part in parts)) if parts else ""


def _parts(content: bytes) -> Iterator[bytes]:
    header = elf.HEADER.unpack_from(content)
    start, count, names_in = header[6], header[12], header[13]
    sections = [elf.SECTION.unpack_from(content, start + number * elf.SECTION.size) for number in range(count)]
    names = [_text(content, sections[names_in], section[0]) for section in sections]
    for number, section in enumerate(sections):
        if names[number].startswith(_NAME):
            yield content[section[4] : section[4] + section[5]]
        elif section[1] == _RELA and names[section[7]].startswith(_NAME):
            symbols = sections[section[6]]
            for at in range(section[4], section[4] + section[5], elf.RELOCATION.size):
                place, info, _ = elf.RELOCATION.unpack_from(content, at)
                name, _, _, index, _, _ = elf.SYMBOL.unpack_from(content, symbols[4] + (info >> 32) * elf.SYMBOL.size)
                known = index < count and index > 0
                target = _text(content, sections[symbols[6]], name) if name or not known else names[index]
                yield b"%d %d %s" % (place, info & 0xFFFFFFFF, target)


def _text(content: bytes, strings: tuple[int, ...], at: int) -> bytes:
    """Raises ValueError."""
    begin = strings[4] + at
    return content[begin : content.index(b"\0", begin)]
