"""Parts of a C++ text, for rules that go by the text alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hipcache.inputs import lexed
from hipcache.patterns import pattern

if TYPE_CHECKING:
    from re import Pattern

#: With what they hold, three deep.
PARENTHESES = rb"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
#: Of a bare text: a macro's name, whether it has parameters, and these with its body.
MACRO = pattern(rb"^[ \t]*(?:#|%:|\?\?=)[ \t]*define[ \t]+(\w+)(\(?)((?:[^\\\n]|\\[^\n]|\\\n)*)", re.MULTILINE)
_DIRECTIVE = pattern(rb"^[ \t]*(?:#|%:|\?\?=)[^\n]*(?:\\\n[^\n]*)*", re.MULTILINE)
_SPLICE = pattern(rb"\\[ \t]*\r?\n")
_LITERAL = pattern(rb"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'")


def joined(text: bytes) -> bytes:
    """With each line that a backslash continues in one."""
    return _SPLICE.sub(b"", text)


def without_comments(text: bytes) -> bytes:
    return lexed.lex(text, lexed.BARE).bare


def without_literals(text: bytes) -> bytes:
    """Without what is in literals."""
    return _LITERAL.sub(b'""', text)


def bare(text: bytes) -> bytes:
    """Without comments, and without what is in literals."""
    return without_literals(without_comments(text))


def without_directives(bare: bytes) -> bytes:
    return _DIRECTIVE.sub(b"", bare)


def flat(text: bytes, group: Pattern[bytes]) -> bytes:
    """Without the groups, the innermost first."""
    before = b""
    while text != before:
        text, before = group.sub(b"", text), text
    return text
