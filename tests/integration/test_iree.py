"""`hipcache iree-compile`: the bytes of iree-compile, served while nothing that it read has changed."""

from __future__ import annotations

import os
import random
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from blake3 import blake3
from hip import FAILED, HIT, LAUNCHER, MISS, PASSED_THROUGH, Lab, explained, rewrite, script, settle
from hipcache.base.errors import PassThrough, Refused
from hipcache.iree import command as planning
from hipcache.store.local import LocalStore
from iree_lab import (
    AMDGPU,
    GFX90A,
    HIP,
    LOCAL,
    MATMUL,
    PROGRAM,
    PROGRAMS,
    SCRIPT,
    iree,
    needs_iree,
    same,
    warm,
    weights,
    words,
)

__all__ = ["iree"]
pytestmark = needs_iree

TARGETS = {
    "hip gfx942": HIP,
    "amdgpu gfx942": AMDGPU,
    "hip gfx90a": GFX90A,
    "amdgpu gfx90a": (AMDGPU[0], GFX90A[1]),
    "local": LOCAL,
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_module_is_iree_compiles_own_and_is_served_then(iree: Lab, name: str, target: str) -> None:
    iree.write("weights.irpa", weights())
    settle()
    hit = warm(iree, *TARGETS[target], *PROGRAMS[name][1], source=f"{name}.mlir")
    assert hit.counted.served == {f"iree {target}"}


@pytest.mark.files
def test_hits_are_compared_where_that_is_asked_for(iree: Lab) -> None:
    right = warm(iree, *HIP).object
    assert right
    compile_again = [*LAUNCHER, *words(*HIP)]
    each = {"HIPCACHE_VERIFY": "1"}
    assert iree.run(compile_again, env=each).err == b""
    store = LocalStore(iree.store, max_bytes=0)
    old, wrong, records = blake3(right).hexdigest().encode(), store.put_blob(right[:-1] + b"?").encode(), 0
    for path in (iree.store / "v2/actions").glob("*"):
        name = path.name
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


@pytest.mark.parametrize("output", ["none/out.vmfb", "."])
def test_a_module_that_cannot_be_written_is_left_to_iree_compile(iree: Lab, output: str) -> None:
    command = words(*HIP, output=output)
    done, plain = iree.hipcache(*command), iree.run(command)
    assert (done.status, done.out, done.err) == (plain.status, plain.out, plain.err)
    assert iree.counted().reason == "output"


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


@pytest.mark.files
def test_a_damaged_entry_is_made_again(iree: Lab) -> None:
    hit = warm(iree, *HIP)
    for blob in (iree.store / "v2" / "blobs").rglob("*"):
        if blob.is_file() and blob.read_bytes() == hit.object:
            rewrite(blob, bytes(len(hit.object)))
    assert same(iree, *HIP).outcome == MISS
    assert same(iree, *HIP).outcome == HIT


def test_explain_and_stats_name_device_and_target(iree: Lab) -> None:
    warm(iree, *AMDGPU)
    assert "amdgpu gfx942  hit" in explained(iree.environ)
    assert iree.stats()["units"]["iree amdgpu gfx942"] == {"hits": 1, "misses": 1}  # type: ignore[index]
