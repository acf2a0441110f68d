"""Two stores, what is exported and imported between them, and archives made by hand."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from hipcache.cache.entries import Entry
from hipcache.cli import Console, dispatch
from hipcache.store import archive
from hipcache.store.layout import pack_action
from hipcache.store.local import LocalStore
from hipcache.store.seal import NO_SEAL

KEY, OTHER, THIRD = "0123456789abcdef" * 4, "fedcba9876543210" * 4, "ab" * 32
UNIT = b'{"outputs":[],"passing":[],"text":"","seconds":1}'


class Shop:
    """Two stores, and the commands over each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "a.tar.gz"
        self.here, self.there = (LocalStore(root / name, max_bytes=0) for name in ("here", "there"))
        self.out = self.err = ""

    def __call__(self, store: LocalStore, *argv: str | Path, terminal: bool = False, **environ: str) -> int:
        out, err = io.StringIO(), Terminal() if terminal else io.StringIO()
        base = {"HOME": str(self.root), "HIPCACHE_DIR": str(store.root), "PATH": os.environ["PATH"]}
        status = dispatch([str(word) for word in argv], Console({**base, **environ}, out, err))
        self.out, self.err = out.getvalue(), err.getvalue()
        return status

    def outside(self) -> set[str]:
        """All files that are not in the second store."""
        return {str(path) for path in self.root.rglob("*") if "there" not in path.parts}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def names(file: Path) -> list[str]:
    return [f"{entry.tree} {entry.name}" for entry in archive.read(file)]


def tar(file: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    """An archive that nobody's `export` has made."""
    with tarfile.open(file, "w:gz", format=tarfile.USTAR_FORMAT) as made:
        for member, content in members:
            made.addfile(member, io.BytesIO(content))
    return file


def member(name: str, size: int = 0, **more: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    for field, value in more.items():
        setattr(info, field, value)
    return info


def record(key: str, payload: bytes) -> tuple[tarfile.TarInfo, bytes]:
    content = pack_action(key, payload, NO_SEAL)
    return member(f"v1/actions/{key[:2]}/{key[2:]}", len(content)), content


def entry(reads: str) -> Entry:
    return Entry(reads, (), (), "", "", 1.0)
