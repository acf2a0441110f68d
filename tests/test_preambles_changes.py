"""Headers that change, appear or go under a precompiled preamble, and damage in the store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hip import Lab, rewrite
from hipcache.processes.runner import Traced
from preamble_lab import BOTH, Watching, build, compile_in_process, counts, prelab, prepare, source, words

__all__ = ["prelab"]
pytestmark = pytest.mark.archs(1)


@pytest.mark.parametrize("where", ["header", "source"])
def test_a_file_that_is_changed_in_place_with_its_times_restored(prelab: Lab, where: str) -> None:
    prepare(prelab)
    before = build(prelab, 1)
    changed = prelab.root / ("own/hip/value.hpp" if where == "header" else "s1.hip")
    rewrite(changed, changed.read_text().replace("VALUE 3", "VALUE 4").replace("VALUE * 1", "VALUE * 7"))
    after = prelab.compile(*words(prelab), source="s1.hip")
    assert after.object != before.object
    assert build(prelab, 2).object


def test_a_header_that_the_leading_includes_find_elsewhere_by_now(prelab: Lab) -> None:
    prepare(prelab)
    before = build(prelab, 1)
    prelab.write("first/hip/value.hpp", "#pragma once\n#define VALUE 5\ninline int twice(int x) { return 3 * x; }\n")
    prelab.changed(before, *words(prelab), source="s1.hip")


def test_an_include_behind_the_leading_ones_that_is_shadowed(prelab: Lab) -> None:
    prelab.write("inc/late.hpp", "#define LATE 1\n")
    late = "int between;\n#include <late.hpp>\nint late() { return LATE; }\n"
    prepare(prelab, body=late)
    before = build(prelab, 1, body=late)
    assert counts(prelab)["used"] == BOTH
    prelab.write("first/late.hpp", "#define LATE 2\n")
    prelab.changed(before, *words(prelab), source="s1.hip")


def test_a_file_that_a_header_asks_for_appears(prelab: Lab) -> None:
    prelab.write(
        "own/hip/value.hpp",
        "#pragma once\n#if __has_include(<hip/option.hpp>)\n#define VALUE 8\n#else\n#define VALUE 3\n#endif\n"
        "inline int twice(int x) { return 2 * x; }\n",
    )
    prepare(prelab)
    before = build(prelab, 1)
    prelab.write("own/hip/option.hpp", "")
    prelab.changed(before, *words(prelab), source="s1.hip")


def test_two_compilers(prelab: Lab) -> None:
    other = replace_compiler(prelab)
    for number in (1, 2, 3):
        prelab.count_anew()
        build(prelab, number)
        other.count_anew()
        other.compile(*words(other), source=source(other, number))
    assert counts(prelab) == {"used": 2 * BOTH, "made": 2 * BOTH, "checked": 2 * BOTH, "different": 0}


def replace_compiler(lab: Lab) -> Lab:
    version = {"15": "19", "19": "15"}[lab.version]
    compiler = lab.compiler.replace(f"llvm-{lab.version}", f"llvm-{version}")
    return Lab(lab.root, version, compiler, lab.environ, lab.archs)


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "flipped after a use, its times restored"])
def test_a_damaged_preamble_in_the_store_is_none(prelab: Lab, damage: str) -> None:
    prepare(prelab)
    used = "use" in damage
    if used:
        build(prelab, 3)
        assert counts(prelab)["used"] == BOTH
    blobs = [path for path in (prelab.store / "v1/blobs").rglob("*") if path.is_file()]
    large = [path for path in blobs if path.stat().st_size > 100_000]
    assert len(large) == BOTH
    for path in large:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 255
        if damage == "gone":
            path.unlink()
        else:
            times = path.stat()
            path.write_bytes(content[: len(content) // 2] if damage == "cut" else content)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    build(prelab, 1)
    assert counts(prelab)["used"] == BOTH * used
    build(prelab, 2)
    assert counts(prelab)["used"] == BOTH * used + BOTH


def test_each_use_is_checked_where_that_is_asked_for(prelab: Lab) -> None:
    prelab.environ["HIPCACHE_PREAMBLE_CHECKS"] = "1"
    for number in range(4):
        build(prelab, number)
    assert counts(prelab) == {"used": 0, "made": BOTH, "checked": 3 * BOTH, "different": 0}


class Meddling(Watching):
    def __init__(self, lab: Lab, kind: str) -> None:
        super().__init__()
        self.lab = lab
        self.kind = kind

    def after(self, argv: Sequence[str], traced: Traced) -> Traced:
        if self.kind == "header" and "-emit-pch" in argv:
            header = self.lab.root / "own/hip/value.hpp"
            rewrite(header, header.read_text().replace("VALUE 3", "VALUE 6"))
        if self.kind == "object" and "-include-pch" in argv and "-emit-obj" in argv:
            output = Path(argv[argv.index("-o") + 1])
            output.write_bytes(output.read_bytes() + b"more")
        return traced


def test_a_header_that_changes_while_the_preamble_is_made(prelab: Lab) -> None:
    runner = Meddling(prelab, "header")
    compile_in_process(prelab, runner, source(prelab, 1))
    assert "made" not in compile_in_process(prelab, runner, source(prelab, 2))
    done = build(prelab, 3)
    assert counts(prelab)["used"] == 0
    assert done.status == 0


def test_a_difference_switches_preambles_off_for_the_compiler(prelab: Lab) -> None:
    plain = build(prelab, 2).object
    assert compile_in_process(prelab, Meddling(prelab, "object"), source(prelab, 1))["different"] == 1
    assert (prelab.root / "out.o").read_bytes()
    (prelab.root / "s2.hip").unlink()
    assert build(prelab, 2).object == plain
    before = counts(prelab)
    build(prelab, 3)
    build(prelab, 4)
    assert counts(prelab) == before
