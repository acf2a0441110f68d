"""One compile from command to outcome, with a fake compiler, the real store, and a clock that the test drives."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_compiler import Compiler, host_template
from hipcache.cli.explain import describe
from hipcache.engine import Engine
from hipcache.errors import JobFailed, PassThrough, StoreError
from hipcache.loop.account import Compiled
from hipcache.loop.front import make
from hipcache.planning import command
from hipcache.processes.runner import Killed
from hipcache.processes.slots import SharedSlots
from hipcache.report.history import History
from hipcache.store.local import LocalStore
from hipcache.values import replace
from store_clock import HandClock

ARCHS = ["gfx1030", "gfx906", "gfx90a"]


class World:
    """A directory with a source, a compiler, a store and a history. The clock stands long after all files."""

    def __init__(self, root: Path, template: bytes) -> None:
        self.root = root
        self.clock = HandClock(time.time() + 1000)
        self.compiler = Compiler(root, template, self.clock)
        self.store = LocalStore(root / "store", max_bytes=0)
        self.history = History(self.store.notes("history"))
        self.engine = Engine(
            store=self.store,
            runner=self.compiler,
            slots=SharedSlots(4, ""),
            environ={"PATH": "/usr/bin"},
            clock=self.clock,
            history=self.history,
        )
        (root / "out").mkdir()
        self.write("k.hip", "include x.h\nkernel 1\nhost 1\n")
        self.write("x.h", "int x;\n")

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def compile(self, *words: str, engine: Engine | None = None) -> Compiled:
        """A compile as the launcher does it: its record is kept."""
        self.compiler.ran.clear()
        (self.root / "out/k.o").unlink(missing_ok=True)
        argv = (str(self.compiler.tools / "clang++"), *words, "-c", "k.hip", "-o", "out/k.o")
        done = make(engine or self.engine, command.parse(argv, str(self.root), {}), None)
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


# Miss, hit, partial hit


def test_the_first_compile_runs_every_job_of_the_plan(world: World) -> None:
    done = world.compile()
    assert done.outcome.outcome == "miss"
    assert world.ran("front") == {f"front {arch}" for arch in ARCHS}
    assert world.ran("back") == {f"back {arch}" for arch in ARCHS}
    assert world.compiler.ran.count("link") == len(ARCHS)
    assert world.compiler.ran.count("host") == world.compiler.ran.count("bundle") == 1
    assert [unit.name for unit in done.outcome.units] == [*ARCHS, "host"]


def test_the_object_holds_the_code_objects_in_the_plans_order(world: World) -> None:
    world.compile()
    places = [world.object.index(f"code object of {arch}".encode()) for arch in ARCHS]
    assert places == sorted(places)


def test_the_second_compile_runs_no_job_and_gives_the_same_object(warm: World) -> None:
    first = warm.object
    done = warm.compile()
    assert done.outcome.outcome == "hit"
    assert warm.ran() == set()
    assert warm.object == first
    assert all(unit.hit and unit.frontend for unit in done.outcome.units)


def test_a_hit_tells_the_seconds_that_it_saved(warm: World) -> None:
    # Three front ends, three back ends with their links, and the host's pass: a second each.
    assert warm.compile().outcome.seconds_saved == pytest.approx(10)


def test_an_edit_of_host_code_runs_no_back_end(warm: World) -> None:
    first = warm.object
    warm.write("k.hip", "include x.h\nkernel 1\nhost 2\n")
    done = warm.compile()
    assert done.outcome.outcome == "partial"
    assert warm.ran() == {*(f"front {arch}" for arch in ARCHS), "host", "bundle"}
    assert warm.object != first
    assert all(unit.backend for unit in done.outcome.units if unit.name != "host")


def test_an_edit_of_a_kernel_runs_all(warm: World) -> None:
    warm.write("x.h", "int y;\n")
    assert warm.compile().outcome.outcome == "miss"
    assert warm.ran("back") == {f"back {arch}" for arch in ARCHS}


def test_an_edit_that_is_taken_back_is_a_hit(warm: World) -> None:
    first = warm.object
    warm.write("x.h", "int y;\n")
    warm.compile()
    warm.write("x.h", "int x;\n")
    assert warm.compile().outcome.outcome == "hit"
    assert warm.object == first


def test_one_arch_less_runs_only_the_bundler(warm: World) -> None:
    warm.compiler.plan = "clang15-one-arch"
    done = warm.compile()
    assert warm.ran() <= {"bundle"} | {job for job in warm.ran() if "gfx906" in job} | {"host", "link"}
    assert [unit.name for unit in done.outcome.units] == ["gfx906", "host"]


def test_nothing_is_left_in_the_store_but_entries(warm: World) -> None:
    assert warm.temporary() == []


# Messages


def test_messages_come_in_the_plans_order_on_a_miss_and_on_a_hit(world: World) -> None:
    world.compiler.says = {f"front {arch}": f"warning of {arch}\n" for arch in ARCHS} | {
        "host": "warning of the host\n"
    }
    expected = "".join(f"warning of {arch}\n" for arch in ARCHS) + "warning of the host\n"
    assert world.compile().messages == expected
    assert world.compile().messages == expected
    assert world.ran() == set()


def test_a_back_end_that_talks_is_heard_in_one_step(world: World) -> None:
    world.compiler.says = {"back gfx906": "<unknown>:0:0: warning\n", "whole gfx906": "k.hip:1:1: warning\n"}
    assert world.compile().messages == "k.hip:1:1: warning\n"
    assert "whole gfx906" in world.ran()
    assert world.compile().messages == "k.hip:1:1: warning\n"
    assert world.ran() == set()


def test_an_arch_whose_back_end_talked_is_compiled_in_one_step_from_then_on(world: World) -> None:
    world.compiler.says = {"back gfx906": "<unknown>:0:0: warning\n", "whole gfx906": "k.hip:1:1: warning\n"}
    world.compile()
    world.write("x.h", "int y;\n")
    assert world.compile().messages == "k.hip:1:1: warning\n"
    assert world.ran("front", "back", "whole") == {
        "front gfx1030", "back gfx1030", "front gfx90a", "back gfx90a", "whole gfx906",
    }  # fmt: skip


def test_messages_are_shown_again_after_an_edit_of_host_code(world: World) -> None:
    world.compiler.says = {"back gfx906": "<unknown>:0:0: warning\n", "whole gfx906": "k.hip:1:1: warning\n"}
    world.compile()
    world.write("k.hip", "include x.h\nkernel 1\nhost 2\n")
    assert world.compile().messages == "k.hip:1:1: warning\n"


# What is left to the compiler


@pytest.mark.parametrize("kind", ["front gfx906", "back gfx906", "link", "host", "bundle"])
def test_a_job_that_fails_is_told_and_nothing_is_written(world: World, kind: str) -> None:
    world.compiler.fails = {kind}
    with pytest.raises((JobFailed, Killed)):
        world.compile()
    assert not (world.root / "out/k.o").exists()
    world.compiler.fails = set()
    world.compile()
    assert world.object[:4] == b"\x7fELF"


@pytest.mark.parametrize("kind", ["front gfx906", "back gfx906", "link", "host", "bundle"])
def test_a_job_that_prints_on_standard_output_is_left(world: World, kind: str) -> None:
    world.compiler.prints = {kind: "what is this?"}
    with pytest.raises((PassThrough, Killed)) as left:
        world.compile()
    assert isinstance(left.value, Killed) or left.value.reason == "job_output"
    assert not (world.root / "out/k.o").exists()


@pytest.mark.parametrize("kind", ["link", "bundle"])
def test_a_tool_that_warns_is_left(world: World, kind: str) -> None:
    world.compiler.says = {kind: "warning: what is this?"}
    with pytest.raises((PassThrough, Killed)) as left:
        world.compile()
    assert isinstance(left.value, Killed) or left.value.reason == "job_output"


def test_a_driver_that_refuses_the_command_is_a_job_that_failed(world: World) -> None:
    world.compiler.fails = {"plan"}
    with pytest.raises(JobFailed) as failed:
        world.compile()
    assert failed.value.job == "the driver"


def test_a_tool_that_is_gone_is_left(world: World) -> None:
    (world.compiler.tools / "lld").unlink()
    with pytest.raises(PassThrough) as left:
        world.compile()
    assert left.value.reason == "tool"


def test_a_host_object_of_another_layout_is_left(world: World) -> None:
    world.compiler.template = b"no object"
    with pytest.raises((PassThrough, Killed)) as left:
        world.compile()
    assert isinstance(left.value, Killed) or left.value.reason == "object_layout"


# What is kept


def test_another_compiler_shares_nothing(warm: World) -> None:
    (warm.compiler.tools / "clang").write_text("another clang")
    assert warm.compile().outcome.outcome == "miss"


def test_another_linker_runs_the_passes_again(warm: World) -> None:
    (warm.compiler.tools / "lld").write_text("another lld")
    warm.compile()
    assert warm.compiler.ran.count("link") == len(ARCHS)


def test_a_pass_that_cannot_be_traced_is_not_kept(world: World) -> None:
    world.write("x.h", "char t[] = __DATE__;\n")
    notes = world.compile().outcome.notes
    assert notes == ("not stored: 'x.h' uses __DATE__",)
    world.compile()
    assert world.ran("front") == {f"front {arch}" for arch in ARCHS}
    assert world.ran("back") == set()


def test_a_file_that_changes_while_the_compiler_runs_is_not_kept(world: World) -> None:
    world.clock.now = time.time() - 1000
    assert any("changed while the compiler ran" in note for note in world.compile().outcome.notes)
    world.clock.now = time.time() + 1000
    assert world.compile().outcome.outcome != "hit"


def test_a_clock_that_is_set_back_makes_a_pass_untraceable(world: World) -> None:
    def set_back(kind: str) -> None:
        if kind == "host":
            world.clock.now -= 500

    world.compiler.before = set_back
    assert "not stored: the clock was set back while the compiler ran" in world.compile().outcome.notes


def test_recache_takes_no_hits_and_stores_anew(warm: World) -> None:
    done = warm.compile(engine=replace(warm.engine, recache=True))
    assert done.outcome.outcome == "miss"
    assert warm.ran("back") == {f"back {arch}" for arch in ARCHS}
    assert warm.compile().outcome.outcome == "hit"


def blobs(world: World) -> list[Path]:
    """Files of the store that hold content."""
    return [path for path in (world.root / "store").rglob("*") if path.is_file() and "blobs" in str(path)]


def test_the_test_finds_the_stores_blobs(warm: World) -> None:
    assert len(blobs(warm)) >= len(ARCHS) + 2


def test_a_store_that_is_damaged_all_over_heals(warm: World) -> None:
    first = warm.object
    for path in blobs(warm):
        path.write_bytes(b"damaged" + path.read_bytes()[7:])
    for expected in ({"miss", "partial"}, {"hit"}):
        assert warm.compile().outcome.outcome in expected
        assert warm.object == first


def test_however_many_code_objects_are_damaged_one_compile_makes_them_anew(warm: World) -> None:
    first = warm.object
    for path in blobs(warm):
        if path.read_bytes().startswith((b"\x7fELF", b"code")):
            path.write_bytes(b"damaged" + path.read_bytes()[7:])
    warm.compiler.ran.clear()
    warm.compile()
    assert warm.object == first
    jobs = sorted(job for job in warm.compiler.ran if job.startswith(("front", "back")))
    assert jobs == sorted(f"{kind} {arch}" for kind in ("front", "back") for arch in ARCHS), "each once"


def test_each_damaged_blob_on_its_own_is_recovered_from(warm: World) -> None:
    first = warm.object
    for name in [path.relative_to(warm.root) for path in blobs(warm)]:
        path = warm.root / name
        if path.exists():
            path.write_bytes(path.read_bytes()[:-1])
            warm.compile()
            assert warm.object == first


def test_each_missing_blob_is_recovered_from(warm: World) -> None:
    first = warm.object
    for path in blobs(warm):
        path.unlink(missing_ok=True)
        warm.compile()
        assert warm.object == first


class Full(LocalStore):
    """A store on a disk that is full."""

    def put_blobs(self, contents: Iterable[bytes]) -> list[str]:
        raise StoreError("no space left")

    def put_action(self, key: str, record: bytes, *, own: bool = False) -> None:
        raise StoreError("no space left")


def test_a_full_disk_costs_only_speed(world: World, template: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    world.compile()
    full = World(tmp_path_factory.mktemp("full"), template)
    done = full.compile(engine=replace(full.engine, store=Full(full.root / "store", max_bytes=0)))
    assert done.outcome.outcome == "miss"
    assert done.outcome.notes == ("not stored: no space left",)
    assert full.object[:4] == b"\x7fELF"
    assert all(f"code object of {arch}".encode() in full.object for arch in ARCHS)


def test_a_store_that_goes_while_it_compiles_costs_only_speed(warm: World) -> None:
    warm.write("x.h", "int y;\n")

    def remove(kind: str) -> None:
        if kind == "bundle":
            for path in blobs(warm):
                path.unlink(missing_ok=True)

    warm.compiler.before = remove
    warm.compile()
    assert b"int y;" in warm.object


# Side by side


def test_two_that_compile_one_object_at_once_do_the_work_once(world: World) -> None:
    gate = threading.Barrier(2)
    jobs: list[str] = []

    def note(kind: str) -> None:
        if kind == "plan":
            gate.wait(60)
        jobs.append(kind)

    world.compiler.before = note
    argv = (str(world.compiler.tools / "clang++"), "-c", "k.hip", "-o", "out/k.o")
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(make, world.engine, command.parse(argv, str(world.root), {}), None) for _ in range(2)]
        ends = [future.result().outcome.outcome for future in futures]
    assert set(ends) <= {"hit", "miss", "partial"}
    assert sorted(kind for kind in jobs if kind not in ("plan", "bundle")) == sorted(
        [*(f"front {arch}" for arch in ARCHS), *(f"back {arch}" for arch in ARCHS), *["link"] * len(ARCHS), "host"]
    )


def test_the_passes_run_side_by_side(world: World) -> None:
    together = threading.Barrier(4)

    def meet(kind: str) -> None:
        if kind == "host" or kind.startswith("front"):
            together.wait(60)

    world.compiler.before = meet
    world.compile()


# Dependency files


def test_the_dependency_file_is_written_with_the_object_on_a_miss_and_on_a_hit(world: World) -> None:
    world.compiler.plan = "clang15-dependencies"
    expected = "k o.o: k.hip x.h\n\nx.h:\n"
    for _ in range(2):
        rule = world.root / "k d.d"
        rule.unlink(missing_ok=True)
        argv = (str(world.compiler.tools / "clang++"), "-c", "k.hip", "-o", "k.o")
        make(world.engine, command.parse(argv, str(world.root), {}), None)
        assert rule.read_text() == expected


# What explain says


def explained(world: World) -> str:
    record = world.history.load(str(world.root / "out/k.o"))
    assert record
    return "\n".join(describe(record))


def test_a_first_compile_is_explained(world: World) -> None:
    world.compile()
    assert ": miss" in explained(world)
    assert explained(world).count("first compile of this object with this store") == len(ARCHS) + 1


def test_a_changed_header_is_named(warm: World) -> None:
    warm.write("x.h", "int y;\n")
    done = warm.compile()
    assert set(warm.why(done).values()) == {("file 'x.h' changed",)}
    assert "file 'x.h' changed" in explained(warm)


def test_a_hit_has_no_reason(warm: World) -> None:
    assert set(warm.why(warm.compile()).values()) == {()}
    assert ": hit" in explained(warm)


def test_a_header_that_is_read_now_is_named(warm: World) -> None:
    warm.write("y.h", "int z;\n")
    warm.write("k.hip", "include x.h\ninclude y.h\nkernel 1\nhost 1\n")
    reasons = warm.why(warm.compile())["gfx906"]
    assert "file 'k.hip' changed" in reasons
    assert "file 'y.h' is now read" in reasons


def test_another_compiler_is_named(warm: World) -> None:
    (warm.compiler.tools / "clang").write_text("another clang")
    assert "the compiler changed, or a library that it loads" in warm.why(warm.compile())["host"][0]


def test_a_cleared_store_is_named(warm: World) -> None:
    shutil.rmtree(warm.root / "store" / "v1" / "actions", ignore_errors=True)
    warm.store.clear()
    warm.history.save(warm.compile().record)
    assert ": miss" in explained(warm)


def test_an_early_cut_off_is_told(warm: World) -> None:
    warm.write("k.hip", "include x.h\nkernel 1\nhost 2\n")
    warm.compile()
    assert "hit: the front end ran again, and the store has the back end's result for its output" in explained(warm)
    assert ": partial hit" in explained(warm)


def test_an_arch_that_was_not_there_is_told(world: World) -> None:
    world.compiler.plan = "clang15-one-arch"
    world.compile()
    world.compiler.plan = "clang15-three-archs"
    text = world.root / "out/k.o"
    done = world.compile()
    assert text.exists()
    reasons: Callable[[str], tuple[str, ...]] = world.why(done).__getitem__
    assert reasons("gfx906") or reasons("gfx90a")
