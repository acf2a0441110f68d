"""What `explain` prints for a compile."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hip import ARCHS, DEVICE_LIBRARIES, HIT, LLVM, MISS, Lab, kernel, script, toolchain, with_19
from hipcache.base.values import replace
from hipcache.cli.explain import describe
from hipcache.report import build
from hipcache.report.history import History, Record
from hipcache.report.outcome import OUTCOMES
from hipcache.report.reasons import REASONS
from recorded_compiles import checkouts, record, shown, unit

ENDINGS = {
    "hit": "hit",
    "partial": "partial hit",
    "miss": "miss",
    "passed_through": "passed through to the compiler",
    "failed": "failed",
}


@pytest.mark.parametrize("end", OUTCOMES)
def test_the_object_and_the_ending_come_first(end: str) -> None:
    first = describe(record(end))[0]
    assert first.startswith("'/b/k.o', ")
    assert first.endswith(f": {ENDINGS[end]}")


@pytest.mark.parametrize("reason", REASONS)
def test_a_compile_that_was_left_says_why_in_a_sentence(reason: str) -> None:
    assert describe(record("passed_through", reason=reason, detail="-x"))[1] == f"  because: {REASONS[reason]} (-x)"


def test_each_unit_has_a_line_and_its_reasons_below_it() -> None:
    lines = describe(record("partial", unit("gfx906", hit=True), unit("host", "file 'x.h' changed", "and more")))
    assert [line.strip() for line in lines[1:]] == ["gfx906  hit", "host    miss", "file 'x.h' changed", "and more"]


def test_a_device_code_that_came_out_the_same_is_told() -> None:
    assert (
        "has the back end's result for its output"
        in describe(record("partial", unit("gfx906", "why", hit=True, back=True)))[1]
    )


def test_notes_come_last() -> None:
    assert describe(record("miss", unit("host", "why"), notes=("not stored: full",)))[-1] == "  note: not stored: full"


def test_a_compile_without_an_object_is_named_by_its_command() -> None:
    nameless = Record("", 0.0, ("clang++", "-E", "k.hip"), "/b", "passed_through", "preprocess", "", (), {}, ())
    assert describe(nameless)[0].startswith("'clang++ -E k.hip', ")


def test_the_detail_of_a_failure_is_told() -> None:
    assert describe(record("failed", detail="host ended with status 1"))[1] == "  host ended with status 1"


def test_the_history_knows_how_long_compiles_took(lab: Lab) -> None:
    """So that a report without a log has a timeline, and the time of each cause."""
    lab.compile()
    (one,) = build.of_history(History.of_store(lab.store).each())
    assert one.seconds > 0
    assert build.causes([one])[0].seconds > 0


def test_what_was_evicted_may_have_been_there(lab: Lab) -> None:
    lab.compile()
    assert b"has evicted" not in lab.hipcache("explain").out
    lab.hipcache("gc", "--max-size", "4K")
    lab.compile()
    told = lab.hipcache("explain").out
    assert b"first compile of this object with this store" in told
    assert b"note: the store has evicted" in told


@with_19
def test_what_ran_for_an_object_of_another_name_after_an_edit_of_comments_is_told(lab: Lab) -> None:
    own = "-fuse-cuid=hash"  # of the object's name, too
    lab.hipcache(*lab.words(own))
    lab.write("k.hip", "// a line\n" + (lab.root / "k.hip").read_text())
    lab.hipcache(*lab.words(own, output="other.o"))
    told = lab.hipcache("explain", "other.o").out.decode()
    assert "note: linked again, from stored device code: gfx906" in told
    assert "note: an edit changes nothing here, as the preprocessor says" in told


# Of many


def test_a_command_that_the_driver_rejects_is_a_case_for_the_doctor(tmp_path: Path) -> None:
    """It may be for an architecture that the compiler or its device libraries do not support."""
    for job, advised in (("the driver", True), ("host", False)):
        told = shown(tmp_path, [record("failed", detail=f"{job} ended with status 1")], "/b/k.o")
        assert ("\n  note: 'hipcache doctor' shows which architectures the device libraries cover" in told) == advised


def test_a_whole_build_is_explained_by_cause_and_names_the_base_directory(tmp_path: Path) -> None:
    lines = shown(tmp_path, checkouts(), "--build").splitlines()
    assert lines[0] == "last compiles of 10 objects of this store: 10 misses"
    assert lines[1].startswith("  file '/a/x.hip' changed: 6 units of 6 objects, such as '/a/build/")
    assert lines[2].startswith("  first compile of this object with this store: 4 units of 4 objects")
    assert lines[3].startswith("  note: '/b/build' and '/a/build' run the same commands: to share")
    assert "HIPCACHE_BASEDIR" in lines[3]
    assert "BASEDIR" not in shown(tmp_path, [], "--build", HIPCACHE_BASEDIR="/b")


def test_the_ends_of_many_compiles_are_counted_in_plain_words(tmp_path: Path) -> None:
    ends = {"miss": 2, "hit": 1, "partial": 3, "passed_through": 2, "failed": 1}
    records = [
        replace(record(end), object=f"/b/{end}{number}.o") for end, count in ends.items() for number in range(count)
    ]
    told = shown(tmp_path, records, "--build").splitlines()[0]
    assert told.endswith(": 1 hit, 3 partial hits, 2 misses, 2 passed through, 1 failed")


NEW_HERE = ("host", "first compile of this object with this store; nothing is stored for this command")


def built(top: str, when: float, end: str, *, build: str = "build", source: str = "") -> Record:
    """k.hip of the checkout `top`."""
    command = ("clang++", "-o", "k.o", "-c", source or f"{top}/src/k.hip")
    units = (unit("gfx906", hit=True), unit(*NEW_HERE))
    return Record(f"{top}/{build}/k.o", when, command, f"{top}/{build}", end, "", "", (), {}, units)


def test_another_checkout_that_shares_only_back_ends_is_told_of_the_base_directory(tmp_path: Path) -> None:
    """Back ends hit in any directory, so it is a partial hit, and no miss."""
    records = [built("/a", 1.0, "miss"), built("/b", 2.0, "partial")]
    for words in (["--build"], ["/b/build/k.o"], []):
        last = shown(tmp_path, records, *words).splitlines()[-1]
        assert last.startswith("  note: '/b/build' and '/a/build' run the same commands: to share"), words
        assert last.endswith("set HIPCACHE_BASEDIR to the directory of each")
        assert json.loads(shown(tmp_path, [], *words, "--json"))["hint"] == last.removeprefix("  note: ")
    assert "BASEDIR" not in shown(tmp_path, [], "/b/build/k.o", HIPCACHE_BASEDIR="/b")


@pytest.mark.parametrize("source", ["/a/src/k.hip", "../src/k.hip"])
def test_two_builds_of_one_checkout_are_told_of_no_base_directory(tmp_path: Path, source: str) -> None:
    records = [built("/a", 1.0 + n, "partial", build=f"build{n}", source=source) for n in range(2)]
    for words in (["--build"], ["/a/build1/k.o"]):
        assert "BASEDIR" not in shown(tmp_path, records, *words)


def test_two_builds_of_one_checkout_whose_objects_name_them_are_told_which_option_helps(tmp_path: Path) -> None:
    def named(number: int) -> Record:
        one = built("/a", 1.0 + number, "miss", build=f"build{number}")
        inputs = (("option", f"-fdebug-compilation-dir={one.directory}"),)
        return replace(one, units=tuple(replace(unit, inputs=inputs) for unit in one.units))

    records = [named(number) for number in range(2)]
    for words in (["--build"], ["/a/build1/k.o"]):
        last = shown(tmp_path, records, *words).splitlines()[-1]
        assert last.startswith("  note: '/a/build1' and '/a/build0' run the same commands, but -g puts that name"), (
            words
        )


def test_one_compile_in_json_has_why_each_unit_missed(tmp_path: Path) -> None:
    document = json.loads(shown(tmp_path, [record("miss", unit("gfx906", "file 'x.h' changed"))], "/b/k.o", "--json"))
    assert (document["object"], document["command"]) == ("/b/k.o", ["clang++", "-c", "k.hip"])
    assert document["units"] == [
        {"name": "gfx906", "hit": False, "frontend": False, "backend": None, "why": ["file 'x.h' changed"]}
    ]


# The same of real compiles

Change = Callable[[Lab, Path], object]


def another_linker(lab: Lab, top: Path) -> None:
    script(top / "llvm/bin/lld", f'exec {LLVM[lab.version]}/bin/lld "$@"\n')


def another_library(lab: Lab, top: Path) -> None:
    lab.write(top / "bitcode/oclc_unsafe_math_off.bc", (top / "bitcode/oclc_unsafe_math_on.bc").read_bytes())


ALL, DEVICES = {"gfx906", "gfx90a", "host"}, {"gfx906", "gfx90a"}
NEW_LINKER = "the linker changed, or a library that it loads"
# What is changed, the units that miss by it, and why.
FILES: dict[str, tuple[Change, set[str], list[str]]] = {
    "a header": (lambda lab, _: lab.write("value.hpp", "#define VALUE 2\n"), ALL, ["file 'value.hpp' changed"]),
    "a header of one arch": (
        lambda lab, _: lab.write("only.hpp", "#define MORE 1\n"),
        {"gfx906"},
        ["file 'only.hpp' changed"],
    ),
    "a header that shadows": (
        lambda lab, _: lab.write("first/value.hpp", "#define VALUE 3\n"),
        ALL,
        ["file 'first/value.hpp' is now read", "file 'value.hpp' is no longer read"],
    ),
    "the linker": (another_linker, DEVICES, [NEW_LINKER]),
    "a device library": (another_library, DEVICES, ["device library 'oclc_unsafe_math_off.bc' changed"]),
}
COMMANDS: dict[str, tuple[list[str], dict[str, str], set[str], list[str]]] = {
    "an option": (["-DMORE=1"], {}, ALL, ["option '-D MORE=1' is new"]),
    "an option of one side": (["-Xarch_host", "-DSIDE"], {}, {"host"}, ["option '-D SIDE' is new"]),
    "a variable": (
        [],
        {"CPATH": "second"},
        ALL,
        ["variable 'CPATH' was not set, now 'second'", "option '-Isecond' is new"],
    ),
    "an arch": ([*ARCHS, "--offload-arch=gfx1030"], {}, {"gfx1030"}, ["gfx1030 is new for this object"]),
}


def words(lab: Lab, top: Path, *more: str) -> list[str]:
    flags = ("-Ifirst", "-I.", f"--rocm-device-lib-path={top}/bitcode", *more)
    return [word for word in lab.words(*flags) if word != "-nogpulib"]


def explained(lab: Lab, top: Path, *more: str, env: dict[str, str] | None = None) -> dict[str, list[str]]:
    """What `explain` tells after a compile: each unit that missed, and why."""
    assert lab.same(words(lab, top, *more), env=env).status == 0
    told = lab.hipcache("explain", "out.o").out.decode()
    assert lab.hipcache("explain").out.decode() == told
    why: list[tuple[str, list[str]]] = []
    for line in told.splitlines()[1:]:
        if line.startswith("   "):
            why[-1][1].append(line.strip())
        else:
            why.append((line.split()[0], []))
    return {unit: reasons for unit, reasons in why if reasons}


@pytest.fixture
def kept(lab: Lab, tmp_path: Path) -> Lab:
    """A lab with tools and device libraries of its own, in which an object was compiled."""
    lab.compiler = str(toolchain(tmp_path / "llvm", lab.version))
    shutil.copytree(DEVICE_LIBRARIES, tmp_path / "bitcode")
    (lab.root / "first").mkdir()
    lab.write("value.hpp", "#define VALUE 1\n")
    lab.write("only.hpp", "")
    lab.write("k.hip", kernel("VALUE", '#include <value.hpp>\n#ifdef __gfx906__\n#include "only.hpp"\n#endif'))
    assert set(explained(lab, tmp_path)) == ALL
    assert explained(lab, tmp_path) == {}
    return lab


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_differs_is_named_in_words(kept: Lab, tmp_path: Path, what: str) -> None:
    change, units, why = FILES[what]
    change(kept, tmp_path)
    assert explained(kept, tmp_path) == dict.fromkeys(units, why)


@pytest.mark.parametrize("what", COMMANDS)
def test_what_differs_in_the_command_is_named_in_words(kept: Lab, tmp_path: Path, what: str) -> None:
    more, env, units, why = COMMANDS[what]
    assert explained(kept, tmp_path, *more, env=env) == dict.fromkeys(units, why)


def test_after_an_error_or_a_left_compile_a_miss_has_its_own_cause(kept: Lab, tmp_path: Path) -> None:
    source = (kept.root / "k.hip").read_text()
    kept.write("k.hip", f"{source}#error here\n")
    assert kept.same(words(kept, tmp_path)).status != 0
    assert kept.hipcache("explain", "out.o").out.splitlines()[0].endswith(b": failed")
    kept.write("k.hip", source)
    assert explained(kept, tmp_path) == {}
    assert b": hit\n  gfx906  hit\n" in kept.hipcache("explain", "out.o").out
    assert kept.hipcache("inspect", "out.o").status == 0
    assert kept.same(words(kept, tmp_path, "-save-temps")).status == 0
    assert explained(kept, tmp_path, "-DMORE=1") == {unit: ["option '-D MORE=1' is new"] for unit in ALL}


def test_settings_that_keep_results_apart_are_named(lab: Lab) -> None:
    lab.write("key", "k" * 32).chmod(0o600)
    lab.warm()
    causes = {
        "HIPCACHE_RECACHE": ("1", "HIPCACHE_RECACHE is set: no hits are served"),
        "HIPCACHE_NAMESPACE": ("n1", "the namespace was not set, now 'n1' (HIPCACHE_NAMESPACE)"),
        "HIPCACHE_KEY": (f"{lab.root}/key", "the key of the store changed (HIPCACHE_KEY)"),
    }
    for name, (value, cause) in causes.items():
        assert lab.compile(env={name: value}).outcome == MISS
        told = lab.hipcache("explain", "out.o").out.decode()
        assert {line.strip() for line in told.splitlines() if line.startswith("   ")} == {cause}
        assert lab.compile().outcome == HIT


def test_an_object_that_is_not_known_is_an_error_that_says_so(lab: Lab) -> None:
    for words in (["explain"], ["explain", "none.o"]):
        ended = lab.hipcache(*words)
        assert (ended.status, ended.out) == (1, b"")
        assert b"the store has no record of a compile" in ended.err.splitlines()[0]
        assert b"HIPCACHE_DIR" in ended.err.splitlines()[1]
