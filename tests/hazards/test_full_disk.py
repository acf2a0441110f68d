"""A full disk below the store: seen before the work begins, told as what it is, and never paid for twice."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hip import HIT, PASSED_THROUGH, Lab, kernel, only_19, watched_compiler

pytestmark = [only_19, pytest.mark.archs(1)]
FULL_DISK = "store_full"


def _counting(lab: Lab) -> tuple[Lab, Path]:
    """The lab with a compiler that notes each pass of hipcache's."""
    passes = lab.root.parent / "passes"
    hook = f"echo pass >>{passes}"
    compiler = watched_compiler(lab.root.parent / "clang++", lab.version, hook)
    return replace(lab, compiler=str(compiler)), passes


def _fill(disk: Path, leave: int) -> None:
    left = os.statvfs(disk)
    (disk / "filler").write_bytes(bytes(max(0, left.f_bfree * left.f_frsize - leave)))


@pytest.mark.parametrize("small_disk", ["32m"], indirect=True)
@pytest.mark.parametrize("what", ["bytes", "inodes"])
def test_a_full_disk_is_seen_before_the_work_begins(lab: Lab, small_disk: Path, what: str) -> None:
    if what == "inodes":
        subprocess.run(["mount", "-o", "remount,nr_inodes=8", small_disk], check=True)
    else:
        _fill(small_disk, 1 << 20)
    lab.environ["HIPCACHE_DIR"] = str(small_disk / "store")
    lab, passes = _counting(lab)
    assert lab.run(lab.words()).status == 0
    plain = (lab.root / "out.o").read_bytes()
    for said in (1, 0):
        ended = lab.hipcache(*lab.words())
        assert (ended.status, ended.err.count(b" is full: ")) == (0, said)
        assert (lab.root / "out.o").read_bytes() == plain
        assert not passes.exists(), "no pass is run but the user's own"
    for verb in (["stats"], ["doctor", "--brief"]):
        assert f"the disk of store '{small_disk}/store' is full".encode() in lab.hipcache(*verb).out
    assert lab.hipcache("doctor").status == 1
    assert b"is full: " in lab.hipcache("doctor").out


@pytest.mark.parametrize("small_disk", ["32m"], indirect=True)
def test_it_is_counted_under_its_own_name(lab: Lab, small_disk: Path) -> None:
    lab.environ["HIPCACHE_DIR"] = str(small_disk / "store")
    _fill(small_disk, 1 << 20)
    made = lab.hipcache(*lab.words())
    assert made.status == 0
    assert (lab.counted().outcome, lab.stats()["passed_through"]) == (PASSED_THROUGH, {FULL_DISK: 1})


@pytest.mark.parametrize("small_disk", ["32m"], indirect=True)
def test_a_full_store_serves_what_it_has(lab: Lab, small_disk: Path) -> None:
    lab.environ["HIPCACHE_DIR"] = str(small_disk / "store")
    lab.warm()
    _fill(small_disk, 1 << 20)
    assert lab.compile().outcome == HIT


@pytest.mark.parametrize("small_disk", ["8m"], indirect=True)
def test_where_the_disk_fills_meanwhile_the_compile_is_the_compilers(lab: Lab, small_disk: Path) -> None:
    """It has room when the work begins, and none for what a pass writes."""
    lab.environ["HIPCACHE_DIR"] = str(small_disk / "store")
    lab.write("k.hip", kernel("1") + '__device__ char big[5000000] = "x";\n')
    assert lab.run(lab.words()).status == 0
    plain = (lab.root / "out.o").read_bytes()
    ended = lab.hipcache(*lab.words())
    assert (ended.status, (lab.root / "out.o").read_bytes()) == (0, plain)
    assert lab.stats()["passed_through"] in ({FULL_DISK: 1}, {})
    assert b"hipcache" in ended.err or lab.stats()["compiles"]["miss"] == 1  # type: ignore[index]


def test_a_quota_that_is_used_up_is_known_by_the_jobs_words(lab: Lab) -> None:
    """No call tells how much of it is left."""
    hook = """\
case " $* " in *work-*) echo "error: unable to open output file: 'Disk quota exceeded'" >&2; exit 1;; esac"""
    compiler = watched_compiler(lab.root.parent / "clang++", lab.version, hook)
    lab = replace(lab, compiler=str(compiler))
    ended = lab.hipcache(*lab.words())
    assert ended.status == 0
    assert b"had no room" in ended.err
    assert (lab.counted().outcome, lab.stats()["passed_through"]) == (PASSED_THROUGH, {FULL_DISK: 1})


@pytest.mark.parametrize("small_disk", ["1m"], indirect=True)
@pytest.mark.parametrize("part", ["tmp", "blobs", "actions"])
def test_the_doctor_looks_below_the_top_directory(lab: Lab, small_disk: Path, part: str) -> None:
    (lab.store / "v2").mkdir(parents=True)
    (lab.store / "v2" / part).symlink_to(small_disk)
    said = lab.hipcache("doctor", "--brief")
    assert said.status == 1
    assert f"KiB are left in '{lab.store}/v2/{part}'".encode() in said.out
    assert [one["kind"] for one in json.loads(lab.hipcache("stats", "--json").out)["conditions"]] == [FULL_DISK]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("export", "store.tar.gz"), "store.tar.gz"),
        (("report", "--html", "page.html"), "page.html"),
        (("report", "--chrome-trace", "trace.json"), "trace.json"),
        (("config", "set", "max_size", "5GiB"), "hipcache/hipcache.yaml"),
    ],
    ids=["export", "report", "trace", "config"],
)
def test_a_verb_names_the_file_that_has_no_room(lab: Lab, small_disk: Path, words: tuple[str, ...], name: str) -> None:
    lab.compile()
    (small_disk / "hipcache").mkdir()
    lab.environ |= {"XDG_CONFIG_HOME": str(small_disk)}
    _fill(small_disk, 0)
    said = lab.hipcache(*(str(small_disk / word) if word == name else word for word in words))
    assert said.status == 1
    assert f"'{small_disk}/{name}'" in said.err.decode(), said
    assert "free some space" in said.err.decode()
    assert {path.name for path in small_disk.iterdir()} == {"filler", "hipcache"}
    assert not list((small_disk / "hipcache").iterdir())
