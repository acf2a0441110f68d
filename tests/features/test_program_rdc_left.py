"""Programs of relocatable device code that fail, or that are left to the compiler."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from at_once import words
from hip import FAILED, LLVM, PASSED_THROUGH, script
from rdc_program import NEW, OLD, OLD_19, Sources, each_driver, sources

__all__ = ["sources"]
pytestmark = pytest.mark.takes_turns("sources")

new_enough = pytest.mark.parametrize("sources", [OLD_19, NEW], indirect=True, ids=["19", "new"])


@each_driver
def test_device_code_that_lacks_a_function_is_clangs_error(sources: Sources) -> None:
    sources.lab.write("program", "old")
    found = sources.both("two.hip", "-shared", "-fPIC")
    assert (found.ended.status, found.counted.outcome) == (1, FAILED)
    assert b"twice" in found.ended.err


@each_driver
def test_a_source_that_does_not_compile_is_clangs_error(sources: Sources) -> None:
    sources.lab.write("only.hpp", "nothing;\n")
    found = sources.both("one.hip")
    assert (found.ended.status, found.counted.outcome, found.files) == (1, FAILED, {})


@each_driver
def test_what_the_host_linker_refuses_is_not_compiled_twice(sources: Sources, tmp_path: Path) -> None:
    sources.warm("one.hip")
    linker = script(tmp_path / "ld", f'echo once >>{tmp_path}/count\necho "no, never" >&2\nexit 3\n')
    found = sources.both("one.hip", f"-B{tmp_path}")
    assert (found.counted.outcome, found.files) == (FAILED, {})
    assert found.ended.err.index(b"first") < found.ended.err.index(b"no, never")
    assert (linker.parent / "count").read_text() == "once\n" * 2
    found = sources.both("one.hip", "-Wl,--no-undefined", libraries=("-no-hip-rt",))
    assert (found.ended.status, found.counted.outcome, found.files) == (1, FAILED, {})


@new_enough
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["-Xoffload-linker", "-Map=device.map"], "linker_option"),
        (["plain.cpp", "-MD"], "several_sources"),
        (["-save-temps=obj"], "save_temps"),
        (["-flto", "-fuse-ld=lld"], "lto"),
        (["-v"], "asks_driver"),
        (["-fuse-cuid=random"], "random_cuid"),
    ],
)
def test_what_is_not_understood_is_left_to_the_compiler(sources: Sources, more: list[str], reason: str) -> None:
    lab = sources.lab
    lab.write("plain.cpp", "int plain() { return 1; }\n")
    lab.hipcache(*words(lab, "-fgpu-rdc", *sources.flags, "one.hip", *more))
    counted = lab.counted()
    assert (counted.outcome, counted.reason) == (PASSED_THROUGH, reason)


@pytest.mark.parametrize("sources", [OLD], indirect=True, ids=["15"])
def test_by_the_new_driver_of_another_clang_it_is_left(sources: Sources) -> None:
    shutil.copy2(LLVM["15"] / "bin/clang-linker-wrapper", sources.lab.root)
    sources.lab.hipcache(*words(sources.lab, "-fgpu-rdc", "--offload-new-driver", "one.hip"))
    counted = sources.lab.counted()
    assert (counted.outcome, counted.reason) == (PASSED_THROUGH, "new_driver")


@pytest.mark.parametrize("sources", [NEW], indirect=True, ids=["new"])
def test_target_ids_that_are_linked_together_are_left(sources: Sources) -> None:
    sources.compile("two.hip", "--offload-arch=gfx90a:xnack+")
    found = sources.both("one.hip", "two.o", "--offload-arch=gfx90a")
    assert (found.counted.outcome, found.counted.reason) == (PASSED_THROUGH, "target_id")
    sources.warm("one.hip", "--offload-arch=gfx90a:xnack-", "--offload-arch=gfx90a:xnack+")
