"""One compile from command to outcome: what runs, what is printed, written and explained."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from compile_world import ARCHS, World, template, warm, world
from hipcache.app.front import make
from hipcache.base.errors import JobFailed, PassThrough
from hipcache.clang import command
from hipcache.cli.explain import describe
from hipcache.processes.runner import Killed

__all__ = ["template", "warm", "world"]

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
        futures = [pool.submit(make, world.context, command.parse(argv, str(world.root), {}), None) for _ in range(2)]
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
        make(world.context, command.parse(argv, str(world.root), {}), None)
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
    shutil.rmtree(warm.root / "store" / "v2" / "actions", ignore_errors=True)
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
