"""Fixtures that many tests use."""

from __future__ import annotations

from pathlib import Path

import pytest
from hip import Lab


@pytest.fixture(params=["15", "19"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """A place to compile in with one version of clang, and an empty store."""
    return Lab.make(tmp_path, request.param)
