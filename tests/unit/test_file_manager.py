"""A trace holds as long as every file that a pass read, asked for or missed is as it was."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hipcache.inputs import outline
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.file_manager import FileManager, Untraceable
from hipcache.inputs.readset import ReadFile, ReadSet
from hipcache.inputs.search import SearchPath
from traced_tree import Tree, tree

__all__ = ["tree"]

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
    assert files.differs("key", reads) == ""
    tree.write("inc/x.h", "int y;\n")
    assert files.differs("key", reads) == ""
    assert files.differs("other", reads) != ""


# Comments


def test_an_edit_of_a_comment_alone_is_known_as_one(tree: Tree) -> None:
    tree.write("inc/x.h", "int x; // one\n")
    reads = tree.record()
    tree.write("inc/x.h", "int x; // another\n")
    edit = tree.edit(reads)
    assert edit
    assert (edit.files, edit.lines, edit.marked) == ({"inc/x.h"}, set(), {})
    assert tree.differs(edit.reads) == ""
    assert tree.differs(reads) == "file 'inc/x.h' changed"


def test_an_edit_of_code_is_no_edit_of_a_comment(tree: Tree) -> None:
    tree.write("inc/x.h", "int x; // one\n")
    reads = tree.record()
    tree.write("inc/x.h", "int y; // one\n")
    assert tree.edit(reads) is None


def test_comments_of_what_embed_reads_are_content(tree: Tree) -> None:
    tree.write("k.hip", '#embed "data.txt"\n')
    tree.write("data.txt", "a // one")
    reads = tree.record("k.hip", "data.txt")
    tree.write("data.txt", "a // two")
    assert tree.edit(reads) is None


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
    files = FileManager(str(tmp_path), time.time(), Basedir(""))
    digest = files.digest("k.hip")[1]
    assert files.content("k.hip", digest)
    (tmp_path / "k.hip").write_text("int a = 2; // one\n")
    with pytest.raises(Untraceable, match="changed while hipcache read it"):
        outline.digests(files, "k.hip", digest)


def test_a_set_that_held_is_looked_at_again(tree: Tree) -> None:
    reads = tree.record()
    files = FileManager(str(tree.root), time.time() + 100, tree.basedir)
    assert files.differs_now(reads) == files.differs_now(reads) == ""
    tree.write("inc/x.h", "int y;\n")
    assert files.differs_now(reads) == "file 'inc/x.h' changed"
    tree.write("inc/x.h", "int x;\n")
    assert files.differs_now(reads) == ""
    (tree.root / "inc/x.h").unlink()
    assert files.differs_now(reads) == "file 'inc/x.h' is gone"


# What it tells of the texts


def test_a_read_set_tells_of_the_texts_of_its_files(tree: Tree) -> None:
    reads = tree.record()
    assert not (reads.hides_marks or reads.expands_pragmas)
    tree.write("inc/x.h", "#define HAS(what) has_ ## what\n#pragma unroll N\n")
    reads = tree.record()
    assert reads.hides_marks
    assert reads.expands_pragmas


def test_of_an_older_read_set_both_may_be(tree: Tree) -> None:
    packed = tree.record().pack()
    told = b',"hides":false,"pragmas":false'
    assert packed.count(told) == 1
    length = int.from_bytes(packed[:4], "little") - len(told)
    old = ReadSet.unpack(length.to_bytes(4, "little") + packed[4:].replace(told, b""))
    assert old.hides_marks
    assert old.expands_pragmas
