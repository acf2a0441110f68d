"""Outlines: which texts differ in nothing but lines without text, and values of plain macros."""

from __future__ import annotations

import pytest
from hipcache.inputs.outline import Outline, read

TEXT = "#pragma once\n#define A 1\nint f() {\n  return A;\n}\n"


def of(text: str) -> Outline:
    found = read(text.encode())
    assert found
    return found


@pytest.mark.parametrize(
    "other",
    [
        "\n\n" + TEXT,
        "// one\n/* two\n * three\n */\n" + TEXT,
        TEXT.replace("{\n", "{\n\n  // here\n\t\n"),
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("1\n", "1 // one\n"),
        TEXT + "\n\n",
        TEXT.replace("\n", "\n" * 1000),
    ],
)
def test_lines_without_text_do_not_count(other: str) -> None:
    assert of(other)[1:] == of(TEXT)[1:]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a;\nint b;\n", "int a; int b;\n"),
        ("#define A \\\n\nint b;\n", "#define A \\\nint b;\n"),
        ("#define A \\\r\n\r\nint b;\r\n", "#define A \\\r\nint b;\r\n"),
        ('char a[] = R"(a\n\nb)";\n', 'char a[] = R"(a\nb)";\n'),
        ("  int a;\n", "   int a;\n"),
        ("#define A 1\n#define B\n", "#define A\n#define B 1\n"),
        ("#define A(x) 1\n", "#define A(x) 2\n"),
        ("#define A 1\\\n2\n", "#define A 1\\\n3\n"),
        ('char a[] = "\\\n#define A 1";\n', 'char a[] = "\\\n#define A 2";\n'),
        ('char a[] = R"(\n#define A 1\n)";\n', 'char a[] = R"(\n#define A 2\n)";\n'),
        ("/*\n*/ #define A(x) 1\n", "/*\n*/ int A(x) 1\n"),
    ],
)
def test_all_else_counts(one: str, other: str) -> None:
    assert of(one).code != of(other).code


@pytest.mark.parametrize("line", ["#define A 1", "# define A 1", "#define\tA\t1", "/*\n*/ #define A 1 // one"])
def test_the_value_of_a_plain_macro_stands_apart(line: str) -> None:
    assert of(f"{line}\nint a;\n").code == of(f"{line}\nint a;\n".replace("1", "22")).code
    assert of(f"{line}\n").values == (b"1",)


def test_of_many_macros_no_value_stands_apart() -> None:
    text = "".join(f"#define A{number} 1\n" for number in range(101))
    assert of(text).values == ()
    assert len(of("\n".join(text.splitlines()[1:]) + "\n").values) == 100
