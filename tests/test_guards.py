"""Guards: one status of a directory stands for all names that were looked for in it in vain."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hip import only_19, settle
from hipcache.direct.guards import DIGITS, GUARD, file_systems, guard
from hipcache.inputs.watched import ABSENT, FILE, GONE, Watched
from test_direct import Direct, direct

__all__ = ["direct"]


def _guarded(paths: list[str], kind: str = ABSENT, **given: str) -> dict[str, list[str]]:
    """The paths that each directory answers for."""
    found: dict[str, list[str]] = {}
    names = found.setdefault("", [])
    for one in guard([Watched(kind, path) for path in paths], time.time() + 1, file_systems(**given)):
        if one.kind == GUARD:
            names = found.setdefault(one.path[DIGITS:], [])
        else:
            names.append(one.path)
    return found


def test_the_last_directory_on_the_way_that_is_there_answers(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    missed = [f"{tmp_path}/there/a", f"{tmp_path}/none/at/all", f"{tmp_path}/there/../b", f"{tmp_path}/there/no/c"]
    assert _guarded(missed) == {
        "": [],
        f"{tmp_path}/there": [missed[0], missed[3]],
        str(tmp_path): [missed[1]],
        f"{tmp_path}/there/..": [missed[2]],
    }


def test_a_link_that_leads_nowhere_and_a_file_on_the_way_have_no_guard(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "file").write_text("")
    paths = [f"{tmp_path}/link", f"{tmp_path}/link/x", f"{tmp_path}/file/x"]
    assert _guarded(paths, GONE) == {"": paths}


def test_a_young_directory_is_no_guard(tmp_path: Path) -> None:
    missed = Watched(ABSENT, f"{tmp_path}/x")
    assert guard([missed], tmp_path.stat().st_mtime, file_systems()) == (missed,)


@pytest.mark.parametrize(("kind", "trusted"), [("ext4", True), ("nfs4", False), ("fuse.sshfs", False)])
def test_only_file_systems_that_keep_the_times_of_directories_are_trusted(
    tmp_path: Path, kind: str, trusted: bool
) -> None:
    device = tmp_path.stat().st_dev
    (tmp_path / "mounts").write_text(
        f"22 27 {os.major(device)}:{os.minor(device)} / / rw,relatime shared:2 - {kind} /dev/x rw\n"
    )
    settle()
    path = f"{tmp_path}/x"
    found = _guarded([path], mounts=str(tmp_path / "mounts"))
    assert found == ({"": [], str(tmp_path): [path]} if trusted else {"": [path]})
    assert _guarded([path], mounts=str(tmp_path / "none")) == {"": [path]}


def test_what_is_there_stays_first_and_in_its_order(tmp_path: Path) -> None:
    given = [Watched(FILE, "/b"), Watched(ABSENT, f"{tmp_path}/x"), Watched(FILE, "/a")]
    assert [one.kind for one in guard(given, time.time() + 1, file_systems())] == [FILE, FILE, GUARD, ABSENT]
    assert guard(given, time.time() + 1, file_systems())[:2] == (given[0], given[2])


# In a compile


def test_a_directory_that_changes_is_looked_through_by_name(direct: Direct) -> None:
    lab = direct.lab
    (lab.root / "first").mkdir()
    settle()
    lab.warm("-Ifirst")
    assert f"{lab.root}/first".encode() in _guards(direct, "-Ifirst")
    assert direct.ask("-Ifirst")
    lab.write("first/other.h", "")
    assert direct.ask("-Ifirst"), "the name that was looked for is still not there"
    lab.write("first/value.h", "")
    assert not direct.ask("-Ifirst")


def _guards(direct: Direct, *flags: str) -> bytes:
    return direct.record(*flags).read_bytes()


@only_19
def test_a_directory_of_the_search_path_that_comes_later_is_seen(direct: Direct) -> None:
    direct.lab.warm("-Inone/at/all")
    assert direct.ask("-Inone/at/all")
    direct.lab.write("none/at/all/value.h", "")
    assert not direct.ask("-Inone/at/all")


@only_19
def test_a_directory_set_in_the_place_of_another_is_seen(direct: Direct) -> None:
    lab = direct.lab
    (lab.root / "one").mkdir()
    lab.write("two/value.h", "")
    (lab.root / "first").symlink_to("one")
    settle()
    lab.warm("-Ifirst")
    assert direct.ask("-Ifirst")
    (lab.root / "first").unlink()
    (lab.root / "first").symlink_to("two")
    assert not direct.ask("-Ifirst")


@only_19
def test_a_file_that_came_and_went_costs_no_hit(direct: Direct) -> None:
    lab = direct.lab
    (lab.root / "first").mkdir()
    settle()
    lab.warm("-Ifirst")
    lab.write("first/x", "")
    (lab.root / "first/x").unlink()
    assert direct.ask("-Ifirst")
