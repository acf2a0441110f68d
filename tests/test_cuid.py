"""The CUID: another for each object of a project, the same in another checkout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hipcache.planning.cuid import clangs_hash, make_cuid


@pytest.fixture
def checkout(tmp_path: Path) -> Callable[..., Path]:
    """Makes a working copy with a build tree inside of it."""

    def make(name: str, *, mark: str = ".git", build: str = "build") -> Path:
        root = tmp_path / name
        (root / "src").mkdir(parents=True)
        if mark:
            (root / mark).mkdir()
        (root / build).mkdir()
        return root

    return make


Checkout = Callable[..., Path]


def cuid(root: Path, source: str = "src/k.hip", output: str = "build/k.o", macros: tuple[str, ...] = ()) -> str:
    return make_cuid(str(root / source), str(root / output), macros)


def test_it_has_16_hexadecimal_digits_as_clangs_own(checkout: Checkout) -> None:
    assert len(cuid(checkout("one"))) == 16
    int(cuid(checkout("two")), 16)


def test_clangs_hash_of_it_has_as_many(checkout: Checkout) -> None:
    """So that one can stand in the place of another one."""
    root = checkout("one")
    found = [cuid(root, output=f"build/{number}.o") for number in range(200)]
    assert {len(clangs_hash(one)) for one in found} == {16}
    assert len(set(found)) == len(found)
    assert clangs_hash("5eed") == "6169d72867d09236"


@pytest.mark.parametrize("mark", [".git", ".hg", ".svn", ".jj"])
def test_it_is_the_same_in_another_checkout(checkout: Checkout, mark: str) -> None:
    assert cuid(checkout("one", mark=mark)) == cuid(checkout("elsewhere", mark=mark))


def test_a_worktrees_git_file_marks_a_working_copy_too(checkout: Checkout) -> None:
    root = checkout("tree", mark="")
    (root / ".git").write_text("gitdir: /elsewhere\n")
    assert cuid(root) == cuid(checkout("one"))


@pytest.mark.parametrize(
    "other",
    [
        {"source": "src/l.hip"},
        {"output": "build/l.o"},
        {"output": "build2/k.o"},
        {"macros": ("-DA",)},
        {"source": "k.hip"},
    ],
)
def test_it_is_another_for_each_object_of_a_project(checkout: Checkout, other: dict[str, str]) -> None:
    root = checkout("one")
    assert cuid(root) != cuid(root, **other)  # type: ignore[arg-type]


def test_macros_count_in_their_order(checkout: Checkout) -> None:
    root = checkout("one")
    several = [("-DA",), ("-DB",), ("-DA", "-DB"), ("-DB", "-DA"), ("-DA-DB",), ()]
    assert len({cuid(root, macros=macros) for macros in several}) == len(several)


def test_two_directories_without_a_root_have_two(checkout: Checkout) -> None:
    assert cuid(checkout("one", mark="")) != cuid(checkout("two", mark=""))


def test_a_base_directory_is_the_root_where_it_is_given(checkout: Checkout) -> None:
    one, two = checkout("one", mark=""), checkout("two", mark="")
    found = {
        make_cuid(f"{root}/src/k.hip", f"{root}/build/k.o", (), basedir=base)
        for root in (one, two)
        for base in (str(root), f"{root}/", f"{root}/src/..")
    }
    assert len(found) == 1


def test_a_base_directory_that_holds_neither_changes_nothing(checkout: Checkout) -> None:
    root = checkout("one")
    assert make_cuid(f"{root}/src/k.hip", f"{root}/build/k.o", (), basedir="/elsewhere") == cuid(root)


def test_a_name_that_only_begins_like_the_base_directory_is_not_below_it(checkout: Checkout) -> None:
    root = checkout("one", mark="")
    beside = checkout("one-more", mark="")
    assert make_cuid(f"{beside}/src/k.hip", f"{beside}/k.o", (), basedir=str(root)) == cuid(beside, output="k.o")


@pytest.mark.parametrize("mark", ["CMakeCache.txt", "build.ninja"])
def test_a_build_tree_beside_the_source_has_a_root_of_its_own(checkout: Checkout, tmp_path: Path, mark: str) -> None:
    root = checkout("one")
    found = set()
    for place in ("out", "other/place"):
        tree = tmp_path / place
        (tree / "sub").mkdir(parents=True)
        (tree / mark).touch()
        found.add(make_cuid(str(root / "src/k.hip"), str(tree / "sub/k.o"), ()))
    assert len(found) == 1
    assert cuid(root, output="sub/k.o") not in found, "an object inside of the source's root is another one"


def test_paths_are_compared_without_dots(checkout: Checkout) -> None:
    root = checkout("one")
    assert cuid(root, source="src/../src/./k.hip", output="build//k.o") == cuid(root)


@pytest.mark.parametrize(("source", "output"), [("/k.hip", "/k.o"), ("/dev/null", "/dev/null")])
def test_files_of_the_root_directory_have_one(source: str, output: str) -> None:
    assert make_cuid(source, output, ()) == make_cuid(source, output, ())
