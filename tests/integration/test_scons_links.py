"""Links of relocatable device code by SCons."""

from __future__ import annotations

import subprocess
import sys

import pytest
from scons_project import RUNTIME_AND_MAIN, Project, newest, project

__all__ = ["newest", "project"]
pytestmark = pytest.mark.takes_turns("project")

RDC_ONE = """\
#include "hip_in_short.hpp"
__device__ int twice(int a);
extern "C" __global__ void kernel(int* p) {{ p[0] = twice(p[1]); }}
int one(int*) {{ return {host}; }}
"""
RDC_TWO = """\
#include "hip_in_short.hpp"
#ifdef __gfx90a__
#define FACTOR {gfx90a}
#else
#define FACTOR 2
#endif
__device__ int twice(int a) {{ return a * FACTOR; }}
int two(int*) {{ return 0; }}
int four(int*) {{ return 0; }}
"""
RDC = 'env.Append(HIPFLAGS=["-fgpu-rdc"], HIPLINKFLAGS=["-no-hip-rt", "-Wl,-z,noexecstack"])\n'


def write_relocatable(project: Project, *, host: str = "0", gfx90a: str = "2") -> None:
    project.write({"rdc_one.hip": RDC_ONE.format(host=host), "rdc_two.hip": RDC_TWO.format(gfx90a=gfx90a)})
    project.write({"main.cpp": RUNTIME_AND_MAIN + "void hidden() { __hipRegisterFatBinary(nullptr); }\n"})


def device_links(project: Project) -> tuple[int, int]:
    """(hits, misses) since the last call."""
    counts = project.stats()["units"]["link"]
    done = [sys.executable, "-m", "hipcache", "stats", "--zero"]
    subprocess.run(done, env=project.variables(), check=True, capture_output=True)
    return counts["hits"], counts["misses"]


def test_a_program_of_objects_with_relocatable_device_code_is_linked_through_the_cache(project: Project) -> None:
    program = RDC + 'env.Program("program", ["main.cpp", "rdc_one.hip", "rdc_two.hip"])\n'
    write_relocatable(project)
    project.construct(program)
    built = project.build()
    assert " --hip-link -fgpu-rdc --offload-arch=gfx906 --offload-arch=gfx90a " in built.out
    assert subprocess.run([project.root / "program"], check=False).returncode == 0
    assert device_links(project) == (0, 2)
    assert project.build().up_to_date

    write_relocatable(project, host="7")
    project.build()
    assert subprocess.run([project.root / "program"], check=False).returncode == 7
    assert device_links(project) == (2, 0)

    write_relocatable(project, host="7", gfx90a="5")
    project.build()
    assert device_links(project) == (1, 1)
    made = (project.root / "program").read_bytes()

    (project.root / "program").unlink()
    project.construct('env["HIPCACHE"] = False\n' + program)
    assert not project.build().compiled
    assert (project.root / "program").read_bytes() == made
    assert device_links(project) == (0, 0)


def test_switching_the_cache_off_links_nothing_again(newest: Project) -> None:
    program = RDC + 'env.Program("program", ["main.cpp", "rdc_one.hip", "rdc_two.hip"])\n'
    write_relocatable(newest)
    newest.construct(program)
    newest.build()
    newest.construct('env["HIPCACHE"] = False\n' + program)
    assert newest.build().up_to_date


def test_shared_and_loadable_libraries_are_linked_through_the_cache(newest: Project) -> None:
    write_relocatable(newest)
    newest.write({"rdc_one.hip": RDC_ONE.format(host="0").replace("twice(p[1])", "p[1]")})
    newest.construct(
        RDC
        + 'env["SHOBJSUFFIX"] = ".pic.o"\n'
        + 'env.SharedLibrary("shared", ["rdc_one.hip"])\nenv.LoadableModule("module", ["rdc_one.hip"])\n'
    )
    newest.build()
    assert device_links(newest) == (2, 2)
    assert newest.build().up_to_date


def test_objects_in_which_clang_would_see_no_device_code_are_refused(project: Project) -> None:
    write_relocatable(project)
    project.construct(RDC + 'env.SharedLibrary("shared", ["rdc_one.hip"])\n')
    built = project.try_build()
    assert built.status == 2
    assert (
        "target 'libshared.so': clang takes device code out of files in .o only, not out of 'rdc_one.os'" in built.err
    )
    assert "env['SHOBJSUFFIX'] = '.pic.o'" in built.err
    project.construct(RDC + 'env.Append(HIPFLAGS="-fno-gpu-rdc")\nenv.SharedLibrary("shared", ["rdc_two.hip"])\n')
    assert "--hip-link" not in project.build().out


def test_a_static_library_by_name_is_linked_by_the_linker_that_is_named(newest: Project) -> None:
    write_relocatable(newest)
    newest.construct(
        RDC
        + """
env.StaticLibrary("archive", ["rdc_one.hip", "rdc_two.hip"])
env.Program("program", ["main.cpp"], LINK="$HIPLINK", LIBS=["archive"], LIBPATH=["."])
"""
    )
    newest.build()
    assert device_links(newest) == (0, 2)


def test_the_new_driver_links_a_static_library_among_the_sources(newest: Project) -> None:
    """Clang's old one finds no device code in a library that is named by its path."""
    write_relocatable(newest)
    newest.construct(
        RDC
        + """
env["HIPCXX"] = "/usr/lib/llvm-19/bin/clang++"
env.Append(HIPFLAGS=["--offload-new-driver"], LINKFLAGS=["-Wl,--unresolved-symbols=ignore-all"])
archive = env.StaticLibrary("archive", ["rdc_two.hip"])
env.Program("program", ["main.cpp", "rdc_one.hip", archive])
"""
    )
    newest.build()
    assert device_links(newest) == (0, 2)


def test_other_programs_are_linked_as_ever(newest: Project) -> None:
    write_relocatable(newest)
    newest.write({"plain.cpp": "int main() { return 3; }\n"})
    newest.construct('env.Program("plain", ["plain.cpp"], LINKCOM="$LINK -o $TARGET $SOURCES && touch linked")')
    assert "--hip-link" not in newest.build().out
    assert (newest.root / "linked").exists()


def test_a_link_that_fails_says_why_once(newest: Project) -> None:
    write_relocatable(newest)
    newest.write({"main.cpp": "int nowhere(); int main() { return nowhere(); }\n"})
    newest.construct(RDC + 'env.Program("program", ["main.cpp", "rdc_one.hip", "rdc_two.hip"])\n')
    built = newest.try_build()
    assert built.status == 2
    assert built.err.count("undefined reference to `nowhere()'") == 1
    assert "linker command failed with exit code 1" in built.err
    assert "[program] Error 1" in built.err
    assert newest.stats()["compiles"]["failed"] == 1


def test_a_device_link_that_fails_says_what_clang_says(newest: Project) -> None:
    write_relocatable(newest)
    newest.construct(RDC + 'env.Program("program", ["main.cpp", "rdc_one.hip"])\n')
    built = newest.try_build()
    assert built.status == 2
    assert "undefined hidden symbol: twice(int)" in built.err
    assert newest.stats()["compiles"]["failed"] == 1


def test_a_link_is_run_in_the_projects_own_way(newest: Project) -> None:
    write_relocatable(newest)
    newest.construct(
        RDC
        + """
own = env["SPAWN"]
def spawn(sh, escape, command, words, variables):
    open("spawned", "a").write(" ".join(words) + "\\n")
    return own(sh, escape, command, words, variables)
env.Program("program", ["main.cpp", "rdc_one.hip", "rdc_two.hip"], SPAWN=spawn)
"""
    )
    newest.build()
    assert " --hip-link " in (newest.root / "spawned").read_text()
    assert device_links(newest) == (0, 0)
