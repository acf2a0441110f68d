"""An empty local store."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipcache.store.local import LocalStore

KEY = "0123456789abcdef" * 4
CONTENT = b"content" * 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "not" / "there" / "yet"


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(root, max_bytes=0)


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())
