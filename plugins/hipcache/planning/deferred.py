"""Errors that clang defers until a function is used, as far as standard headers may have them.

A function for both sides may use what one side has not: it is an error there only if code that is compiled calls it
(clang/lib/Sema/SemaCUDA.cpp, `SemaDiagnosticBuilder::K_Deferred`). A precompiled header does not hold these errors.
Most of them leave a call of a function that the side does not define: on the device's side any such call tells
(`making.bitcode.may_need`), on the host's one of a function of the device's (`functions`, `making.undefined`).

What the compiler computes by itself leaves nothing. Before C++20, the standard library's functions for that which use
others of the host's are those of string views and of wide characters: texts with these are told by `may_compute`.

By the text alone, and rather too much than too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from hipcache.patterns import pattern
from hipcache.planning.cxx_text import MACRO, PARENTHESES, joined

_DEVICE = b"device"
# What makes a function one of the device.
_SPECIFIERS = (b"__device__", rb"__attribute(?:__)?\s*\(\([^()]*\bdevice\b")
_NAME = pattern(rb"([A-Za-z_]\w*)\s*\(")
_WORD = pattern(rb"[A-Za-z_]\w*")

_INCLUDE = pattern(rb"^[ \t]*#[ \t]*include\b[^\n]*", re.MULTILINE)
_OF_STRINGS = pattern(
    rb"\b(?:\w*string_view|char_traits|\w*(?:wchar|WCHAR)\w*|wint_t|w\w*(?:string|stream|regex|match|convert)\w*"
    rb"|wcout|wcin|wcerr|wclog|sv)\b|\bLR?[\"']|\bstring_?\s*##|##\s*(?:string|_?view)"
)


def may_compute(text: bytes) -> bool:
    """May a source with this text compute with a string view, or with wide characters?"""
    text = joined(text)
    return bool(_OF_STRINGS.search(_INCLUDE.sub(b"", text) if b"string_view" in text else text))


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
