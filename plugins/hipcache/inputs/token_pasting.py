"""Names that a text spells out only in pieces: a line that goes on within a word, `__DA##TE__`, `".inc" "bin"`.

What a pass reads is found by looking for names in its files (`includes`). A macro can put such a name together from
words that stand anywhere, in several files and on the command line. Which words meet, only the preprocessor knows; but
all of them must be there. So if the words of a pass can be put together to such a name, its result is
not kept. In the headers of rocPRIM 5.7 and HIP 5.2 they cannot (2.1 MB, measured). Words of comments and strings do
not count: in googletest 1.11, the "__" of a string, the "has" of a comment, "_" and `#include` would make
`__has_include`.

The headers of the compiler, of standard libraries and of HIP (`search.is_known`) are left out: they put names together
all the time, but none of these. Known weaknesses: a name put together letter by letter (single letters are names of
template parameters everywhere); an assembler's macro (`.macro`) that puts a directive together; a name of MORE_PLACES
in pieces.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from hipcache.base import interruptible
from hipcache.base.patterns import pattern

# Macros and directives that make a pass read something, or depend on something that is not in its files.
TIMES = ("__DATE__", "__TIME__", "__TIMESTAMP__")
QUESTIONS = ("__has_include", "__has_include_next", "__has_embed")
PLACES = ("__FILE__", "__BASE_FILE__", "__PRETTY_FUNCTION__")
# Functions that nobody puts together; "source" and "location" are words of many texts.
MORE_PLACES = ("__builtin_FILE", "source_location")
# Of a pragma that switches warnings, and what follows it where none is switched on.
SWITCH, SWITCHED_OFF = "diagnostic", ("push", "pop", "ignored")
# The assembler's.
_READS = frozenset([b"incbin", b"include"])

_NAMES = (*TIMES, *QUESTIONS, *PLACES, SWITCH)


def _parts(names: Iterable[str], *, single: bool = False) -> frozenset[str]:
    """`single`: also single letters."""
    return frozenset(
        name[start:end]
        for name in names
        for start in range(len(name))
        for end in range(start + 1, len(name) + 1)
        if end - start > 1 or name[start] == "_" or single
    )


# A whole name is no piece of a longer one: where it stands alone it is looked for anyway.
PIECES = _parts(_NAMES) - set(_NAMES)
_RAW_PIECES = frozenset(map(str.encode, PIECES))
_WORDS_ONLY = re.sub(rb"\W", b" ", bytes(range(256)))
_SPLICE = pattern(rb"(?:\\|\?\?/)[ \t\v\f\r]*\n")
_ESCAPED = pattern(
    rb"\\(?:(?:x|u(?=\{))\{?([0-9a-fA-F]+)\}?|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|o\{([0-7]+)\}|([0-7]{1,3}))"
)
# A character by its Unicode name, which nobody writes for a letter of a directive but to hide it.
_NAMED = b"\\N{"
_HEAD = pattern(rb"\.((?:i|in|inc|incb|incbi|incl|inclu|includ)?)(?=[\"),])")
_TAIL = pattern(rb"[\"(,][ \t]*(ncbin|cbin|bin|in|n|include|nclude|clude|lude|ude|de|e)(?!\w)")
_LONGEST_DIRECTIVE = len('.include"')
_BETWEEN_STRINGS = pattern(rb"\"\s*\"")


def places(content: bytes) -> frozenset[str]:
    """The names in a text that stand for the path of a file, or may hold it."""
    return frozenset(name for name in (*PLACES, *MORE_PLACES) if name.encode() in content)


def pieces(content: bytes) -> frozenset[str]:
    """The words of a text that may be part of a name."""
    return frozenset(word.decode() for word in _RAW_PIECES.intersection(content.translate(_WORDS_ONLY).split()))


def named(contents: Iterable[bytes], names: Collection[str]) -> str:
    """The first of the names that the texts may have as a word, whole or in pieces; empty if there is none. Words of
    comments and strings count."""
    parts = frozenset(map(str.encode, {*names, *_parts(names, single=True)}))
    words: set[str] = set()
    for content in contents:
        for text in {content, _SPLICE.sub(b"", content)}:
            words.update(word.decode() for word in parts.intersection(text.translate(_WORDS_ONLY).split()))
    return next((name for name in names if name in words or _is_composed(name, words)), "")


def composed(words: Collection[str], names: Collection[str]) -> str:
    """The first name that two or more of the words make; empty if there is none."""
    return next((name for name in names if _is_composed(name, words)), "")


def _is_composed(name: str, words: Collection[str]) -> bool:
    # (where a piece ends, was it a single underscore?): two of these in a row are letters, too.
    ends = {(0, False)}
    for start in range(len(name)):
        for single in {single for end, single in ends if end == start}:
            for end in range(start + 1, len(name) + 1):
                piece = name[start:end]
                if piece in words and piece != name and not (single and piece == "_"):
                    ends.add((end, piece == "_"))
    return any(end == len(name) for end, _ in ends)


def assembles_in_pieces(text: bytes, portion: int = interruptible.PORTION) -> bool:
    """May a string of inline assembly read a file, though none spells `.incbin` or `.include`? `text`: all lines but
    those of #include, without comments."""
    heads: set[bytes] = set()
    tails: set[bytes] = set()
    before = b""
    for part in interruptible.portions(text, b"\n", portion):
        if _NAMED in part:
            return True
        plain = _ESCAPED.sub(_character, part).lower()
        whole = _BETWEEN_STRINGS.sub(b"", before + plain)
        if b".incbin" in whole or b".include" in whole:
            return True
        heads.update(_HEAD.findall(plain))
        tails.update(_TAIL.findall(plain))
        # The first string of the next portion goes on where the last one of this ends.
        end = whole.rstrip()
        before = end[-_LONGEST_DIRECTIVE:] if end.endswith(b'"') else b""
    return any(head + tail in _READS for head in heads for tail in tails)


def _character(found: re.Match[bytes]) -> bytes:
    *hexadecimal, delimited, octal = found.groups()
    digits = next(filter(None, hexadecimal), b"")
    code = int(digits, 16) if digits else int(delimited or octal, 8)
    return bytes([code]) if code < 256 else found.group(0)
