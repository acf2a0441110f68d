"""Where clang looks for headers: paths that would change a pass if they appeared, held against what clang does."""

from __future__ import annotations

import itertools
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hip import COMPILERS, LLVM
from hipcache.build import depfile
from hipcache.clang import cc1
from hipcache.clang.cc1 import Option, Role
from hipcache.inputs.includes import scan
from hipcache.inputs.readset import paths
from hipcache.inputs.search import Listings, Probes, probes

CLANG = LLVM[COMPILERS[0]] / "bin/clang++"


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
        return not any(os.path.lexists(self.root / path) for path in paths(found.absent.items())) and all(
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
    # Two changes may come within one tick of the clock.
    os.utime(tmp_path / "a", ns=(1, 1))
    listings = Listings(lambda path: str(tmp_path / path), lambda _: settled)
    assert listings.find("x.h", ("a", "gone", "b")) == ("b/x.h", ("a/x.h", "gone"))
    (tmp_path / "a/x.h").touch()
    with listings.up_to_date():
        assert listings.find("x.h", ("a", "gone", "b")) == ("a/x.h", ())
    (tmp_path / "a/x.h").unlink()
    os.utime(tmp_path / "a", ns=(2, 2))
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone/x.h").touch()
    with listings.up_to_date():
        assert listings.find("x.h", ("a", "gone", "b")) == ("gone/x.h", ("a/x.h",))
    assert listings.find("y.h", ("a", "b")) == ("", ("a/y.h", "b/y.h"))


def test_a_file_in_the_place_of_a_directory_holds_no_headers(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert Listings(lambda path: str(tmp_path / path)).missing_part("", "a/x.h") == "a/x.h"


def test_the_scan_of_a_real_header_is_whole() -> None:
    (header,) = (LLVM[COMPILERS[0]] / "lib/clang").glob("*/include/stdint.h")
    found = scan(header.read_bytes())
    assert "stdint.h" in found.angled
    assert "stdint.h" in found.next
    assert not found.asks_computed


def test_only_search_options_are_directories() -> None:
    assert all(option.role is not Role.SEARCH for option in options("-include", "x.h", "-DI=-Ia"))
