"""`hipcache iree-compile`: the bytes of iree-compile, served while nothing that it read has changed."""

from __future__ import annotations

import os
import random
import shutil
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from blake3 import blake3
from hip import FAILED, HIT, LAUNCHER, MISS, PASSED_THROUGH, Compiled, Lab, explained, replace, rewrite, script, settle
from hipcache.errors import PassThrough, Refused
from hipcache.planning import iree as planning
from hipcache.store.local import LocalStore
from iree_lab import (
    AMDGPU,
    HIP,
    IMPORT,
    LIBRARIES,
    LOCAL,
    MATMUL,
    PROGRAM,
    PROGRAMS,
    SCRIPT,
    iree,
    needs_iree,
    weights,
    words,
)

__all__ = ["iree"]
pytestmark = needs_iree

GFX90A = (HIP[0], "--iree-rocm-target=gfx90a")
TARGETS = {
    "hip gfx942": HIP,
    "amdgpu gfx942": AMDGPU,
    "hip gfx90a": GFX90A,
    "amdgpu gfx90a": (AMDGPU[0], GFX90A[1]),
    "local": LOCAL,
}


def same(
    lab: Lab, *flags: str, source: str = "matmul.mlir", cwd: Path | None = None, program: str = PROGRAM
) -> Compiled:
    return lab.same(words(*flags, source=source, program=program), output="out.vmfb", cwd=cwd)


def warm(lab: Lab, *flags: str, source: str = "matmul.mlir", program: str = PROGRAM) -> Compiled:
    first = same(lab, *flags, source=source, program=program)
    assert (first.status, first.outcome) == (0, MISS), first.messages + explained(lab.environ)
    second = same(lab, *flags, source=source, program=program)
    assert second.outcome == HIT, explained(lab.environ)
    return second


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_module_is_iree_compiles_own_and_is_served_then(iree: Lab, name: str, target: str) -> None:
    iree.write("weights.irpa", weights())
    settle()
    hit = warm(iree, *TARGETS[target], *PROGRAMS[name][1], source=f"{name}.mlir")
    assert hit.counted.served == {f"iree {target}"}


def test_hits_are_compared_where_that_is_asked_for(iree: Lab) -> None:
    right = warm(iree, *HIP).object
    assert right
    compile_again = [*LAUNCHER, *words(*HIP)]
    each = {"HIPCACHE_VERIFY": "1"}
    assert iree.run(compile_again, env=each).err == b""
    store = LocalStore(iree.store, max_bytes=0)
    old, wrong, records = blake3(right).hexdigest().encode(), store.put_blob(right[:-1] + b"?").encode(), 0
    for path in (iree.store / "v1/actions").glob("*/*"):
        name = path.parent.name + path.name
        payload = store.get_action(name) or b""
        if old in payload:
            store.put_action(name, payload.replace(old, wrong))
            records += 1
    assert records == 1
    said = iree.run(compile_again, env=each)
    assert (said.status, b"THE STORE SERVED A WRONG OBJECT" in said.err) == (0, True)
    assert (iree.root / "out.vmfb").read_bytes() == right
    assert iree.stats()["verified"] == {"same": 1, "different": 1, "varying": 0}
    iree._seen = iree.stats()
    assert same(iree, *HIP).outcome == HIT, "the store has been put right"


def test_the_script_of_irees_package_is_seen_through(iree: Lab) -> None:
    warm(iree, *HIP, program=SCRIPT)
    assert same(iree, *HIP).outcome == HIT, "the program behind it makes the same module"


def test_another_script_is_left_alone(iree: Lab) -> None:
    place = iree.root.parent / "own" / "iree-compile"
    place.parent.mkdir()
    script(place, f'{PROGRAM} "$@" && echo done >&2')
    made = same(iree, *HIP, program=str(place))
    assert (made.outcome, made.counted.reason, made.messages) == (PASSED_THROUGH, "wrapper", "done\n")


def test_irees_script_that_does_more_is_left_alone(iree: Lab) -> None:
    place = iree.root.parent / "own" / "iree-compile"
    place.parent.mkdir()
    place.write_text(Path(SCRIPT).read_text().replace("sys.exit(main())", "main(); print('signed', file=sys.stderr)"))
    place.chmod(0o755)
    made = same(iree, *HIP, program=str(place))
    assert (made.outcome, made.counted.reason, made.messages) == (PASSED_THROUGH, "wrapper", "signed\n")


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


LEFT = {
    "dumps": ("iree_output", (*HIP, "--iree-hal-dump-executable-files-to=dumped")),
    "phases": ("iree_output", (*HIP, "--dump-compilation-phases-to=phases")),
    "timing": ("iree_output", (*HIP, "--mlir-timing")),
    "a plugin": ("plugin", (*HIP, "--iree-load-plugin=own.so")),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_writes_more_than_a_module_passes_through(iree: Lab, case: str) -> None:
    reason, flags = LEFT[case]
    with pytest.raises(PassThrough) as left:
        planning.parse(tuple(words(*flags)), str(iree.root), typed=(), checks=True)
    assert left.value.reason == reason


def test_any_words_are_understood_or_left_to_iree_compile(iree: Lab) -> None:
    dice = random.Random(18)
    known = [
        "-o",
        "--",
        "-",
        "=",
        "",
        "-o=",
        "a.mlir",
        "--iree-rocm-target",
        "--iree-rocm-target=gfx942,",
        "@none",
        "\udcff",
    ]
    known += ["--iree-hal-target-device=hip;amdgpu", "--iree-hal-target-device", "/dev/stdin", "--a=/dev/fd/0", "-="]
    for number in range(2000):
        given = tuple(dice.choice(known) for _ in range(number % 7))
        with suppress(PassThrough, Refused):
            planning.parse(("iree-compile", *given), str(iree.root), typed=(), checks=number % 2 == 0)


def test_a_command_without_words_is_iree_compiles_own(iree: Lab) -> None:
    done, plain = iree.hipcache(PROGRAM), iree.run([PROGRAM])
    assert (done.status, done.err) == (plain.status, plain.err)


def test_dumps_are_written_by_iree_compile_itself(iree: Lab) -> None:
    done = iree.hipcache(*words(*HIP, "--iree-hal-dump-executable-files-to=dumped"))
    assert done.status == 0, done.err
    assert (iree.root / "dumped").is_dir() and (iree.root / "out.vmfb").exists()
    assert iree.counted().reason == "iree_output"


def test_a_module_on_standard_output_is_left_to_iree_compile(iree: Lab) -> None:
    command = [PROGRAM, *HIP, "-", "-o", "-"]
    done = iree.run([*LAUNCHER, *command], stdin=MATMUL.encode())
    plain = iree.run(command, stdin=MATMUL.encode())
    assert (done.status, done.out) == (0, plain.out)
    assert iree.counted().reason == "standard_streams"
    os.mkfifo(iree.root / "pipe.mlir")
    with pytest.raises(PassThrough, match="standard_streams"):
        planning.parse(tuple(words(*HIP, source="pipe.mlir")), str(iree.root), typed=(), checks=True)


def test_a_source_on_standard_input_counts_by_its_content_in_any_directory(iree: Lab) -> None:
    command = words(*HIP, source="-")
    other = iree.root.parent / "elsewhere"
    other.mkdir()

    def made(text: str, cwd: Path, *launcher: str) -> bytes:
        done = iree.run([*launcher, *command], stdin=text.encode(), cwd=cwd)
        assert done.status == 0, done.err
        return (cwd / "out.vmfb").read_bytes()

    plain, edited = made(MATMUL, iree.root), made(MATMUL.replace("0.0", "1.0"), iree.root)
    assert plain != edited
    ends = []
    for text, cwd, expected in (
        (MATMUL, iree.root, plain),
        (MATMUL, iree.root, plain),
        (MATMUL, other, plain),
        (MATMUL.replace("0.0", "1.0"), iree.root, edited),
    ):
        assert made(text, cwd, *LAUNCHER) == expected
        ends.append(iree.counted().outcome)
    assert ends == [MISS, HIT, HIT, MISS], explained(iree.environ)


def test_standard_input_is_there_for_iree_compile_where_the_cache_gives_up(iree: Lab) -> None:
    command = words(*HIP, source="-")
    wrong = MATMUL.replace("return", "retrun").encode()
    plain, done = iree.run(command, stdin=wrong), iree.run([*LAUNCHER, *command], stdin=wrong)
    assert (done.status, done.err) == (plain.status, plain.err) and b"retrun" in done.err
    unusable = {"HIPCACHE_DIR": "/dev/null/store"}
    done = iree.run([*LAUNCHER, *command], stdin=MATMUL.encode(), env=unusable)
    assert done.status == 0 and (iree.root / "out.vmfb").exists()


def test_a_file_that_is_written_beside_the_module_is_seen_and_nothing_kept(iree: Lab) -> None:
    """Also by an option that nobody has listed, of some later IREE: here a compiler that leaves a note."""
    place = iree.root.parent / "compiler"
    place.mkdir()
    program = place / "iree-compile"
    text = f'int main(int n, char** v) {{ fclose(fopen("note", "w")); v[0] = "{PROGRAM}"; return execv(v[0], v); }}'
    source = iree.write("wrapper.c", f"#include <stdio.h>\n#include <unistd.h>\n{text}\n")
    assert iree.run(["cc", source, "-o", program]).status == 0
    settle()
    for _ in range(2):
        assert same(iree, *HIP, program=str(program)).outcome == MISS
        assert "it also writes 'note'" in explained(iree.environ)


def test_a_failure_says_what_iree_compile_says(iree: Lab) -> None:
    iree.write("matmul.mlir", MATMUL.replace("return", "retrun"))
    settle()
    made = same(iree, *HIP)
    assert made.status != 0 and made.outcome == FAILED and "retrun" in made.messages


def test_a_warning_is_told_again(iree: Lab) -> None:
    hit = warm(iree, *LOCAL[:2])
    assert "warning" in hit.messages


def test_many_at_once_compile_a_module_once(iree: Lab) -> None:
    settle()
    threads = [
        threading.Thread(target=iree.hipcache, args=words(*HIP, source="wave.mlir", output=f"{number}.vmfb"))
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted = iree.stats()["compiles"]
    assert (counted["hit"], counted["miss"]) == (3, 1)  # type: ignore[index]
    assert len({(iree.root / f"{number}.vmfb").read_bytes() for number in range(4)}) == 1


def test_a_damaged_entry_is_made_again(iree: Lab) -> None:
    hit = warm(iree, *HIP)
    for blob in (iree.store / "v1" / "blobs").rglob("*"):
        if blob.is_file() and blob.read_bytes() == hit.object:
            rewrite(blob, bytes(len(hit.object)))
    assert same(iree, *HIP).outcome == MISS
    assert same(iree, *HIP).outcome == HIT


def test_explain_and_stats_name_device_and_target(iree: Lab) -> None:
    warm(iree, *AMDGPU)
    assert "amdgpu gfx942  hit" in explained(iree.environ)
    assert iree.stats()["units"]["iree amdgpu gfx942"] == {"hits": 1, "misses": 1}  # type: ignore[index]
