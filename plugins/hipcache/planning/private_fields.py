"""Does a header have a class with private fields?

Clang warns of those that nothing uses when a translation unit has defined all functions of their class
(-Wunused-private-field; clang/lib/Sema/Sema.cpp, `UnusedPrivateFields`). A precompiled header does not hold which ones
these are: nobody would be warned.

By the text alone, and rather too much than too little.
"""

from __future__ import annotations

from hipcache.patterns import pattern
from hipcache.planning.declared import DIRECTIVE, bare_of
from hipcache.values import dataclass

# Lexing all headers would take as long as a pass.
_MAYBE = pattern(rb"\bprivate\s*:|\bclass\b")
_MARK = pattern(rb"[{};]|\b(?:private|public|protected)\s*:(?!:)")
_GROUP = pattern(rb"<[^<>]*>|\[\[[^\]]*\]\]|\b(?:__attribute(?:__)?|alignas|decltype)\s*\((?:[^()]|\([^()]*\))*\)")
_CLASS = pattern(rb"(?<!enum )\b(class|struct|union)\b[^()=]*\Z")
_TEMPLATE = pattern(rb"\btemplate\b")
_NO_FIELD = pattern(
    rb"\s*(?:using|typedef|friend|static|enum|class|struct|union|template|static_assert|namespace)\b|\s*\Z"
)
_POINTER = pattern(rb"\(\s*[\w:]*[*&]")


@dataclass(frozen=True)
class _Scope:
    """What braces enclose. `is_class`: of a class that is no template, or part of one; `is_private`: are its next
    members?"""

    is_class: bool = False
    is_template: bool = False
    is_private: bool = False


def are_declared(text: bytes) -> bool:
    """Those of templates do not count: clang does not warn of them."""
    if not _MAYBE.search(text):
        return False
    code = DIRECTIVE.sub(b"", bare_of(text))
    scopes, begin = [_Scope()], 0
    for mark in _MARK.finditer(code):
        here, what = scopes[-1], mark.group()
        head, begin = _flat(code[begin : mark.start()]), mark.end()
        if what == b"}":
            scopes = scopes[:-1] or [_Scope()]
        elif what not in b"{;":
            scopes[-1] = _Scope(here.is_class, here.is_template, what.startswith(b"private"))
        elif here.is_class and here.is_private and not here.is_template and _is_field(head):
            return True
        elif what == b"{":
            scopes.append(_opened(head, here))
    return False


def _flat(head: bytes) -> bytes:
    """Without arguments of templates and attributes."""
    before = b""
    while head != before:
        head, before = _GROUP.sub(b" ", head), head
    return head


def _is_field(member: bytes) -> bool:
    declared = member.partition(b"=")[0]
    return not _NO_FIELD.match(declared) and (b"(" not in declared or bool(_POINTER.search(declared)))


def _opened(head: bytes, around: _Scope) -> _Scope:
    found = _CLASS.search(head)
    is_template = around.is_template or bool(_TEMPLATE.search(head))
    return _Scope(bool(found), is_template, found is not None and found.group(1) == b"class")
