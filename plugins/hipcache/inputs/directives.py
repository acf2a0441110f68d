"""The names of files in the directives of a text, as the lexer gives these: one a line, `#include <x.h>`."""

from __future__ import annotations

from collections.abc import Iterator

from hipcache.inputs import portions
from hipcache.patterns import pattern
from hipcache.values import dataclass

_READING = (b"include", b"include_next", b"import", b"embed")
# They ask for a macro's name, or for nothing.
_NAMING = (b"ifdef", b"ifndef", b"elifdef", b"elifndef", b"undef", b"error", b"warning")
_NAME = pattern(rb"#(\w{0,60}) *")
_ASKED = pattern(rb"(?<!\w)__has_(?:include(_next)?|embed)(?!\w)(?: *\( *)?")
_DEFINED = pattern(rb"(?<!\w)defined\Z")
_LONGEST_GAP = 64
_COMPUTED = "has a directive that names its file by a macro"


@dataclass(frozen=True)
class Directives:
    """See `scans.Scan`; `macros`: the lines of #define."""

    quoted: frozenset[bytes]
    angled: frozenset[bytes]
    next: frozenset[bytes]
    includes_computed: bool
    asks_computed: bool
    embeds: bool
    macros: tuple[bytes, ...]
    unclear: str


@dataclass(frozen=True)
class _Named:
    """One name. `mark`: its first character, a quote or an angle; empty if the name is computed."""

    mark: bytes
    name: bytes


def read(lines: bytes) -> Directives:
    names: list[_Named] = []
    following: list[_Named] = []
    macros: list[bytes] = []
    includes_computed = asks_computed = embeds = False
    unclear = ""
    for line in portions.lines(lines):
        head = _NAME.match(line)
        if not head:
            continue
        kind, rest = head.group(1), line[head.end() :]
        if kind in _READING:
            one, _ = _name(rest, 0)
            names.append(one)
            if kind == b"include_next":
                following.append(one)
            embeds = embeds or kind == b"embed"
            if not one.mark and rest.strip():
                includes_computed = True
                unclear = unclear or _COMPUTED
        elif kind == b"define":
            macros.append(line)
        elif kind == b"pragma" and (b"dependency" in rest or b"include_alias" in rest):
            unclear = unclear or "has a pragma that names a file"
        if kind in _NAMING or b"__has_" not in rest:
            continue
        for asked, is_next in _questions(rest, defines=kind == b"define"):
            (following if is_next else names).append(asked)
            if not asked.mark:
                asks_computed = True
                unclear = unclear or _COMPUTED
            elif kind == b"define" and asked.mark == b'"':
                unclear = unclear or "has a macro that looks for a file beside the file that uses it"
    if any(b"\\" in one.name for one in (*names, *following)):
        unclear = unclear or "has a header's name with a backslash"
    return Directives(
        frozenset(one.name for one in names if one.mark == b'"'),
        frozenset(one.name for one in names if one.mark == b"<"),
        frozenset(one.name for one in following if one.mark),
        includes_computed,
        asks_computed,
        embeds,
        tuple(macros),
        unclear,
    )


def _name(line: bytes, at: int) -> tuple[_Named, int]:
    """The name that begins at a place of a line, and the place behind it."""
    mark = line[at : at + 1]
    if mark in (b'"', b"<"):
        end = line.find(b'"' if mark == b'"' else b">", at + 1)
        if end > at + 1:
            return _Named(mark, line[at + 1 : end]), end + 1
    return _Named(b"", b""), at


def _questions(line: bytes, *, defines: bool) -> Iterator[tuple[_Named, bool]]:
    """Each `__has_include` and the like of a line behind its directive's name, and whether it asks for the next one."""
    at = 0
    ends = {b'"': line.rfind(b'"'), b"<": line.rfind(b">")}
    while True:
        asked = _ASKED.search(line, at)
        if not asked:
            return
        start, at = asked.span()
        before = line[max(0, start - _LONGEST_GAP) : start].rstrip()
        before = before.removesuffix(b"(").rstrip()
        # `defined(__has_include)` and `#define __has_include(x) 0` ask nothing.
        if (defines and start == 0) or _DEFINED.search(before):
            continue
        one = _Named(b"", b"")
        if b"(" in asked.group() and at < ends.get(line[at : at + 1], -1):
            one, at = _name(line, at)
        yield one, asked.group(1) is not None
