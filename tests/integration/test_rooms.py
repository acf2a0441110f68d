"""Rooms of other suites, and the description of this machine's toolchains."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hip_toolchain import chosen, hips_own, installed

CHECKOUT = Path(__file__).parents[2]
ROOM = CHECKOUT / "scripts" / "room.sh"


def room(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([ROOM, *words], env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert len(done.stderr.splitlines()) <= 2, done.stderr
    return done


def test_another_word_than_a_suite_is_wrong_usage() -> None:
    done = room("potato", "--", "true")
    assert (done.returncode, done.stderr.partition(":")[0]) == (2, "usage")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mmdebstrap"), reason="needs root and mmdebstrap")
def test_where_the_mirror_cannot_be_reached_a_line_says_that_there_is_no_room(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    mirror = "http://127.0.0.1:9/debian"
    done = room("sid", "--", "true", HIPCACHE_ROOMS=str(tmp_path), MIRROR=mirror)
    assert done.returncode == 77
    assert done.stderr.splitlines()[-1].startswith(f"room: no room of sid can be made from {mirror}: E: ")
    assert not list(tmp_path.glob("sid*/bin"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_who_may_have_no_users_of_their_own_is_told_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", ROOM, "sid", "--", "true"],
        env={**os.environ, "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr[:32]) == (77, "room: only root can make a room ")


def test_hips_own_clang_comes_first_and_the_variable_names_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hips_own().compiler.exists()
    last = list(installed())[-1]
    monkeypatch.setenv("TOOLCHAIN", last)
    chosen.cache_clear()
    assert [toolchain.version for toolchain in chosen()] == [last]
    monkeypatch.setenv("TOOLCHAIN", "99")
    chosen.cache_clear()
    with pytest.raises(SystemExit, match="clang 99 is not installed here\n  installed: .*" + last):
        chosen()
    monkeypatch.undo()
    chosen.cache_clear()
