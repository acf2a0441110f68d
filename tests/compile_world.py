"""One compile without processes: a fake compiler, the real store, and a clock that the test drives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_compiler import Compiler, host_template
from hipcache.app.front import Compiled, make
from hipcache.build.context import Context
from hipcache.clang import command
from hipcache.processes.slots import SharedSlots
from hipcache.report.history import History
from hipcache.store.local import LocalStore
from store_clock import HandClock

ARCHS = ["gfx1030", "gfx906", "gfx90a"]


class World:
    """A directory with a source, a compiler, a store and a history. The clock stands long after all files."""

    def __init__(self, root: Path, template: bytes, slots: int = 4) -> None:
        self.root = root
        self.clock = HandClock(time.time() + 1000)
        self.compiler = Compiler(root, template, self.clock)
        self.store = LocalStore(root / "store", max_bytes=0)
        self.history = History(self.store.notes())
        self.context = Context(
            store=self.store,
            runner=self.compiler,
            slots=SharedSlots(slots, ""),
            environ={"PATH": "/usr/bin"},
            clock=self.clock,
            history=self.history,
        )
        (root / "out").mkdir()
        self.write("k.hip", "include x.h\nkernel 1\nhost 1\n")
        self.write("x.h", "int x;\n")

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def compile(self, *words: str, context: Context | None = None) -> Compiled:
        """A compile as the launcher does it: its record is kept."""
        self.compiler.ran.clear()
        (self.root / "out/k.o").unlink(missing_ok=True)
        argv = (str(self.compiler.tools / "clang++"), *words, "-c", "k.hip", "-o", "out/k.o")
        done = make(context or self.context, command.parse(argv, str(self.root), {}), None)
        self.history.save(done.record)
        return done

    @property
    def object(self) -> bytes:
        return (self.root / "out/k.o").read_bytes()

    def ran(self, *kinds: str) -> set[str]:
        """The jobs that ran, of these kinds (all but the plan if none is named)."""
        return {job for job in self.compiler.ran if job != "plan" and (not kinds or job.split()[0] in kinds)}

    def why(self, done: Compiled) -> dict[str, tuple[str, ...]]:
        return {unit.name: unit.why for unit in done.outcome.units}

    def temporary(self) -> list[Path]:
        return [path for path in (self.root / "store").rglob("*") if path.suffix in (".bc", ".code", ".hipfb")]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return host_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def world(tmp_path: Path, template: bytes) -> World:
    return World(tmp_path, template)


@pytest.fixture
def warm(world: World) -> Iterator[World]:
    """A world in which the source has been compiled."""
    assert world.compile().outcome.outcome == "miss"
    yield world
