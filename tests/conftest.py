"""Fixtures that many tests use; and in a short run, which cases of a matrix meet which compiler."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from bound import bounded, usual_signals
from hip import FULL, Lab

COMPILERS = ("15", "19")
# No test takes so long, nor any fixture: the longest take half a minute on two cores, and may be slowed down by others.
SECONDS = float(os.environ.get("TEST_SECONDS", "3600" if FULL else "600"))
# So many cases are a matrix.
_MANY = 3


@pytest.fixture(params=COMPILERS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """A place to compile in with one version of clang, and an empty store."""
    return Lab.make(tmp_path, request.param)


@pytest.fixture
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB, or of the size that is the parameter."""
    mount = tmp_path / "disk"
    mount.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    size = getattr(request, "param", "256k")
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", mount]
    made = subprocess.run(words, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"cannot mount a tmpfs: {made.stderr.decode().strip()}")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", mount], check=True)


def pytest_configure(config: pytest.Config) -> None:
    usual_signals()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with bounded(SECONDS):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with bounded(SECONDS):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    with bounded(SECONDS):
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without TEST_FULL=1 (`make test-full`) each case of a matrix meets one compiler, and they take turns."""
    if FULL:
        return
    left_out = set(map(id, _left_out(items)))
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
    items[:] = [item for item in items if id(item) not in left_out]


def _left_out(items: Iterable[pytest.Item]) -> Iterable[pytest.Item]:
    matrices: dict[str, dict[str, dict[str, pytest.Item]]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        parameters = dict(callspec.params) if callspec else {}
        version = parameters.pop("lab", None)
        if version in COMPILERS and not item.get_closest_marker("every_compiler"):
            matrix = matrices.setdefault(item.nodeid.partition("[")[0], {})
            matrix.setdefault(str(parameters), {})[version] = item
    for matrix in matrices.values():
        met_by_each = [case for case in matrix.values() if len(case) == len(COMPILERS)]
        if len(met_by_each) >= _MANY:
            for number, case in enumerate(met_by_each):
                yield from (item for version, item in case.items() if version != COMPILERS[number % len(COMPILERS)])
