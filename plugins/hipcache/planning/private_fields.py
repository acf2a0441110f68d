"""Does a header have a class with private fields that it does not use itself?

Clang warns of those that nothing uses when a translation unit has defined all functions of their class
(-Wunused-private-field; clang/lib/Sema/Sema.cpp, `UnusedPrivateFields`). A precompiled header does not hold which ones
these are: nobody would be warned.

By the text alone, and rather too much than too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hipcache.patterns import pattern
from hipcache.planning import cxx_text
from hipcache.values import dataclass, replace

# clang/include/clang/Basic/DiagnosticGroups.td; what has -Weverything gets no preamble.
_WARNINGS = frozenset({"-Wall", "-Wmost", "-Wunused", "-Wunused-private-field"})
_ASKS = pattern(rb"diagnostic[ \t]+(?:warning|error|fatal)\b")
# Lexing all headers would take as long as a pass.
_MAYBE = pattern(rb"\bprivate\s*:|\bclass\b")
_MARK = pattern(rb"[{};]|\b(?:private|public|protected)\s*:(?!:)")
# Arguments of templates, and attributes.
_GROUP = pattern(rb"<[^<>]*>|\[\[[^\]]*\]\]|\b(?:__attribute(?:__)?|alignas|decltype)\s*\((?:[^()]|\([^()]*\))*\)")
_CLASS = pattern(rb"(?<!enum )\b(class|struct|union)\b[^()=]*\Z")
_TEMPLATE = pattern(rb"\btemplate\b")
_NO_FIELD = pattern(
    rb"\s*(?:using|typedef|friend|static|enum|class|struct|union|template|static_assert|namespace)\b|\s*\Z"
)
_POINTER = pattern(rb"\(\s*[\w:]*[*&]\s*(\w*)")
_NAME = pattern(rb"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?::\s*\w+\s*)?\Z")
# What stands before a use. Behind a type, a comma or a colon it may be declared, or initialized, which is no use.
_BEFORE_USE = rb"(?:[({;=!+/%|^\[.?~-]|->|<<|>>|\breturn|\bthis\s*->)\s*"


@dataclass(frozen=True)
class _Scope:
    """What braces enclose, from the place `begin` on. `is_class`: are they those of a class? `is_template`: of a
    template, or within one? `is_private`: are the next members private? `fields`: the names of its private fields so
    far, each empty if it is not clear."""

    begin: int = 0
    is_class: bool = False
    is_template: bool = False
    is_private: bool = False
    fields: tuple[bytes, ...] = ()


def may_be_told(header: bytes, options: Iterable[str]) -> bool:
    """May clang warn of one? `options`: of the pass; the header may ask for warnings, too."""
    asks = _ASKS.search(header) or not _WARNINGS.isdisjoint(option.replace("-Werror=", "-W") for option in options)
    return bool(asks) and are_unused(header)


def are_unused(text: bytes) -> bool:
    """Has a class such fields? Those of templates do not count: clang does not warn of them."""
    if not _MAYBE.search(text):
        return False
    code = cxx_text.without_directives(cxx_text.bare(text))
    scopes, begin = [_Scope()], 0
    for mark in _MARK.finditer(code):
        here, what = scopes[-1], mark.group()
        head, begin = cxx_text.flat(code[begin : mark.start()], _GROUP, b" "), mark.end()
        if what == b"}":
            if not all(_is_used(name, code[here.begin : mark.start()]) for name in here.fields):
                return True
            scopes = scopes[:-1] or [_Scope()]
            continue
        if what not in b"{;":
            scopes[-1] = replace(here, is_private=what.startswith(b"private"))
        elif here.is_class and here.is_private and not here.is_template and _is_field(head):
            scopes[-1] = replace(here, fields=(*here.fields, *_names(head)))
        if what == b"{":
            scopes.append(_opened(head, here, begin))
    return any(scope.fields for scope in scopes)


def _is_field(member: bytes) -> bool:
    declared = member.partition(b"=")[0]
    return not _NO_FIELD.match(declared) and (b"(" not in declared or bool(_POINTER.search(declared)))


def _names(member: bytes) -> list[bytes]:
    pointer = _POINTER.search(member)
    if pointer:
        return [pointer.group(1)]
    found = [_NAME.search(one.partition(b"=")[0].strip()) for one in member.split(b",")]
    return [one.group(1) if one else b"" for one in found]


def _is_used(name: bytes, body: bytes) -> bool:
    """Does the class itself use it, but for its initialization?"""
    return bool(name and re.search(_BEFORE_USE + name + rb"\b", body))


def _opened(head: bytes, around: _Scope, begin: int) -> _Scope:
    found = _CLASS.search(head)
    is_template = around.is_template or bool(_TEMPLATE.search(head))
    return _Scope(begin, bool(found), is_template, found is not None and found.group(1) == b"class")
