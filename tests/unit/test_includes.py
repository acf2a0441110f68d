"""Which headers a text names or asks for, and which pieces of names it has."""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import pytest
from hip import COMPILERS, FULL, LLVM
from hipcache.inputs import includes, token_pasting
from hipcache.inputs.includes import scan, scan_macro
from hipcache.inputs.scans import Scan


def names(text: str) -> tuple[set[str], set[str]]:
    found = scan(text.encode())
    return set(found.quoted), set(found.angled)


# What a text says


@pytest.mark.parametrize(
    "text",
    [
        '#include "x.h"',
        '  #  include   "x.h"',
        '\t#include"x.h"',
        '%:include "x.h"',
        '# /* c */ include /* d */ "x.h" // e',
        '/* c */ #include "x.h"',
        '#include_next "x.h"',
        '#import "x.h"',
        '#embed "x.h"',
        'int a;\n#include "x.h"\nint b;',
        '#if __has_include("x.h")',
        '#elif defined(A) && __has_include("x.h")',
        '#if defined(__has_include) && __has_include("x.h")',
        '#if !__has_include ( "x.h" )',
        '#if __has_embed("x.h")',
        '#define HAVE __has_include("x.h")',
        '#if defined(A) && \\\n    __has_include("x.h")',
        '#if defined(A) && \\\r\n    __has_include("x.h")\r\n',
        '/* c */ # /* d */ if __has_include("x.h")',
        '#if 0 // \\\n#include "y"\n#include "x.h"',
    ],
)
def test_a_quoted_name_is_found(text: str) -> None:
    assert "x.h" in names(text)[0]


@pytest.mark.parametrize(
    "text",
    [
        "#include <a/x.h>",
        "#include<a/x.h>",
        "#if __has_include(<a/x.h>)",
        "#import <a/x.h>",
        "%: include <a/x.h>",
        "#include \\\n<a/x.h>",
    ],
)
def test_an_angled_name_is_found(text: str) -> None:
    assert names(text) == (set(), {"a/x.h"})


@pytest.mark.parametrize(
    "text", ['// #include "x.h"', 'int include; "x.h"', '#define A "x.h"', '#error "x.h"', "#included <x>"]
)
def test_what_includes_nothing_names_nothing(text: str) -> None:
    assert names(text) == (set(), set())


@pytest.mark.parametrize("text", ["#include MACRO", "#include MACRO(a)", "#include \\\nMACRO", "#include_next NAME"])
def test_an_include_of_a_macro_is_computed(text: str) -> None:
    assert scan(text.encode()).includes_computed


@pytest.mark.parametrize("text", ['#include "x"', "#include <x>", "#if A", "", "#pragma once"])
def test_an_include_of_a_name_is_not_computed(text: str) -> None:
    assert not scan(text.encode()).includes_computed


@pytest.mark.parametrize(
    "text",
    [
        "#if __has_include(NAME)",
        "#define HAS(x) __has_include(x)",
        "#define HAS __has_include",
        "#define HAS_NEXT __has_include_next",
        "#if __has_include(PREFIX <x>)",
        "#if A && \\\n__has_include(NAME)",
    ],
)
def test_a_question_for_a_macro_is_computed(text: str) -> None:
    assert scan(text.encode()).asks_computed


@pytest.mark.parametrize(
    "text",
    [
        "#ifdef __has_include",
        "#if defined(__has_include)",
        "#if defined __has_include",
        "#define __has_include(x) 0",
        '#if __has_include("x")',
        "// __has_include(NAME)",
        "int my__has_include(int);",
        "#if 1 // __has_include(NAME)",
    ],
)
def test_what_asks_nothing_unknown_is_not_computed(text: str) -> None:
    assert not scan(text.encode()).asks_computed


@pytest.mark.parametrize(
    ("macro", "name"), [("__DATE__", "DATE"), ("__TIME__", "TIME"), ("__TIMESTAMP__", "TIMESTAMP")]
)
def test_time_macros_are_seen(macro: str, name: str) -> None:
    assert scan(f"char t[] = {macro};".encode()).time_macros == {name}
    assert scan_macro(f"T={macro}").time_macros == {name}


@pytest.mark.parametrize(
    "text",
    [
        *('asm(".incbin \\"f\\"");', 'asm(".include \\"f\\"");', '__asm__("\\t.include \\"f\\"");'),
        *(f'asm(".{letter}ncbin \\"f\\"");' for letter in ("I", "\\x{69}", "\\o{151}", "\\u0069", "\\u{69}")),
        *(f'asm(".{letter}ncbin \\"f\\"");' for letter in ("\\U00000069", "\\N{LATIN SMALL LETTER I}")),
    ],
)
def test_assembly_that_reads_a_file_is_seen(text: str) -> None:
    assert scan(text.encode()).assembler_files


def test_plain_text_says_nothing() -> None:
    assert scan(b"int main() {}\n") == Scan(frozenset(), frozenset(), False, False, frozenset(), False, False)


def test_names_that_are_no_text_are_kept() -> None:
    (name,) = scan(b'#include "\xff.h"').quoted
    assert os.fsencode(name) == b"\xff.h"


def test_a_macro_that_asks_for_a_header_is_computed() -> None:
    assert scan_macro("HAS=__has_include(<x>)").asks_computed
    assert not scan_macro("HAS=1").asks_computed


def test_a_macro_is_scanned_once_for_all_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    lexed: list[bytes] = []
    lex = includes.lexer.lex
    monkeypatch.setattr(includes.lexer, "lex", lambda content: lexed.append(content) or lex(content))
    assert scan_macro("ONCE=__TIME__") == scan_macro("ONCE=__TIME__")
    assert lexed == [b"ONCE=__TIME__"]


# Names in pieces


@pytest.mark.parametrize("library", ["rocprim", "hip"])
def test_the_words_of_real_headers_make_no_name_that_would_be_refused(library: str) -> None:
    words: set[str] = set()
    for header in Path("/usr/include", library).rglob("*.h*"):
        found = scan(header.read_bytes())
        assert not found.assembler_files, header
        assert found.places <= found.macro_places, header
        words |= found.pieces
    assert words, "no headers: the test shows nothing"
    assert not token_pasting.composed(words, (*token_pasting.TIMES, *token_pasting.QUESTIONS, *token_pasting.PLACES))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({"__DA", "TE__"}, "__DATE__"),
        ({"__", "DATE"}, "__DATE__"),
        ({"__DATE_", "_"}, "__DATE__"),
        ({"__has_", "include"}, "__has_include"),
        ({"__has", "_", "include"}, "__has_include"),
        ({"_", "DATE"}, ""),
        ({"__DATE__"}, ""),
        ({"__", "D", "A", "T", "E"}, "__DATE__"),
        ({"__DA", "E__"}, ""),
        (set(), ""),
    ],
)
def test_words_that_make_a_name_are_told(words: set[str], name: str) -> None:
    assert token_pasting.composed(words, (*token_pasting.TIMES, *token_pasting.QUESTIONS)) == name


def test_single_letters_are_no_pieces() -> None:
    assert token_pasting.pieces(b"template <class T, class D> __ __DA _ TE__ __DATE__ TE") == {
        "__",
        "__DA",
        "_",
        "TE__",
        "TE",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/* has */ x // include\n", set()),
        ('f("std::__", \'_\', R"(has)", u8R"x(has)x");\n', set()),
        ("#include <a>\n  # include_next <b>\n", set()),
        ("int __has_ = _;\n", {"__has_", "_"}),
        ("#define X a \\\n#include\n", {"include"}),
        ("#define X a /*\n*/ #include\n", {"include"}),
        ("#define X(include) #include\n", {"include"}),
        ("%:include <a>\n", {"include"}),
        ("#define X has/*\n", {"has"}),
        ("don't has\n", {"has"}),
        ('#define S(x) "_" #x has\n', {"has"}),
        ('"__" has\n#include "_"\n__', {"has", "__"}),
        ("__has\\\n_ include\n", {"__has_", "include"}),
        ("??/\n#include <a>\n", {"include"}),
        ("#define X a \\\r\n#include\r\n#include <b>\r\n", {"include"}),
        ("// has ?? /* include\r\n#include <b>\r\n", set()),
        ("// \\\n has\n", {"has"}),
        ("/*\n*/ #include <a>\n", set()),
    ],
)
def test_only_words_that_a_macro_can_put_together_are_pieces_of_code(text: str, words: set[str]) -> None:
    assert scan(text.encode()).pieces == words


def test_the_pieces_of_code_are_pieces() -> None:
    headers = [*Path("/usr/include/rocprim").rglob("*.hpp"), *Path("/usr/include/hip").rglob("*.h")]
    found = [(token_pasting.pieces(header.read_bytes()), scan(header.read_bytes()).pieces) for header in headers]
    assert sum(code < words for words, code in found) > len(headers) / 2, "no comments: the test shows nothing"
    assert all(code <= words for words, code in found)


# What clang's lexer is given below, put together by chance.
LEXED = (
    *("has", "__", "include", " ", "\n", "//", "/*", "*/", '"', "'", "\\", "\\\n", "#", "#include ", "#define X "),
    *('R"(', ')"', "1'0", "_", "\r\n", "\\\r\n", "??"),
)
# One of -dump-raw-tokens: kind, text as it stands, whether the token begins a line, and which text it is of.
_RAW = re.compile(
    r"^(\w+) '(.*?)'\t(?: \[(StartOfLine)\])?.*?\tLoc=<[^>]*/text(\d+)\.cpp:",
    re.MULTILINE | re.DOTALL,
)


def words_of_clang(root: Path, texts: list[str]) -> list[set[str]]:
    """The identifiers that clang's lexer finds in each text, but for the names of #include directives."""
    files = [root / f"text{number}.cpp" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_bytes(text.encode())
    command = [LLVM[COMPILERS[0]] / "bin/clang", "-cc1", "-w", "-std=c++17", "-dump-raw-tokens", "-x", "c++", *files]
    said = subprocess.run(command, capture_output=True, check=False).stderr.decode()
    found: list[set[str]] = [set() for _ in texts]
    starting = directive = False
    for kind, text, starts, number in _RAW.findall(said):
        word = re.sub(r"\\\r?\n", "", text)
        blank = kind == "comment" or (kind == "unknown" and not word.strip())
        if kind == "raw_identifier" and not (directive and word in ("include", "include_next")):
            found[int(number)].add(word)
        starting = starting or bool(starts)
        directive = (starting and kind == "hash") or (directive and blank)
        starting = starting and blank
    return found


def test_each_word_that_clang_takes_for_code_is_a_piece_of_code(tmp_path: Path) -> None:
    chosen = random.Random(3)
    count = 30_000 if FULL else 3000
    texts = sorted({"".join([*chosen.choices(LEXED, k=chosen.randint(2, 9)), "\nhas\n"]) for _ in range(count)})
    fewer = 0
    for start in range(0, len(texts), 1000):
        some = texts[start : start + 1000]
        for text, words in zip(some, words_of_clang(tmp_path, some), strict=True):
            found = scan(text.encode()).pieces
            assert words & {"has", "__", "_", "include"} <= found, repr(text)
            fewer += found < token_pasting.pieces(text.encode())
    assert fewer > count / 20, "nothing was left out: the test shows nothing"
