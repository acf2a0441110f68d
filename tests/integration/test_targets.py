"""Which target of the build tool an object belongs to: by what CMake and Meson list, else by its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cmake_project import ARCHES, CMAKES, MODULE_PATH, Project, simple_project
from hip import write_files
from hipcache.report.targets import CHECKS, Targets, by_place

LAYOUT = "set_target_properties(kernels PROPERTIES OUTPUT_NAME fast)\nadd_subdirectory(sub)\n"
WHATEVER = (  # no list of targets
    "",
    "{",
    "[]",
    "{}",
    "[1]",
    '{"objects": [{}]}',
    '[{"name": "x"}]',
    '[{"filename": [1]}]',
    '{"targets": [1]}',
    '{"targets": {"x": [1]}}',
    "[" * 100_000,
    "null",
)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/b/lib/CMakeFiles/kernels.dir/src/k.hip.o", "kernels"),
        ("/b/lib/libkernels.so.p/k.hip.o", "kernels"),
        ("/b/lib/libkernels.so.1.2.p/k.hip.o", "kernels"),
        ("/b/check.p/k.hip.o", "check"),
        ("/b/CMakeFiles/CMakeScratch/TryCompile-x1/CMakeFiles/cmTC_5f.dir/src.hip.o", CHECKS),
        ("/b/meson-private/tmpq0_1/testfile.o", CHECKS),
        ("/b/lib/k.o", "/b/lib"),
        ("", "(not known)"),
    ],
)
def test_the_place_of_an_object_tells_its_target(path: str, target: str) -> None:
    assert by_place(path) == Targets().of(path) == target


def of_meson(build: Path, *targets: dict[str, object]) -> None:
    told = {"directories": {"build": "/elsewhere/b"}}
    write_files(
        build, {"meson-info/meson-info.json": json.dumps(told), "meson-info/intro-targets.json": json.dumps(targets)}
    )


def test_what_meson_lists_names_objects_and_outputs_wherever_the_build_directory_is(tmp_path: Path) -> None:
    of_meson(tmp_path, {"name": "my kernels", "filename": ["/elsewhere/b/sub/k.so.2"]})
    targets = Targets()
    assert targets.of(f"{tmp_path}/sub/k.so.2.p/deep/one.o") == targets.of(f"{tmp_path}/sub/k.so.2") == "my kernels"
    assert targets.names(f"{tmp_path}/sub/k.so.2.p/one.o") == {"my kernels", "k.so.2", f"{tmp_path}/sub/k.so.2"}
    assert targets.of(f"{tmp_path}/sub/libother.so.p/one.o") == "other"
    assert targets.names(f"{tmp_path}/CMakeFiles/inner.dir/one.o") == {"inner"}


@pytest.mark.parametrize("text", WHATEVER)
def test_lists_that_do_not_read_leave_it_to_the_place(tmp_path: Path, text: str) -> None:
    reply, info = ".cmake/api/v1/reply", "meson-info"
    known = json.dumps({"objects": [{"kind": "codemodel", "version": {"major": 2}, "jsonFile": "codemodel"}]})
    for files in (
        {f"{info}/intro-targets.json": text, f"{info}/meson-info.json": '{"directories": {"build": "/b"}}'},
        {f"{info}/intro-targets.json": '[{"name": "x", "filename": ["/b/k.so"]}]', f"{info}/meson-info.json": text},
        {f"{reply}/index-1.json": text},
        {f"{reply}/index-1.json": known, f"{reply}/codemodel": text},
        {f"{reply}/index-1.json": known},
        {".hipcache-targets.json": text},
    ):
        build = tmp_path / str(len(list(tmp_path.iterdir())))
        write_files(build, files)
        assert Targets().of(f"{build}/libk.so.p/one.o") == "k"


@pytest.mark.parametrize("cmake", CMAKES)
def test_real_cmake_lists_its_targets_for_us(tmp_path: Path, cmake: str) -> None:
    """Before CMake 3.27 from the second configure step on."""
    project = Project(tmp_path, cmake).write(simple_project(after=LAYOUT))
    project.write({"sub/CMakeLists.txt": "add_library(parts OBJECT ../one.hip)\n"})
    assert project.configure(MODULE_PATH, ARCHES).warnings == 0
    if cmake == "debian":
        assert Targets().of(f"{project.build_dir}/libfast.a") == str(project.build_dir), "not listed yet"
        project.configure()
    moved = tmp_path / "moved"
    project.build_dir.rename(moved)
    targets = Targets()
    assert targets.names(f"{moved}/CMakeFiles/kernels.dir/one.hip.o") == {"kernels", "libfast.a", f"{moved}/libfast.a"}
    assert targets.of(f"{moved}/libfast.a") == "kernels"
    assert targets.of(f"{moved}/sub/CMakeFiles/parts.dir/__/one.hip.o") == "parts"
