"""What counts for a module of iree-compile: its input, bitcode, specifications, parameters, compiler and variables."""

from __future__ import annotations

import shutil

from hip import HIT, LAUNCHER, MISS, Lab, explained, replace, rewrite, settle
from iree_lab import GFX90A, HIP, IMPORT, LIBRARIES, LOCAL, MATMUL, iree, needs_iree, same, warm, weights, words

__all__ = ["iree"]
pytestmark = needs_iree


def test_one_target_is_not_anothers(iree: Lab) -> None:
    first = warm(iree, *HIP)
    other = same(iree, *GFX90A)
    assert (other.outcome, other.counted.missed) == (MISS, {"iree hip gfx90a"})
    assert other.object != first.object
    assert same(iree, *HIP).outcome == HIT


def test_the_input_counts_by_its_content_and_by_its_name_as_typed(iree: Lab) -> None:
    first = warm(iree, *HIP)
    rewrite(iree.root / "matmul.mlir", MATMUL.replace("0.0", "1.0"))
    settle()
    edited = same(iree, *HIP)
    assert edited.outcome == MISS and edited.object != first.object
    assert "'matmul.mlir' changed" in explained(iree.environ)
    shutil.copy(iree.root / "matmul.mlir", iree.root / "other.mlir")
    settle()
    renamed = same(iree, *HIP, source="other.mlir")
    assert renamed.outcome == MISS and renamed.object != edited.object, "its name is in the module"


def test_another_directory_is_served_where_the_module_does_not_name_it(iree: Lab) -> None:
    warm(iree, *HIP)
    other = iree.root.parent / "elsewhere"
    other.mkdir()
    shutil.copy(iree.root / "matmul.mlir", other)
    settle()
    assert same(iree, *HIP, cwd=other).outcome == HIT
    shutil.copy(iree.root / "wave.mlir", other)
    settle()
    spelled = str(iree.root / "wave.mlir")
    assert same(iree, *HIP, source=spelled).outcome == MISS
    assert same(iree, *HIP, source=str(other / "wave.mlir"), cwd=other).outcome == MISS


def own_bitcode(lab: Lab, name: str = "bitcode") -> str:
    """A copy of the device libraries, which a test may change."""
    place = lab.root.parent / name
    shutil.copytree(LIBRARIES / "iree_platform_libs" / "rocm", place)
    return f"--iree-rocm-bc-dir={place}"


def test_an_old_module_is_written_into(iree: Lab) -> None:
    module, other = iree.root / "old.vmfb", iree.root / "link.vmfb"
    warm(iree, *HIP)
    made = []
    for launcher in ((), LAUNCHER, LAUNCHER):
        module.write_text("old")
        module.chmod(0o640)
        other.hardlink_to(module)
        assert iree.run([*launcher, *words(*HIP, output="old.vmfb")]).status == 0
        made.append((other.read_bytes(), module.stat().st_mode, module.stat().st_nlink))
        module.unlink()
        other.unlink()
    assert made[1:] == [made[0]] * 2


def test_bitcode_that_changes_in_place_is_seen(iree: Lab) -> None:
    directory = own_bitcode(iree)
    settle()
    warm(iree, *HIP, directory, source="wave.mlir")
    warm(iree, *HIP, directory)
    library = iree.root.parent / "bitcode" / "ocml.bc"
    # The name of the producer, in the identification block: it is no part of any function.
    content = library.read_bytes()
    rewrite(library, content[:-1] + bytes([content[-1] ^ 1]))
    settle()
    after = same(iree, *HIP, directory, source="wave.mlir")
    assert after.outcome != HIT
    assert same(iree, *HIP, directory).outcome == HIT, "a program that takes nothing from it does not depend on it"


def test_another_directory_of_bitcode_is_another_module(iree: Lab) -> None:
    first, second = own_bitcode(iree), own_bitcode(iree, "second")
    settle()
    warm(iree, *HIP, first, source="wave.mlir")
    assert same(iree, *HIP, second, source="wave.mlir").outcome == MISS


def test_bitcode_that_was_missing_and_appears_is_seen(iree: Lab) -> None:
    directory = own_bitcode(iree)
    library = iree.root.parent / "bitcode" / "ocml.bc"
    kept = library.rename(library.with_suffix(".kept"))
    settle()
    before = same(iree, *HIP, directory, source="wave.mlir")
    kept.rename(library)
    settle()
    after = same(iree, *HIP, directory, source="wave.mlir")
    assert after.status == 0 and after.outcome == MISS and after.object != before.object


TUNING = """\
module attributes { transform.with_named_sequence } {
  transform.named_sequence @__kernel_config(%op: !transform.any_op {transform.consumed}) {
    transform.yield
  }
}
"""


def test_a_tuning_specification_that_is_edited_is_seen(iree: Lab) -> None:
    spec = iree.write("tuning.mlir", TUNING)
    settle()
    flag = "--iree-codegen-tuning-spec-path=tuning.mlir"
    warm(iree, *HIP, flag)
    rewrite(spec, TUNING.replace("%op", "%it"))
    settle()
    assert same(iree, *HIP, flag).outcome == MISS
    assert "'tuning.mlir' changed" in explained(iree.environ)


def test_an_archive_of_parameters_that_changes_with_the_same_size_and_time_is_seen(iree: Lab) -> None:
    archive = iree.write("weights.irpa", weights())
    settle()
    flags = (*LOCAL, *IMPORT)
    before = warm(iree, *flags, source="weighted.mlir")
    replace(archive, weights(2.5))
    settle()
    after = same(iree, *flags, source="weighted.mlir")
    assert after.outcome == MISS and after.object != before.object
    replace(archive, weights())
    settle()
    assert same(iree, *flags, source="weighted.mlir").outcome == HIT, "it is as it was"


def test_a_compiler_that_is_upgraded_is_another_one(iree: Lab) -> None:
    """Its library, of 300 MB, is mapped from the original; a tail that no code reads stands for the newer one."""
    place = iree.root.parent / "compiler"
    place.mkdir()
    for name in ("iree-compile", "iree-lld"):
        shutil.copy2(LIBRARIES / name, place)
    (place / "iree_platform_libs").symlink_to(LIBRARIES / "iree_platform_libs")
    library = place / "libIREECompiler.so"
    shutil.copyfile(LIBRARIES / library.name, library)
    settle()
    program = str(place / "iree-compile")
    warm(iree, *HIP, program=program)
    with library.open("ab") as file:
        file.write(b"newer")
    settle()
    assert same(iree, *HIP, program=program).outcome == MISS
    assert "the compiler changed, or a library that it loads" in explained(iree.environ)


def test_variables_that_the_compiler_can_ask_for_count_and_no_others(iree: Lab) -> None:
    warm(iree, *HIP)
    command = words(*HIP)
    assert iree.same(command, output="out.vmfb", env={"MADE_UP_BY_A_TEST": "1"}).outcome == HIT
    assert iree.same(command, output="out.vmfb", env={"HOME": str(iree.root)}).outcome == MISS
