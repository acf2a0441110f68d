"""Direct hits from records and objects that are damaged, and onto outputs that are no files."""

from __future__ import annotations

import os

import pytest
from blake3 import blake3
from direct_lab import Direct, at_once, direct
from hip import LAUNCHER, only_19

__all__ = ["direct"]
pytestmark = pytest.mark.archs(1)


@only_19
@pytest.mark.files
def test_a_record_cut_or_changed_anywhere_is_none(direct: Direct) -> None:
    direct.lab.warm()
    path = direct.record()
    whole = path.read_bytes()
    for length in [*range(0, 120), *range(120, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert not direct.ask(), length
        if length % 11 == 0:
            path.write_bytes(whole[:length] + bytes([whole[length] ^ 0x10]) + whole[length + 1 :])
            assert not direct.ask(), length
    path.write_bytes(whole + b"\0")
    assert not direct.ask()
    path.write_bytes(whole)
    assert direct.ask()


@only_19
def test_a_record_that_says_anything_with_a_right_digest_harms_nothing(direct: Direct) -> None:
    """Lengths and lists that lead out of the record: what a fault of another version could leave."""
    direct.lab.warm()
    direct.ask_with_wrong_records(5)


@pytest.mark.files
@only_19
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_damaged_object_is_never_served(direct: Direct, damage: str) -> None:
    lab = direct.lab
    before = lab.warm()
    name = blake3(before.object).hexdigest()
    blob = lab.store / "v2/blobs" / name
    whole = blob.read_bytes()
    if damage == "gone":
        blob.unlink()
    else:
        blob.write_bytes(whole[:-1] if damage == "cut" else whole[:200] + b"?" + whole[201:])
    assert not direct.ask()
    assert [path.name for path in lab.root.iterdir() if "tmp" in path.name] == []
    assert lab.compile().object == before.object
    lab.compile()
    assert direct.ask()


@only_19
def test_an_object_or_dependency_file_that_is_no_plain_file_is_the_engines_affair(direct: Direct) -> None:
    lab, flags = direct.lab, ("-MD", "-MF", "out.d")
    before = lab.warm(*flags)
    target = lab.write("target", "kept")
    for name in ("out.o", "out.d"):
        (lab.root / name).unlink()
        (lab.root / name).symlink_to(target)
        ended = lab.run([*LAUNCHER, *lab.words(*flags)])
        assert ended.status == 0
        assert (lab.root / "out.o").read_bytes() == before.object
        assert not (lab.root / "out.o").is_symlink()
        assert (lab.root / "out.d").is_symlink() == (name == "out.d")
    assert target.read_text().startswith("out.o:")


def test_a_tool_that_writes_into_the_object_does_not_reach_the_store(direct: Direct) -> None:
    lab, flags = direct.lab, ("-MD",)
    before = lab.warm(*flags)
    for _ in range(3):
        assert direct.ask(*flags)
        assert (lab.root / "out.o").read_bytes() == before.object
        for name in ("out.o", "out.d"):
            assert (lab.root / name).stat().st_nlink == 1
            with (lab.root / name).open("r+b") as file:
                file.write(b"changed in place")


@only_19
def test_many_direct_hits_at_once_are_all_right_and_all_counted(direct: Direct) -> None:
    lab = direct.lab
    before = lab.warm()
    counted = lab.stats()["compiles"]["hit"]  # type: ignore[index]
    wrong = []

    def build() -> None:
        for _ in range(10):
            if lab.run([str(direct.program), *lab.words()]).status != 0:
                wrong.append("engine")
            if (lab.root / "out.o").read_bytes() != before.object:
                wrong.append("object")

    at_once(4, build)
    assert not wrong
    assert lab.stats()["compiles"]["hit"] == counted + 40  # type: ignore[index]


@only_19
def test_a_store_that_cannot_be_written_serves_all_the_same(direct: Direct) -> None:
    lab = direct.lab
    before = lab.warm()
    as_nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.getuid() == 0 else []
    for path in [lab.store, *lab.store.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    lab.root.chmod(0o777)
    (lab.root / "out.o").unlink()
    ended = lab.run([*as_nobody, str(direct.program), *lab.words()])
    for path in [lab.store, *lab.store.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert ended.status == 0, ended
    assert (lab.root / "out.o").read_bytes() == before.object
