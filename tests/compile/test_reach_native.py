"""The native launcher at a store that another one has written into: nothing outside is touched, nothing waits.

Without an engine beside it the launcher counts a compile that is no HIP by itself, and becomes the compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hip import Lab, only_19
from sandbox import WITHOUT_OPENAT2

PATIENCE = 60  # seconds; some milliseconds are enough

LINKED = ["statistics/log", "statistics/lock", "statistics", ""]


Words = Sequence[str | Path]


@pytest.fixture(params=[(), WITHOUT_OPENAT2], ids=["openat2", "step by step"])
def launcher(request: pytest.FixtureRequest, tmp_path: Path) -> Words:
    return (*request.param, shutil.copy(Path(sys.executable).with_name("hipcache"), tmp_path))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    made = tmp_path / "store/v2"
    (made / "statistics").mkdir(parents=True)
    (made / "statistics/lock").touch()
    return made


def count(launcher: Words, base: Path) -> None:
    """The compiler (`true`) runs, whatever is in the store."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(base.parent), "HIPCACHE_DIR": str(base.parent)}
    subprocess.run(
        [*launcher, "true", "-c", "x.cpp"], env=environ, stderr=subprocess.PIPE, check=True, timeout=PATIENCE
    )


def test_a_compile_is_counted(launcher: Words, base: Path) -> None:
    count(launcher, base)
    count(launcher, base)
    assert (base / "statistics/log").read_bytes().count(b"not_hip") == 2


@pytest.mark.parametrize("linked", LINKED)
def test_nothing_is_written_through_a_link(linked: str, launcher: Words, base: Path, tmp_path: Path) -> None:
    """`linked`: which file or directory leads out of the store."""
    count(launcher, base)
    outside = tmp_path / "outside"
    (base / linked).rename(outside)
    (base / linked).symlink_to(outside)
    before = {path: path.stat().st_size for path in [outside, *outside.rglob("*")] if path.is_file()}
    count(launcher, base)
    assert {path: path.stat().st_size for path in [outside, *outside.rglob("*")] if path.is_file()} == before


def test_nothing_is_written_into_a_file_with_a_second_name(launcher: Words, base: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    os.link(tmp_path / "precious", base / "statistics/log")
    count(launcher, base)
    assert (tmp_path / "precious").read_bytes() == b"precious"


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 20 << 30)


STRANGE: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "directory": Path.mkdir,
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "huge": _huge,
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("name", ["log", "lock"])
def test_nothing_waits_for_what_is_no_file(kind: str, name: str, launcher: Words, base: Path) -> None:
    (base / "statistics" / name).unlink(missing_ok=True)
    STRANGE[kind](base / "statistics" / name)
    count(launcher, base)


def test_a_reader_cannot_open_a_lock_that_is_made(launcher: Words, base: Path) -> None:
    base.chmod(0o755)
    (base / "statistics/lock").unlink()
    count(launcher, base)
    assert (base / "statistics/lock").stat().st_mode & 0o777 == 0o600
    assert (base / "statistics/log").stat().st_mode & 0o777 == 0o644


@only_19
def test_a_hit_is_served_without_openat2(lab: Lab, launcher: Words) -> None:
    """No engine is beside the launcher, so it serves the compile or says that it cannot."""
    made = lab.warm()
    (lab.root / "out.o").unlink()
    ended = lab.run([*map(str, launcher), *lab.words()])
    assert (ended.status, ended.err) == (0, b"")
    assert (lab.root / "out.o").read_bytes() == made.object
    assert lab.counted().outcome == "hit"
