"""Errors that clang defers until a function is used, as far as headers may have them.

A function for both sides may use what one side has not: it is an error there only if code that is compiled calls it
(clang/lib/Sema/SemaCUDA.cpp, `SemaDiagnosticBuilder::K_Deferred`). A precompiled header does not hold these errors.
Most of them leave a call of a function that the side does not define: on the device's side any such call tells
(`making.bitcode.may_need`), on the host's one of a function of the device's (`functions`, `making.undefined`). A `try`
on the device's side leaves nothing (`have_try`).

By the text alone, and rather too much than too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hipcache.patterns import pattern
from hipcache.planning import cxx_text
from hipcache.planning.cxx_text import MACRO, PARENTHESES

if TYPE_CHECKING:
    from re import Pattern

_DEVICE, _TRY = b"device", b"try"
# What makes a function one of the device.
_SPECIFIERS = (b"__device__", rb"__attribute(?:__)?\s*\(\([^()]*\bdevice\b")
_NAME = pattern(rb"([A-Za-z_]\w*)\s*\(")
_WORD = pattern(rb"[A-Za-z_]\w*")


def functions(texts: Sequence[bytes]) -> frozenset[bytes]:
    """The names of all functions that these declare for the device, and more: all that stands before parentheses in
    such a declaration, or is given to a macro that has one."""
    found = set[bytes]()
    for word, is_macro in _with_macros(_SPECIFIERS, _DEVICE, texts):
        # A pattern that begins with letters finds them sooner than one with a condition for what is before.
        declaration = re.compile(word + rb"\b(\s*" + PARENTHESES + rb")?([^;{}]*)")
        for text in texts:
            for given, rest in declaration.findall(text) if (word if is_macro else _DEVICE) in text else ():
                found.update(_WORD.findall(given) if is_macro else ())
                found.update(_NAME.findall(rest))
    return frozenset(found)


def have_try(texts: Sequence[bytes]) -> bool:
    """Has a function for the device a `try`?"""
    if not any(_TRY in text for text in texts):
        return False
    bare = [cxx_text.bare(text) for text in texts]
    specifier = _any(_with_macros(_SPECIFIERS, _DEVICE, bare))
    mark = re.compile(rb"[{};]|" + _any(_with_macros([_TRY], _TRY, bare)).pattern)
    return any(_has_try(cxx_text.without_directives(text), specifier, mark) for text in bare)


def _has_try(code: bytes, specifier: Pattern[bytes], mark: Pattern[bytes]) -> bool:
    inside, begin = [False], 0
    for found in mark.finditer(code):
        what, head = found.group(), code[begin : found.start()]
        is_devices = inside[-1] or bool(specifier.search(head))
        if what not in (b"{", b"}", b";"):
            if is_devices:
                return True
            continue
        if what == b"{":
            inside.append(is_devices)
        elif what == b"}":
            inside = inside[:-1] or [False]
        begin = found.end()
    return False


def _with_macros(words: Sequence[bytes], part: bytes, texts: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Patterns for these words, and for all macros of the texts that may come to one; is it a macro? `part` is in each
    of the words."""
    yield from ((word, False) for word in words)
    rest, macros, parts, known = list(texts), list[tuple[bytes, bytes]](), {part}, set(words)
    while parts:
        used = [text for text in rest if any(one in text for one in parts)]
        rest = [text for text in rest if text not in used]
        macros += [(name, body) for text in used for name, _, body in MACRO.findall(text)]
        wanted = re.compile(rb"\b(?:" + b"|".join(sorted(known)) + rb")\b")
        parts = {name for name, body in macros if wanted.search(body)} - known
        macros = [(name, body) for name, body in macros if name not in parts]
        known = parts
        yield from ((name, True) for name in sorted(parts))


def _any(words: Iterable[tuple[bytes, bool]]) -> Pattern[bytes]:
    return re.compile(rb"\b(?:" + b"|".join(word for word, _ in words) + rb")\b")
