"""What the text of a file says about what a pass reads besides it: its `#include`, `__has_include` and `#embed`, and
what depends on more than files (`__DATE__`, assembly that reads a file).

The scan reads more names than the pass used (those in `#if` branches that were not taken): a file that appears there
costs a needless run of the front end, never a stale object.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from hipcache.inputs import comments, pasted, shown
from hipcache.values import dataclass

_DIRECTIVE = re.compile(
    rb"^[ \t]*(?:/\*[^\n]*?\*/[ \t]*)?(?:#|%:)[ \t]*(?:/\*[^\n]*?\*/[ \t]*)?(?:include|include_next|import|embed)\b"
    rb"[ \t]*(?:/\*[^\n]*?\*/[ \t]*)?(?:\"([^\"\n]+)\"|<([^>\n]+)>|([^\n]*))",
    re.MULTILINE,
)
# A directive that may ask a question, or give one a name; a backslash at the end of its line continues it.
_QUESTION = re.compile(
    rb"^[ \t]*(?:/\*[^\n]*?\*/[ \t]*)?(?:#|%:)[ \t]*(?:/\*[^\n]*?\*/[ \t]*)?(if|elif|define)\b((?:\\\r?\n|[^\n])*)",
    re.MULTILINE,
)
_DEFINE = re.compile(rb"(^[ \t]*(?:#|%:)[ \t]*define\b(?:\\\r?\n|[^\n])*)", re.MULTILINE)
_READING = (b"include", b"import", b"embed")
_CONTINUED = re.compile(rb"\\\r?\n")
_COMMENT = re.compile(rb"/\*.*?(?:\*/|$)|//.*")
_ASKED = re.compile(rb"(?<!\w)__has_(?:include(_next)?|embed)(?!\w)(?:[ \t]*\([ \t]*(?:\"([^\"\n]+)\"|<([^>\n]+)>))?")
# `defined(__has_include)` and `#define __has_include(x) 0` ask nothing.
_NAMED = re.compile(rb"(?<!\w)defined[ \t]*\(?[ \t]*$")
_EMBED = re.compile(rb"(?:#|%:)[ \t]*embed\b")
# Warnings about comments, switched on in the text (clang's documentation of `#pragma clang diagnostic`).
_COMMENTS_TALK = re.compile(
    rb"diagnostic[ \t]+(?:warning|error|fatal)[ \t]+\\?\"-W(?:documentation|everything|pedantic|newline-eof|comment)"
)
_TIME = re.compile(rb"__(DATE|TIME|TIMESTAMP)__")
_ASSEMBLER_FILES = re.compile(rb"incbin|\"[^\"\n]*\.include\b")


@dataclass(frozen=True)
class Scan:
    """What the text of one file says. `quoted`/`angled`: names of headers; `asks_computed`: it has a
    `__has_include` whose name only the preprocessor knows; `time_macros`: of DATE, TIME, TIMESTAMP;
    `assembler_files`: inline assembly that reads a file (`.incbin`); `embeds`: it has an #embed; `next`: names
    that `__has_include_next` asks for; `comments_talk`: it switches a warning about comments on; `pieces`: words that
    may be put together to names (`pasted`); `places`/`macro_places`: names that stand for the path of a file, all of
    them and those in macros. These three are not looked for in the compiler's own headers. `shown`: see there."""

    quoted: frozenset[str]
    angled: frozenset[str]
    includes_computed: bool
    asks_computed: bool
    time_macros: frozenset[str]
    assembler_files: bool
    embeds: bool
    next: frozenset[str] = frozenset()
    comments_talk: bool = False
    pieces: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()
    macro_places: frozenset[str] = frozenset()
    shown: frozenset[str] = frozenset()


def scan(content: bytes, *, own: bool = False) -> Scan:
    """`own`: it is a header of the compiler's own, or of libc."""
    whole = pasted.joined(content)
    quoted: set[str] = set()
    angled: set[str] = set()
    following: set[str] = set()
    includes_computed = asks_computed = False
    for quote, angle, other in _directives(_DIRECTIVE, _READING, content):
        if quote:
            quoted.add(os.fsdecode(quote))
        elif angle:
            angled.add(os.fsdecode(angle))
        else:
            includes_computed = includes_computed or bool(other.strip())
    if b"__has_" in whole:
        for next_one, quote, angle in _questions(whole):
            if next_one and (quote or angle):
                following.add(os.fsdecode(quote or angle))
            elif quote:
                quoted.add(os.fsdecode(quote))
            elif angle:
                angled.add(os.fsdecode(angle))
            else:
                # `#define X(name) __has_include(name)` and the like: the name is not in this text.
                asks_computed = True
    asks_time = b"__DATE__" in whole or b"__TIME" in whole
    times = frozenset(os.fsdecode(name) for name in _TIME.findall(whole)) if asks_time else frozenset()
    assembles = b"incbin" in whole or b".include" in whole
    places = frozenset() if own else pasted.places(whole)
    return Scan(
        frozenset(quoted),
        frozenset(angled),
        includes_computed and _includes_computed(content),
        asks_computed,
        times,
        (assembles and _ASSEMBLER_FILES.search(whole) is not None) or pasted.assembles_in_pieces(whole),
        b"embed" in content and _EMBED.search(content) is not None,
        frozenset(following),
        b"diagnostic" in content and _COMMENTS_TALK.search(content) is not None,
        frozenset() if own else pasted.pieces(whole),
        places,
        pasted.places(b"\n".join(text for (text,) in _directives(_DEFINE, (b"define",), whole)))
        if places
        else frozenset(),
        shown.names(whole),
    )


def _includes_computed(content: bytes) -> bool:
    """Has the text a directive whose name is a macro, besides those that stand in its comments?"""
    bare = comments.without_comments(content)
    found = _directives(_DIRECTIVE, _READING, content if bare is None else bare)
    return any(not quoted and not angled and other.strip() for quoted, angled, other in found)


def _directives(directive: re.Pattern[bytes], words: Iterable[bytes], content: bytes) -> Iterator[tuple[bytes, ...]]:
    """The groups of each match, which begins at the start of a line and has one of the words in that line. To look for
    the words first is four times as fast as to try each line."""
    for start in {content.rfind(b"\n", 0, at) + 1 for word in words for at in _occurrences(word, content)}:
        found = directive.match(content, start)
        if found:
            yield found.groups()


def _occurrences(word: bytes, content: bytes) -> Iterator[int]:
    at = content.find(word)
    while at >= 0:
        yield at
        at = content.find(word, at + len(word))


def _questions(content: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """("_next" or nothing, quoted name, angled name) of each `__has_include` and the like; both names are empty where
    it is computed."""
    end = 0
    for at in _occurrences(b"__has_", content):
        found = next(filter(None, (_QUESTION.match(content, start) for start in _line_starts(content, at))), None)
        if found is None or at < end:
            continue
        kind, line = found.groups()
        end = found.end()
        text = _COMMENT.sub(b" ", _CONTINUED.sub(b"", line))
        for asked in _ASKED.finditer(text):
            before = text[: asked.start()]
            if _NAMED.search(before) or (kind == b"define" and not before.strip()):
                continue
            yield asked.group(1) or b"", asked.group(2) or b"", asked.group(3) or b""


def _line_starts(content: bytes, at: int) -> list[int]:
    """Where the lines begin that a backslash joins to one, from the first to that of `at`."""
    starts = [content.rfind(b"\n", 0, at) + 1]
    while content.endswith((b"\\\n", b"\\\r\n"), 0, starts[0]):
        starts.insert(0, content.rfind(b"\n", 0, starts[0] - 1) + 1)
    return starts


def pieces_of_code(content: bytes) -> frozenset[str]:
    """The pieces of `scan`, but for words that no macro can put together."""
    whole = pasted.joined(content)
    code = comments.code(whole)
    return pasted.pieces(whole if code is None else code)


def scan_macro(value: str) -> Scan:
    """What a macro given on the command line may do where it is used."""
    raw = os.fsencode(value)
    times = frozenset(os.fsdecode(name) for name in _TIME.findall(raw))
    asks = b"__has_include" in raw or b"__has_embed" in raw
    assembles = _ASSEMBLER_FILES.search(raw) is not None
    places, words = pasted.places(raw), pasted.pieces(raw)
    more = shown.names(pasted.joined(raw))
    return Scan(frozenset(), frozenset(), False, asks, times, assembles, False, pieces=words, places=places, shown=more)
