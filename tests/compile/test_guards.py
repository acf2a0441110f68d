"""Guards: one status of a directory stands for all names that were looked for in it in vain."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from blake3 import blake3
from direct_lab import Direct, direct
from hip import LAUNCHER, apart, only_19, settle
from hipcache.base import native
from hipcache.base.times import file_systems
from hipcache.direct.record import SYSTEM_DOMAIN, known_contents, pack_list, state_digest, system_digest
from hipcache.inputs.watched import (
    ABSENT,
    ENTRIES,
    FILE,
    GONE,
    GUARD,
    GUARD_DIGITS,
    Watched,
    by_entries,
    changed,
    guard,
    merge,
    states,
    status_text,
)
from hipcache.processes import LIST, observe

pytestmark = pytest.mark.archs(1)

__all__ = ["direct"]


def _guarded(paths: list[str], kind: str = ABSENT, **given: str) -> dict[str, list[str]]:
    """The paths that each directory answers for."""
    found: dict[str, list[str]] = {}
    names = found.setdefault("", [])
    for one in guard([Watched(kind, path) for path in paths], time.time() + 1, file_systems(**given)):
        if one.kind == GUARD:
            names = found.setdefault(one.path[GUARD_DIGITS:], [])
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


def test_names_missed_in_one_directory_mean_what_they_mean_one_by_one(tmp_path: Path) -> None:
    together = merge([Watched(ABSENT, f"{tmp_path}/", ("b",)), Watched(ABSENT, f"{tmp_path}/", ("a", "b"))])
    alone = merge([Watched(ABSENT, f"{tmp_path}/{name}") for name in "ab"])
    later = time.time() + 1
    for one, other in ((together, alone), *[(guard(each, later, file_systems()) for each in (together, alone))]):
        assert pack_list(one) == pack_list(other)
    for found in (system_digest, state_digest):
        assert found(together, states(together) or {}) == found(alone, states(alone) or {})
    (tmp_path / "a").write_text("")
    assert states(together) is None
    assert changed(together) == f"{tmp_path}/"


def test_where_nothing_is_watched_the_contents_are_known() -> None:
    """Of the system, where no path counts as its own (HIPCACHE_SYSTEM_PATHS)."""
    assert known_contents([], {}, {}, 0) == (b"", "")


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


@pytest.mark.files
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


# Overlays


OVERLAY = """\
mount -t tmpfs none {place} && mkdir {place}/lower {place}/upper {place}/work || exit 1
mount -t overlay -o lowerdir={place}/lower,upperdir={place}/upper,workdir={place}/work none {tree} || exit 1
"""
ANEW = """\
umount {tree} && echo '{text}' >{place}/lower/{name} && touch -d @1 {place}/lower || exit 1
rm -rf {place}/work && mkdir {place}/work
mount -t overlay -o lowerdir={place}/lower,upperdir={place}/upper,workdir={place}/work none {tree} || exit 1
"""


@only_19
def test_an_overlay_whose_lower_layer_gained_a_header_is_looked_through(direct: Direct) -> None:
    """Its directory has the status that it had: that of the upper layer."""
    lab = direct.lab
    tree, place = lab.root / "first", lab.root.parent / "layers"
    tree.mkdir()
    place.mkdir()
    words = " ".join(lab.words("-Ifirst"))
    mounted = OVERLAY.format(tree=tree, place=place)
    if apart(lab, mounted, ["true"]).status:
        pytest.skip("this machine lets nobody mount an overlay")
    hipcache = f"sleep 0.05; {LAUNCHER[0]} {words}"
    warm = f"{hipcache} && {hipcache} && {direct.program} {words} || exit 2\n"
    anew = ANEW.format(tree=tree, place=place, text="#error", name="value.h")
    status = apart(lab, mounted, ["sh", "-c", f"{warm}{anew}{direct.program} {words}"]).status
    assert status != 2, "a direct hit"
    assert status == 99


def test_directories_of_an_overlay_are_known_by_their_entries(tmp_path: Path) -> None:
    """`kinds`: as where the file system does not keep the times of directories."""
    (tmp_path / "b").touch()
    (tmp_path / "a").touch()
    listed = Watched(FILE, str(tmp_path), observe.sign(LIST, str(tmp_path)))
    read = Watched(FILE, str(tmp_path / "a"))
    assert by_entries([listed, read], file_systems()) == (listed, read)
    found = by_entries([listed, read], {})
    assert [one.kind for one in found] == [ENTRIES, FILE]
    assert states(found) == {
        (ENTRIES, str(tmp_path)): blake3(b"a\0b\0").digest(),
        (FILE, read.path): status_text(os.stat(read.path)),
    }
    assert _native_holds(found[:1])
    (tmp_path / "c").touch()
    assert states(found) is None
    assert not _native_holds(found[:1])


def _native_holds(watched: Sequence[Watched]) -> bool:
    """Does the native program find the state that `watched` had with the names a and b?"""
    library = native.load()
    assert library is not None
    packed = pack_list(watched)
    digest = blake3(SYSTEM_DOMAIN + b"e" + os.fsencode(watched[0].path) + b"\0" + blake3(b"a\0b\0").digest()).digest()
    texts = [ctypes.create_string_buffer(one, len(one)) for one in (packed, digest)]
    given = [native.Bytes(ctypes.addressof(one), len(one), 0, True, False) for one in texts]
    library.system_holds.restype = ctypes.c_bool
    return bool(library.system_holds(*given))
