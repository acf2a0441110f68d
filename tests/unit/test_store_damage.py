"""Whatever happens to a file of the local store: it is absent from then on, it is removed, and it can be put again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hipcache.store.layout import action_name, blob_name
from hipcache.store.local import LocalStore

KEY = "0123456789abcdef" * 4
CONTENT = b"a small entry \0\xff\n of some fifty bytes, \r\n not more than that"


class Case:
    """One entry, and the ways to read it: `read` gives None if it is absent."""

    def __init__(
        self, store: LocalStore, path: str, put: Callable[[], object], read: Callable[[], bytes | None]
    ) -> None:
        self.store = store
        self.path = Path(path)
        self.put = put
        self.read = read

    def check_absent_and_put_again(self) -> None:
        assert self.read() is None
        assert not os.path.lexists(self.path)
        self.put()
        assert self.read() == CONTENT


def action(tmp_path: Path) -> Case:
    store = LocalStore(tmp_path / "store", max_bytes=0)
    path = store.confined.path(action_name(KEY))
    return Case(store, path, lambda: store.put_action(KEY, CONTENT), lambda: store.get_action(KEY))


def blob(tmp_path: Path) -> Case:
    store = LocalStore(tmp_path / "store", max_bytes=0)
    digest = store.put_blob(CONTENT)
    return Case(
        store, store.confined.path(blob_name(digest)), lambda: store.put_blob(CONTENT), lambda: store.get_blob(digest)
    )


def copied_blob(tmp_path: Path) -> Case:
    case = blob(tmp_path)
    destination = tmp_path / "build" / "out.o"
    destination.parent.mkdir()
    digest = case.store.put_blob(CONTENT)

    def copy() -> bytes | None:
        destination.write_bytes(b"before")
        if case.store.copy_blob(digest, destination):
            return destination.read_bytes()
        assert destination.read_bytes() == b"before"
        assert os.listdir(destination.parent) == ["out.o"]
        return None

    case.read = copy
    return case


def blob_copied_to_dev_null(tmp_path: Path) -> Case:
    case = blob(tmp_path)
    digest = case.store.put_blob(CONTENT)
    case.read = lambda: CONTENT if case.store.copy_blob(digest, Path("/dev/null")) else None
    return case


@pytest.fixture(params=[action, blob, copied_blob, blob_copied_to_dev_null], ids=lambda make: make.__name__)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    made: Case = request.param(tmp_path)
    made.put()
    assert made.read() == CONTENT
    return made


def test_an_entry_cut_at_any_length_is_absent(case: Case) -> None:
    whole = case.path.read_bytes()
    for length in range(len(whole)):
        case.path.write_bytes(whole[:length])
        case.check_absent_and_put_again()


def test_an_entry_with_any_byte_flipped_is_absent(case: Case) -> None:
    whole = case.path.read_bytes()
    for position in range(len(whole)):
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[position] ^= mask
            case.path.write_bytes(damaged)
            case.check_absent_and_put_again()


def test_an_entry_of_zeros_as_a_power_loss_leaves_it_is_absent(case: Case) -> None:
    case.path.write_bytes(bytes(case.path.stat().st_size))
    case.check_absent_and_put_again()


def test_an_entry_that_has_grown_is_absent(case: Case) -> None:
    with case.path.open("ab") as file:
        file.write(b"\0")
    case.check_absent_and_put_again()


def in_its_place(path: Path, kind: str) -> None:
    path.unlink()
    if kind == "directory":
        path.mkdir()
        (path / "file").write_bytes(b"")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "link to another copy":
        (other := path.with_name("copy")).write_bytes(CONTENT)
        path.symlink_to(other)


KINDS = ["directory", "fifo", "dangling link", "loop", "link to another copy"]


@pytest.mark.parametrize("kind", KINDS)
def test_something_else_in_the_place_of_an_entry_is_removed(case: Case, kind: str) -> None:
    in_its_place(case.path, kind)
    case.check_absent_and_put_again()


@pytest.mark.parametrize("kind", KINDS)
def test_a_put_replaces_whatever_is_in_the_place_of_the_entry(case: Case, kind: str) -> None:
    in_its_place(case.path, kind)
    case.put()
    assert case.read() == CONTENT


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_an_unreadable_entry_is_absent(case: Case) -> None:
    case.path.chmod(0)
    case.check_absent_and_put_again()


@pytest.mark.parametrize("damaged", [b"", CONTENT[:-1] + b"?"], ids=["short", "of the same size"])
def test_a_damaged_blob_is_replaced_by_a_put_without_being_read_first(tmp_path: Path, damaged: bytes) -> None:
    case = blob(tmp_path)
    case.path.write_bytes(damaged)
    case.put()
    assert case.read() == CONTENT


def test_the_record_of_another_key_is_absent(tmp_path: Path) -> None:
    """The key is part of the digest: a record under a wrong name is damage, not an answer."""
    case = action(tmp_path)
    other = "f" * 64
    case.store.put_action(other, CONTENT)
    os.makedirs(case.path.parent, exist_ok=True)
    os.rename(case.store.confined.path(action_name(other)), case.path)
    case.check_absent_and_put_again()


def test_a_blob_under_the_name_of_another_is_absent(tmp_path: Path) -> None:
    case = blob(tmp_path)
    os.rename(case.store.confined.path(blob_name(case.store.put_blob(b"another"))), case.path)
    case.check_absent_and_put_again()


def test_a_read_only_store_leaves_damage_where_it_is(tmp_path: Path) -> None:
    case = blob(tmp_path)
    case.path.write_bytes(b"damaged")
    reader = LocalStore(case.store.root, max_bytes=0, read_only=True)
    assert reader.get_blob(case.store.put_blob(b"")) == b""
    assert not reader.copy_blob(case.path.name, tmp_path / "out.o")
    assert case.path.read_bytes() == b"damaged"


def test_removed_damage_is_no_longer_counted(tmp_path: Path) -> None:
    case = action(tmp_path)
    case.put()
    case.path.write_bytes(b"damaged")
    assert case.read() is None
    assert (case.store.size().bytes, case.store.size().entries) == (0, 0)
