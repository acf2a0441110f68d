"""The text of a file tells which others a pass reads besides it: its `#include`, `__has_include` and `#embed`, and
what depends on more than files (`__DATE__`, assembly that reads a file).

The scan reads more names than the pass used (those in `#if` branches that were not taken): a file that appears there
costs a needless run of the front end, never a stale object. A text whose names cannot be told without the compiler is
`unclear`. The lexer gives directives, strings and words (`lexer`); no step here takes more than time in proportion to
the text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache

from hipcache import shared
from hipcache.inputs import directives, lexer, pasted, portions, preprocessed, shown
from hipcache.inputs.scans import Scan
from hipcache.native import aside
from hipcache.patterns import pattern

# Warnings about comments or about the end of a file, in the text (see also `clang.frontend`).
_COMMENTS_TALK = (b"documentation", b"everything", b"pedantic", b"newline-eof", b"comment")
_DIAGNOSTIC = pattern(rb"diagnostic +(?:warning|error|fatal)")
_DEPENDENCY = pattern(rb"GCC +dependency")
_ASSEMBLER_INCLUDE = pattern(rb"\.include\b")
_DEFINED_WORD = pattern(rb"\w{1,200}")


def scan(content: bytes, *, own: bool = False) -> Scan:
    """`own`: it is a header that is known (`standard.is_known`)."""
    found = lexer.lex(content)
    said = directives.read(found.lines)
    code, in_directives = _words(found.words)
    if found.flags & (shared.LEXED_UNPLAIN | shared.LEXED_AMBIGUOUS):
        code |= _words(lexer.lex(content, lexer.RAW).words)[0]
    words = code | in_directives
    macros = {word.group().decode() for line in said.macros for word in _DEFINED_WORD.finditer(line)}
    strings = found.strings
    places = frozenset() if own else _names((*pasted.PLACES, *pasted.MORE_PLACES), words, strings)
    return Scan(
        frozenset(map(os.fsdecode, said.quoted)),
        frozenset(map(os.fsdecode, said.angled)),
        said.includes_computed,
        said.asks_computed,
        frozenset(name.strip("_") for name in _names(pasted.TIMES, words, strings)),
        _assembles(content, words, strings),
        said.embeds,
        frozenset(map(os.fsdecode, said.next)),
        _comments_talk(found.lines, code, strings),
        frozenset() if own else _pieces(words),
        places,
        frozenset(name for name in places if any(name in word for word in macros)),
        shown.names(
            words,
            macros,
            paths=_names(shown.PATHS, words, strings),
            undefines=_undefines(found.lines, words, strings),
        ),
        said.unclear or _unclear(found.flags, code, strings),
        _compares_times(found.lines, code, strings),
    )


def _compares_times(lines: bytes, code: set[str], strings: bytes) -> bool:
    """Has it a `#pragma GCC dependency`, or a _Pragma?"""
    if "dependency" in code and not code.isdisjoint(("GCC", "clang")):
        return True
    texts = [text for text in (lines, strings) if b"dependency" in text]
    return any(
        b"dependency" in line.partition(name)[2]
        for text in texts
        for line in portions.lines(text)
        for name in (b"GCC", b"clang")
    )


def _words(text: bytes) -> tuple[set[str], set[str]]:
    """(those of code, those of directives)"""
    found: set[str] = set()
    for part in portions.cut(text, b" "):
        found.update(part.decode().split())
    in_directives = {word[1:] for word in found if word.startswith("#")}
    return {word for word in found if not word.startswith("#")}, in_directives


def _names(names: Iterable[str], words: set[str], strings: bytes) -> frozenset[str]:
    """Those of the names that are in the words, or (of a _Pragma) in the strings."""
    aside.go_on()
    text = " ".join(words)
    return frozenset(name for name in names if name in text or name.encode() in strings)


def _pieces(words: set[str]) -> frozenset[str]:
    return frozenset(words & pasted.PIECES)


def assembles(text: bytes) -> bool:
    """May inline assembly of a preprocessed text read a file?"""
    found = preprocessed.assembly(text)
    return found is None or scan(found).assembler_files


def _assembles(content: bytes, words: set[str], strings: bytes) -> bool:
    if "incbin" in words or b"incbin" in strings or (b".include" in strings and _ASSEMBLER_INCLUDE.search(strings)):
        return True
    return b"asm" in content and pasted.assembles_in_pieces(lexer.lex(content, lexer.ALL).lines)


def _comments_talk(lines: bytes, code: set[str], strings: bytes) -> bool:
    """A warning that is switched on in a directive, in the string of a _Pragma, or in what a macro makes one of."""
    texts = [text for text in (lines, strings) if b"diagnostic" in text]
    in_text = [line for text in texts for line in portions.lines(text) if _DIAGNOSTIC.search(line)]
    if "diagnostic" in code and not code.isdisjoint(("warning", "error", "fatal")):
        in_text.append(strings)
    return any(name in line.translate(None, b'\n\\" ') for line in in_text for name in _COMMENTS_TALK)


def _undefines(lines: bytes, words: set[str], strings: bytes) -> bool:
    if "NDEBUG" in words and any(line.startswith(b"#undef") and b"NDEBUG" in line for line in portions.lines(lines)):
        return True
    return b"NDEBUG" in strings and (not words.isdisjoint(("push_macro", "pop_macro")) or b"_macro" in strings)


def _unclear(flags: int, code: set[str], strings: bytes) -> str:
    if flags & shared.LEXED_AMBIGUOUS:
        return "is ambiguous (trigraphs, a comment in a header's name, an unterminated literal or comment)"
    asked = next((name for name in pasted.QUESTIONS if name in code), "")
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
    times = frozenset(name.strip("_") for name in pasted.TIMES if name.encode() in raw)
    asks = b"__has_include" in raw or b"__has_embed" in raw
    assembles = b"incbin" in raw or (b'"' in raw and _ASSEMBLER_INCLUDE.search(raw) is not None)
    places, words = pasted.places(raw), pasted.pieces(raw)
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
    )
