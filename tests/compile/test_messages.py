"""Messages after an edit of comments: where the lines that they quote are as they were, clang says the same again."""

from __future__ import annotations

import hashlib
import random
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hip import COMPILERS, FULL
from hipcache.inputs import outline
from hipcache.inputs.messages import lines_of, places, renumbered
from hipcache.inputs.readset import MessageLine, ReadFile

HEADER = """\
#pragma once
// the header's comment
#define TWICE(x) ((x) + (x) /* once more */ == 0) // a macro
#define LONG(x) \\
    first(x); /* behind it */ \\
    second(x)
template <class T> int narrow(T value) {
  /* before */ char c = value * 1000; // narrowed
  return c; // never mind
}
inline int in_header() { int left; /* over */ return 1; } // here
[[nodiscard]] int must(int a, int b); // must
#define DROP(x) /* dropped */ must(x, 1) // dropped
"""
SOURCE = """\
/* a comment of
   two lines */ #define NO 1
// alone
#include "./h.hpp" // the header
[[deprecated("old")]] int old(); /* old */ int newer(); // newer

int unused() {
  int i = 1; /* one */ // two
  int j = 2; // in the middle
  must(1, /* first */ 2); // said
  must(1,
       // between
       2 /* last */
  ); // end
  TWICE(i); // twice
  // about the template
  narrow(300L); // called
  if (i = 3) // assigned
    ;
  DROP(i); // expanded
\told(); // behind a tab
  return 1; // enough
}
#warning of the source /* quoted */ // as it is
#warning goes \\
  on // here
#pragma unknown /* pragma */ // and so on
static int never() { return 1; } // never used
struct Base { virtual void f(); }; // a base
struct Derived : Base { /* no */ void f(); }; // override
int shadow(int a) { { int a = 1; /* inner */ return a; } } // outer
int fall(int a) {
  switch (a) { // by a
  case 1: a = 2; /* fall through */
  case 2: return 3; // two
  }
  return 0; // end
} // fall
// text in UTF-8: \xc3\xa4
int last = "\xc3\xa4" /* \xc3\xa4 */ == 0; // last
// the end
"""
FLAGS = (
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wconversion",
    "-Winconsistent-missing-override",
    "-Wsuggest-override",
    "-std=c++17",
)
LOOKS = {
    "plain": (),
    "in colours": ("-fcolor-diagnostics", "-fansi-escape-codes"),
    "on a terminal": ("-fcolor-diagnostics", "-fmessage-length=48"),
    "narrow": ("-fmessage-length=30",),
}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def edits(text: str) -> Iterator[str]:
    """Each comment edited in some ways, and new ones in each line, and between lines."""
    for found in COMMENT.finditer(text):
        start, end = found.span()
        old = found.group()
        inner = old[2:-2] if old.startswith("/*") else old[2:]
        for new in (inner.swapcase(), inner.replace(" ", "x"), inner + "more", inner[1:], inner + "\n", ""):
            if new != inner and ("\n" not in new or old.startswith("/*")):
                yield text[: start + 2] + new + text[start + 2 + len(inner) :]
        yield text[:start] + " " * (end - start) + text[end:]
        yield text[:start] + text[end:]
    lines = text.split("\n")
    for number in range(len(lines)):
        for new in (lines[number] + " // new", lines[number] + "  ", "/**/" + lines[number], lines[number] + "\r"):
            yield "\n".join([*lines[:number], new, *lines[number + 1 :]])
        yield "\n".join([*lines[:number], "// a line", *lines[number:]])
        yield "\n".join([*lines[:number], "", *lines[number:]])


class Compiler:
    """One clang in a directory with the two files."""

    def __init__(self, root: Path, version: str, *flags: str) -> None:
        self.root = root
        self.flags = (*FLAGS, *flags)
        self._command = [f"/usr/lib/llvm-{version}/bin/clang++", "-fsyntax-only", *self.flags, "k.cpp"]

    def messages(self, files: Mapping[str, str]) -> str:
        for name, text in files.items():
            path = self.root / name
            content = text.encode()
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
        done = subprocess.run(self._command, cwd=self.root, capture_output=True, check=False, timeout=60)
        return done.stderr.decode()


def read_files(files: Mapping[str, str]) -> list[ReadFile]:
    found = []
    for name, text in files.items():
        told = outline.read(text.encode())
        found.append(ReadFile(name, name, None, False, hashlib.sha256(told.bare).hexdigest() if told else ""))
    return found


def named(files: Mapping[str, str], text: str) -> tuple[MessageLine, ...] | None:
    return places(text, read_files(files), lambda file: files[file.path].encode())


def are_alike(old: Mapping[str, str], new: Mapping[str, str], told: tuple[MessageLine, ...] | None, text: str) -> bool:
    """Is it a hit?"""
    for before, now in zip(read_files(old), read_files(new), strict=True):
        if old[now.path] != new[now.path] and (told is None or not now.bare or now.bare != before.bare):
            return False
    changed = {name: new[name].encode() for name in old if old[name] != new[name]}
    return renumbered(text, told or (), changed) == text


FILES = {"k.cpp": SOURCE, "h.hpp": HEADER}


@pytest.mark.takes_turns("version")
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("version", COMPILERS)
def test_where_the_quoted_lines_are_as_they_were_clang_says_the_same(tmp_path: Path, version: str, look: str) -> None:
    compiler = Compiler(tmp_path, version, *LOOKS[look])
    before = compiler.messages(FILES)
    told = named(FILES, before)
    assert told is not None
    assert "instantiation" in before
    assert "macro" in before
    alike = {
        (name, text)
        for name, old in FILES.items()
        for text in edits(old)
        if are_alike(FILES, {**FILES, name: text}, told, before)
    }
    assert len(alike) > 60
    for name, text in sorted(alike) if FULL else random.Random(f"{version}{look}").sample(sorted(alike), 30):
        assert compiler.messages({**FILES, name: text}) == before, (name, text)


# The grammar of messages


SAID = "k.cpp:3:1: warning: unused [-Wunused]\n    3 | int x;\n      | ^\n1 warning generated.\n"


def test_lines_are_those_of_places_and_those_with_numbers() -> None:
    more = SAID.replace("    3 |", "    3 | a(\n    4 |").replace(
        "1 warning", "In file included from k.cpp:9:\n1 warning"
    )
    assert lines_of(more) == {("k.cpp", 3): True, ("k.cpp", 4): True, ("k.cpp", 9): False}


@pytest.mark.parametrize(
    "text",
    [
        "k.cpp(3): warning: of another format [-Wunused]\nint x;\n^\n",
        "k.cpp:3: warning: without a column [-Wunused]\nint x;\n^\n",
        "k.cpp:3:1:{3:1-3:4}: warning: with ranges [-Wunused]\nint x;\n^~~~\n",
        "warning: without a place [-Wunused]\nint x;\n^\n",
        "k.cpp:3:1: warning: of two lines\nthe second [-Wunused]\n",
        "k.cpp:3:1: warning: with many lines [-Wunused]\na(\nb,\n^\n  c)\n",
        SAID + "something else\n",
        SAID.rstrip("\n"),
        "      what?\n" + SAID,
        "k.cpp:3:1: warning: of a text\n      with breaks\nk.cpp:4:9: note: by the user\n    3 | int x;\n      | ^\n",
        "k.cpp:3:1: warning: of a text\n      with breaks\nk.cpp:4:9: note: by the user\nint x;\n^\n",
    ],
)
def test_what_is_not_understood_is_not_guessed(text: str) -> None:
    assert lines_of(text) is None


def test_a_note_that_quotes_no_line_again_is_understood() -> None:
    note = "k.cpp:3:7: note: initializer of 'n' is not a constant expression\n"
    told = "k.cpp:3:7: warning: variable length arrays [-Wvla]\n    3 | int x[n];\n      |       ^\n"
    declared = "k.cpp:2:5: note: declared here\n    2 | int n = f();\n      |     ^\n"
    assert lines_of(told + note + declared) == {("k.cpp", 3): True, ("k.cpp", 2): True}
    assert lines_of(told + note.replace("constant", "good") + declared) is None


@pytest.mark.parametrize(
    "text",
    [SAID.replace("k.cpp", "other.cpp"), SAID.replace("k.cpp", "<inline asm>"), SAID.replace("k.cpp", "<unknown>")],
)
def test_a_file_that_the_pass_has_not_read_leaves_each_byte_to_count(text: str) -> None:
    assert named({"k.cpp": "int x;\n" * 3}, text) is None


def test_a_path_that_looks_like_a_place_leaves_each_byte_to_count() -> None:
    assert named({"k.cpp": "int x;\n" * 3, "a:1:2: b.h": ""}, SAID) is None


@pytest.mark.parametrize(
    "directive", ["#line 3", '# 3 "k.cpp"', "#line 3 // c", "%: line 3", "#li\\\nne 3", "# /*\n*/ line 3", "#\\\n3"]
)
def test_a_text_that_numbers_its_lines_itself_is_taken_as_it_stands(directive: str) -> None:
    assert outline.read(f"int x;\n{directive}\nint y;\n".encode()) is None


@pytest.mark.parametrize("end", ["", "\n", "\n// a line", "\n\n"])
def test_a_place_at_the_end_of_a_file_is_another_one_where_something_follows(end: str) -> None:
    said = "k.cpp:1:7: note: here\n    1 | int x;\n      |       ^\nk.cpp:2:1: warning: there [-Wx]\n"
    told = named({"k.cpp": f"int x;{end}"}, said)
    others = {f"int x;{more}" for more in ("", "\n", "\n// a line", "\n\n")} - {f"int x;{end}"}
    assert told
    assert all(renumbered(said, told, {"k.cpp": other.encode()}) is None for other in others)
    assert renumbered(said, told, {"k.cpp": f"int x;{end}".encode()}) == said
