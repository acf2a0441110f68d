"""Precompiled preambles: the object, the messages and the dependency file are plain clang's, whatever happens to a
header or to the store. Each compile here is compared with plain clang's (`lab.same`)."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hip import DEVICE_LIBRARIES, Lab, only_19, settle
from hipcache.execution.preamble_values import Candidate, Preamble
from hipcache.execution.read_files import Headers
from hipcache.inputs.observing import Observed
from hipcache.processes.slots import SharedSlots, runtime_directory
from hipcache.values import replace
from preamble_lab import BOTH, add_to_header, build, counts, prelab, prepare, source, words

__all__ = ["prelab"]
pytestmark = pytest.mark.archs(1)


def test_one_is_made_by_the_second_source_and_used_by_the_third(prelab: Lab) -> None:
    build(prelab, 1)
    assert not any(counts(prelab).values())
    build(prelab, 2)
    assert counts(prelab) == {"used": 0, "made": BOTH, "checked": BOTH, "different": 0}
    build(prelab, 3)
    assert counts(prelab)["used"] == BOTH
    assert "precompiled preambles" in prelab.hipcache("stats").out.decode()
    assert build(prelab, 3).outcome == "hit"


def test_sources_that_are_compiled_at_once_make_it_once(prelab: Lab) -> None:
    """(Where something else on the machine touches a directory above, it is not kept, and another one makes it.)"""
    found = []
    for _ in range(3):
        build(prelab, 1)
        names = [source(prelab, number) for number in range(2, 6)]
        commands = [prelab.words(*words(prelab), source=name, output=f"{name}.o") for name in names]
        with ThreadPoolExecutor(len(commands)) as pool:
            ended = list(pool.map(lambda one: prelab.hipcache(*one), commands))
        assert [one.status for one in ended] == [0] * len(commands)
        made = [(prelab.root / f"{name}.o").read_bytes() for name in names]
        for words_of_it, name, content in zip(commands, names, made, strict=True):
            assert prelab.run(words_of_it).status == 0
            assert (prelab.root / f"{name}.o").read_bytes() == content
        found.append(counts(prelab)["made"])
        if found[-1] == BOTH:
            return
        shutil.rmtree(prelab.store)
    raise AssertionError(found)


def test_a_pass_that_waits_for_a_slot_uses_what_another_source_makes_meanwhile(prelab: Lab) -> None:
    """Two sources at once. The only slot is taken until both have missed the same preambles. (A pass does not wait for
    one while the slot is free, so where the machine is busy not all of them use one.)"""
    runtime = prelab.root / "run"
    runtime.mkdir(mode=0o700)
    prelab.environ |= {"HIPCACHE_JOBS": "1", "XDG_RUNTIME_DIR": str(runtime)}
    build(prelab, 3, "-g")  # goes without; tests' engines need a first one before two at once
    names = [source(prelab, number) for number in (1, 2)]
    commands = [prelab.words(*words(prelab), source=name, output=f"{name}.o") for name in names]
    for _ in range(3):
        with ThreadPoolExecutor(len(commands)) as pool:
            with SharedSlots(1, runtime_directory(prelab.environ)).hold():
                tasks = [pool.submit(prelab.hipcache, *one) for one in commands]
                for _ in range(1200):
                    records = [path for path in prelab.store.rglob("actions/*/*") if path.is_file()]
                    if sum(b'"wanted":2' in path.read_bytes() for path in records) >= 2 * BOTH:
                        break
                    time.sleep(0.05)
            assert [one.result().status for one in tasks] == [0, 0]
        for command_of_it, name in zip(commands, names, strict=True):
            made = (prelab.root / f"{name}.o").read_bytes()
            assert prelab.run(command_of_it).status == 0
            assert (prelab.root / f"{name}.o").read_bytes() == made
        found = counts(prelab)
        if found["made"] == BOTH and found["used"]:
            return
        shutil.rmtree(prelab.store)
    raise AssertionError(found)


def test_a_longer_one_is_made_when_it_would_have_saved_as_much_as_it_costs(prelab: Lab) -> None:
    prelab.write("own/hip/more.hpp", "#pragma once\n" + "".join(f"void more_{number}();\n" for number in range(300)))
    prepare(prelab)
    build(prelab, 1, head="#include <hip/more.hpp>\n")
    assert counts(prelab) == {"used": BOTH, "made": BOTH, "checked": BOTH, "different": 0}
    for number in range(2, 60):
        build(prelab, number, head="#include <hip/more.hpp>\n")
        if counts(prelab)["made"] == 2 * BOTH:
            break
    else:
        raise AssertionError(counts(prelab))
    used = counts(prelab)["used"]
    build(prelab, 60, head="#include <hip/more.hpp>\n")
    assert counts(prelab)["used"] == used + BOTH


def test_after_edits_of_its_last_header_one_without_that_header_serves(prelab: Lab) -> None:
    """Who edits a header again and again does not pay for a preamble each time."""
    prepare(prelab)
    value = "#pragma once\n#define VALUE {}\ninline int twice(int x) {{ return x; }}\n"
    for number in range(4, 7):
        prelab.write("own/hip/value.hpp", value.format(number))
        settle()
        build(prelab, number)
    assert counts(prelab) == {"used": 2 * BOTH, "made": 2 * BOTH, "checked": 2 * BOTH, "different": 0}


def test_a_longer_one_is_due_by_the_seconds_that_were_spent_without_it() -> None:
    shorter = Candidate("1", ("<a>",), 10, cost=3.0)
    longer = Candidate("2", ("<a>", "<b>"), 20, wanted=1)
    assert not replace(longer, wanted=0).is_due(None)
    assert longer.is_due(None)
    assert not longer.is_due(None, noted=1)
    assert replace(longer, wanted=2).is_due(None, noted=1)
    assert not replace(longer, wanted=9, spent=2.9).is_due(shorter)
    assert replace(longer, spent=3.0).is_due(shorter)


def test_a_longer_one_could_save_the_time_for_the_headers_that_it_has_besides() -> None:
    sizes = {"source": 9000, "all": 1000, "more": 1500, "small": 10}
    headers = Headers(("all",), Observed(), None)
    one = Preamble(Candidate("1", ("<all>",), 10, cost=6.0), Path(), headers)  # a pass without it takes 2 s
    for read, seconds in ((), 0.0), (("small",), 0.02), (("more",), 3.0), (("more", "small"), 3.02):
        assert one.could_save(5.0, ["source", "all", *read], sizes.__getitem__) == pytest.approx(seconds)
    assert one.could_save(0.5, ["source", "all", "more"], sizes.__getitem__) == 0.5, "no more than the pass takes"


@pytest.mark.parametrize("record", [b"", b"[]", b"{", b'{"wanted": null}', b'{"outputs": 1}', b'{"spent": "much"}'])
def test_a_damaged_record_of_one_counts_for_none(record: bytes) -> None:
    one = Candidate("1", ("<a>",), 10)
    assert one.with_record(record) == one
    known = replace(one, wanted=2, spent=1.5, cost=4.25, outputs=("x", "y", "z"), reordered=True, why="why")
    assert one.with_record(known.record()) == known


def test_the_setting_switches_them_off(prelab: Lab) -> None:
    prelab.environ["HIPCACHE_PREAMBLES"] = "0"
    for number in range(3):
        build(prelab, number)
    assert not any(counts(prelab).values())


def test_an_edit_of_the_same_source_uses_one(prelab: Lab) -> None:
    build(prelab, 1)
    build(prelab, 1, body="int more() { return 1; }\n")
    done = build(prelab, 1, body="int more() { return 2; }\n")
    assert counts(prelab)["used"] == BOTH
    assert done.counted.back_ends == 0, "the bitcode is as before"


def test_headers_that_are_included_once_more(prelab: Lab) -> None:
    prepare(prelab)
    build(prelab, 1, body="#include <hip/value.hpp>\n#include <hip/in_short.hpp>\nint last() { return VALUE; }\n")
    assert counts(prelab)["used"] == BOTH


@pytest.mark.parametrize(
    "line",
    [
        "inline int number() { return __COUNTER__; }",
        "inline const char* when() { return __TIME__ __DATE__; }",
        "#pragma pack(1)",
        "#pragma clang fp contract(off)",
        '_Pragma("pack(1)")',
        "inline const char* base() { return __BASE_FILE__; }",
    ],
)
def test_no_header_is_precompiled_that_reaches_beyond_itself(prelab: Lab, line: str) -> None:
    header = prelab.root / "own/hip/in_short.hpp"
    header.write_text(header.read_text() + line + "\n")
    for number in range(3):
        build(prelab, number, "-Wno-date-time")
    assert not any(counts(prelab).values())


def test_counters_of_the_source_begin_at_zero(prelab: Lab) -> None:
    prepare(prelab)
    build(prelab, 1, body="int first() { return __COUNTER__; }\nint second() { return __COUNTER__; }\n")
    assert counts(prelab)["used"] == BOTH


@pytest.mark.parametrize(
    "flags",
    [
        ["-g"],
        ["-gline-tables-only"],
        ["-fretain-comments-from-system-headers"],
        ["-std=c++20"],
        ["--std=c++20"],
        ["-DBASE=__BASE_FILE__"],
        ["-Xclang", "-foffload-implicit-host-device-templates"],
    ],
)
def test_passes_that_go_without(prelab: Lab, flags: Sequence[str]) -> None:
    for number in range(3):
        build(prelab, number, *flags)
    assert not any(counts(prelab).values())


def test_a_relative_search_path_goes_without(prelab: Lab) -> None:
    for number in range(3):
        prelab.compile("-Iinc", "-I.", "-MD", source=source(prelab, number))
    assert not any(counts(prelab).values())


@pytest.mark.parametrize("head", ["#pragma once\n", "#ifndef GUARD\n#define GUARD\n#endif\n", "#define VALUE_2 1\n"])
def test_what_is_no_include_ends_the_block(prelab: Lab, head: str) -> None:
    prepare(prelab)
    build(prelab, 1, head=head)
    name = prelab.write("guarded.hip", f"{head}#include <hip/in_short.hpp>\n#include <hip/value.hpp>\nint x = VALUE;\n")
    prelab.compile(*words(prelab), source=name.name)


def test_the_host_goes_without_where_a_header_initializes_something(prelab: Lab) -> None:
    add_to_header(prelab, "int told();\nstatic int kept = told();\ninline int also = told();\n")
    for number in (1, 2):
        build(prelab, number, "-std=c++17", body="int own = told();\n")
    assert counts(prelab) == {"used": 0, "made": 1, "checked": 1, "different": 0}
    build(prelab, 3, "-std=c++17", body="int own = told();\n")
    assert counts(prelab)["used"] == 1


# With the header that newer drivers put before each source


@only_19
def test_the_drivers_own_header(prelab: Lab) -> None:
    flags = ["--rocm-path=/usr", f"--rocm-device-lib-path={DEVICE_LIBRARIES}", "-cuid=5eed", "--offload-arch=gfx906"]
    for number in range(4):
        name = f"w{number}.hip"
        text = f"__device__ __attribute__((used)) float root(float x) {{ return sqrtf(x + {number}); }}\n"
        prelab.write(name, text)
        command_line = [prelab.compiler, "-x", "hip", "-O2", *flags, "-MD", "-c", name, "-o", "out.o"]
        done = prelab.same(command_line)
        assert done.dependencies == done.plain_dependencies
    found = counts(prelab)
    assert found["made"] == found["checked"] == BOTH
    assert found["used"] == 2 * BOTH


def test_the_first_source_makes_it_where_others_beside_begin_alike(prelab: Lab) -> None:
    for number in range(20, 26):
        source(prelab, number)
    build(prelab, 1)
    assert counts(prelab) == {"used": 0, "made": BOTH, "checked": BOTH, "different": 0}
    build(prelab, 2)
    assert counts(prelab)["used"] == BOTH


def test_sources_beside_that_begin_otherwise_do_not_count(prelab: Lab) -> None:
    for number in range(20, 30):
        prelab.write(f"s{number}.hip", f"#include <hip/value.hpp>\n// {number}\n")
        (prelab.root / source(prelab, 30 + number)).rename(prelab.root / f"s{number}.cpp")
    os.mkfifo(prelab.root / "pipe.hip")
    build(prelab, 1)
    assert counts(prelab)["made"] == 0
