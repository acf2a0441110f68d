"""Which files would change a pass if they appeared: read from the text, and held against what clang does."""

from __future__ import annotations

import itertools
import os
import random
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hip import FULL
from hipcache.inputs import pasted
from hipcache.inputs.includes import Scan, scan, scan_macro
from hipcache.inputs.search import Listings, Probes, probes
from hipcache.making import depfile
from hipcache.planning import cc1
from hipcache.planning.cc1 import Option, Role

CLANG = "clang++-15"


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
    "text", ['asm(".incbin \\"f\\"");', 'asm(".include \\"f\\"");', '__asm__("\\t.include \\"f\\"");']
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


# Where clang looks


def options(*words: str) -> tuple[Option, ...]:
    return cc1.parse((*words, "-x", "hip", "k.hip"))


def test_directories_stand_in_clangs_order() -> None:
    search = cc1.search_path(
        options("-idirafter", "d", "-isystem", "s", "-I", "i", "-iquote", "q", "-internal-isystem", "/n", "-Ij")
    )
    assert search.quote == ("q",)
    assert search.angled == ("i", "j", "s", "/n", "d")


def test_a_directory_of_the_user_that_is_a_system_directory_too_counts_only_there(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("a")
    search = cc1.search_path(options("-Ia", "-Ib", "-isystem", "link", "-I", "gone", "-Ib"))
    assert search.searched(Listings(lambda path: str(tmp_path / path))) == ("b", "gone", "link")


# Held against clang


@dataclass
class Tree:
    """A directory with headers, and a command that preprocesses `k.hip` there."""

    root: Path
    flags: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)

    def make(self) -> Tree:
        for name, text in self.files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("->"):
                path.symlink_to(text[2:])
            elif name.endswith("/"):
                path.mkdir(exist_ok=True)
            else:
                path.write_text(text)
        return self

    def preprocess(self) -> tuple[int, str, list[str]]:
        """What clang makes of it: status, text, files that it read."""
        first = [word for name in self.first for word in ("-include", name)]
        done = subprocess.run(
            [CLANG, "-x", "c++", "-nostdinc", *self.flags, *first, "-E", "-P", "-MD", "-MF", "rule", "k.hip"],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        rule = self.root / "rule"
        read = depfile.parse(rule.read_text()) if rule.exists() else []
        rule.unlink(missing_ok=True)
        return done.returncode, done.stdout, read

    def probes(self) -> Probes:
        status, text, read = self.preprocess()
        assert status == 0, text
        scans = {path: scan((self.root / path).read_bytes()) for path in depfile.union([["k.hip"], read])}
        search = cc1.search_path(options(*self.flags))
        return probes(scans, self.first, search, Listings(lambda path: str(self.root / path)))

    def holds(self, found: Probes) -> bool:
        """As a trace is checked."""
        return not any(os.path.lexists(self.root / path) for path in found.absent) and all(
            os.path.isdir(self.root / path) == path.endswith("/") and os.path.exists(self.root / path)
            for path in found.present
        )


KINDS = {
    "include in a later directory": ({"k.hip": "#include <x.h>", "b/x.h": "b"}, ("-Ia", "-Ib"), ()),
    "quoted include": ({"k.hip": '#include "x.h"', "b/x.h": "b"}, ("-iquote", "a", "-Ib"), ()),
    "quoted include of a header": (
        {"k.hip": '#include "a/y.h"', "a/y.h": '#include "x.h"', "b/x.h": "b"},
        ("-Ib",),
        (),
    ),
    "has_include": ({"k.hip": "#if __has_include(<x.h>)\nyes\n#else\nno\n#endif", "a/": ""}, ("-Ia", "-Ib"), ()),
    "has_include of a quoted name": ({"k.hip": '#if __has_include("x.h")\nyes\n#else\nno\n#endif'}, ("-Ia",), ()),
    "has_include after a line's end": ({"k.hip": "#if 1 && \\\n__has_include(<x.h>)\nyes\n#endif"}, ("-Ia", "-Ib"), ()),
    "include_next": (
        {"k.hip": "#include <x.h>", "a/x.h": "#include_next <x.h>", "c/x.h": "c"},
        ("-Ia", "-Ib", "-Ic"),
        (),
    ),
    "has_include_next": (
        {"k.hip": "#include <x.h>", "a/x.h": "#if __has_include_next(<x.h>)\nyes\n#endif"},
        ("-Ia", "-Ib"),
        (),
    ),
    "computed include": ({"k.hip": "#define N <x.h>\n#include N", "b/x.h": "b"}, ("-Ia", "-Ib"), ()),
    "computed quoted include": ({"k.hip": '#define N "x.h"\n#include N', "b/x.h": "b"}, ("-Ia", "-Ib"), ()),
    "include first": ({"k.hip": "k", "b/x.h": "b"}, ("-Ia", "-Ib"), ("x.h",)),
    "the user's directory is the system's too": (
        {"k.hip": "#include <x.h>", "a/x.h": "a", "b/": ""},
        ("-Ia", "-Ib", "-isystem", "a"),
        (),
    ),
    "by another name": (
        {"k.hip": "#include <x.h>", "a/x.h": "a", "b/": "", "link": "->a"},
        ("-Ia", "-Ib", "-isystem", "link"),
        (),
    ),
    "below a directory": ({"k.hip": "#include <a/x.h>", "c/a/x.h": "c", "b/": ""}, ("-I.", "-Ib", "-Ic"), ()),
    "in branches that are not taken": (
        {"k.hip": "#if 0\n#include <x.h>\n#endif\n#include <y.h>", "b/y.h": "b", "c/x.h": ""},
        ("-Ia", "-Ib", "-Ic"),
        (),
    ),
    "a directory named like the header": ({"k.hip": "#include <x.h>", "a/x.h/": "", "b/x.h": "b"}, ("-Ia", "-Ib"), ()),
    "a dangling link named like the header": (
        {"k.hip": "#include <x.h>", "a/x.h": "->nowhere", "c/x.h": "c"},
        ("-Ia", "-Ib", "-Ic"),
        (),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_appears_and_changes_what_clang_does_was_looked_for(kind: str, tmp_path: Path) -> None:
    files, flags, first = KINDS[kind]
    tree = Tree(tmp_path, flags, first, files).make()
    before, found = tree.preprocess(), tree.probes()
    assert tree.holds(found) or "dangling" in kind
    missed = []
    for directory, name in itertools.product((".", "a", "b", "c"), ("x.h", "y.h", "a/x.h")):
        path = tmp_path / directory / name
        if os.path.lexists(path) or (path.parent.exists() and not path.parent.is_dir()):
            continue
        made = [parent for parent in (path.parent, path.parent.parent) if not parent.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("appeared")
        if tree.preprocess() != before and tree.holds(found):
            missed.append(f"{directory}/{name}")
        path.unlink()
        for parent in made:
            parent.rmdir()
    assert not missed


@pytest.mark.parametrize("kind", ["has_include", "has_include of a quoted name"])
def test_a_file_that_was_asked_for_and_is_there_counts_as_read(kind: str, tmp_path: Path) -> None:
    files, flags, first = KINDS[kind]
    tree = Tree(tmp_path, flags, first, {**files, "a/x.h": ""}).make()
    _, _, read = tree.preprocess()
    assert "a/x.h" in read, "clang lists what __has_include found: it is watched as a file that was read"
    assert "a/x.h" not in tree.probes().present


def test_a_header_of_a_branch_that_is_not_taken_is_watched_for_its_presence(tmp_path: Path) -> None:
    tree = Tree(tmp_path, ("-Ia",), (), {"k.hip": "#if 0\n#include <x.h>\n#endif", "a/x.h": ""}).make()
    found = tree.probes()
    assert found.present == {"a/x.h"}
    assert tree.holds(found)
    (tmp_path / "a/x.h").unlink()
    assert not tree.holds(found)
    (tmp_path / "a/x.h").mkdir()
    assert not tree.holds(found), "clang takes no directory for a header"


def test_a_header_in_the_place_of_a_directory_of_its_name_is_seen(tmp_path: Path) -> None:
    tree = Tree(
        tmp_path, *KINDS["a directory named like the header"][1:], KINDS["a directory named like the header"][0]
    )
    found = tree.make().probes()
    before = tree.preprocess()
    (tmp_path / "a/x.h").rmdir()
    (tmp_path / "a/x.h").write_text("a")
    assert tree.preprocess() != before
    assert not tree.holds(found)


# How absence is written down


def test_a_missing_directory_stands_for_all_below_it(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    listings = Listings(lambda path: str(tmp_path / path))
    assert listings.missing_part("gone", "a/b/c.h") == "gone"
    assert listings.missing_part("here", "a/b/c.h") == "here/a"


def test_what_exists_misses_nothing(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c.h").touch()
    listings = Listings(lambda path: str(tmp_path / path))
    for place, name in (("a", "b/c.h"), ("a/b", "../b/./c.h"), ("", "a//b/c.h"), ("", str(tmp_path / "a/b/c.h"))):
        assert listings.missing_part(place, name) is None


@pytest.mark.parametrize("settled", [True, False])
def test_a_header_that_appears_is_found_by_the_next_who_asks(tmp_path: Path, settled: bool) -> None:
    """`settled`: do the directory's times tell of each change?"""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "b/x.h").touch()
    listings = Listings(lambda path: str(tmp_path / path), lambda _: settled)
    assert listings.find("x.h", ("a", "gone", "b")) == ("b/x.h", ("a/x.h", "gone"))
    (tmp_path / "a/x.h").touch()
    with listings.up_to_date():
        assert listings.find("x.h", ("a", "gone", "b")) == ("a/x.h", ())
    (tmp_path / "a/x.h").unlink()
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone/x.h").touch()
    with listings.up_to_date():
        assert listings.find("x.h", ("a", "gone", "b")) == ("gone/x.h", ("a/x.h",))
    assert listings.find("y.h", ("a", "b")) == ("", ("a/y.h", "b/y.h"))


def test_a_file_in_the_place_of_a_directory_holds_no_headers(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert Listings(lambda path: str(tmp_path / path)).missing_part("", "a/x.h") == "a/x.h"


def test_the_scan_of_a_real_header_is_whole() -> None:
    (header,) = Path("/usr/lib/llvm-15/lib/clang").glob("*/include/stdint.h")
    found = scan(header.read_bytes())
    assert "stdint.h" in found.angled
    assert "stdint.h" in found.next
    assert not found.asks_computed


def test_only_search_options_are_directories() -> None:
    assert all(option.role is not Role.SEARCH for option in options("-include", "x.h", "-DI=-Ia"))


# Names in pieces


@pytest.mark.parametrize("library", ["rocprim", "hip"])
def test_the_words_of_real_headers_make_no_name_that_would_be_refused(library: str) -> None:
    words: set[str] = set()
    for header in Path("/usr/include", library).rglob("*.h*"):
        found = scan(header.read_bytes())
        assert not found.assembler_files, header
        assert not found.places, header
        words |= found.pieces
    assert words, "no headers: the test shows nothing"
    assert not pasted.composed(words, (*pasted.TIMES, *pasted.QUESTIONS, *pasted.PLACES))


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
    assert pasted.composed(words, (*pasted.TIMES, *pasted.QUESTIONS)) == name


def test_single_letters_are_no_pieces() -> None:
    assert pasted.pieces(b"template <class T, class D> __ __DA _ TE__ __DATE__ TE") == {"__", "__DA", "_", "TE__", "TE"}


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
    found = [(pasted.pieces(header.read_bytes()), scan(header.read_bytes()).pieces) for header in headers]
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
    command = ["/usr/lib/llvm-15/bin/clang", "-cc1", "-w", "-std=c++17", "-dump-raw-tokens", "-x", "c++", *files]
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
            fewer += found < pasted.pieces(text.encode())
    assert fewer > count / 20, "nothing was left out: the test shows nothing"
