"""Dependency files are read and written as clang writes them, to the byte."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest
from hip import COMPILERS
from hipcache.build.depfile import parse, parse_graph, quote, union, write

NAMES = [
    "k.hip",
    "a b.h",
    "a  b.h",
    " lead.h",
    "trail .h",
    "a#b.h",
    "#.h",
    "a$b.h",
    "$$.h",
    "a\\b.h",
    "a\\\\b.h",
    "a\\ b.h",
    "a\\\\ b.h",
    "a\\#b.h",
    "a\\$b.h",
    "a:b.h",
    "a: b.h",
    "a%b.h",
    "a'b\".h",
    "ü.h",
    "x" * 80 + ".h",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_comes_back_as_it_was_written(name: str) -> None:
    assert parse(write(["out.o"], ["k.hip", name], phony=False)) == ["k.hip", name]


@pytest.mark.parametrize("name", NAMES)
def test_the_rules_for_headers_add_no_names(name: str) -> None:
    assert parse(write(["out.o"], ["k.hip", name], phony=True)) == ["k.hip", name]


def test_all_names_of_a_long_rule_come_back_in_order() -> None:
    names = [f"{'d' * (number % 40)}/{number}.h" for number in range(300)]
    assert parse(write(["out.o"], names, phony=False)) == names


def test_names_of_every_length_break_the_lines_at_the_right_place() -> None:
    for size in range(1, 90):
        names = ["k" * size, "b", "c" * 70, "d"]
        assert parse(write(["out.o"], names, phony=False)) == names


def test_a_name_that_ends_in_two_backslashes_keeps_both() -> None:
    assert parse("out.o: k.hip a\\\\ b.h\n") == ["k.hip", "a\\\\", "b.h"]


@pytest.mark.parametrize(
    ("text", "names"), [("", []), ("out.o:\n", []), ("out.o: \n", []), ("out.o: k.hip", ["k.hip"])]
)
def test_a_rule_of_little_is_read(text: str, names: list[str]) -> None:
    assert parse(text) == names


def test_a_rule_cut_at_any_length_is_read_as_something() -> None:
    text = write(["out.o"], NAMES, phony=True)
    for length in range(len(text)):
        parse(text[:length])


def test_each_name_stands_once_in_a_union_where_it_came_first() -> None:
    assert union([["k", "a", "b"], ["k", "c", "a"], []]) == ["k", "a", "b", "c"]


def test_a_graph_of_headers_is_read_in_order() -> None:
    graph = (
        'digraph "dependencies" {\n'
        '  header_0 [ shape="box", label="k.hip"];\n'
        '  header_1 [ shape="box", label="a \\"b\\".h"];\n'
        "  header_0 -> header_1;\n}\n"
    )
    assert parse_graph(graph) == ["k.hip", 'a "b".h']


# Held against clang


def clangs_rule(cwd: Path, version: str, *words: str) -> str:
    subprocess.run(
        [f"clang++-{version}", "-x", "c++", "-nostdinc", *words, "-fsyntax-only", "-MD", "-MF", "rule", "k.hip"],
        cwd=cwd,
        check=True,
        capture_output=True,
    )
    return (cwd / "rule").read_text()


def headers(directory: Path, names: list[str]) -> list[str]:
    """Makes the headers and a source that includes them; the files of the rule."""
    lines = []
    for name in names:
        (directory / name).write_text("")
        # In an #include the quotes end the name, and a backslash is a backslash.
        lines.append(f"#include <{name}>\n")
    (directory / "k.hip").write_text("".join(lines))
    return ["k.hip", *(f"./{name}" for name in names)]


CLANG_WRITES = [name for name in NAMES if name != "k.hip"]


@pytest.mark.parametrize("version", COMPILERS)
def test_the_rule_is_clangs_to_the_byte(version: str, tmp_path: Path) -> None:
    names = headers(tmp_path, CLANG_WRITES)
    rule = clangs_rule(tmp_path, version, "-I.", "-MT", "out.o")
    read = parse(rule)
    # A single backslash in a name is a slash in clang's rule.
    assert {name for name in names if "\\" not in name} <= {name if name == "k.hip" else f"./{name}" for name in read}
    assert len(read) == len(names)
    assert write(["out.o"], read, phony=False) == rule


@pytest.mark.parametrize("version", COMPILERS)
def test_the_rules_for_headers_are_clangs_to_the_byte(version: str, tmp_path: Path) -> None:
    headers(tmp_path, CLANG_WRITES)
    rule = clangs_rule(tmp_path, version, "-I.", "-MT", "out.o", "-MP")
    assert write(["out.o"], parse(rule), phony=True, clang=int(version)) == rule


@pytest.mark.parametrize("version", COMPILERS)
def test_lines_break_where_clang_breaks_them(version: str, tmp_path: Path) -> None:
    for shift, size in itertools.product((1, 2, 3), (66, 67, 68, 69, 70, 71, 72, 73, 74, 75)):
        headers(tmp_path, ["h" * shift, "x" * (size - 7 - shift), "y" * size, "z"])
        rule = clangs_rule(tmp_path, version, "-I.", "-MT", "out.o")
        assert write(["out.o"], parse(rule), phony=False) == rule


@pytest.mark.parametrize("targets", [["a.o"], ["a.o", "b.o"], ["x" * 74], ["x" * 60, "y" * 20, "z"], ["x" * 72, "y"]])
def test_targets_are_laid_out_as_clang_does(targets: list[str], tmp_path: Path) -> None:
    headers(tmp_path, ["x.h"])
    words = [word for target in targets for word in ("-MT", target)]
    rule = clangs_rule(tmp_path, COMPILERS[0], "-I.", *words)
    assert write(targets, ["k.hip", "x.h"], phony=False) == rule


@pytest.mark.parametrize("target", ["a b.o", "a$b.o", "a#b.o", "a\\ b.o", "a\\b.o"])
def test_a_quoted_target_is_quoted_as_clang_does(target: str, tmp_path: Path) -> None:
    headers(tmp_path, ["x.h"])
    rule = clangs_rule(tmp_path, COMPILERS[0], "-I.", "-MQ", target)
    assert rule.startswith(f"{quote(target)}: k.hip")
