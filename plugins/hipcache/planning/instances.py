"""Instances of templates that a preamble's own headers ask for, made once with it (`-fpch-instantiate-templates`).

Clang instantiates function templates at the end of a translation unit. A precompiled header only lists those that its
headers use, so every pass that reads it instantiates them again: half of what such a pass takes, for functions that
most sources do not use. With that option they are in the precompiled header.

The output is the same where it has none of them. One that it has could stand in another place, since clang emits a
function when it is first used, or when it is instantiated if that is later. So a preamble knows the names of all its
instances (`listing`, `names`), and the bitcode of a pass that uses it must have none (`Instances.are_in`).

What a name means in an instance could be another thing behind the source's own declarations, though that is an error of
the program ([temp.point]/7 of the C++ standard). So the source, and headers of its own that the preamble does not have,
must declare nothing that an instance could find there: `declared` tells.
"""

from __future__ import annotations

import json
import re
import zlib

from hipcache.patterns import pattern
from hipcache.planning import preamble
from hipcache.planning.declared import Open
from hipcache.planning.frontend import FrontEnd
from hipcache.values import dataclass

_DEFINED = pattern(rb"^(?:define [^@\n]*)?@\"?(_Z[\w$.\\]+)\"?(?=\(| = )", re.MULTILINE)
# Of a byte that is no ASCII.
_ESCAPED = pattern(rb"\\([0-9A-Fa-f]{2})")
_LENGTH = pattern(rb"[0-9]+")


@dataclass(frozen=True)
class Instances:
    """Of one preamble. `instances`: mangled names; `open`: what its headers leave open to the rest of a source."""

    instances: tuple[bytes, ...]
    open: Open

    def are_in(self, bitcode: bytes) -> bool:
        """May one of them be in it? (Names lie there as they are, one behind the other.)"""
        return any(name in bitcode for name in self.instances)

    def pack(self) -> bytes:
        """Zlib-compressed JSON: the names of instances, and those that are open."""
        lists = (self.instances, sorted(self.open.names))
        return zlib.compress(json.dumps([[name.decode("latin-1") for name in one] for one in lists]).encode(), 1)

    @classmethod
    def unpack(cls, packed: bytes) -> Instances | None:
        """None if it is damaged."""
        try:
            lists = json.loads(zlib.decompress(packed))
            names, opened = ([name.encode("latin-1") for name in one] for one in lists)
            return cls(tuple(names), Open(frozenset(opened)))
        except (ValueError, TypeError, AttributeError, zlib.error):
            return None


def listing(front: FrontEnd, source: str, output: str) -> list[str]:
    """The command that writes all functions and variables of a preamble's text, used or not, as LLVM's assembly."""
    words = preamble.alone(front, source, output, assembly=True)
    return [*words[:2], "-femit-all-decls", *words[2:]]


def names(assembly: bytes) -> tuple[bytes, ...]:
    """The instances in it, by their mangled names."""
    found = {
        _ESCAPED.sub(lambda one: bytes.fromhex(one.group(1).decode()), name) for name in _DEFINED.findall(assembly)
    }
    return tuple(sorted(name for name in found if is_instance(name)))


def is_instance(name: bytes) -> bool:
    """Is it that of a template, of a member of a class template, or of a function that clang may have declared itself
    (constructors, destructors, assignment)? True for a name that is of a form not known here. The form is that of the
    Itanium C++ ABI, 5.1; only what is named counts, not its parameters."""
    at = 3 if name.startswith(b"_ZL") else 2
    nested = name[at : at + 1] == b"N"
    at += nested
    while at < len(name):
        length = _LENGTH.match(name, at)
        if length:
            at = length.end() + int(length.group())
            if not nested:
                return name[at : at + 1] == b"I"
        elif name[at : at + 2] == b"St":
            at += 2
        elif not nested:
            return name[at : at + 1].isupper() or name[at + 2 : at + 3] == b"I"
        elif name[at : at + 1] == b"E":
            return False
        elif name[at : at + 1] in (b"I", b"C", b"D", b"T", b"Z") or name[at : at + 2] == b"aS":
            return True
        elif name[at : at + 1] == b"S":
            at += 2  # of std, or of what stands before in the name
        else:
            at += 1  # qualifiers, operators
    return True
