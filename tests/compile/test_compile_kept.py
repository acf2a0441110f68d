"""What a compile keeps in the store, and how it goes on where that is damaged, full or gone."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from compile_world import ARCHS, World, template, warm, world
from hipcache.base.errors import StoreError
from hipcache.base.values import replace
from hipcache.store.local import LocalStore

__all__ = ["template", "warm", "world"]


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
    done = warm.compile(context=replace(warm.context, recache=True))
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
    done = full.compile(context=replace(full.context, store=Full(full.root / "store", max_bytes=0)))
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


def test_of_a_macro_that_nobody_uses_the_preprocessor_is_asked_once(world: World) -> None:
    ran = []
    for commit in (1, 2, 3):
        world.compiler.options = f' "-D" "COMMIT={commit}"'
        outcome = world.compile().outcome.outcome
        ran.append(world.ran())
    assert outcome == "hit"
    assert ran[1:] == [{"text"}, set()]


def test_where_all_passes_see_the_same_lines_one_is_asked(tmp_path: Path, template: bytes) -> None:
    world = World(tmp_path, template, slots=1)
    world.write("k.hip", "kernel __LINE__\n")
    world.compile()
    world.write("k.hip", "// a line\nkernel __LINE__\n")
    assert world.compile().outcome.outcome != "hit"
    assert world.compiler.ran.count("text") == 1
