"""What `explain` makes of a name: of a target here or elsewhere, of a file, or of nothing that the store knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hip import write_files
from hipcache.base.values import replace
from hipcache.report.history import Record
from hipcache.store import faults
from recorded_compiles import checkouts, record, shown, unit


def test_a_mistyped_target_or_object_gets_the_nearest_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mine = replace(record("miss"), object=f"{tmp_path}/build/kernel.o")
    for typed, near, records in (("kernles1", "kernels1", checkouts()), ("build/kernle.o", "build/kernel.o", [mine])):
        lines = shown(tmp_path, records, typed, status=1).splitlines()
        assert lines == [f"hipcache: the store knows no object or target '{typed}'", f"  did you mean '{near}'?"]


@pytest.mark.parametrize("cause", ["full", "read-only"])
def test_where_no_compile_is_recorded_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: str) -> None:
    """An object that is there was not mistyped."""
    monkeypatch.chdir(tmp_path)
    mine = replace(record("miss"), object=f"{tmp_path}/build/kernel.o")
    write_files(tmp_path, {"build/kernle.o": ""})
    assert "did you mean" not in shown(tmp_path, [mine], "build/kernle.o", status=1)
    if cause == "full":
        monkeypatch.setattr(faults, "lacking", lambda path: "no room")
    env = {"HIPCACHE_READONLY": "1"} if cause == "read-only" else {}
    why = {
        "full": f"no compile is recorded: the disk of store '{tmp_path}/store' is full: no room in ",
        "read-only": "no compile is recorded while the store is read-only (environment)",
    }[cause]
    lines = shown(tmp_path, [], "build/kernle.o", status=1, **env).splitlines()
    assert lines[0] == "hipcache: the store has no record of a compile of 'build/kernle.o'"
    assert lines[1].startswith(f"  {why}")
    assert f"did you mean 'build/kernel.o'? Else: {why}" in shown(tmp_path, [], "build/kernl.o", status=1, **env)
    assert f"note: {why}" in shown(tmp_path, [], "build/kernel.o", **env)


def test_an_object_is_found_by_its_file_name_alone(tmp_path: Path) -> None:
    mine = replace(record("miss"), object=f"{tmp_path}/build/CMakeFiles/k.dir/scan.hip.o")
    assert shown(tmp_path, [mine], "scan.hip.o").startswith(f"'{mine.object}'")
    twin = replace(mine, object=f"{tmp_path}/build/CMakeFiles/l.dir/scan.hip.o")
    told = shown(tmp_path, [mine, twin], "scan.hip.o", status=1)
    assert "the store knows 2 objects named 'scan.hip.o'" in told
    assert "k.dir/scan.hip.o" in told and "l.dir/scan.hip.o" in told


def test_a_target_is_explained_by_its_objects(tmp_path: Path) -> None:
    document = json.loads(shown(tmp_path, checkouts(), "kernels1", "--json"))
    assert document["compiles"]["miss"] == 4
    assert [(one["units"], len(one["objects"])) for one in document["causes"]] == [(2, 2), (2, 2)]
    assert "the store has no record of a compile of 'programs'" in shown(tmp_path, [], "programs", status=1)
    assert "--build is for all objects" in shown(tmp_path, [], "--build", "kernels1", status=1)


def test_a_target_goes_by_the_names_that_the_build_tool_lists(tmp_path: Path) -> None:
    build = tmp_path / "build"
    listed = json.dumps([{"name": "fast", "filename": [f"{build}/libk.so.2"]}])
    directories = json.dumps({"directories": {"build": str(build)}})
    write_files(build, {"meson-info/intro-targets.json": listed, "meson-info/meson-info.json": directories})
    of_it = [replace(record("miss", unit("host", "why")), object=f"{build}/libk.so.2.p/{name}.o") for name in "ab"]
    told = shown(tmp_path, [*of_it, *checkouts()], "fast")
    assert told.startswith(f"last compiles of 2 objects of target 'fast' in '{build}': 2 misses")
    assert shown(tmp_path, [], "libk.so.2") == told.replace("'fast'", "'libk.so.2'")
    assert shown(tmp_path, [], f"{build}/libk.so.2").startswith(
        f"last compiles of 2 objects of target '{build}/libk.so.2': "
    )
    shown(tmp_path, [], "/other/libk.so.2", status=1)


def built(build: Path, *targets: str, count: int = 1) -> list[Record]:
    """Compiles of those CMake targets in a build directory, which is there."""
    write_files(build, {"CMakeCache.txt": ""})
    return [
        replace(
            record("miss", unit("host", "why")), object=f"{build}/CMakeFiles/{name}.dir/{n}.o", directory=str(build)
        )
        for name in targets
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("one/build", "1 object of target 'kernels': 1 miss"),
        ("one/build/lib/deep", "1 object of target 'kernels': 1 miss"),
        ("one", "5 objects of target 'kernels' in '{top}/one/build', '{top}/one/build/inner': 5 misses"),
        ("one/build/inner", "4 objects of target 'kernels': 4 misses"),
        ("two", "6 objects of target 'kernels' in '{top}/two/debug', '{top}/two/release': 6 misses"),
        (
            ".",
            "11 objects of target 'kernels' in '{top}/one/build', '{top}/one/build/inner', '{top}/two/debug' and",
        ),
        ("elsewhere", "11 objects of target 'kernels' in '{top}/one/build', "),
        ("elsewhere/build", "11 objects of target 'kernels' in '{top}/one/build', "),
    ],
)
def test_a_target_is_that_of_the_build_directory_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, told: str
) -> None:
    """Or of those below here; only if it has no such target, that of any other."""
    records = [
        *built(tmp_path / "one/build", "kernels", "more"),
        *built(tmp_path / "one/build/inner", "kernels", count=4),
        *built(tmp_path / "two/debug", "kernels", count=2),
        *built(tmp_path / "two/release", "kernels", count=4),
        *built(tmp_path / "elsewhere/build", "more"),
    ]
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / place)
    assert shown(tmp_path, records, "kernels").startswith("last compiles of " + told.format(top=tmp_path))


def test_a_build_directory_that_is_gone_is_where_its_compiles_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = shown(tmp_path, checkouts(), "kernels1")
    assert told.startswith("last compiles of 4 objects of target 'kernels1' in '/a/build', '/b/build': 4 misses")


def test_a_file_here_is_not_taken_for_a_target_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path / "here", {"kernels": ""})
    monkeypatch.chdir(tmp_path / "here")
    records = built(tmp_path / "build", "kernels")
    assert "no record of a compile of 'kernels'" in shown(tmp_path, records, "kernels", status=1)
    monkeypatch.chdir(tmp_path)
    assert shown(tmp_path, [], "kernels").startswith("last compiles of 1 object of target 'kernels': ")


def of_meson(build: Path, *targets: str) -> None:
    """A build directory of Meson's with those programs."""
    listed = [{"name": name, "filename": [f"{build}/{name}"]} for name in targets]
    directories = {"directories": {"build": str(build)}}
    write_files(
        build,
        {"meson-info/intro-targets.json": json.dumps(listed), "meson-info/meson-info.json": json.dumps(directories)},
    )


NO_HIP = "hipcache: 'prog' seems to compile no HIP itself"


def test_a_program_without_hip_of_its_own_is_answered_with_the_targets_that_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = tmp_path / "build"
    records = [*built(build, "a", "b", "c", "d", count=2), *built(tmp_path / "other", "program", "progs")]
    told = [NO_HIP, f"  in '{build}' these compile HIP: 'a', 'b', 'c' and 1 more"]
    monkeypatch.chdir(build)
    assert shown(tmp_path, records, "prog", status=1).splitlines() == told
    monkeypatch.chdir(tmp_path)
    lines = shown(tmp_path, [], "build/prog", status=1).splitlines()
    assert lines == [told[0].replace("prog", "build/prog"), told[1]]
    lines = shown(tmp_path, [], "build/main.cpp.o", status=1).splitlines()
    assert lines == ["hipcache: the store has no record of a compile of 'build/main.cpp.o'", told[1]]
    (tmp_path / "nothing").mkdir()
    monkeypatch.chdir(tmp_path / "nothing")
    assert "is HIPCACHE_DIR" in shown(tmp_path, [], "main", status=1)


def test_a_program_that_is_listed_is_not_taken_for_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    of_meson(tmp_path, "prog", "progs")
    of_it = replace(record("miss"), object=f"{tmp_path}/progs.p/k.o")
    told = [NO_HIP, f"  in '{tmp_path}' these compile HIP: 'progs'"]
    assert shown(tmp_path, [of_it], "prog", status=1).splitlines() == told
    assert "did you mean 'progs'?" in shown(tmp_path, [], "prags", status=1)
    assert "no record of a compile of 'another'" in shown(tmp_path, [], "another", status=1)


@pytest.mark.parametrize("asked", ["explain", "inspect"])
@pytest.mark.parametrize("source", ["kernel.hip", "../{top}/kernel.hip", "{path}/kernel.hip"])
def test_a_source_is_answered_with_the_object_that_was_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ("clang++", "-c", source.format(top=tmp_path.name, path=tmp_path), "-o", "build/made.o")
    mine = replace(record("miss"), object=f"{tmp_path}/build/made.o", directory=str(tmp_path), command=command)
    lines = shown(tmp_path, [mine], "kernel.hip", asked=asked, status=1).splitlines()
    assert lines[1] == f"  name the object that was made of it: 'hipcache {asked} build/made.o'"
    of_another = shown(tmp_path, [mine], "another.hip", asked=asked, status=1).splitlines()
    assert of_another[1] == f"  in '{tmp_path}' these compile HIP: 'build/made.o'"
    later = replace(mine, object=f"{tmp_path}/build/kernel two.o", when=1.0)
    lines = shown(tmp_path, [later], "kernel.hip", asked=asked, status=1).splitlines()
    assert lines[1] == f"  name one of the objects that were made of it: 'hipcache {asked} 'build/kernel two.o''"


def test_inspect_takes_objects_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mine = replace(record("miss"), object=f"{tmp_path}/CMakeFiles/kernels.dir/one.o", directory=str(tmp_path))
    lines = shown(tmp_path, [mine], "kernels", asked="inspect", status=1).splitlines()
    hint = "  name one of its objects, such as 'hipcache inspect CMakeFiles/kernels.dir/one.o'"
    assert lines == ["hipcache: 'kernels' is a target", hint]
    assert "did you mean" not in shown(tmp_path, [], "kernel", asked="inspect", status=1)
