"""Sources of the GPU's assembler: an object each, plain clang's, served while nothing has changed that shows in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from assembler_lab import AS, SOURCE, is_direct, kernel, warm, words
from hip import FAILED, HIT, LAUNCHER, MISS, PASSED_THROUGH, Lab, toolchain

__all__ = ["kernel"]

FORMS = {
    "as Tensile does": AS,
    "by the name alone": ("--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a"),
    "a version of code objects": (*AS, "-mcode-object-version=4"),
    "the width of a wave": (*AS[:-1], "-mcpu=gfx90a", "-mwavefrontsize64"),
    "an option of the assembler": (*AS, "-Wa,--noexecstack", "-Wa,-I,nowhere", "-Wa,-defsym,A=1"),
    "debug information": (*AS, "-g"),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_object_is_plain_clangs_and_the_next_one_runs_no_assembler(kernel: Lab, form: str, tmp_path: Path) -> None:
    command = words(kernel, *FORMS[form])
    warm(kernel, command)
    assert is_direct(kernel, command, tmp_path / "alone")
    served = (kernel.root / "out.o").read_bytes()
    assert kernel.run(command).status == 0
    assert (kernel.root / "out.o").read_bytes() == served


CHANGES: dict[str, Callable[[Lab], object]] = {
    "an edit of the source": lambda lab: lab.write("k.s", SOURCE.replace("v0, s0", "v1, s0")),
    "a definition in the environment of the driver": lambda lab: lab.environ.update(
        CCC_OVERRIDE_OPTIONS="#+-Wa,-defsym,B=2"
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_a_miss(kernel: Lab, change: str, tmp_path: Path) -> None:
    command = words(kernel)
    warm(kernel, command)
    assert is_direct(kernel, command, tmp_path / "alone")
    CHANGES[change](kernel)
    assert not is_direct(kernel, command, tmp_path / "alone")
    assert kernel.same(command).outcome == MISS


def test_another_architecture_is_another_object(kernel: Lab) -> None:
    before = warm(kernel, words(kernel))
    after = kernel.same(words(kernel, *AS[:-1], "-mcpu=gfx906"))
    assert (after.outcome, after.counted.missed) == (MISS, {"gfx906"})
    assert after.object != before.object


def test_a_source_written_anew_is_served_by_its_text(kernel: Lab, tmp_path: Path) -> None:
    command = words(kernel)
    warm(kernel, command)
    (kernel.root / "k.s").unlink()
    kernel.write("k.s", SOURCE)
    assert is_direct(kernel, command, tmp_path / "alone")
    assert kernel.same(command).outcome == HIT


def test_without_debug_information_directory_and_name_do_not_matter(kernel: Lab) -> None:
    warm(kernel, words(kernel))
    kernel.write("other/x.s", SOURCE)
    assert kernel.same(words(kernel, source="x.s"), cwd=kernel.root / "other").outcome == HIT


@pytest.mark.parametrize(
    ("flags", "before"),
    [((*AS, "-g"), ""), (AS, '.file 1 "a.c"\n'), (AS, '.FILE 1 "a.c"\n')],
    ids=["-g", "file", "FILE"],
)
def test_debug_information_is_of_one_directory(kernel: Lab, flags: tuple[str, ...], before: str) -> None:
    text = before + SOURCE.replace("s_endpgm", ".loc 1 7\n s_endpgm" if before else "s_endpgm")
    kernel.write("k.s", text)
    kernel.write("other/k.s", text)
    first = warm(kernel, words(kernel, *flags))
    other = kernel.same(words(kernel, *flags), cwd=kernel.root / "other")
    assert (other.outcome, other.object != first.object) == (MISS, True)
    kernel.write("x.s", text)
    assert kernel.same(words(kernel, *flags, source="x.s")).outcome == MISS


def test_another_assembler_is_a_miss(kernel: Lab, tmp_path: Path) -> None:
    clang = toolchain(tmp_path / "llvm", kernel.version).with_name("clang")
    command = [str(clang), *words(kernel)[1:]]
    warm(kernel, command)
    with clang.open("ab") as file:
        file.write(b"\0")
    assert not is_direct(kernel, command, tmp_path / "alone")
    assert kernel.same(command).outcome == MISS


def test_an_object_that_is_a_link_is_written_through(kernel: Lab) -> None:
    warm(kernel, words(kernel))
    (kernel.root / "out.o").unlink()
    (kernel.root / "out.o").symlink_to("real.o")
    assert kernel.run([*LAUNCHER, *words(kernel)]).status == 0
    assert kernel.counted().reason == "linked_output"
    assert (kernel.root / "out.o").is_symlink()
    assert (kernel.root / "real.o").read_bytes()


def test_where_nothing_can_be_written_the_error_is_clangs(kernel: Lab) -> None:
    warm(kernel, words(kernel))
    for output in ("nowhere/out.o", "."):
        ended = [kernel.run([*launcher, *words(kernel, output=output)]) for launcher in ((), LAUNCHER)]
        assert ended[0] == ended[1]
        assert ended[0].status == 1
        assert kernel.counted().outcome in (FAILED, PASSED_THROUGH)


@pytest.mark.files
def test_a_damaged_object_is_made_anew(kernel: Lab, tmp_path: Path) -> None:
    command = words(kernel)
    obj = warm(kernel, command).object
    damaged = [path for path in (kernel.store / "v2/blobs").rglob("*") if path.is_file() and path.read_bytes() == obj]
    for path in damaged:
        path.chmod(0o644)
        path.write_bytes(obj[:-1] + bytes([obj[-1] ^ 1]))
    assert damaged
    assert not is_direct(kernel, command, tmp_path / "alone")
    assert kernel.same(command).outcome == MISS
    assert kernel.same(command).outcome == HIT


def test_a_source_that_is_gone_is_clangs_error(kernel: Lab) -> None:
    warm(kernel, words(kernel))
    (kernel.root / "k.s").unlink()
    assert kernel.same(words(kernel)).status == 1


def test_explain_and_stats_tell_of_it(kernel: Lab) -> None:
    warm(kernel, words(kernel))
    kernel.write("k.s", SOURCE + "s_nop 0\n")
    kernel.same(words(kernel))
    told = kernel.hipcache("explain", "out.o").out.decode()
    assert "gfx90a  miss" in told
    assert "the source changed" in told
    stats = json.loads(kernel.hipcache("stats", "--json").out)
    assert stats["units"]["gfx90a"] == {"hits": 1, "misses": 2}
    assert stats["jobs"]["backend"] == {"hits": 1, "misses": 2}
    assert stats["jobs"]["frontend"] == {"hits": 0, "misses": 0}
