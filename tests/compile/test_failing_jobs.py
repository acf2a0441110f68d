"""Which jobs run in a compile that fails: none in vain, none twice."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from compile_world import World, template
from hipcache.base.errors import CommandFailed, JobFailed
from hipcache.report import outcome
from hipcache.report.history import Record

__all__ = ["template"]


@pytest.fixture(params=[3])
def world(request: pytest.FixtureRequest, tmp_path: Path, template: bytes) -> World:
    """After an edit. The parameter: how many compilers may run; a compile has four passes."""
    world = World(tmp_path, template, request.param)
    world.compile()
    world.write("k.hip", "include x.h\nkernel 2\nhost 2\n")
    return world


def fail(world: World, kind: str, arch: str) -> CommandFailed:
    """A compile whose job of that kind finds a fault, recorded as the launcher does."""
    world.compiler.fails = {kind}
    world.compiler.says = {kind: f"k.hip:1:1: error: no\n1 error generated when compiling for {arch}.\n"}
    with pytest.raises(CommandFailed) as failed:
        world.compile()
    told = outcome.FAILED, "", str(failed.value)
    world.history.save(Record(f"{world.root}/out/k.o", world.clock(), (), str(world.root), *told, (), {}, ()))
    return failed.value


def test_after_an_edit_the_first_pass_runs_alone_until_it_is_through(world: World) -> None:
    failed = fail(world, "front gfx1030", "gfx1030")
    assert world.ran() == {"front gfx1030"}
    assert failed.text == "k.hip:1:1: error: no\n1 error generated when compiling for gfx1030.\n"
    assert failed.status == 1


@pytest.mark.parametrize("world", [4], indirect=True)
def test_with_a_slot_for_each_pass_none_waits_for_another(world: World) -> None:
    meeting = threading.Barrier(3)

    def meet(kind: str) -> None:
        if kind.startswith("front"):
            meeting.wait(60)

    world.compiler.before = meet
    assert world.compile().outcome.outcome == "miss"


@pytest.mark.parametrize("world", [5], indirect=True)
def test_one_waits_where_others_hold_the_slots(world: World) -> None:
    with world.context.slots.hold(), world.context.slots.hold():
        fail(world, "front gfx1030", "gfx1030")
    assert world.ran() == {"front gfx1030"}


def test_the_pass_that_failed_last_is_waited_for(world: World) -> None:
    fail(world, "front gfx906", "gfx906")
    world.write("k.hip", "include x.h\nkernel 3\nhost 2\n")
    fail(world, "front gfx906", "gfx906")
    assert world.ran("front") == {"front gfx1030", "front gfx906"}
    assert world.ran("host") == set()


def test_passes_before_a_failure_come_to_their_end_and_are_kept(world: World) -> None:
    failed = fail(world, "host", "host")
    assert failed.job == "host"
    world.compiler.fails = set()
    done = world.compile()
    assert world.ran() == {"host", "bundle"}
    assert done.outcome.outcome == "partial"


def test_what_passes_before_a_failure_said_is_told_first(world: World) -> None:
    world.compiler.fails = {"host"}
    world.compiler.says = {
        "front gfx906": "warning of gfx906\n",
        "host": "error: no\n1 error generated when compiling for host.\n",
    }
    with pytest.raises(CommandFailed) as failed:
        world.compile()
    assert failed.value.text == "warning of gfx906\nerror: no\n1 error generated when compiling for host.\n"


@pytest.mark.parametrize("kind", ["back gfx906", "link", "bundle"])
def test_a_job_behind_the_passes_is_told_by_the_users_own_command(world: World, kind: str) -> None:
    world.compiler.fails = {kind}
    world.compiler.says = {kind: "error: no\n1 error generated when compiling for gfx906.\n"}
    with pytest.raises(JobFailed) as failed:
        world.compile()
    assert not isinstance(failed.value, CommandFailed)


@pytest.mark.parametrize("said", ["error: no\n", "1 error generated.\nand more\n", "k: 1 error generated.\n", ""])
def test_a_pass_that_ends_without_its_count_is_told_by_the_users_own_command(world: World, said: str) -> None:
    world.compiler.fails = {"front gfx1030"}
    world.compiler.says = {"front gfx1030": said}
    with pytest.raises(JobFailed) as failed:
        world.compile()
    assert not isinstance(failed.value, CommandFailed)
