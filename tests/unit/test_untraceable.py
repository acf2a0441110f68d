"""Passes that cannot be traced, files that are too young for it, and what a trace is packed as."""

from __future__ import annotations

import os
import stat
import time
import zlib
from typing import Any

import pytest
from hipcache.base.native import PathStatus
from hipcache.base.times import TICK, came_since
from hipcache.inputs.file_manager import RACY, FileManager, Untraceable
from hipcache.inputs.readset import ReadFile, ReadSet, Status
from hipcache.inputs.recording import record
from hipcache.inputs.scans import Scan
from traced_tree import SEARCH, Tree, tree

__all__ = ["tree"]

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


def test_a_file_that_is_newer_than_the_clock_is_told_as_that(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now - 10**15)
    with pytest.raises(Untraceable, match="is newer than the clock"):
        tree.record(later=0)


class Coarse(FileManager):
    """On a file system whose times are whole seconds."""

    def read(self, path: str, *, own: bool = False, found: PathStatus | None = None) -> tuple[Status, str, Scan]:
        (*others, changed), digest, scan = super().read(path, own=own, found=found)
        return (*others, changed // 10**9 * 10**9), digest, scan


def test_a_change_during_the_pass_is_seen_where_times_are_whole_seconds(tree: Tree) -> None:
    started = tree.newest() // 1 + 0.5
    files = Coarse(str(tree.root), started + 100, tree.basedir)
    how: dict[str, Any] = {"read": ["k.hip"], "user": None, "first": [], "macros": [], "search": SEARCH, "dated": False}
    with pytest.raises(Untraceable, match="changed while the compiler ran"):
        record(files, started=started, **how)
    record(files, started=started + 1, **how)


def test_a_change_time_cannot_be_hidden_behind_an_old_modification_time(tree: Tree) -> None:
    os.utime(tree.root / "inc/x.h", (1, 1))
    with pytest.raises(Untraceable):
        tree.record(later=0)


def test_a_file_that_is_gone_after_the_pass_makes_it_untraceable(tree: Tree) -> None:
    with pytest.raises(Untraceable, match="cannot be read again"):
        tree.record("k.hip", "inc/gone.h")


class Vanishing(FileManager):
    """A header goes after it was read, and before its comments are looked at."""

    def content(self, path: str, digest: str) -> bytes:
        os.unlink(self.resolve(path))
        return super().content(path, digest)


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


@pytest.mark.parametrize("how", ['__DATE__="redacted"', "__DATE__=", "__DATE__"])
@pytest.mark.parametrize("text", ["char t[] = __DATE__;", "#define P(a) __DA##a\nchar t[] = P(TE__);"])
def test_a_date_that_the_command_defines_or_undefines_is_traceable(tree: Tree, how: str, text: str) -> None:
    tree.write("inc/x.h", text)
    with pytest.raises(Untraceable):
        tree.record()
    assert tree.differs(tree.record(macros=(how,))) == ""


@pytest.mark.parametrize("macro", ["__DATE__=__TIME__", "DATE=__DATE__", "__DATE__ =1", "__TIME__=1", "MY__DATE__=1"])
def test_a_macro_that_leaves_a_date_is_untraceable(tree: Tree, macro: str) -> None:
    tree.write("inc/x.h", "char t[] = __DATE__;")
    with pytest.raises(Untraceable, match=r"__(DATE|TIME)__"):
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
    reads = ReadSet((ReadFile(name, "d" * 64, (1, 2, 3, 4, 5), True, ""),), (("", (name,)),), (name,))
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
