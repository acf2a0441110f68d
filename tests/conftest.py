"""Fixtures that many tests use, a bound for each test, and what a short run leaves out."""

from __future__ import annotations

import gc
import itertools
import os
import re
import shutil
import subprocess
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import bare_lab
import pytest
import rewritten
from bound import bounded, usual_signals
from hip import ARCHS, FULL, Lab, let_others_in, settle
from hipcache.base.times import came_since
from sampling import Case, left_out
from toolchains import BY_NEW_DRIVER, COMPILERS, LLVM

_NEW_DRIVER = f"22{BY_NEW_DRIVER}"
# No test takes so long, nor any fixture: the longest take half a minute on two cores, and may be slowed down by others.
SECONDS = float(os.environ.get("TEST_SECONDS", "3600" if FULL else "600"))
# Of a test: its number in this worker, its directory, and whether it has passed.
_NUMBERS = itertools.count()
_DIRECTORY = pytest.StashKey[Path]()
_PASSED = pytest.StashKey[bool]()


@pytest.fixture(params=(*COMPILERS, _NEW_DRIVER))
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """A place to compile in with one version of clang, and an empty store."""
    lab = Lab.make(tmp_path, request.param)
    archs = request.node.get_closest_marker("archs")
    return replace(lab, archs=ARCHS[: archs.args[0]]) if archs and not FULL else lab


@pytest.fixture(autouse=True)
def files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("files"):
        monkeypatch.setattr(bare_lab, "packs", False)


@pytest.fixture(scope="session", autouse=True)
def reachable(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Some tests compile as another user. What all tests share is opened before the first one compiles; and the workers
    wait for each other, whose directories change the one that they share: it would count as moved. No test may do that
    later, which would be another one's miss."""
    base = tmp_path_factory.getbasetemp()
    let_others_in(base)
    end = time.monotonic() + 60
    # (Of a few tests, a worker may get none.)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")) if request.session.testscollected > 500 else 0
    while len([*base.parent.glob("popen-*")]) < workers and time.monotonic() < end:
        time.sleep(0.02)
    settle()
    began = time.time_ns()
    yield
    for path in (base, *base.parents):
        assert not came_since(began, path.lstat), f"a test changed the mode of '{path}', which all tests share"


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As pytest's own, with a name that no other test of this worker gets: what a test leaves running may still know
    its directory. (The name is as long in each run, since clang wraps lines by its length.) It is gone once the test
    has passed and all its fixtures have ended: a run makes 100,000 files."""
    name = re.sub(r"\W", "_", request.node.name)[:27]
    path = tmp_path_factory.mktemp(f"{name}-{next(_NUMBERS):04}", numbered=False)
    request.node.stash[_DIRECTORY] = path
    return path


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
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(_Workers())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Looking for garbage among ten thousand cases would take 40 % of the collection; they live until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with bounded(SECONDS):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with bounded(SECONDS):
        yield
    item.stash[_PASSED] = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    with bounded(SECONDS):
        yield
        if item.stash.get(_PASSED, False) and _DIRECTORY in item.stash:
            shutil.rmtree(item.stash[_DIRECTORY], ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The new offload driver is for tests with the marker `new_driver`. A short run leaves some cases out (see
    `sampling`)."""
    items[:] = [item for item in items if not _is_new_driver(item) or _meets_new_driver(item)]
    if FULL:
        return
    numbers = left_out([_case(item) for item in items])
    config.stash[_SHORT] = len(items) - len(numbers), len(items)
    config.hook.pytest_deselected(items=[items[number] for number in sorted(numbers)])
    items[:] = [item for number, item in enumerate(items) if number not in numbers]


def _is_new_driver(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("lab") == _NEW_DRIVER


def _meets_new_driver(item: pytest.Item) -> bool:
    return "22" in LLVM and item.get_closest_marker("new_driver") is not None


def _case(item: pytest.Item) -> Case:
    callspec = getattr(item, "callspec", None)
    parameters = dict(callspec.params) if callspec else {}
    turning, sampled = item.get_closest_marker("takes_turns"), item.get_closest_marker("sampled")
    turn = parameters.pop(turning.args[0] if turning else "lab", None)
    return Case(
        module=str(item.path),
        test=item.nodeid.partition("[")[0],
        parameters=str(parameters),
        turn=None if turn is None or _is_skipped(item) else str(turn),
        sampled=sampled.args[0] if sampled else 1,
        every=item.get_closest_marker("every_compiler") is not None,
    )


def _is_skipped(item: pytest.Item) -> bool:
    return any(mark.args[:1] == (True,) for mark in item.iter_markers("skipif"))


# How many cases are run, and of how many. Workers collect; the process that tells of them is told at their end.
_SHORT = pytest.StashKey[tuple[int, int]]()


def pytest_sessionstart(session: pytest.Session) -> None:
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not FULL and not hasattr(session.config, "workerinput"):
        terminal.write_line(
            "a short run: a sample of large matrices, one compiler for most cases; all with TEST_FULL=1"
        )


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None and _SHORT in session.config.stash:
        output["short"] = session.config.stash[_SHORT]


class _Workers:
    """Hooks of xdist, where it is there."""

    def pytest_xdist_setupnodes(self, config: pytest.Config, specs: list[object]) -> None:
        names = rewritten.modules(config.args, config.invocation_params.dir, Path(__file__).parent)
        rewritten.write(names, min(len(specs), os.cpu_count() or 1))

    def pytest_testnodedown(self, node: Any, error: object) -> None:
        short = getattr(node, "workeroutput", {}).get("short")
        if short is not None:
            node.config.stash[_SHORT] = tuple(short)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    run, of = config.stash.get(_SHORT, (0, 0))
    if run < of:
        terminalreporter.write_line(f"a short run: {run} of {of} cases; all with TEST_FULL=1")
