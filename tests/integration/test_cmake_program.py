"""Which hipcache the CMake module takes, and which it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cmake_project import (
    ARCHES,
    CXX,
    HIPCACHE,
    MODULE_PATH,
    MODULES,
    PROGRAMS,
    Project,
    hip_source,
    simple_project,
)


def fake_hipcache(path: Path, body: str = 'exec "$@"') -> Path:
    """A program that answers --version and runs the compiler, where the real one would be too much."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo hipcache 1.0.0 && exit 0\n{body}\n')
    path.chmod(0o755)
    return path


class TestProgram:
    """The module finds the hipcache that it was installed with, and a build goes on without any."""

    @pytest.fixture
    def without_hipcache(self, tmp_path: Path) -> Callable[[], Project]:
        """A project whose PATH has no hipcache (nor our Ninja), and a copy of the module in a prefix of its own."""
        shutil.copytree(MODULES, tmp_path / "prefix" / "share" / "cmake" / "HipCache")

        def make() -> Project:
            project = Project(tmp_path / "project", environ={"PATH": "/usr/bin:/bin"})
            return project.write(simple_project())

        return make

    @staticmethod
    def options(tmp_path: Path) -> list[str]:
        return [
            f"-DCMAKE_MODULE_PATH={tmp_path / 'prefix' / 'share' / 'cmake' / 'HipCache'}",
            f"-DCMAKE_MAKE_PROGRAM={PROGRAMS / 'ninja'}",
            ARCHES,
        ]

    def test_beside_the_module(self, tmp_path: Path, without_hipcache: Callable[[], Project]) -> None:
        program = fake_hipcache(tmp_path / "prefix" / "bin" / "hipcache")
        project = without_hipcache()
        answer = project.configure(*self.options(tmp_path))
        assert project.launchers() == {"kernels": str(program)}
        assert "HipCache: clang++ 15.0.6, gfx906 gfx90a --" in answer.text, (
            "no store in the line if hipcache tells none"
        )

    def test_in_the_path(self, tmp_path: Path, without_hipcache: Callable[[], Project]) -> None:
        program = fake_hipcache(tmp_path / "elsewhere" / "hipcache")
        project = without_hipcache()
        project.environ["PATH"] = f"{program.parent}:/usr/bin:/bin"
        project.configure(*self.options(tmp_path))
        assert project.launchers() == {"kernels": str(program)}

    def test_named_by_the_user(self, tmp_path: Path, without_hipcache: Callable[[], Project]) -> None:
        fake_hipcache(tmp_path / "prefix" / "bin" / "hipcache")
        program = fake_hipcache(tmp_path / "my-hipcache")
        project = without_hipcache()
        project.configure(*self.options(tmp_path), f"-DHIPCACHE_PROGRAM={program}")
        assert project.launchers() == {"kernels": str(program)}

    def test_missing(self, tmp_path: Path, without_hipcache: Callable[[], Project]) -> None:
        project = without_hipcache()
        answer = project.configure(*self.options(tmp_path))
        assert "HipCache: the program 'hipcache' was not found: this build is not cached." in answer.text
        assert project.launchers() == {"kernels": ""}

    def test_named_wrongly(self, tmp_path: Path, without_hipcache: Callable[[], Project]) -> None:
        fake_hipcache(tmp_path / "prefix" / "bin" / "hipcache")
        project = without_hipcache()
        answer = project.configure(*self.options(tmp_path), "-DHIPCACHE_PROGRAM=/nowhere/hipcache")
        assert "HIPCACHE_PROGRAM is '/nowhere/hipcache', which is not a program" in answer.text
        assert project.launchers() == {"kernels": ""}

    def test_broken(self, tmp_path: Path, without_hipcache: Callable[[], Project]) -> None:
        """A launcher that does not start would fail every compile, so it is not used."""
        program = fake_hipcache(tmp_path / "prefix" / "bin" / "hipcache")
        program.write_text("#!/bin/sh\necho 'no module named hipcache' >&2\nexit 1\n")
        project = without_hipcache()
        answer = project.configure(*self.options(tmp_path))
        assert f"'{program} --version' failed (1): this build is not cached. no module named hipcache" in answer.text
        assert project.launchers() == {"kernels": ""}

    def test_another_program(self, tmp_path: Path, without_hipcache: Callable[[], Project]) -> None:
        """One that starts, and would not compile."""
        project = without_hipcache()
        answer = project.configure(*self.options(tmp_path), "-DHIPCACHE_PROGRAM=/bin/true")
        assert "HipCache: '/bin/true' is not hipcache, by what its --version says: this build is not" in answer.text
        assert project.launchers() == {"kernels": ""}


class TestNamesOfTheProject:
    """A function of CMake sees the variables of the project, and its cache: none becomes a part of a command."""

    @pytest.mark.parametrize("line", ["set(program /bin/true)", "find_program(program true)"])
    def test_a_variable(self, tmp_path: Path, line: str) -> None:
        project = Project(tmp_path).write(simple_project(before=line))
        assert project.configure(MODULE_PATH, ARCHES).warnings == 0
        assert project.launchers() == {"kernels": str(HIPCACHE)}

    def test_the_cache(self, tmp_path: Path) -> None:
        """get_property() without an answer unsets its variable, and the one of the cache is seen."""
        of_cxx = """\
cmake_minimum_required(VERSION 3.21)
project(of_cxx LANGUAGES CXX)
include(HipCache)
add_library(kernels STATIC one.cpp)
target_compile_options(kernels PRIVATE -x hip --offload-arch=gfx906)
add_library(plain STATIC plain.cpp)
"""
        project = Project(tmp_path).write(simple_project())
        project.write({"CMakeLists.txt": of_cxx, "one.cpp": hip_source("one"), "plain.cpp": "int plain;\n"})
        there = ["program=/bin/true", "launcher=/bin/true", "options=-x hip", "libraries=hip::device", "language=HIP"]
        project.configure(MODULE_PATH, CXX, *(f"-D{one}" for one in there))
        assert project.launchers() == {"kernels": str(HIPCACHE), "plain": ""}

    def test_a_module_of_iree(self, tmp_path: Path) -> None:
        text = """\
cmake_minimum_required(VERSION 3.21)
project(of_iree LANGUAGES NONE)
set(program /bin/true)
include(HipCacheIree)
hipcache_iree_module(layer SOURCE layer.mlir DEVICES local)
"""
        project = Project(tmp_path).write({"CMakeLists.txt": text, "layer.mlir": ""})
        project.configure(MODULE_PATH, "-DIREE_COMPILE=/bin/false", "-Darg_FLAGS=--other", "-Darg_DEPENDS=/other")
        commands = project.run(PROGRAMS / "ninja", "-C", project.build_dir, "-t", "commands").stdout
        assert f"{HIPCACHE} /bin/false --iree-hal-target-device=local" in commands
        assert f"{HIPCACHE} iree-check" in commands
        assert "other" not in commands
