"""Do headers declare a variable of the device?

Where the host's code uses one, clang notes it: the device's pass emits it then though no kernel uses it, and the host's
registers it (clang/lib/Sema/SemaExpr.cpp, MarkVarDeclODRUsed; `ASTContext::CUDADeviceVarODRUsedByHost`). A precompiled
header does not hold these notes.

By the text alone, and rather too much than too little: a declaration for the device that is no function counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from hipcache.patterns import pattern
from hipcache.planning import cxx_text
from hipcache.planning.cxx_text import MACRO, PARENTHESES

_DEVICE = b"__device__"
_SPECIFIERS = frozenset({_DEVICE, b"__constant__", b"__managed__"})
_ATTRIBUTE = pattern(rb"\b__attribute(?:__)?\s*\(\([^()]*\b_*(?:device|constant|(?:hip_)?managed)_*\b[^()]*\)\)")
# Between the specifiers and the name, or behind it, with parentheses that are not those of a function.
_ASIDE = pattern(
    rb"\b(?:__attribute(?:__)?|__declspec|alignas|decltype|explicit)\s*"
    + PARENTHESES
    + rb"|\[\[[^\]]*\]\]|\[[^\[\]]*\]|<[^<>;{}()]*\([^<>;{}()]*\)[^<>;{}()]*>"
)
# What follows the specifiers and the type. Parentheses with a literal initialize a variable, those with a star are part
# of a pointer's type.
_NEXT = pattern(rb"(?P<variable>[;{=]|\(\s*[\d\"'{.*&-])|(?P<function>\boperator\b)|\(")
_MARK = pattern(rb"[()]")
# These words stand behind the parentheses of a function, others behind those of a macro.
_OTHER_WORD = pattern(
    rb"\s*(?!(?:const|volatile|noexcept|override|final|requires|throw|try|mutable|asm|__asm\w*)\b)[A-Za-z_]"
)


class _Kind(Enum):
    VARIABLE = 1
    FUNCTION = 2
    OPEN = 3  # the text ends before


def are_declared(texts: Iterable[bytes]) -> bool:
    """`texts`: of headers, and macros of the command line as directives. A specifier that a macro puts together from
    parts is not seen."""
    specifiers, more = set[bytes](), set(_SPECIFIERS)
    rest, codes, macros = list(texts), list[bytes](), list[tuple[bytes, bytes]]()
    while more:
        specifiers |= more
        used = {text for text in rest if any(word in text for word in more) or _ATTRIBUTE.search(text)}
        rest = [text for text in rest if text not in used]
        for text in used:
            bare = _ATTRIBUTE.sub(_DEVICE, cxx_text.bare(text))
            codes.append(_ASIDE.sub(b"", cxx_text.without_directives(bare)))
            macros += [(name, _ASIDE.sub(b"", body)) for name, _, body in MACRO.findall(bare)]
        more = {name for name, body in macros if _Kind.OPEN in _kinds(body, specifiers)} - specifiers
    bodies = (body for _, body in macros)
    return any(_Kind.VARIABLE in _kinds(code, specifiers) for code in (*codes, *bodies))


def _kinds(code: bytes, specifiers: Iterable[bytes]) -> set[_Kind]:
    """Those of all declarations with such a specifier."""
    words = re.compile(rb"\b(?:%s)\b" % b"|".join(specifiers))
    return {_kind(code, found.end()) for found in words.finditer(code)}


def _kind(code: bytes, at: int) -> _Kind:
    """That of the declaration of which a specifier ends there."""
    while found := _NEXT.search(code, at):
        if found["variable"]:
            return _Kind.VARIABLE
        at = _behind_parentheses(code, found.start())
        if found["function"] or not _OTHER_WORD.match(code, at):
            return _Kind.FUNCTION
    return _Kind.OPEN


def _behind_parentheses(code: bytes, at: int) -> int:
    depth = 0
    for mark in _MARK.finditer(code, at):
        depth += 1 if mark.group() == b"(" else -1
        if not depth:
            return mark.end()
    return len(code)
