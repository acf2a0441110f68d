"""Messages after an edit that has moved lines."""

from __future__ import annotations

import pytest
from hipcache.inputs.messages import places, renumbered
from hipcache.inputs.readset import ReadFile

FILES = {"k.hip": b'#include "x.h"\n\nint f(); // one\n', "x.h": b"int g();\n"}
READS = [ReadFile(name, name, None, False, "bare", "code") for name in FILES] + [ReadFile("s.h", "s", None, True, "")]
TEXT = """\
k.hip:3:5: warning: said [-Wx]
    3 | int f(); // one
      |     ^
In file included from k.hip:1:
./x.h:1:5: note: it is here
    1 | int g();
      |     ^
s.h:7:1: note: in a header of the system
2 warnings generated.
"""


def moved(text: str, **contents: bytes) -> str | None:
    known = places(text, READS, lambda file: FILES.get(file.path, b""))
    files = {name.replace("_", "."): content for name, content in contents.items()}
    return None if known is None else renumbered(text, known, files, files)


def test_numbers_of_a_file_that_was_edited_move() -> None:
    found = moved(TEXT, k_hip=b'// a\n#include "x.h"\n// b\n\n// c\nint f(); // one\n')
    expected = TEXT.replace("k.hip:3", "k.hip:6").replace("    3 |", "    6 |").replace("k.hip:1", "k.hip:2")
    assert found == expected


def test_numbers_of_the_other_files_stay() -> None:
    expected = TEXT.replace("x.h:1", "x.h:2").replace("    1 |", "    2 |")
    assert moved(TEXT, x_h=b"\nint g();\n") == expected


def test_a_number_with_more_digits_keeps_its_column() -> None:
    found = moved(TEXT, k_hip=b"\n" * 997 + FILES["k.hip"])
    assert found
    assert "\n 1000 | int f(); // one\n" in found


@pytest.mark.parametrize("content", [b"\n" * 9000 + FILES["k.hip"], FILES["k.hip"].replace(b"one", b"two"), b""])
def test_a_text_that_is_another_one_or_far_away_is_not_known(content: bytes) -> None:
    assert moved(TEXT, k_hip=content) is None


@pytest.mark.parametrize(
    "text",
    [
        "k.hip:3:5: note: of '(lambda at k.hip:3:4)'\n",
        "\x1b[1mk.hip:3:5: \x1b[0mwarning: said\n",
        "other.h:3:5: note: no file of these\n",
        "k.hip:2:1: note: a line without text\n",
        "something else\n",
    ],
)
def test_what_is_not_understood_is_not_known(text: str) -> None:
    assert moved(text, k_hip=b"\n" + FILES["k.hip"]) is None
