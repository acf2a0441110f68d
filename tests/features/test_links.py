"""Links of relocatable device code by both offload drivers: what is served, and that nothing wrong ever is."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace as with_changes
from functools import lru_cache
from pathlib import Path

import pytest
from hip import FULL, HIT, LAUNCHER, LLVM, MISS, PARTIAL, Lab, replace, script, settle
from programs import ALL, Program, linking_toolchain
from toolchains import NEW, OLD, OLD_19

pytestmark = pytest.mark.takes_turns("program")

Driver = tuple[str, tuple[str, ...]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Driver], Path]:
    """The directory with the objects for a driver."""

    @lru_cache
    def build(driver: Driver) -> Path:
        version, flags = driver
        lab = Lab.make(tmp_path_factory.mktemp(f"clang{version}"), version)
        Program(lab, flags).build()
        return lab.root

    return build


@pytest.fixture(params=[OLD, NEW, *([OLD_19] if FULL else [])], ids=lambda driver: "".join([*driver[1], driver[0]]))
def program(request: pytest.FixtureRequest, tmp_path: Path, built: Callable[[Driver], Path]) -> Program:
    version, flags = request.param
    lab = Lab.make(tmp_path, version)
    shutil.copytree(built(request.param), lab.root, dirs_exist_ok=True)
    made = Program(lab, flags)
    if flags:
        # Compiled here: without a CUID, names of static variables have the source's inode in them.
        made.one()
        made.two()
    return made


def with_own_tools(program: Program, root: Path) -> Program:
    """The same with a toolchain in which a test may replace programs."""
    return with_changes(
        program, lab=with_changes(program.lab, compiler=str(linking_toolchain(root, program.lab.version)))
    )


def entries(program: Program, what: str) -> list[Path]:
    return [path for path in (program.lab.store / "v2" / what).rglob("*") if path.is_file()]


def leftovers(program: Program) -> list[Path]:
    return list((program.lab.store / "v2" / "tmp").iterdir())


# What is served


def test_a_link_is_plain_clangs_and_the_next_one_runs_no_lto(program: Program) -> None:
    first, counted = program.link()
    assert (counted.outcome, counted.missed) == (MISS, ALL)
    assert subprocess.run([program.lab.root / "program"], check=False).returncode == 0
    second, counted = program.link()
    assert (counted.outcome, counted.missed, counted.served) == (HIT, frozenset(), ALL)
    assert second == first


def test_an_edit_of_host_code_runs_no_lto(program: Program) -> None:
    before = program.warm()
    program.one(host="1")
    after, counted = program.link()
    assert after != before
    assert (counted.outcome, counted.missed) == (HIT, frozenset())


def test_an_edit_within_one_arch_runs_that_ones_lto_alone(program: Program) -> None:
    before = program.warm()
    program.two(gfx90a="5")
    after, counted = program.link()
    assert after != before
    assert counted.outcome == PARTIAL
    assert (counted.missed, counted.served) == ({"gfx90a", "link"}, {"gfx906", "link"})
    said = program.lab.hipcache("explain", "program").out.decode()
    assert "device code of 'two.o' changed" in said
    assert "device code of 'one.o'" not in said


@pytest.mark.parametrize("kind", ["-foffload-lto", "-foffload-lto=thin"])
def test_objects_for_device_lto_are_linked_as_others(program: Program, kind: str) -> None:
    def compiled(gfx90a: str) -> None:
        program.one("0", kind)
        program.two(gfx90a, kind)

    compiled("2")
    before = program.warm(kind)
    compiled("8")
    after, counted = program.link(kind)
    assert after != before
    assert counted.missed == {"gfx90a", "link"}


# Hazards: inputs and tools that change


def test_an_object_replaced_by_one_of_the_same_size_and_time_is_seen(program: Program) -> None:
    program.two(gfx90a="3")
    other = (program.lab.root / "two.o").read_bytes()
    program.two(gfx90a="5")
    before = program.warm()
    if len(other) != (program.lab.root / "two.o").stat().st_size:
        pytest.skip("the objects differ in size")
    replace(program.lab.root / "two.o", other)
    after, _ = program.link()
    assert after != before


def test_another_linker_links_again(program: Program, tmp_path: Path) -> None:
    program = with_own_tools(program, tmp_path / "llvm")
    lld = tmp_path / "llvm" / "bin" / "lld"
    # The driver calls `lld -flavor gnu`, clang below the linker wrapper `ld.lld`.
    real = LLVM[program.lab.version] / "bin" / ("ld.lld" if program.flags else "lld")
    lines = [f'exec {real} "$@" {more}\n' for more in ("--build-id=none", "--build-id=0xab")]
    script(lld, lines[0])
    before = program.warm()
    replace(lld, b"#!/bin/sh\n" + lines[1].encode())
    after, counted = program.link()
    assert after != before
    assert counted.missed == ALL


def test_another_library_of_the_linker_links_again(program: Program, tmp_path: Path) -> None:
    """It is the same program with other code in it: the LTO is in a shared library."""
    (tmp_path / "lib").mkdir()
    library = Path(shutil.copy2("/lib/x86_64-linux-gnu/libz.so.1", tmp_path / "lib"))
    program.lab.environ["LD_LIBRARY_PATH"] = str(library.parent)
    settle()
    program.warm()
    with library.open("ab") as file:
        file.write(b"\0")
    settle()
    _, counted = program.link()
    assert counted.missed == ALL


@pytest.mark.files
def test_keys_of_links_are_whole_digests(program: Program) -> None:
    program.warm()
    names = {path.name for what in ("actions", "blobs") for path in entries(program, what)}
    assert {len(name) for name in names} == {64}


# Hazards: the store


@pytest.mark.files
@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", ["actions", "blobs"])
@pytest.mark.parametrize("how", ["cut", "changed", "gone"])
def test_a_damaged_entry_is_never_taken(program: Program, what: str, how: str) -> None:
    program.warm()
    for path in entries(program, what):
        content = path.read_bytes()
        path.chmod(0o644)
        if how == "gone":
            path.unlink()
        else:
            path.write_bytes(content[: len(content) // 2] if how == "cut" else content[:-1] + b"?")
    _, counted = program.link()
    assert (counted.outcome, counted.missed) == (MISS, ALL)
    assert program.link()[1].outcome == HIT


def test_two_processes_with_the_same_cold_link_do_the_work_once(program: Program) -> None:
    words = [program.words("-o", name) for name in ("a", "b")]
    running = [
        subprocess.Popen([*LAUNCHER, *line], cwd=program.lab.root, env=program.lab.environ, stderr=subprocess.DEVNULL)
        for line in words
    ]
    assert [one.wait() for one in running] == [0, 0]
    stats = program.lab.stats()
    assert stats["units"]["link"] == {"hits": 2, "misses": 2}  # type: ignore[index]
    assert (program.lab.root / "a").read_bytes() == (program.lab.root / "b").read_bytes()


def test_a_link_leaves_nothing_behind(program: Program) -> None:
    program.lab.write("temporary/.keep", "")
    settle()
    env = {"TMPDIR": str(program.lab.root / "temporary")}
    for _ in range(2):
        assert program.lab.hipcache(*program.words(), env=env).status == 0
    assert [path.name for path in (program.lab.root / "temporary").iterdir()] == [".keep"]
    assert not leftovers(program)


def test_a_link_to_no_file_is_written_through_where_the_linker_prints(program: Program) -> None:
    """The compiler links again then, and the linker would replace a link to the file that is there by now."""
    made, found = program.lab.root / "program", []
    for launcher in ((), LAUNCHER):
        made.unlink(missing_ok=True)
        made.symlink_to("elsewhere")
        assert program.lab.run([*launcher, *program.words("-Wl,--trace")]).status == 0
        found.append((made.readlink(), made.read_bytes()))
        (program.lab.root / "elsewhere").unlink()
    assert found[0] == found[1]
    assert program.lab.counted().reason == "job_output"


def test_what_a_link_leaves_that_is_killed_is_no_entry_and_is_swept(program: Program, tmp_path: Path) -> None:
    program = with_own_tools(program, tmp_path / "llvm")
    lab, busy = program.lab, tmp_path / "busy"
    real = LLVM[lab.version] / "bin" / ("ld.lld" if program.flags else "lld")
    slow = f'exec {real} "$@"\n'
    wait = f"echo >>{busy}; for i in $(seq 100); do [ -e {busy} ] || break; sleep 0.1; done\n"
    lld = tmp_path / "llvm" / "bin" / "lld"
    script(lld, wait + slow)
    process = subprocess.Popen([*LAUNCHER, *program.words()], cwd=lab.root, env=lab.environ, start_new_session=True)
    while not busy.exists():
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    left = leftovers(program)
    assert left
    busy.unlink()
    script(lld, slow)
    _, counted = program.link()
    assert counted.missed == ALL
    for path in left:
        old = time.time() - 3600
        os.utime(path / ".lock", (old, old))
    assert lab.hipcache("gc").status == 0
    assert not leftovers(program)


def test_a_full_disk_for_the_store_is_no_reason_not_to_link(program: Program, small_disk: Path) -> None:
    program.lab.environ["HIPCACHE_DIR"] = str(small_disk / "store")
    program = dataclasses.replace(program, launcher=LAUNCHER)  # what is told once in a build follows from the parent
    filler = small_disk / "filler"
    with suppress(OSError), open(filler, "wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    said = program.lab.run([*LAUNCHER, *program.words()])
    assert (said.status, said.err.count(b"is full")) == (0, 1), "said once, then plain clang's words"
    # More and more room: for nothing, for some of what the link writes, for all of it.
    for room in (8, 24, 56, 120):
        assert program.link()[0]
        os.truncate(filler, max(filler.stat().st_size - room * 1024, 0))


@pytest.mark.files
def test_a_store_that_is_only_read_serves_links_and_keeps_none(program: Program) -> None:
    program.warm()
    held = entries(program, "actions"), entries(program, "blobs")
    program.two(gfx90a="6")
    program.lab.environ["HIPCACHE_READONLY"] = "1"
    for _ in range(2):
        program.link()
    assert (entries(program, "actions"), entries(program, "blobs")) == held
    del program.lab.environ["HIPCACHE_READONLY"]
    assert program.link()[1].missed == {"gfx90a", "link"}


def test_with_recache_each_device_link_runs_again(program: Program) -> None:
    program.warm()
    program.lab.environ["HIPCACHE_RECACHE"] = "1"
    assert program.link()[1].missed == ALL
    del program.lab.environ["HIPCACHE_RECACHE"]
    assert program.link()[1].outcome == HIT


@pytest.mark.files
def test_links_are_held_to_the_size_of_the_store(program: Program) -> None:
    """With room for twice what the first one takes: the last one is served, and others went."""

    def taken() -> int:
        files = [path for what in ("actions", "blobs", "history") for path in entries(program, what)]
        return sum(-(-path.stat().st_size // 4096) * 4096 for path in files)

    program.two(gfx90a="10")
    program.link()
    limit = 2 * taken()
    program.lab.environ["HIPCACHE_MAX_SIZE"] = f"{limit // 1024}K"
    for number in range(8):
        program.two(gfx90a=str(10 + number))
        program.link()
        assert taken() <= limit
    assert program.link()[1].outcome == HIT
    missed = []
    for number in range(8):
        program.two(gfx90a=str(10 + number))
        missed.append(program.link()[1].missed)
    assert not missed[0]
    assert any("link" in units for units in missed)
