"""Records come back as they were packed, and whatever else stands there is none."""

from __future__ import annotations

import pytest
from hipcache.making.records import (
    MOST_ENTRIES,
    BackRecord,
    FrontEntry,
    pack_back,
    pack_front,
    pack_object,
    unpack_back,
    unpack_front,
    unpack_object,
)

ENTRY = FrontEntry("r" * 64, "o" * 64, "k.hip:1: warning: \udcff\n", "-fcolor-diagnostics", True, False, 1.25, "/src")
BACK = BackRecord("c" * 64, True, 2.5)

NO_RECORDS = [
    b"",
    b"{",
    b"\xff\xfe",
    b"null",
    b"1",
    b'"text"',
    b"[1]",
    b'[{"reads": 1}]',
    b'{"code": 1}',
    b"[[]]",
    b"\0",
]


def test_entries_come_back_in_order() -> None:
    other = FrontEntry("", "", "", "", False, True, 0.0)
    assert unpack_front(pack_front([ENTRY, other])) == [ENTRY, other]


def test_the_newest_entries_are_kept() -> None:
    entries = [FrontEntry(str(number), "", "", "", False, False, 0.0) for number in range(MOST_ENTRIES + 3)]
    assert unpack_front(pack_front(entries)) == entries[:MOST_ENTRIES]


def test_a_back_end_comes_back() -> None:
    assert unpack_back(pack_back(BACK)) == BACK


def test_an_object_comes_back() -> None:
    assert unpack_object(pack_object("o" * 64)) == "o" * 64


def test_nothing_is_no_record() -> None:
    assert (unpack_front(None), unpack_back(None), unpack_object(None)) == ([], None, "")


@pytest.mark.parametrize("raw", NO_RECORDS)
def test_what_does_not_read_is_no_record(raw: bytes) -> None:
    assert (unpack_front(raw), unpack_back(raw), unpack_object(raw)) == ([], None, "")


@pytest.mark.parametrize("raw", [pack_front([ENTRY, ENTRY]), pack_back(BACK), pack_object("o" * 64)])
def test_a_record_cut_at_any_length_is_none(raw: bytes) -> None:
    for length in range(len(raw)):
        assert unpack_front(raw[:length]) == []
        assert unpack_back(raw[:length]) is None
        assert unpack_object(raw[:length]) == ""


def test_a_record_with_more_fields_is_none() -> None:
    assert unpack_back(pack_back(BACK)[:-1] + b',"new":1}') is None
