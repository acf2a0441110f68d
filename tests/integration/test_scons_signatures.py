"""What an object's signature contains, and how SCons says that it changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cmake_project import HIP_IN_SHORT, hip_source
from hip import COMPILERS, LLVM
from scons_project import CLANG, Project, newest, project

__all__ = ["newest", "project"]
pytestmark = pytest.mark.takes_turns("project")


@pytest.mark.parametrize(
    "change",
    [
        'env["HIP_ARCHS"] = ["gfx906", "gfx90a", "gfx1030"]',
        'env.Append(HIPFLAGS=["-O3"])',
        'env.Append(CPPDEFINES={"MORE": 1})',
        'env["ENV"]["CPATH"] = "/usr/include/linux"',
        'env["ENV"]["CCC_OVERRIDE_OPTIONS"] = "+-DMORE"',
    ],
)
def test_archs_flags_and_variables_of_the_driver_are_in_the_signature(newest: Project, change: str) -> None:
    newest.construct('env.HipObject("one.hip")')
    newest.build()
    newest.construct(change + '\nenv.HipObject("one.hip")')
    assert newest.build().compiled == ["one.o"]
    assert newest.build().up_to_date


def test_one_more_arch_compiles_only_that(newest: Project) -> None:
    newest.construct('env.HipObject("one.hip")')
    newest.build()
    newest.construct('env["HIP_ARCHS"] = "gfx906,gfx90a,gfx1030"\nenv.HipObject("one.hip")')
    newest.build()
    units = newest.stats()["units"]
    assert units["gfx1030"] == {"hits": 0, "misses": 1}  # type: ignore[comparison-overlap]
    assert units["gfx90a"] == units["gfx906"] == units["host"] == {"hits": 1, "misses": 1}  # type: ignore[comparison-overlap]


def test_a_compiler_of_the_same_name_and_other_content_rebuilds(project: Project) -> None:
    """The content of the program that the driver runs counts, not only that of the driver."""
    llvm = project.root / "llvm"
    (llvm / "bin").mkdir(parents=True)
    for name in ("clang", "lld", "clang-offload-bundler"):
        shutil.copy2(Path(CLANG).parent / name, llvm / "bin" / name)
    (llvm / "bin" / "clang++").symlink_to("clang")
    (llvm / "lib").symlink_to(LLVM[COMPILERS[0]] / "lib")
    project.construct('env["HIPCXX"] = "llvm/bin/clang++"\nenv.HipObject("one.hip")')
    project.build()
    assert project.build().up_to_date
    with (llvm / "bin" / "lld").open("ab") as program:
        program.write(b"patched")
    assert project.build().compiled == ["one.o"]
    assert project.build().up_to_date


def test_a_device_library_of_other_content_rebuilds(project: Project) -> None:
    shutil.copytree("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode", project.root / "bitcode")
    project.construct(f"""
env["HIPFLAGS"] = ["-nogpuinc", "-O1", "--rocm-path=/usr", "--rocm-device-lib-path={project.root}/bitcode"]
env.HipObject("one.hip")
""")
    project.build()
    assert project.build().up_to_date
    library = project.root / "bitcode" / "ockl.bc"
    shutil.copy(project.root / "bitcode" / "opencl.bc", library)
    assert project.build().compiled == ["one.o"]
    assert project.build().up_to_date


def test_a_dry_run_prints_the_command_and_does_nothing(project: Project) -> None:
    project.construct('env.HipObject("one.hip")')
    assert project.build("-n").compiled == ["one.o"]
    assert not (project.root / "one.o").exists()
    assert project.outcomes == {}


def test_a_dry_run_after_a_change_says_what_and_why_and_leaves_the_object(project: Project) -> None:
    """The run after it does what it said."""
    project.construct('env.HipObject("one.hip")')
    project.build()
    assert project.build("-n").up_to_date
    before = (project.root / "one.o").read_bytes()
    project.write({"hip_in_short.hpp": HIP_IN_SHORT + "#define MORE\n", "one.hip": hip_source("longer")})
    for arguments in (("-n", "--debug=explain"), ("--debug=explain",)):
        assert (project.root / "one.o").read_bytes() == before
        built = project.build(*arguments)
        assert built.compiled == ["one.o"]
        assert "rebuilding `one.o' because:\n" in built.out
        assert "`one.hip' changed" in built.out
        assert "`hip_in_short.hpp' changed" in built.out
    assert project.outcomes == {"miss": 2}


_ACTION_CHANGED = "the contents of the build action changed"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ('env["HIP_ARCHS"] += ["gfx1030"]', _ACTION_CHANGED),
        ('env.Append(CPPDEFINES=["MORE"])', _ACTION_CHANGED),
        ('env["ENV"]["CCC_OVERRIDE_OPTIONS"] = "+-DMORE"', _ACTION_CHANGED),
        ('env["HIPCXX"] = "/usr/lib/llvm-19/bin/clang++"', "`/usr/lib/llvm-19/bin/clang++' is a new dependency"),
    ],
)
def test_a_changed_command_is_explained(project: Project, change: str, why: str) -> None:
    project.construct('env.HipObject("one.hip")')
    project.build()
    project.construct(f'{change}\nenv.HipObject("one.hip")')
    built = project.build("--debug=explain")
    assert f"rebuilding `one.o' because {why}" in built.out
    assert built.compiled == ["one.o"]
    assert project.build().up_to_date
