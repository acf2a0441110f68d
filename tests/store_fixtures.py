"""The store of a test, and how to open it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hipcache.store.local import LocalStore

# Opens the same storage each time, as another process would.
Opener = Callable[[], LocalStore]

KEY = "0123456789abcdef" * 4
OTHER_KEY = "f" * 64
RECORD = bytes(range(256))


@pytest.fixture
def open_store(tmp_path: Path) -> Opener:
    return lambda: LocalStore(tmp_path / "store", max_bytes=0)


@pytest.fixture
def store(open_store: Opener) -> LocalStore:
    return open_store()
