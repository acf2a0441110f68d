"""The stores that the contract holds for. A new backend is one more line in BACKENDS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hipcache.store import Store
from hipcache.store.local import LocalStore

# Opens the same storage each time, as another process would.
Opener = Callable[[], Store]

KEY = "0123456789abcdef" * 4
OTHER_KEY = "f" * 64
RECORD = bytes(range(256))


def local(tmp_path: Path) -> Opener:
    return lambda: LocalStore(tmp_path / "store", max_bytes=0)


BACKENDS: dict[str, Callable[[Path], Opener]] = {"local": local}


@pytest.fixture(params=BACKENDS)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    return BACKENDS[request.param](tmp_path)


@pytest.fixture
def store(open_store: Opener) -> Store:
    return open_store()
