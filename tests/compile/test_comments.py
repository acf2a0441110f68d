"""Texts that differ in comments alone come out the same; wherever that is not plain, they are taken as they stand."""

from __future__ import annotations

import itertools
import re
import subprocess

import pytest
from hip import COMPILERS, LLVM
from hipcache.inputs import outline


def without_comments(content: bytes) -> bytes | None:
    found = outline.read(content)
    return found and found.bare


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int x; // a", "int x; // another"),
        ("int x; // a", "int x;"),
        ("int x; /* a */ int y;", "int x; /* b */ int y;"),
        ("int x; /* a\nb */\nint y;", "int x; /* c\nddd */\nint y;"),
        ("int x;", "int x;   "),
        ("int x;\n", "int x;\n\n\n"),
        ("#define A 1 // a\n", "#define A 1 // b\n"),
    ],
)
def test_an_edit_of_comments_alone_gives_the_same(one: str, other: str) -> None:
    assert without_comments(one.encode()) is not None
    assert without_comments(one.encode()) == without_comments(other.encode())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('char t[] = "// a";', 'char t[] = "// b";'),
        ('char t[] = "/* a */";', 'char t[] = "/* b */";'),
        ('char t[] = R"(/* a */)";', 'char t[] = R"(/* b */)";'),
        ('char t[] = R"x(a)" // )x";', 'char t[] = R"x(a)" // )";'),
        ("int x = '\"'; // \"", "int x = '\"'; int y; // \""),
        ("int x; /* a */ int y;", "int x; /* aaaa */ int y;"),
        ("int x;\n// a\nint y;", "int x;\nint y;"),
        ("a/**/b", "ab"),
        ("#define A 1 /* a\n */ + 2", "#define A 1     \n    + 2"),
    ],
)
def test_an_edit_of_more_than_comments_does_not(one: str, other: str) -> None:
    first, second = without_comments(one.encode()), without_comments(other.encode())
    assert first is None or second is None or first != second


@pytest.mark.parametrize(
    "text",
    [
        "int x; /* open",
        "int x; // a \\\nint y;",
        "int x; /\\\n/ a",
        "// why??/\nint x;",
        "#if 0\ndon't\n#endif\n",
        "#include <a//b.h>",
        "/* /* */",
        "int x;\r",
        'R"(a // b',
    ],
)
def test_where_it_is_not_plain_what_a_comment_is_the_text_is_taken_as_it_stands(text: str) -> None:
    assert without_comments(text.encode()) is None


def test_a_comment_need_not_be_utf8() -> None:
    assert without_comments(b"int x; // \xff") == without_comments(b"int x; // \xe9 and more") == b"int x;"


PIECES = ("a", " ", "\n", "//", "/*", "*/", '"', "'", "\\", "#define X ", 'R"(', ')"', "1'0")


def preprocessed(texts: list[str]) -> list[str]:
    """What clang makes of each text, with the line of each token; one process for all."""
    marked = "".join(f'\n#undef X\n#line 1 "text{number}"\n{text}\n' for number, text in enumerate(texts))
    done = subprocess.run(
        [LLVM[COMPILERS[0]] / "bin/clang++", "-x", "c++", "-E", "-w", "-"],
        input=marked,
        capture_output=True,
        text=True,
        check=False,
    )
    words = " ".join(done.stdout.split())
    return re.split(r'# 1 "text\d+"', words)[1:]


def test_texts_that_come_out_the_same_are_the_same_to_clang() -> None:
    """All texts of four pieces, those with one result compared with each other."""
    groups: dict[bytes, list[str]] = {}
    for pieces in itertools.product(PIECES, repeat=4):
        text = "".join(pieces) + "\nX b"
        bare = without_comments(text.encode())
        if bare is not None:
            groups.setdefault(bare, []).append(text)
    compared = [(group[0], other) for group in groups.values() for other in group[1:]]
    assert len(compared) > 100
    for start in range(0, len(compared), 200):
        pairs = compared[start : start + 200]
        first, second = (preprocessed([pair[side] for pair in pairs]) for side in (0, 1))
        for pair, one, other in zip(pairs, first, second, strict=True):
            assert one == other, pair


def test_long_texts_are_searched_in_portions_as_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """All texts of five pieces, with portions of all sizes."""
    texts = [b"".join(pieces) for pieces in itertools.product((b"#", b"%:", b"l", b"ine", b" 1", b"\n"), repeat=5)]
    for size in (1, 2, 3, 7):
        monkeypatch.setattr(outline, "_PORTION", size)
        for text in texts:
            assert outline.renumbers(text) == bool(outline._RENUMBERS.search(text)), text
