"""Modules that a library names and does not use: loaded at their first use, and by nobody mistaken for others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from remote_lab import HAS_CLIENTS

pytestmark = pytest.mark.skipif(
    not HAS_CLIENTS, reason="the extra 'remote' is not installed (scripts/setup.sh --remote)"
)


def run(script: str, *path: Path) -> list[str]:
    """What a new Python says."""
    first = f"import sys; sys.path[:0] = {[str(one) for one in path]!r}\n"
    argv = [sys.executable, "-c", first + script]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """`user` imports `used` and `part.inner`, and has use for neither until it is asked."""
    (tmp_path / "part").mkdir()
    (tmp_path / "part/__init__.py").write_text("import sys\nfrom part import inner\n")
    (tmp_path / "part/inner.py").write_text("print('inner')\nVALUE = 2\n")
    (tmp_path / "used.py").write_text("print('used')\nVALUE = 1\nclass Base: pass\n")
    (tmp_path / "user.py").write_text("import used\nimport part\ndef sum(): return used.VALUE + part.inner.VALUE\n")
    return tmp_path


BEGIN = "from hipcache.remote.reapi import put_off\nwith put_off('used', 'part.inner'):\n    import user\n"


def test_what_is_put_off_is_loaded_at_its_first_use(package: Path) -> None:
    assert run(f"{BEGIN}print('imported')\nprint(user.sum(), user.sum())", package) == [
        *("imported", "used", "inner", "3", "3"),
    ]


def test_others_have_the_module_itself(package: Path) -> None:
    """Before and after its first use; and what comes from it is the same for all."""
    ask = "import used\nprint(type(used).__name__, user.used.Base is used.Base, sys.modules['used'] is used)\n"
    assert run(f"{BEGIN}{ask}", package) == ["used", "module", "True", "True"]
    assert run(f"{BEGIN}user.sum()\n{ask}", package) == ["used", "inner", "module", "True", "True"]


def test_a_module_that_is_loaded_already_stays(package: Path) -> None:
    assert run(f"import used\nbefore = used\n{BEGIN}print(user.used is before)", package) == ["used", "True"]


def test_a_module_that_cannot_be_loaded_says_so_at_its_first_use() -> None:
    from hipcache.remote.reapi import put_off

    with put_off("no_such_module_anywhere"):
        import no_such_module_anywhere as none  # type: ignore[import-not-found]
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        _ = none.anything
    assert "no_such_module_anywhere" not in sys.modules


def test_the_protocol_is_loaded_without_asyncio_and_grpc_is_whole() -> None:
    unneeded = {"asyncio", "ssl", "grpc.aio", "inspect", "google.protobuf.text_format"}
    loads = f"from hipcache.remote import reapi\nprint(*{unneeded} & set(sys.modules))\n"
    assert run(loads) == []
    whole = "import asyncio, grpc, grpc.aio\nprint(grpc.aio.Channel.__name__, asyncio.run(asyncio.sleep(0, 'ran')))\n"
    assert run(loads + whole) == ["Channel", "ran"]
