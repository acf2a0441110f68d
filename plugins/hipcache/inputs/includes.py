"""The text of a file tells which others a pass reads besides it: its `#include`, `__has_include` and `#embed`, and
what depends on more than files (`__DATE__`, assembly that reads a file).

The scan reads more names than the pass used (those in `#if` branches that were not taken): a file that appears there
costs a needless run of the front end, never a stale object. A text whose names cannot be told without the compiler is
`unclear`. The lexer gives directives, strings and words (`lexer`); no step here takes more than time in proportion to
the text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache

from hipcache.base import interruptible, shared
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass
from hipcache.inputs import lexer, preprocessed, token_pasting
from hipcache.inputs.scans import Scan

# Warnings about comments or about the end of a file, in the text (see also `clang.frontend`).
_COMMENTS_TALK = (b"documentation", b"everything", b"pedantic", b"newline-eof", b"comment", b"invalid-utf8")
_SWITCH = pattern(rf"(?<!\w){token_pasting.SWITCH}(?!\w)".encode())
_SWITCHES_OFF = pattern(rf"{token_pasting.SWITCH}[ \t]+(?:{'|'.join(token_pasting.SWITCHED_OFF)})(?!\w)".encode())
_SWITCHES_ON = pattern(rb"diagnostic[ \t]+(?:warning|error|fatal) ?\\?\"(-W[\w=+-]+)\\?\"\s*\Z")
_OF_MACRO = pattern(rb"#define (\w+)(?:\(([^)]*)\))?")
_DEPENDENCY = pattern(rb"GCC +dependency")
_ASSEMBLER_INCLUDE = pattern(rb"\.include\b")
_DEFINED_WORD = pattern(rb"\w{1,200}")
_READING = (b"include", b"include_next", b"import", b"embed")
# They ask for a macro's name, or for nothing.
_NAMING = (b"ifdef", b"ifndef", b"elifdef", b"elifndef", b"undef", b"error", b"warning")
_NAME = pattern(rb"#(\w{0,60}) *")
_ASKED = pattern(rb"(?<!\w)__has_(?:include(_next)?|embed)(?!\w)(?: *\( *)?")
_DEFINED = pattern(rb"(?<!\w)defined\Z")
_LONGEST_GAP = 64
_COMPUTED = "has a directive that names its file by a macro"


@dataclass(frozen=True)
class _Directives:
    """See `scans.Scan`; `macros`: the lines of #define."""

    quoted: frozenset[bytes]
    angled: frozenset[bytes]
    next: frozenset[bytes]
    includes_computed: bool
    asks_computed: bool
    embeds: bool
    macros: tuple[bytes, ...]
    unclear: str
    expands_pragmas: bool


@dataclass(frozen=True)
class _Named:
    """One name. `mark`: its first character, a quote or an angle; empty if the name is computed."""

    mark: bytes
    name: bytes


def scan(content: bytes, *, own: bool = False) -> Scan:
    """`own`: it is a header that is known (`search.is_known`)."""
    found = lexer.lex(content)
    said = _directives(found.lines)
    code, in_directives = _words(found.words)
    if found.flags & (shared.LEXED_UNPLAIN | shared.LEXED_AMBIGUOUS):
        code |= _words(lexer.lex(content, lexer.RAW).words)[0]
    words = code | in_directives
    macros = {word.group().decode() for line in said.macros for word in _DEFINED_WORD.finditer(line)}
    strings = found.strings
    places = frozenset() if own else _names((*token_pasting.PLACES, *token_pasting.MORE_PLACES), words, strings)
    return Scan(
        frozenset(map(os.fsdecode, said.quoted)),
        frozenset(map(os.fsdecode, said.angled)),
        said.includes_computed,
        said.asks_computed,
        frozenset(name.strip("_") for name in _names(token_pasting.TIMES, words, strings)),
        _assembles(content, words, strings),
        said.embeds,
        frozenset(map(os.fsdecode, said.next)),
        _comments_talk(found.lines, code, strings),
        frozenset() if own else frozenset(words & token_pasting.PIECES),
        places,
        frozenset(name for name in places if any(name in word for word in macros)),
        lexer.names_of_paths(
            words, macros, paths=_names(lexer.PATHS, words, strings), undefines=_undefines(found.lines, words, strings)
        ),
        said.unclear or _unclear(found.flags, code, strings),
        _compares_times(found.lines, code, strings),
        # (in a comment, too: clang's lexer may see no comment there)
        said.expands_pragmas
        or bool(found.flags & shared.LEXED_AMBIGUOUS)
        or not (own or preprocessed.is_plain(content)),
    )


def may_hide_mark(scans: Iterable[Scan]) -> bool:
    """May the value of a macro come into the name of a file that a condition asks for (`__has_include`), and so be seen
    nowhere else?"""
    return any(
        scan.asks_computed
        or (scan.unclear and not scan.includes_computed)
        or any("has" in piece for piece in scan.pieces)
        for scan in scans
    )


def _compares_times(lines: bytes, code: set[str], strings: bytes) -> bool:
    """Has it a `#pragma GCC dependency`, or a _Pragma?"""
    if "dependency" in code and not code.isdisjoint(("GCC", "clang")):
        return True
    texts = [text for text in (lines, strings) if b"dependency" in text]
    return any(
        b"dependency" in line.partition(name)[2]
        for text in texts
        for line in interruptible.lines(text)
        for name in (b"GCC", b"clang")
    )


def _words(text: bytes) -> tuple[set[str], set[str]]:
    """(those of code, those of directives)"""
    found: set[str] = set()
    for part in interruptible.portions(text, b" "):
        found.update(part.decode().split())
    in_directives = {word[1:] for word in found if word.startswith("#")}
    return {word for word in found if not word.startswith("#")}, in_directives


def _names(names: Iterable[str], words: set[str], strings: bytes) -> frozenset[str]:
    """Those of the names that are in the words, or (of a _Pragma) in the strings."""
    interruptible.go_on()
    text = " ".join(words)
    return frozenset(name for name in names if name in text or name.encode() in strings)


def assembles(text: bytes) -> bool:
    """May inline assembly of a preprocessed text read a file?"""
    found = preprocessed.assembly(text)
    return found is None or scan(found).assembler_files


def _assembles(content: bytes, words: set[str], strings: bytes) -> bool:
    if "incbin" in words or b"incbin" in strings or (b".include" in strings and _ASSEMBLER_INCLUDE.search(strings)):
        return True
    return b"asm" in content and token_pasting.assembles_in_pieces(lexer.lex(content, lexer.ALL).lines)


def _comments_talk(lines: bytes, code: set[str], strings: bytes) -> bool:
    """May a pragma switch such a warning on? Not one that names another, and is spelled out in a directive or in the
    string of a _Pragma. What macros make of the word is not looked into."""
    if token_pasting.SWITCH in code:
        return True
    for line in interruptible.lines(lines):
        macro = _OF_MACRO.match(line)
        if macro and macro[1].decode() in token_pasting.SWITCHED_OFF:
            return True
        if (macro or line.startswith(b"#pragma")) and _switches_on(line):
            # A parameter stands for something else.
            parameters = macro[2].split(b",") if macro and macro[2] else ()
            if token_pasting.SWITCH.encode() not in map(bytes.strip, parameters):
                return True
    of_pragmas = (line for line in interruptible.lines(strings) if b"GCC" in line or b"clang" in line)
    return b"diagnostic" in strings and any(map(_switches_on, of_pragmas))


def _switches_on(line: bytes) -> bool:
    for found in _SWITCH.finditer(line):
        on = _SWITCHES_ON.match(line, found.start())
        is_other = on and not any(name in on[1] for name in _COMMENTS_TALK)
        if not is_other and not _SWITCHES_OFF.match(line, found.start()):
            return True
    return False


def _undefines(lines: bytes, words: set[str], strings: bytes) -> bool:
    if "NDEBUG" in words and any(
        line.startswith(b"#undef") and b"NDEBUG" in line for line in interruptible.lines(lines)
    ):
        return True
    return b"NDEBUG" in strings and (not words.isdisjoint(("push_macro", "pop_macro")) or b"_macro" in strings)


def _unclear(flags: int, code: set[str], strings: bytes) -> str:
    if flags & shared.LEXED_AMBIGUOUS:
        return "is ambiguous (trigraphs, a comment in a header's name, an unterminated literal or comment)"
    asked = next((name for name in token_pasting.QUESTIONS if name in code), "")
    if asked:
        return f"has {asked} outside of a directive"
    in_string = b"include_alias" in strings or (b"dependency" in strings and _DEPENDENCY.search(strings))
    if in_string or {"GCC", "dependency"} <= code or "include_alias" in code:
        return "may have a pragma that names a file"
    return ""


# All passes of a command, and most commands of a build, have the same. More than one command has.
@lru_cache(maxsize=1 << 15)
def scan_macro(value: str) -> Scan:
    """The scan of a macro on the command line: what it may do in the text that uses it."""
    raw = os.fsencode(value)
    times = frozenset(name.strip("_") for name in token_pasting.TIMES if name.encode() in raw)
    asks = b"__has_include" in raw or b"__has_embed" in raw
    assembles = b"incbin" in raw or (b'"' in raw and _ASSEMBLER_INCLUDE.search(raw) is not None)
    places, words = token_pasting.places(raw), token_pasting.pieces(raw)
    found = scan(raw)
    return Scan(
        frozenset(),
        frozenset(),
        False,
        asks,
        times,
        assembles,
        False,
        pieces=words,
        places=places,
        shown=found.shown,
        compares_times=found.compares_times,
        comments_talk=found.comments_talk or value.partition("=")[0] in token_pasting.SWITCHED_OFF,
    )


def _directives(lines: bytes) -> _Directives:
    """The names of files in the directives, as the lexer gives these: one a line, `#include <x.h>`."""
    names: list[_Named] = []
    following: list[_Named] = []
    macros: list[bytes] = []
    includes_computed = asks_computed = embeds = expands_pragmas = False
    unclear = ""
    for line in interruptible.lines(lines):
        head = _NAME.match(line)
        if not head:
            continue
        kind, rest = head.group(1), line[head.end() :]
        if kind in _READING:
            header, _ = _name(rest, 0)
            names.append(header)
            if kind == b"include_next":
                following.append(header)
            embeds = embeds or kind == b"embed"
            if not header.mark and rest.strip():
                includes_computed = True
                unclear = unclear or _COMPUTED
        elif kind == b"define":
            macros.append(line)
        elif kind == b"pragma":
            expands_pragmas = expands_pragmas or not preprocessed.is_plain_pragma(rest)
            if b"dependency" in rest or b"include_alias" in rest:
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
    if any(b"\\" in header.name for header in (*names, *following)):
        unclear = unclear or "has a header's name with a backslash"
    return _Directives(
        frozenset(header.name for header in names if header.mark == b'"'),
        frozenset(header.name for header in names if header.mark == b"<"),
        frozenset(header.name for header in following if header.mark),
        includes_computed,
        asks_computed,
        embeds,
        tuple(macros),
        unclear,
        expands_pragmas,
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
        header = _Named(b"", b"")
        if b"(" in asked.group() and at < ends.get(line[at : at + 1], -1):
            header, at = _name(line, at)
        yield header, asked.group(1) is not None
