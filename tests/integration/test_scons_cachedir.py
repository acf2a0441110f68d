"""SCons' own cache and files beside an object."""

from __future__ import annotations

import pytest
from cmake_project import hip_source
from scons_project import Project, project

__all__ = ["project"]
pytestmark = pytest.mark.takes_turns("project")


def test_a_cachedir_beside_it_serves_no_stale_object(project: Project) -> None:
    """CacheDir knows only what a scanner finds before the first build: HIP objects stay out of it."""
    project.write({"system/deep.h": "#define VALUE 1\n"})
    project.write({"one.hip": '#include "hip_in_short.hpp"\n#include <deep.h>\nextern "C" int f() { return VALUE; }\n'})
    project.construct(f"""
CacheDir("cachedir")
env.Append(HIPFLAGS=["-isystem", "{project.root}/system"])
env.HipObject("one.hip")
""")
    project.build()
    first = (project.root / "one.o").read_bytes()
    (project.root / "one.o").unlink()
    (project.root / ".sconsign.dblite").unlink()
    project.write({"system/deep.h": "#define VALUE 2\n"})
    assert project.build().compiled == ["one.o"]
    assert (project.root / "one.o").read_bytes() != first


def test_a_cachedir_keeps_what_is_no_hip_and_a_library_of_hip_objects(project: Project) -> None:
    project.write({"plain.cpp": "int plain() { return 1; }\n"})
    project.construct('CacheDir("cachedir")\nenv.StaticLibrary("all", ["one.hip", "plain.cpp"])')
    project.build()
    archive = project.root / "liball.a"
    first = archive.read_bytes()
    project.build("-c")
    again = project.build()
    assert again.compiled == ["one.o"]
    assert "Retrieved `plain.o' from cache" in again.out
    assert "Retrieved `liball.a' from cache" in again.out
    assert archive.read_bytes() == first
    project.write({"one.hip": hip_source("longer")})
    project.build("-c")
    again = project.build()
    assert again.compiled == ["one.o"]
    assert "Retrieved `liball.a'" not in again.out
    assert archive.read_bytes() != first
    assert project.outcomes == {"hit": 1, "miss": 2}


def test_clean_removes_what_the_compiler_wrote_beside_the_object(project: Project) -> None:
    before = {path.name for path in project.root.iterdir()} | {"SConstruct", "store", ".sconsign.dblite"}
    flags = "-MMD -g -gsplit-dwarf -fsave-optimization-record -fstack-usage --coverage --serialize-diagnostics x.dia"
    project.construct(f'env.Append(HIPFLAGS="{flags}".split())\nenv.HipObject("one.hip")')
    project.build()
    assert project.build().up_to_date
    left = {path.name for path in project.root.iterdir()} - before
    beside = {f"one{end}" for end in (".d", ".dwo", "_gfx906.dwo", "_gfx90a.dwo", ".opt.yaml", ".su", ".gcno")}
    assert left == {"one.o", "x.dia", *beside}
    project.build("-c")
    assert {path.name for path in project.root.iterdir()} == before
