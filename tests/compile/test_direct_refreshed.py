"""Records that a fresh clone refreshes, or must not: many at once, without rights, sealed, damaged, in an overlay."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from direct_lab import Direct, anew, at_once, direct, served_twice
from hip import Ended, Lab, let_others_in, only_19, settle

__all__ = ["direct"]

pytestmark = pytest.mark.archs(1)


def as_nobody(lab: Lab, argv: list[str]) -> Ended:
    """As a user who may not read what is root's alone."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    let_others_in(lab.root.parent)

    def become() -> None:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    done = subprocess.run(
        argv,
        cwd=lab.root,
        env={**lab.environ, "TMPDIR": str(lab.root)},
        preexec_fn=become,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@only_19
def test_an_unreadable_file_is_left_to_the_engine(direct: Direct) -> None:
    lab = direct.lab
    lab.environ["PATH"] = "/usr/bin:/bin"  # directories that both users may look into
    lab.warm()
    lab.root.chmod(0o777)
    (lab.root / "out.o").unlink()
    for path in [lab.store, *lab.store.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    (lab.root / "value.hpp").chmod(0o600)
    argv = [str(direct.program), *lab.words()]
    assert as_nobody(lab, argv).status == 99
    (lab.root / "value.hpp").chmod(0o644)
    assert as_nobody(lab, argv).status == 0


@only_19
def test_a_record_of_a_clone_that_says_anything_harms_nothing(direct: Direct) -> None:
    direct.lab.warm()
    anew(direct.lab)
    direct.ask_with_wrong_records(7)


@only_19
def test_many_that_refresh_one_record_at_once_leave_a_whole_one(direct: Direct) -> None:
    lab = direct.lab
    before = lab.warm()
    anew(lab)
    settle()
    wrong = []

    def build() -> None:
        if lab.run([str(direct.program), *lab.words()]).status != 0:
            wrong.append("engine")
        if (lab.root / "out.o").read_bytes() != before.object:
            wrong.append("object")

    at_once(6, build)
    assert not wrong
    lab.count_anew()
    served_twice(direct)
    assert list((lab.store / "v2/tmp").glob("put-*")) == []


@only_19
def test_a_store_that_cannot_be_written_serves_a_clone(direct: Direct) -> None:
    lab = direct.lab
    lab.environ["PATH"] = "/usr/bin:/bin"  # directories that both users may look into
    lab.warm()
    anew(lab)
    settle()
    lab.root.chmod(0o777)
    (lab.root / "out.o").unlink()
    before = {path: path.stat().st_mtime_ns for path in lab.store.rglob("*")}
    argv = [str(direct.program), *lab.words()]
    for path in [lab.store, *before]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    ended = as_nobody(lab, argv)
    for path in [lab.store, *before]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert ended.status == 0, ended
    assert {path: path.stat().st_mtime_ns for path in lab.store.rglob("*")} == before


def _noted_by_a_hit(direct: Direct) -> set[str]:
    """The entries of the store, all long unused, that a direct hit notes as used."""
    top = direct.lab.store / "v2"
    entries = [path for kind in ("actions", "blobs") for path in (top / kind).glob("*")]
    for path in entries:
        os.utime(path, (1, 1))
    assert direct.ask()
    return {str(path.relative_to(top)) for path in entries if path.stat().st_mtime > 1}


@pytest.mark.files
@only_19
def test_a_hit_that_refreshes_its_record_notes_all_that_it_uses(direct: Direct) -> None:
    direct.lab.warm()
    expected = _noted_by_a_hit(direct)
    anew(direct.lab)
    settle()
    record = direct.record().stat().st_ino
    assert _noted_by_a_hit(direct) >= expected
    assert direct.record().stat().st_ino != record


@pytest.mark.files
@only_19
def test_a_sealed_record_is_refreshed_with_its_seal(direct: Direct) -> None:
    lab = direct.lab
    secret = lab.write(lab.root.parent / "secret", "0123456789abcdef" * 2)
    secret.chmod(0o600)
    lab.environ["HIPCACHE_KEY"] = str(secret)
    lab.warm()
    anew(lab)
    settle()
    records = {path: path.stat().st_ino for path in (lab.store / "v2/actions").glob("*")}
    assert direct.ask()
    refreshed = {path: path.stat().st_ino for path in (lab.store / "v2/actions").glob("*")}
    assert refreshed != records
    assert refreshed.keys() == records.keys()
    assert all(path.read_bytes()[:4] == b"\x89hcK" for path in refreshed)
    assert direct.ask()
    assert {path: path.stat().st_ino for path in refreshed} == refreshed


@only_19
def test_a_store_that_was_unpacked_elsewhere_serves_a_clone(direct: Direct) -> None:
    lab = direct.lab
    before = lab.warm()
    elsewhere = lab.root.parent / "unpacked"
    shutil.copytree(lab.store, elsewhere, copy_function=shutil.copy)
    shutil.rmtree(lab.store)
    lab.environ["HIPCACHE_DIR"] = str(elsewhere)
    lab.count_anew()
    anew(lab)
    settle()
    served_twice(direct)
    assert (lab.root / "out.o").read_bytes() == before.object
