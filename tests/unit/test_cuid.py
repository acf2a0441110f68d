"""The CUID: another for each object of a project, the same in another checkout."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hipcache.clang.cuid import clangs_hash, make_cuid, options, project_name


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


def cuid(root: Path, source: str = "src/k.hip", output: str = "build/k.o", words: tuple[str, ...] = ()) -> str:
    return make_cuid(str(root / source), str(root / output), options(words, str(root)))


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
    assert cuid(checkout("one/project", mark=mark)) == cuid(checkout("elsewhere/project", mark=mark))


def test_a_worktrees_git_file_marks_a_working_copy_too(checkout: Checkout) -> None:
    root = checkout("tree/project", mark="")
    (root / ".git").write_text("gitdir: /elsewhere\n")
    assert cuid(root) == cuid(checkout("one/project"))


@pytest.mark.parametrize(
    "other",
    [
        {"source": "src/l.hip"},
        {"output": "build/l.o"},
        {"output": "build2/k.o"},
        {"words": ("-DA",)},
        {"words": ("-O2",)},
        {"words": ("-Iinclude",)},
        {"words": ("-std=c++20",)},
        {"words": ("-Xarch_gfx906", "-O1")},
        {"source": "k.hip"},
    ],
)
def test_it_is_another_for_each_object_of_a_project(checkout: Checkout, other: dict[str, str]) -> None:
    root = checkout("one")
    assert cuid(root) != cuid(root, **other)  # type: ignore[arg-type]


def test_options_count_in_their_order(checkout: Checkout) -> None:
    root = checkout("one")
    several = [("-DA",), ("-DB",), ("-DA", "-DB"), ("-DB", "-DA"), ("-DA-DB",), (), ("-O2", "-DA"), ("-DA", "-O2")]
    assert len({cuid(root, words=words) for words in several}) == len(several)


@pytest.mark.parametrize(
    "words",
    [
        ("--offload-arch=gfx906", "--offload-arch=gfx90a:xnack+"),
        ("--offload-arch=gfx906,gfx90a", "--no-offload-arch=gfx906"),
        ("--cuda-gpu-arch=gfx906", "--no-cuda-gpu-arch=all"),
        ("-MD", "-MF", "k.d", "-MTk.o", "-MQ", "k.o", "-MP"),
        ("-fcolor-diagnostics", "-fdiagnostics-color=always", "-fmessage-length=80"),
        ("-c", "k.hip", "-o", "k.o", "-fuse-cuid=hash"),
        ("-ok.o", "--output=k.o", "-L.", "-lm", "-Wl,-s", "-shared", "--", "-k.hip"),
    ],
)
def test_architectures_dependency_files_colours_and_links_do_not_count(words: tuple[str, ...]) -> None:
    assert list(options(("-O2", *words), "/b")) == ["-O2"]


def test_macros_and_directories_of_headers_are_the_same_however_they_are_spelled() -> None:
    apart = ("-D", "A", "-U", "B", "-I", "../inc", "-isystem", "sub")
    joined = ("-DA", "-UB", "-I/r/inc", "-isystem/r/b/./sub")
    assert list(options(apart, "/r/b")) == ["-DA", "-UB", "-I/r/inc", "-isystem/r/b/sub"]
    assert list(options(joined, "/r"))[:3] == ["-DA", "-UB", "-I/r/inc"]
    assert list(options(("-I.", "-I..", "-Ia/../b"), "/r/b")) == ["-I/r/b", "-I/r", "-I/r/b/a/../b"]


def test_paths_below_a_root_are_the_same_in_another_checkout(checkout: Checkout) -> None:
    def words(root: Path) -> tuple[str, ...]:
        return (f"-I{root}/include", "-Iinclude", f"-ffile-prefix-map={root}=.", f'-DROOT="{root}"', f"-I{root}-more")

    one, two = checkout("one/project"), checkout("elsewhere/project")
    assert cuid(one, words=words(one)[:-1]) == cuid(two, words=words(two)[:-1])
    assert cuid(one, words=words(one)) != cuid(two, words=words(two)), "a directory beside the root"


# Several working copies in one program


def linked(checkout: Checkout, top: str, *inner: str) -> list[str]:
    """The CUIDs of one source in each inner working copy, compiled within it."""
    root = checkout(top)
    for one in inner:
        (root / one / "src").mkdir(parents=True)
        (root / one / ".git").write_text("gitdir: elsewhere\n")
    return [cuid(root / one, output="k.o") for one in ("", *inner)]


def test_working_copies_within_one_are_told_apart_by_their_place(checkout: Checkout) -> None:
    found = linked(checkout, "one/project", "a", "b", "a/third_party/c")
    assert len(set(found)) == 4
    assert linked(checkout, "elsewhere/project", "a", "b", "a/third_party/c") == found


def test_clones_below_one_build_tree_are_told_apart_by_their_place(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "super").mkdir()
    (tmp_path / "super/CMakeCache.txt").touch()
    roots = [checkout(f"super/{name}/src", build="tree") for name in ("a", "b")]
    assert len({cuid(root, output="tree/k.o") for root in roots}) == 2


def clone(root: Path, address: str) -> Path:
    config = f'[core]\n\tbare = false\n[remote "origin"]\n\tfetch = +refs/heads/*\n\turl = {address}\n[branch "main"]\n'
    (root / ".git/config").write_text(config)
    return root


def test_working_copies_of_no_common_one_are_told_apart_by_the_name_of_their_project(checkout: Checkout) -> None:
    """And a clone is known wherever it lies."""

    def of(root: Path, basedir: str = "") -> str:
        words = {"basedir": basedir, "project": project_name}
        return make_cuid(f"{root}/src/k.hip", f"{root}/k.o", (), **words)  # type: ignore[arg-type]

    primitives = [
        clone(checkout("one"), "https://example.com/ROCm/rocPRIM.git"),
        clone(checkout("two"), "git@example.com:somebody/rocPRIM"),
        clone(checkout("three"), "/home/somebody/rocPRIM/"),
    ]
    assert len({of(root) for root in primitives}) == 1
    assert of(clone(checkout("four"), "https://example.com/ROCm/hipCUB.git")) != of(primitives[0])
    assert of(checkout("five")) != of(checkout("six")), "no remote: the directory's name"
    assert of(checkout("a/five")) == of(checkout("b/five"))
    assert of(primitives[0], str(primitives[0])) == of(checkout("seven"), f"{primitives[0].parent}/seven")


def test_a_worktree_and_a_submodule_have_the_name_of_their_projects_remote(checkout: Checkout) -> None:
    root = clone(checkout("main"), "ssh://example.com/library.git")
    place = root / ".git/worktrees/other"
    place.mkdir(parents=True)
    (place / "commondir").write_text("../..\n")
    worktree = checkout("other", mark="")
    (worktree / ".git").write_text(f"gitdir: {place}\n")
    assert project_name(str(worktree)) == "library"
    module = clone(checkout("module"), "https://example.com/inner.git")
    (worktree / ".git").write_text("gitdir: ../module/.git\n")
    assert project_name(str(worktree)) == project_name(str(module)) == "inner"


@pytest.mark.parametrize("damage", ["pipe", "directory", "NUL", "loop", "blank lines"])
def test_a_damaged_repository_has_the_name_of_its_directory_at_once(checkout: Checkout, damage: str) -> None:
    root = checkout("project", mark="" if damage in ("NUL", "loop") else ".git")
    if damage == "pipe":
        os.mkfifo(root / ".git/config")
    elif damage == "directory":
        (root / ".git/config").mkdir()
    elif damage == "NUL":
        (root / ".git").write_text("gitdir: a\0b\n")
    elif damage == "loop":
        (root / ".git").symlink_to(".git")
    else:
        (root / ".git/config").write_text('[remote "origin"]\n' + "\n" * 1_000_000)
    assert project_name(str(root)) == "project"


def test_from_a_directory_above_them_they_are_told_apart_by_their_place(checkout: Checkout, tmp_path: Path) -> None:
    above, found = str(tmp_path), set()
    for name in ("one", "two"):
        root = checkout(name)
        found.add(make_cuid(f"{root}/src/k.hip", f"{root}/k.o", (), cwd=above))
        assert make_cuid(f"{root}/src/k.hip", f"{root}/k.o", (), cwd=str(root)) == cuid(root, output="k.o")
    assert len(found) == 2


def test_a_source_counts_as_the_file_that_a_link_leads_to_and_by_the_links_name(checkout: Checkout) -> None:
    root = checkout("one")
    for name in ("v1", "v2"):
        (root / name).mkdir()
        (root / name / "k.hip").touch()
    found = {cuid(root, source=f"{name}/k.hip") for name in ("v1", "v2")}
    for name in ("v1", "v2"):
        (root / "now").unlink(missing_ok=True)
        (root / "now").symlink_to(name)
        found.add(cuid(root, source="now/k.hip"))
    assert len(found) == 4


def test_two_build_trees_of_one_source_count_where_the_command_names_them(checkout: Checkout, tmp_path: Path) -> None:
    root, found = checkout("one"), set()
    for name in ("debug", "release"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "CMakeCache.txt").touch()
        found.add(make_cuid(f"{root}/src/k.hip", f"{tmp_path}/{name}/k.o", (), named_absolute=True))
    assert len(found) == 2
    assert make_cuid(f"{root}/src/k.hip", f"{root}/k.o", (), named_absolute=True) == cuid(root, output="k.o")


@pytest.mark.parametrize("mark", [".git", ""], ids=["working copy", "tarball"])
@pytest.mark.parametrize("option", ["-I{}/gen", "-DHEADER={}/gen.h", "-include {}/gen.h"])
def test_two_build_trees_of_one_source_count_where_an_option_names_them(
    checkout: Checkout, tmp_path: Path, option: str, mark: str
) -> None:
    """Each has headers of its own, and a library of each may be in one program."""

    def of(root: Path, tree: Path, words: tuple[str, ...], basedir: Path | str = "") -> str:
        tree.mkdir(parents=True, exist_ok=True)
        (tree / "CMakeCache.txt").touch()
        return make_cuid(f"{root}/src/k.hip", f"{tree}/k.o", words, basedir=str(basedir))

    root = checkout("a/project", mark=mark)
    trees = [root.parent / name for name in ("debug", "release")]
    assert len({of(root, tree, (option.format(tree),)) for tree in trees}) == 2
    assert len({of(root, tree, (option.format(tree),), root) for tree in trees}) == 2, "outside of a base directory"
    assert len({of(root, tree, ("-Ielsewhere",)) for tree in trees}) == 1, "plain clang has one, too"
    again = checkout("b/project", mark=mark)
    tree = again.parent / "debug"
    same = of(again, tree, (option.format(tree),)) == of(root, trees[0], (option.format(trees[0]),))
    assert same == bool(mark), "in another checkout with its build tree beside it"


def test_links_from_two_working_copies_to_one_source_are_two(checkout: Checkout, tmp_path: Path) -> None:
    """Clang 22 takes the name as spelled, and its `#include` looks beside that."""
    (tmp_path / "k.hip").touch()
    found = set()
    for name in ("one", "two"):
        root = checkout(name)
        (root / "src/k.hip").symlink_to(tmp_path / "k.hip")
        found.add(cuid(root))
    assert len(found) == 2


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
