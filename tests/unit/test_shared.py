"""What Python and C both know comes from one place."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from hipcache.base import shared
from hipcache.config import builders

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts"))

import shared_header  # noqa: E402


def test_the_header_is_written_from_the_module() -> None:
    assert shared_header.HEADER.read_text() == shared_header.text(), "run .venv/bin/python scripts/shared_header.py"


def test_each_constant_is_used_by_c() -> None:
    files = (path for path in shared_header.HEADER.parents[1].rglob("*.[ch]") if path != shared_header.HEADER)
    words = set(re.findall(r"[A-Z][A-Z_]+", "\n".join(path.read_text() for path in files)))
    assert {name for name in vars(shared) if name.isupper()} <= words


def test_what_has_no_form_in_c_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "STATE_DOMAIN", 'a "quote"')
    with pytest.raises(TypeError, match="has no form in C"):
        shared_header.text()


@pytest.mark.parametrize("variable", shared.BUILDERS_VARIABLES)
def test_the_launcher_knows_the_builders_that_the_engine_knows(variable: str) -> None:
    """RPM_BUILD_ROOT is set by rpmbuild, too, and DH_* below dpkg's own."""
    known = {"RPM_BUILD_ROOT": "RPM_PACKAGE_NAME"}.get(variable, variable)
    assert any(one.is_here({known: "x"}) for one in builders._BUILDERS)
    assert os.environ.get(variable) is None, "the test runs in a builder of packages"
