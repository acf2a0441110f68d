"""The text that the preprocessor makes of a source (cc1 -E), in which marks stand for macros: does a pass depend on the
values of these macros, or on the numbers of lines?

A mark in place of a macro's value begins and ends with a character that no token of C++ has. So it comes out wherever
the macro is expanded, also as a part of a string; and in a directive, or where tokens are pasted, it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from hipcache.base import native
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass, field

LINE = "__LINE__"
EVERYWHERE = "*"
_MARK = b"@hipcache"
#: The first line of a text in place of a file's: it shows that the preprocessor has read that one.
WITNESS = b"#pragma hipcache\n"
_PRAGMA_IS_USED = b"hipcache_pragma"
#: A text after which it is an error to use a _Pragma. (Its parenthesis may come by a macro, or from another file.)
NO_PRAGMA = b"#define _Pragma %b ## (\n" % _PRAGMA_IS_USED
# What gives or may give the number of a line without the preprocessor.
_PLACES = (b"__builtin_LINE", b"source_location", b"annotate", b"__builtin_dump_struct", b"unique_stable_name")
# What names types, and so gives the place of one without a name (a conversion is named after its type); and what each
# such type begins with, lambdas too.
_NAMES_OF_TYPES = (b"__PRETTY_FUNCTION__", b"FUNCSIG", b"__func__", b"__FUNCTION__", b"__builtin_FUNCTION")
_TYPE = pattern(rb"\[|<:|\b(?:struct|union|class|enum)\b")
# So many bytes at the end of each of these are looked for in one go.
_ENDING = 7
# The preprocessor leaves the words of pragmas as they are, and the parser expands those of some. It does not in these
# (clang/lib/Parse/ParsePragma.cpp, lib/Lex/Pragma.cpp), or they have no names. (Without an option for it, OpenMP's are
# ignored.)
_PRAGMA = pattern(rb"#[ \t]*pragma\b(.*)")
_PLAIN_PRAGMA = pattern(
    rb"omp\b.*|once|(?:GCC|clang) system_header|(?:push|pop)_macro ?\( ?\"\w+\" ?\)"
    rb"|(?:GCC|clang) diagnostic (?:push|pop|(?:ignored|warning|error|fatal) \"[^\"]*\")"
    rb"|GCC visibility (?:pop|push ?\( ?\w+ ?\))|STDC FP_CONTRACT \w+|clang force_cuda_host_device (?:begin|end)"
    rb"|pack ?\( ?(?:[0-9]+ ?)?\)|nounroll|(?:GCC )?unroll(?: ?\(? ?[0-9]+ ?\)?)?"
    rb"|(?:message|GCC (?:warning|error)) ?\(? ?\"[^\"]*\" ?\)?"
)
# It expands these words, but hardly anybody has such macros.
_PACK = pattern(rb"pack ?\( ?(?:push|pop) ?(?:, ?[0-9]+ ?)?\)")
_DEFINES_PACK = pattern(rb"(?m)^#define (?:push|pop)\b")
# Blanks of Unicode, which are tokens to the preprocessor where it prints, and blanks otherwise: a directive may stand
# behind one (clang/lib/Lex/Lexer.cpp, `CheckUnicodeWhitespace`; UnicodeCharSets.h).
_BLANKS = pattern(
    rb"\xc2[\x85\xa0]|\xe1(?:\x9a\x80|\xa0\x8e)|\xe2(?:\x80[\x80-\x8a\xa8\xa9\xaf]|\x81\x9f)|\xe3\x80\x80"
    rb"|\\[uU]\{?0*(?:85|[aA]0|1680|180[eE]|200[0-9aA]|202[89fF]|205[fF]|3000)|\\N\{"
)
_ESCAPES = (b"\\u", b"\\U", b"\\N{")
_ASM = pattern(rb"\b(?:asm|__asm__|__asm)\b")
_ASM_OPENS = pattern(rb"\s*(?:(?:__)?(?:volatile|goto|inline)(?:__)?\s*)*\((?=\s*\")")
_ASM_PART = pattern(rb"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[()]|[^\"'()]+|.")
_MARKER = pattern(rb'(?m)^# [0-9]+ "((?:[^"\\\n]|\\.)*)".*$')
_ENTERED = pattern(rb'(?m)^# 1 "((?:[^"\\\n]|\\.)*)" 1\b')
# As raw_ostream::write_escaped (llvm/lib/Support/raw_ostream.cpp) has them.
_ESCAPE = pattern(rb"\\([0-7]{3}|.)")
_ESCAPED = {b"t": b"\t", b"n": b"\n"}
_DEFINES = pattern(r"-D ?([A-Za-z_][A-Za-z0-9_]*)=")
# The libraries' own; a header of the user's is not below these.
_HEADER = pattern(rb"/usr/(?:[^/]+/)*include/c\+\+/[^/]+/(?:\w+/)*source_location\Z")
#: A token of a value for which a mark can stand, or blanks. Where macros count their arguments or look for parentheses,
#: a comma or a parenthesis matters unseen; and clang has something to say about the mere definition if there is a lone
#: quote or a comment, a trigraph, `<=>` (one token since C++20), or a carriage return, which ends an option's value.
SIMPLE = r"[ \t]|[0-9][\w.]*(?![\w.])|\"(?:(?!\?\?)(?:[^\"\\\n\r]|\\(?!\?\?)[^\n\r]))*\"(?!\w)|(?!<=>)[-+*.<>=&|^~]"
# (as it has about `__VA_OPT__`, and with -Wc++98-compat about `u"text"`)
_SIMPLE_OR_NAMES = pattern(rf"(?:{SIMPLE}|(?!__VA_|(?:u8?|U)\")[A-Za-z_]\w*(?!\w))+", re.ASCII)
# Names that the compiler gives a meaning, or that stand in its own macros (`__INT32_TYPE__` is `int`,
# `__INTMAX_C_SUFFIX__` is `L`) or in pragmas.
_OF_COMPILER = pattern(r"__|_[A-Z]|[a-z_]+$|[ULF]+$|(?:ON|OFF|STDC|GCC|DEFAULT|FP_CONTRACT)$")
# A raw string, a comment, or a line that goes on. (Clang ends the value of -D with a backslash itself, but not -U's.)
_OPEN = pattern(r"R\"|/\*|\?\?/|\\\s*\Z")
# Clang writes the text of -D and -U into a directive: `-U " A"` takes A back, too.
_OF_ONE_NAME = pattern(r"([A-Za-z_]\w*)(?:\([\w ,.]*\))?(?:=.*)?", re.ASCII | re.DOTALL)
_NAME_OR_OTHER = pattern(r"\"(?:[^\"\\]|\\.)*\"|[0-9][\w.]*|([A-Za-z_]\w*)")


@dataclass(frozen=True)
class Query:
    """What the preprocessor is asked about a pass. `marked`: macros whose values are marks; `replaced`: other texts for
    some headers; `unused`: names that no text may use or define; `left_out`: macros of options that are not defined,
    and are such names, too. Without `text` an empty one is printed, but nobody sees what macros stand in pragmas
    (`Scan.expands_pragmas`)."""

    marked: Collection[str] = ()
    replaced: Mapping[str, bytes] = field(default_factory=dict)
    unused: Collection[str] = ()
    left_out: Collection[str] = ()
    text: bool = True

    @property
    def names(self) -> set[str]:
        """The macros that it is about, but for the numbers of lines."""
        return {*self.marked, *self.unused, *self.left_out} - {LINE}


def mark(name: str) -> str:
    """The value that stands for the macro's."""
    return f"{_MARK.decode()}{name}@"


def is_of_compiler(name: str) -> bool:
    """Does a macro of that name change more than the expansions of it in the user's text?"""
    return bool(_OF_COMPILER.match(name))


def has_none(text: bytes, names: Collection[str]) -> bool:
    """Does what the compiler makes of the text depend on none of these names?"""
    words = [name.encode() for name in names]
    return is_plain(text) and not any(word in text and re.search(rb"\b%b\b" % word, text) for word in words)


def is_expanded(text: bytes) -> bool:
    """May what the compiler makes of the text depend on the value of a macro that has a mark, but for `__LINE__`?"""
    return not is_plain(text) or text.count(_MARK) > text.count(mark(LINE).encode())


def numbered(text: bytes) -> frozenset[str] | None:
    """The files, by the names in the text, whose numbers of lines may get into what the compiler makes of it, or only
    EVERYWHERE; None if it `is_expanded`."""
    if is_expanded(text):
        return None
    everywhere = frozenset([EVERYWHERE])
    marks = _positions(text, mark(LINE).encode())
    named = _those_in(text, (*_PLACES, *_NAMES_OF_TYPES))
    places = [at for name in named if name in _PLACES for at in _positions(text, name)]
    types = not set(named).isdisjoint(_NAMES_OF_TYPES)
    if not (marks or places or types):
        return frozenset()
    if b'R"' in text:
        return everywhere  # which may have lines that look like markers
    if not all(_is_in_library(text, at) for at in places):
        return everywhere
    found = {_file_at(text, at) for at in marks}
    if types:
        found.update(_of_types(text))
    return frozenset(map(_decoded, found))


def names_types(text: bytes) -> bool:
    """May it show the place of a type without a name?"""
    return bool(_those_in(text, _NAMES_OF_TYPES))


def _those_in(text: bytes, names: Collection[bytes]) -> list[bytes]:
    endings = native.search_in(text, [name[-_ENDING:] for name in names])
    return [name for name in names if name[-_ENDING:] in endings and name in text]


def assembly(text: bytes) -> bytes | None:
    """All inline assembly, each on a line of its own; None if one is not plain."""
    text = _MARKER.sub(b"", text)
    found = []
    for keyword in _ASM.finditer(text):
        begin = _ASM_OPENS.match(text, keyword.end())
        if not begin:
            return None
        depth, parts = 1, list[bytes]()
        for part in _ASM_PART.finditer(text, begin.end()):
            depth += {b"(": 1, b")": -1}.get(part[0], 0)
            if not depth:
                break
            parts.append(part[0])
        if depth or b'R"' in b"".join(parts):
            return None
        found.append(b"asm(%b);" % b"".join(parts).replace(b"\n", b" "))
    return b"\n".join(found)


def is_plain(text: bytes) -> bool:
    """Is it certain that no pragma depends on a macro, and that no directive is seen by a compile alone? (For a text
    that `may_expand_pack`, another question has to be asked.)"""
    if (not text.isascii() or any(escape in text for escape in _ESCAPES)) and _BLANKS.search(text):
        return False
    return all(is_plain_pragma(words) or _PACK.fullmatch(words) for words in _pragmas(text))


def is_plain_pragma(words: bytes) -> bool:
    """Does the parser leave all words of the pragma as they are?"""
    return _PLAIN_PRAGMA.fullmatch(_spaced(words)) is not None


def may_expand_pack(text: bytes) -> bool:
    """Has it a `#pragma pack(push, 1)`, where `push` may be a macro?"""
    return b"pack" in text and any(map(_PACK.fullmatch, _pragmas(text)))


def defines_pack(text: bytes) -> bool:
    """Is it, in a text with all definitions (-dD)?"""
    return bool(_DEFINES_PACK.search(text))


def _pragmas(text: bytes) -> set[bytes]:
    return {_spaced(found[1]) for found in _PRAGMA.finditer(text)}


def _spaced(words: bytes) -> bytes:
    return b" ".join(words.split())


def without_witnesses(text: bytes, replaced: Callable[[str], object], files: Collection[object]) -> bytes | None:
    """The text without the first lines of the replaced `files`, one of which each name is `replaced` by; None if the
    preprocessor has read such a file by a name that is not replaced, or one of them not at all."""
    entered = [_decoded(found[1]) for found in _ENTERED.finditer(text)]
    known = {name: replaced(name) for name in set(entered)}
    if text.count(WITNESS) != sum(known[name] in files for name in entered) or not set(files) <= set(known.values()):
        return None
    return text.replace(WITNESS, b"")


def _decoded(name: bytes) -> str:
    def character(found: re.Match[bytes]) -> bytes:
        return bytes([int(found[1], 8)]) if len(found[1]) == 3 else _ESCAPED.get(found[1], found[1])

    return _ESCAPE.sub(character, name).decode(errors="surrogateescape")


def _positions(text: bytes, word: bytes) -> list[int]:
    return [found.start() for found in re.finditer(re.escape(word), text)] if word in text else []


def _file_at(text: bytes, at: int) -> bytes:
    """The name of the file that the text is of there."""
    found = _marker_before(text, at)
    return found[1] if found else b""


def _of_types(text: bytes) -> set[bytes]:
    """The files in whose text a type without a name may be."""
    found = set[bytes]()
    name, begin = b"", 0
    for marker in [*_MARKER.finditer(text), None]:
        if name not in found and _TYPE.search(text, begin, marker.start() if marker else len(text)):
            found.add(name)
        if marker:
            name, begin = marker[1], marker.end()
    return found


def _is_in_library(text: bytes, at: int) -> bool:
    """Is it <source_location>, and a header of the system (the flag 3), which no #line of the user's makes?"""
    found = _marker_before(text, at)
    return found is not None and bool(_HEADER.match(found[1])) and b"3" in found[0].rpartition(b'"')[2].split()


def _marker_before(text: bytes, at: int) -> re.Match[bytes] | None:
    while at > 0:
        at = text.rfind(b"\n# ", 0, at) + 1
        if found := _MARKER.match(text, at):
            return found
    return None


def name_of(option: str) -> str:
    """The name of the plain macro that an option gives a value (`-D NAME=value`); empty for any other option."""
    found = _DEFINES.match(option)
    return found[1] if found else ""


def macro_of(value: str) -> str:
    """The macro that the text of a -D or -U defines or takes back; empty if that may be another one than its first
    word, or if the text may take in the definitions behind it."""
    found = _OF_ONE_NAME.fullmatch(value)
    return found[1] if found and not _OPEN.search(value) else ""


def names_in(option: str) -> frozenset[str] | None:
    """The names in the value that an option gives a plain macro, which may be names of other macros; None if a mark
    cannot stand for the value."""
    value = option.partition("=")[2]
    if not value.strip() or _OPEN.search(value) or not _SIMPLE_OR_NAMES.fullmatch(value):
        return None
    return frozenset(filter(None, _NAME_OR_OTHER.findall(value)))


def shows_pragma(messages: bytes) -> bool:
    """Does the preprocessor say that a text uses a _Pragma (NO_PRAGMA)?"""
    return _PRAGMA_IS_USED in messages


def poison(names: Collection[str]) -> bytes:
    """A text after which it is an error to use these names, also to define them."""
    return b"".join(b"#pragma GCC poison %b\n" % name.encode() for name in sorted(names))
