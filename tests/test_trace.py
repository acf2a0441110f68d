"""A trace holds as long as every file that a pass read, asked for or missed is as it was."""

from __future__ import annotations

import os
import stat
import time
import zlib
from pathlib import Path

import pytest
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.readset import ReadFile, ReadSet
from hipcache.inputs.recording import TICK, came_since, record
from hipcache.inputs.search import SearchPath
from hipcache.inputs.trace import RACY, Files, Untraceable

SEARCH = SearchPath((), ("inc", "later"))


class Tree:
    """Files whose change times are the real ones; the clock of the compiles is the test's own."""

    def __init__(self, root: Path, basedir: str = "") -> None:
        self.root = root
        self.basedir = Basedir(basedir)
        self.write("k.hip", '#include "x.h"\n')
        self.write("inc/x.h", "int x;\n")

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def newest(self) -> float:
        return max(path.lstat().st_ctime for path in self.root.rglob("*"))

    def files(self, *, later: float = 100.0) -> Files:
        """The files of a compile that begins `later` seconds after the last change."""
        return Files(str(self.root), self.newest() + later, self.basedir)

    def record(
        self,
        *read: str,
        later: float = 100.0,
        macros: tuple[str, ...] = (),
        user: frozenset[str] | None = None,
        dated: bool = False,
        search: SearchPath = SEARCH,
    ) -> ReadSet:
        return record(
            self.files(later=later),
            read=list(read or ("k.hip", "inc/x.h")),
            user=user,
            first=[],
            macros=list(macros),
            search=search,
            started=self.newest() + later,
            dated=dated,
        )

    def differs(self, reads: ReadSet, *, exact: bool = True) -> str:
        return self.files().differs("key", reads, exact=exact)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


# What changes it


def test_a_trace_holds_where_nothing_changed(tree: Tree) -> None:
    assert tree.differs(tree.record()) == ""


def test_a_change_is_told_with_the_files_name(tree: Tree) -> None:
    reads = tree.record()
    tree.write("inc/x.h", "int y;\n")
    assert tree.differs(reads) == "file 'inc/x.h' changed"


def test_a_touched_file_of_the_same_content_is_the_same(tree: Tree) -> None:
    reads = tree.record()
    os.utime(tree.root / "inc/x.h", (1, 1))
    assert tree.differs(reads) == ""


def test_a_replaced_file_of_the_same_content_is_the_same(tree: Tree) -> None:
    reads = tree.record()
    (tree.root / "inc/x.h").unlink()
    tree.write("inc/x.h", "int x;\n")
    assert tree.differs(reads) == ""


def test_a_change_that_keeps_size_and_modification_time_is_seen(tree: Tree) -> None:
    reads = tree.record()
    path = tree.root / "inc/x.h"
    before = path.stat()
    path.write_text("int y;\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert tree.differs(reads) == "file 'inc/x.h' changed"


def test_a_file_that_is_gone_is_told(tree: Tree) -> None:
    reads = tree.record()
    (tree.root / "inc/x.h").unlink()
    assert tree.differs(reads) == "file 'inc/x.h' is gone"


def test_a_directory_in_the_place_of_a_file_is_told(tree: Tree) -> None:
    reads = tree.record()
    (tree.root / "inc/x.h").unlink()
    (tree.root / "inc/x.h").mkdir()
    assert tree.differs(reads).startswith("file 'inc/x.h' cannot be read")


def test_a_header_that_shadows_is_told(tree: Tree) -> None:
    reads = tree.record()
    tree.write("x.h", "")
    assert tree.differs(reads) == "'x.h' now exists; the last compile looked for it"


def test_a_dangling_link_that_appears_counts_as_a_file(tree: Tree) -> None:
    reads = tree.record()
    (tree.root / "x.h").symlink_to("nowhere")
    assert "'x.h' now exists" in tree.differs(reads)


def test_a_header_that_does_not_shadow_changes_nothing(tree: Tree) -> None:
    reads = tree.record()
    tree.write("later/x.h", "")
    assert tree.differs(reads) == ""


def test_a_link_that_points_to_another_file_is_seen(tree: Tree) -> None:
    tree.write("one.h", "1")
    tree.write("two.h", "2")
    (tree.root / "inc/x.h").unlink()
    (tree.root / "inc/x.h").symlink_to("../one.h")
    reads = tree.record()
    (tree.root / "inc/x.h").unlink()
    (tree.root / "inc/x.h").symlink_to("../two.h")
    assert tree.differs(reads) == "file 'inc/x.h' changed"


@pytest.mark.skipif(not Path("/bin").is_symlink(), reason="/bin is no link here")
def test_a_link_in_the_root_directory_may_be_on_the_way(tree: Tree) -> None:
    """Debian's clang names libc's headers below /bin/../include, and /bin is a link to usr/bin."""
    assert [file.path for file in tree.record("k.hip", "/bin/../include/stdint.h").files][
        1
    ] == "/bin/../include/stdint.h"


def test_an_answer_is_given_once_in_one_compile(tree: Tree) -> None:
    reads, files = tree.record(), tree.files()
    assert files.differs("key", reads, exact=True) == ""
    tree.write("inc/x.h", "int y;\n")
    assert files.differs("key", reads, exact=True) == ""
    assert files.differs("other", reads, exact=True) != ""


# Comments


def test_an_edit_of_a_comment_alone_holds_where_comments_do_not_matter(tree: Tree) -> None:
    tree.write("inc/x.h", "int x; // one\n")
    reads = tree.record()
    tree.write("inc/x.h", "int x; // another\n")
    assert tree.differs(reads, exact=False) == ""
    assert tree.differs(reads, exact=True) == "file 'inc/x.h' changed"


def test_an_edit_of_code_is_no_edit_of_a_comment(tree: Tree) -> None:
    tree.write("inc/x.h", "int x; // one\n")
    reads = tree.record()
    tree.write("inc/x.h", "int y; // one\n")
    assert tree.differs(reads, exact=False) == "file 'inc/x.h' changed"


def test_comments_of_what_embed_reads_are_content(tree: Tree) -> None:
    tree.write("k.hip", '#embed "data.txt"\n')
    tree.write("data.txt", "a // one")
    reads = tree.record("k.hip", "data.txt")
    tree.write("data.txt", "a // two")
    assert tree.differs(reads, exact=False) == "file 'data.txt' changed"


# Files that are too young


def test_the_status_of_an_old_file_stands_for_its_content(tree: Tree) -> None:
    assert all(file.status for file in tree.record(later=RACY * 2).files)


def test_the_status_of_a_young_file_is_not_kept(tree: Tree) -> None:
    reads = tree.record(later=RACY / 2)
    assert not any(file.status for file in reads.files)
    assert tree.differs(reads) == ""


def test_a_file_dated_in_the_future_is_read_again(tree: Tree) -> None:
    future = tree.newest() + 1e6
    os.utime(tree.root / "inc/x.h", (future, future))
    (header,) = (file for file in tree.record(later=100).files if file.path == "inc/x.h")
    assert header.status is None


@pytest.mark.parametrize("later", [0.0, TICK / 2, -5.0])
def test_a_file_that_changed_during_the_pass_or_just_before_makes_it_untraceable(tree: Tree, later: float) -> None:
    with pytest.raises(Untraceable, match="changed while the compiler ran"):
        tree.record(later=later)


def test_a_change_time_cannot_be_hidden_behind_an_old_modification_time(tree: Tree) -> None:
    os.utime(tree.root / "inc/x.h", (1, 1))
    with pytest.raises(Untraceable):
        tree.record(later=0)


def test_a_file_that_is_gone_after_the_pass_makes_it_untraceable(tree: Tree) -> None:
    with pytest.raises(Untraceable, match="cannot be read again"):
        tree.record("k.hip", "inc/gone.h")


class Vanishing(Files):
    """A header goes after it was read, and before its comments are looked at."""

    def bare(self, path: str, digest: str) -> str:
        os.unlink(self.resolve(path))
        return super().bare(path, digest)


def test_a_file_that_goes_while_it_is_looked_at_makes_the_pass_untraceable(tree: Tree) -> None:
    now = tree.newest() + 100
    files = Vanishing(str(tree.root), now, tree.basedir)
    with pytest.raises(Untraceable, match="cannot be read again"):
        record(files, read=["k.hip"], user=None, first=[], macros=[], search=SEARCH, started=now, dated=False)


BEGAN, BEFORE, AFTER = 1000.0, 500, 1500


@pytest.mark.parametrize(
    ("kind", "times", "came"),
    [
        (stat.S_IFDIR, [(BEFORE, BEFORE)], False),
        (stat.S_IFDIR, [(AFTER, AFTER)], False),  # an entry was made in it
        (stat.S_IFDIR, [(BEFORE, AFTER)], True),
        (stat.S_IFDIR, [(BEFORE, AFTER), (AFTER, AFTER)], False),  # it was just being made
        (stat.S_IFDIR, [(BEFORE, AFTER), (BEFORE, AFTER), (AFTER, AFTER)], False),
        (stat.S_IFLNK, [(BEFORE, BEFORE)], False),
        (stat.S_IFLNK, [(AFTER, AFTER)], True),
    ],
)
def test_a_renamed_directory_is_told_from_one_whose_times_are_being_set(
    kind: int, times: list[tuple[int, int]], came: bool
) -> None:
    """`times`: modification and change time at each look; the last one stays."""
    looks = iter(times)
    seen = [times[-1]]

    def look() -> os.stat_result:
        modified, changed = next(looks, seen[0])
        return os.stat_result((kind, *[0] * 9), {"st_mtime_ns": modified, "st_ctime_ns": changed})

    assert came_since(BEGAN, look) == came


def test_a_file_of_a_branch_not_taken_that_appeared_during_the_pass_makes_it_untraceable(tree: Tree) -> None:
    started = tree.newest() + 2 * TICK
    while time.time() < started + TICK:
        time.sleep(TICK)
    tree.write("inc/x.h", "")
    with pytest.raises(Untraceable, match=r"'inc/x.h' appeared while"):
        record(
            tree.files(),
            read=["k.hip"],
            user=None,
            first=[],
            macros=[],
            search=SEARCH,
            started=started,
            dated=False,
        )


# What cannot be traced


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("char t[] = __DATE__;", "__DATE__"),
        ("char t[] = __TIME__;", "__TIME__"),
        ("char t[] = __TIMESTAMP__;", "__TIMESTAMP__"),
        ("#if __has_include(NAME)\n#endif", "__has_include"),
        ('asm(".incbin \\"f\\"");', "inline assembly"),
    ],
)
def test_what_reads_more_than_files_is_untraceable(tree: Tree, text: str, said: str) -> None:
    tree.write("inc/x.h", text)
    with pytest.raises(Untraceable, match=f"'inc/x.h'.*{said}"):
        tree.record()


@pytest.mark.parametrize("macro", ["T=__DATE__", "HAS=__has_include", 'A=asm(".incbin f")'])
def test_a_macro_of_the_command_can_be_untraceable_too(tree: Tree, macro: str) -> None:
    with pytest.raises(Untraceable, match="-D"):
        tree.record(macros=(macro,))


def test_a_given_date_makes_the_date_traceable_but_not_the_timestamp(tree: Tree) -> None:
    tree.write("inc/x.h", "char t[] = __DATE__ __TIME__;")
    assert tree.differs(tree.record(dated=True)) == ""
    tree.write("inc/x.h", "char t[] = __TIMESTAMP__;")
    with pytest.raises(Untraceable):
        tree.record(dated=True)


# Read sets


def test_the_source_comes_first_and_system_headers_are_told(tree: Tree) -> None:
    reads = tree.record(user=frozenset(["k.hip"]))
    assert [(file.path, file.system) for file in reads.files] == [("k.hip", False), ("inc/x.h", True)]


def test_a_read_set_comes_back_as_it_was_packed(tree: Tree) -> None:
    reads = tree.record()
    assert ReadSet.unpack(reads.pack()) == reads


def test_a_read_set_keeps_names_that_are_no_text() -> None:
    name = os.fsdecode(b"\xff\xfe \n.h")
    reads = ReadSet((ReadFile(name, "d", (1, 2, 3, 4, 5), True, ""),), (name,), (name,))
    assert ReadSet.unpack(reads.pack()) == reads


def test_a_packed_read_set_cut_at_any_length_is_refused(tree: Tree) -> None:
    packed = tree.record().pack()
    for length in range(len(packed)):
        with pytest.raises(ValueError, match=r"."):
            ReadSet.unpack(packed[:length])


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"files": 1, "absent": [], "present": []}',
        b'{"files": [[1]], "absent": [], "present": []}',
        b'{"files": [], "absent": []}',
        b"\xff",
    ],
)
def test_what_is_no_read_set_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        ReadSet.unpack(zlib.compress(text))


# Base directories


def test_a_trace_holds_in_another_checkout_of_the_same_files(tmp_path: Path) -> None:
    texts = {}
    for place in ("one", "two"):
        root = tmp_path / place
        root.mkdir()
        tree = Tree(root, str(root))
        paths = [str(root / "k.hip"), str(root / "inc/x.h")]
        reads = tree.record(*paths, search=SearchPath((), (str(root / "later"), str(root / "inc"))))
        texts[place] = [file.path for file in reads.files], reads.absent
        trees = tree, reads
    assert texts["one"] == texts["two"]
    two, _ = trees
    first = ReadSet(tuple(ReadFile(f.path, f.digest, None, f.system, f.bare) for f in reads.files), reads.absent, ())
    assert two.differs(first) == ""
    (tmp_path / "two/later").mkdir()
    assert str(tmp_path / "two/later") in two.differs(first)


def test_an_edit_between_two_reads_of_a_file_is_seen(tmp_path: Path) -> None:
    """The text without comments must stand for the very content whose digest is recorded beside it."""
    (tmp_path / "k.hip").write_text("int a = 1; // one\n")
    files = Files(str(tmp_path), time.time(), Basedir(""))
    digest = files.digest("k.hip")[1]
    assert files.bare("k.hip", digest)
    (tmp_path / "k.hip").write_text("int a = 2; // one\n")
    with pytest.raises(Untraceable, match="changed while hipcache read it"):
        files.bare("k.hip", digest)
