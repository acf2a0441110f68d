r"""Dependency files in make's syntax, as clang reads and writes them.

Quoting is that of clang's `DependencyFileGenerator` (clang/lib/Frontend/DependencyFile.cpp): a space
is `\ ` (backslashes before it doubled), `#` is `\#`, `$` is `$$`. Lines are broken before column 75.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_COLUMNS = 75


def parse(text: str) -> list[str]:
    """The files that a rule written by clang with one target lists, in order."""
    _, _, rest = text.partition(": ")
    rest = rest.split("\n\n", 1)[0].replace("\\\n", " ")
    rest = rest.split("\n", 1)[0]
    if "\\" not in rest and "$" not in rest:
        return [name for name in rest.split(" ") if name]
    names, name, i = [], "", 0
    while i < len(rest):
        char = rest[i]
        if char == "\\":
            end = i
            while end < len(rest) and rest[end] == "\\":
                end += 1
            count, after = end - i, rest[end : end + 1]
            if after == " " and count % 2:
                name += "\\" * (count // 2) + " "
                end += 1
            elif after == "#":
                name += "\\" * (count - 1) + "#"
                end += 1
            else:
                name += "\\" * count
            i = end
        elif char == "$" and rest[i + 1 : i + 2] == "$":
            name += "$"
            i += 2
        elif char == " ":
            if name:
                names.append(name)
            name = ""
            i += 1
        else:
            name += char
            i += 1
    if name:
        names.append(name)
    return names


def parse_graph(text: str) -> list[str]:
    """The headers of a graph that clang's -dependency-dot wrote (llvm::DOT::EscapeString), in order."""
    labels = re.findall(r'^  header_\d+ \[ shape="box", label="((?:[^"\\]|\\.)*)"\];$', text, re.MULTILINE)
    return [re.sub(r"\\(.)", r"\1", label) for label in labels]


def quote(name: str) -> str:
    name = re.sub(r"(\\*) ", lambda found: found.group(1) * 2 + "\\ ", name)
    return name.replace("$", "$$").replace("#", "\\#")


def write(targets: Sequence[str], files: Sequence[str], *, phony: bool, clang: int = 0) -> str:
    """The rule as clang lays it out; `targets` are quoted already. `phony`: a rule for each header (-MP); `clang`: the
    major version that it is to look like."""
    out: list[str] = []
    column = 0
    for target in targets:
        size = len(target)
        if column == 0:
            column += size
        elif column + size + 2 > _COLUMNS:
            column = size + 2
            out.append(" \\\n  ")
        else:
            column += size + 1
            out.append(" ")
        out.append(target)
    out.append(":")
    column += 1
    for name in files:
        size = len(name)
        if column + size + 1 + 2 > _COLUMNS:
            out.append(" \\\n ")
            column = 2
        out.append(" " + quote(name))
        column += size + 1
    out.append("\n")
    if phony:
        # Versions between 15 and 19 were not at hand; make takes either.
        between = "\n" if 0 < clang <= 15 else ""
        out += [f"{between}{quote(name)}:\n" for name in files[1:]]
    return "".join(out)


def wrapped(text: str) -> str:
    """The rule with its lines broken anew, if its names need no quoting; else nothing."""
    rule, _, phony = text.replace(" \\\n", "").partition("\n")
    targets, colon, names = rule.partition(": ")
    if not colon or any(char in text.replace(" \\\n", "") for char in "\\$#\t"):
        return ""
    return write(targets.split(), names.split(), phony=False) + phony


def union(lists: Iterable[Sequence[str]]) -> list[str]:
    """All names in order of first appearance."""
    return list(dict.fromkeys(name for names in lists for name in names))
