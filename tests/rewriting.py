"""Files that a test writes, rewrites and lets grow old."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

# Seconds after which a file is old for that engine.
SETTLED = 0.04


def write_files(root: Path, files: Mapping[str, str]) -> None:
    """`files`: names below `root` -> text."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def settle() -> None:
    """Let a written file grow older than the tick below which a change cannot be told from one during the compile."""
    time.sleep(SETTLED)


def let_others_in(place: Path) -> None:
    """Let other users reach `place`. Nothing is touched that is open already, such as / and /tmp: a directory that gets
    a new change time on the way to a file counts as moved, and what compiles beside this test is not kept."""
    for path in (*reversed(place.parents), place):
        found = path.stat()
        if found.st_uid == os.getuid() and found.st_mode & 0o055 != 0o055:
            path.chmod(found.st_mode | 0o055)


def script(path: Path, text: str, *, program: str = "/bin/sh") -> Path:
    """An executable script of the shell, or of `program`, at `path`, which is replaced whole."""
    part = path.with_name(path.name + ".part")
    part.write_text(f"#!{program}\n{text}")
    part.chmod(0o755)
    part.replace(path)
    return path


def same_times(path: Path, model: os.stat_result) -> None:
    os.utime(path, ns=(model.st_atime_ns, model.st_mtime_ns))


def rewrite(path: Path, content: str | bytes) -> None:
    """Other content of the same size in the same file with the same modification time."""
    old = path.stat()
    raw = content.encode() if isinstance(content, str) else content
    assert len(raw) == old.st_size, "the test means to keep the size"
    with path.open("r+b") as file:
        file.write(raw)
    same_times(path, old)
    assert path.stat().st_mtime_ns == old.st_mtime_ns


def replace(path: Path, content: bytes) -> None:
    """Another file of the same size, mode and modification time in the place of `path`."""
    old = path.stat()
    assert len(content) == old.st_size, "the test means to keep the size"
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    part.chmod(old.st_mode & 0o777)
    same_times(part, old)
    part.replace(path)
