"""Does a header have a lambda that stands in no function and in no class?

For HIP, clang numbers such lambdas of a translation unit as they come, and names them by these numbers
(clang/lib/Sema/SemaLambda.cpp, `handleLambdaNumbering`). A precompiled header does not hold how far it has come: the
source's own begin at the first number again, two lambdas have one name, and one of them is called for both.
"""

from __future__ import annotations

from hipcache.inputs import lexed
from hipcache.patterns import pattern
from hipcache.planning import cxx_text

# Lexing all headers would take as long as a pass.
_MAYBE = pattern(rb"\[\s*(?:[]/\\]|&?\s*\w+\s*=)")
_LITERAL = pattern(rb'"(?:[^"\\]|\\.)*"|(?<!\w)\'(?:[^\'\\]|\\.)*\'')
_DEFINE = pattern(rb"#define \w+(?:\([^()]*\))? ?")
# A brace, the end of a statement, or the beginning of a lambda: `[]`, `[x = 1]`. Others must stand in a function.
_MARK = pattern(rb"[{};]|(?:(?<=[=({,;:?+!<|])|(?<=[=({,;:?+!<|] ))\[ ?(?:\](?= ?(?:[({<\[]|->|\w))|&? ?\w+ ?=)")
_GROUP = pattern(rb"\([^()]*\)|<[^<>]*>")
_CLASS = pattern(rb"\b(?:class|struct|union|enum)\b")


def are_numbered(text: bytes) -> bool:
    """Lambdas that a macro puts together from parts are not seen."""
    if not _MAYBE.search(text):
        return False
    lines = lexed.lex(text, lexed.ALL).lines.split(b"\n")
    macros = [b"= " + line[found.end() :] for line in lines if (found := _DEFINE.match(line))]
    return any(map(_has_one, (b"\n".join(line for line in lines if not line.startswith(b"#")), *macros)))


def _has_one(code: bytes) -> bool:
    code = b" ".join(_LITERAL.sub(b'""', code).split())
    bodies: list[bool] = []
    begin, found, outside, unclear = 0, False, False, False
    for mark in _MARK.finditer(code):
        if mark.group().startswith(b"["):
            found = True
            outside = outside or not any(bodies)
            continue
        if mark.group() == b"{":
            bodies.append(_begins_body(code[begin : mark.start()]))
        elif mark.group() == b"}":
            unclear = unclear or not bodies  # branches of #if: what is open cannot be told
            del bodies[-1:]
        begin = mark.end()
    return outside or (found and (unclear or bool(bodies)))


def _begins_body(head: bytes) -> bool:
    """Is it the body of a function or a class, and not that of a namespace or an initializer?"""
    flat = cxx_text.flat(head, _GROUP)
    return b"=" not in flat and (b")" in head or _CLASS.search(flat) is not None)
