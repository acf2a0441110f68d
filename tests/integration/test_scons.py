"""The SCons tool against real SCons: builders, ways in, and how SCons behaves with it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cmake_project import CHECKOUT, HIP_IN_SHORT, PROGRAMS, hip_source
from hip import HIP_FLAGS, script
from hipcache.report.targets import Targets
from scons_project import CLANG, HEADERLIGHT, RUNTIME_AND_MAIN, TOOLS, Project, newest, project

__all__ = ["newest", "project"]
pytestmark = pytest.mark.takes_turns("project")

# -- the toolchain


def test_the_compiler_of_hipcc_and_the_flags_that_show_it_hip_are_found(project: Project) -> None:
    bare = f'env = Environment(tools=["default", "hipcache"], toolpath=["{TOOLS}"], HIP_ARCHS=["gfx906"])\n'
    project.write({"full.hip": "#include <hip/hip_runtime.h>\n__global__ void kernel(int* p) { *p = 1; }\n"})
    project.construct('env.HipObject("full.hip")\n', environment=bare)
    project.build()
    assert project.outcomes == {"miss": 1}
    assert project.build().up_to_date


# -- builders


def test_every_builder_takes_hip_sources(project: Project) -> None:
    project.write({"main.cpp": RUNTIME_AND_MAIN})
    project.write({f"{name}.hip": hip_source(name) for name in ("two", "three", "four", "five", "six", "seven")})
    project.write({"eight.cpp": hip_source("eight")})
    project.construct("""
env.Append(CPPDEFINES=["WANTED"])
archive = env.StaticLibrary("archive", ["two.hip"])
env.SharedLibrary("shared", ["three.hip", env.SharedHipObject("seven.hip")])
env.Program("program", ["main.cpp", "one.hip", env.Object("four.hip"), env.HipObject("five.hip"), archive])
env.SharedObject("six.hip")
env.HipObject("eight.cpp")
""")
    built = project.build("-j2")
    assert sorted(built.compiled) == sorted(
        ["one.o", "two.o", "three.os", "four.o", "five.o", "six.os", "seven.os", "eight.o"]
    )
    assert project.outcomes == {"miss": 8}
    assert subprocess.run([project.root / "program"], check=False).returncode == 3
    assert project.build("-j2").up_to_date


def test_the_object_is_plain_clangs(newest: Project) -> None:
    """With one CUID for both: the driver's own hashes the command."""
    newest.construct('env.Append(HIPFLAGS=["-cuid=5eed"])\nenv.HipObject("one.hip")')
    newest.build()
    made = (newest.root / "one.o").read_bytes()
    newest.build("-c")
    newest.construct('env.Append(HIPFLAGS=["-cuid=5eed"])\nenv["HIPCACHE"] = False\nenv.HipObject("one.hip")')
    newest.build()
    assert (newest.root / "one.o").read_bytes() == made
    assert newest.outcomes == {"miss": 1}


# -- ways in


@pytest.mark.parametrize("way", ["callable", "site_scons", "sconsdir", "Tool"])
def test_each_way_in_makes_hip_objects(project: Project, way: str) -> None:
    tools, before = '["default", "hipcache"]', ""
    if way == "callable":
        project.environ["PYTHONPATH"] = f"{CHECKOUT / 'plugins'}{os.pathsep}{packages(project.root)}"
        tools, before = '["default", generate]', "from hipcache_scons import generate"
    elif way == "site_scons":
        (project.root / "site_scons").mkdir()
        (project.root / "site_scons" / "site_tools").mkdir()
        shutil.copy(TOOLS / "hipcache.py", project.root / "site_scons" / "site_tools")
        project.environ["PYTHONPATH"] = f"{CHECKOUT / 'plugins'}{os.pathsep}{packages(project.root)}"
    else:
        asked = [sys.executable, "-m", "hipcache", "--sconsdir"]
        directory = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        tool = f'Tool("hipcache", toolpath=["{directory}"], HIP_ARCHS=["gfx906"])'
        tools = f'["default", {tool if way == "Tool" else repr("hipcache")}], toolpath=["{directory}"]'
    environment = f"""\
{before}
env = Environment(tools={tools}, HIPCXX="{CLANG}", HIPFLAGS="{HEADERLIGHT}")
env["HIP_ARCHS"] = ["gfx906"]
"""
    project.construct('env.HipObject("one.hip")', environment)
    assert project.build().compiled == ["one.o"]
    assert project.outcomes == {"miss": 1}


def packages(root: Path) -> Path:
    """hipcache's dependencies for SCons' Python, and nothing else of this environment (it has another SCons)."""
    import blake3

    directory = root / "packages"
    directory.mkdir()
    (directory / "blake3").symlink_to(Path(str(blake3.__file__)).parent)
    return directory


def test_the_tool_leaves_the_package_of_its_name_importable(project: Project) -> None:
    """SCons makes the tool module `sys.modules["hipcache"]`; the engine is a package of that name."""
    project.construct(f"""
other = Environment(tools=["default", "hipcache"], toolpath=["{TOOLS}"])
import hipcache, hipcache.cli.screen
assert hipcache.__version__ and hipcache.__path__
""")
    project.build()


def test_a_python_without_hipcache_is_told_what_to_install(newest: Project) -> None:
    (newest.root / "tools").mkdir()
    shutil.copy(TOOLS / "hipcache.py", newest.root / "tools")
    newest.construct("", 'env = Environment(tools=["hipcache"], toolpath=["tools"])\n')
    newest.scons = "debian"
    built = newest.try_build()
    assert built.status == 2
    assert "has no module 'hipcache" in built.err
    assert "with this Python's pip (/usr/bin/python3" in built.err


# -- how SCons behaves


def test_the_runtime_is_for_what_is_no_hip(newest: Project) -> None:
    flags = 'print(env.subst("$CXXFLAGS $_LIBDIRFLAGS $_LIBFLAGS"))'
    newest.construct(f"""\
env.HipRuntime()
{flags}
env = Environment(tools=["default", "hipcache"], toolpath=["{TOOLS}"], HIPPATH="/rocm")
env.HipRuntime()
{flags}
print(env.subst("$HIPCOM"))
""")
    here, there, command = newest.build().out.splitlines()[:3]
    assert here.split() == ["-D__HIP_PLATFORM_AMD__=1", "-lamdhip64"]
    assert there.split() == ["-D__HIP_PLATFORM_AMD__=1", "-isystem", "/rocm/include", "-L/rocm/lib", "-lamdhip64"]
    assert "amdhip64" not in command and "-isystem" not in command


def test_cxx_goes_to_the_cache_that_the_setting_names_and_nothing_is_rebuilt_for_that(project: Project) -> None:
    cache = script(project.root / "other", f'echo "$@" >> {project.root}/taken\nexec "$@"\n')
    project.write({"plain.cpp": "int plain() { return 1; }\n"})
    project.construct('env.StaticLibrary("kernels", ["one.hip", "plain.cpp"])\n')
    project.environ |= {"HIPCACHE_CXX_CACHE": str(cache), "PATH": f"{PROGRAMS}:/usr/bin:/bin"}
    project.build()
    assert (project.root / "taken").read_text() == "g++ -o plain.o -c plain.cpp\n"
    assert project.outcomes == {"miss": 1, "passed_through": 1}
    assert project.stats()["passed_through"] == {"cxx_cache": 1}
    del project.environ["HIPCACHE_CXX_CACHE"]
    assert project.build().up_to_date


def test_quotes_and_spaces_reach_the_compiler_as_through_the_shell(project: Project) -> None:
    project.write({"with space/text.hpp": "inline int length() { return sizeof(TEXT); }\n"})
    project.write(
        {"one.hip": '#include "hip_in_short.hpp"\n#include "text.hpp"\nstatic_assert(sizeof(TEXT) == 6, "");\n'}
    )
    project.construct("""
env.Append(CPPPATH=["with space"], CPPDEFINES={"TEXT": r'\\"abcde\\"'}, HIPFLAGS=["-DSINGLE=a b"])
env.HipObject("one.hip")
""")
    project.build()
    assert project.outcomes == {"miss": 1}


def test_configure_checks_work_with_the_tool(project: Project) -> None:
    project.construct("""
from hipcache_scons import CheckHip
conf = env.Configure(custom_tests={"CheckHip": CheckHip})
print("answers", conf.CheckCXX(), conf.CheckCXXHeader("vector"), conf.CheckHip(), conf.CheckHip("no/such.h"))
env = conf.Finish()
env.HipObject("one.hip")
""")
    assert re.search(r"answers (1|True) (1|True) True False", project.build().out)
    assert project.outcomes == {"miss": 1}
    again = project.build()
    assert re.search(r"answers (1|True) (1|True) True False", again.out)
    assert again.up_to_date


@pytest.mark.archs(1)
def test_the_lines_of_the_page_that_check_for_hip_run(newest: Project) -> None:
    page = (CHECKOUT / "docs/scons.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (lines,) = [block for block in blocks if "CheckHip" in block]
    for header, status in (("no/such.h", 1), ("hip_in_short.hpp", 0)):
        here = lines.replace("hip/hip_runtime.h", header)
        newest.construct(f'env.Append(CPPPATH=["."])\n{here}env.HipObject("one.hip")\n')
        built = newest.try_build()
        assert built.status == status, built.err
    assert newest.outcomes == {"miss": 1}


def test_programs_and_libraries_are_listed_as_targets(project: Project) -> None:
    """For explain and report; by names that tell two of one name in two directories apart."""
    project.write({f"{name}.hip": hip_source(name) for name in ("one", "two")}).write({"main.cpp": "int main() {}\n"})
    project.construct("""\
VariantDir("b/x", "."), VariantDir("b/y", ".")
env.StaticLibrary("b/x/kernels", ["b/x/one.hip", "b/x/main.cpp"])
env.SharedLibrary("b/y/kernels", "b/y/one.hip")
env.Clone(tools=["hipcache"]).LoadableModule("b/y/plugin", "b/y/two.hip")
env.StaticLibrary("b/plain", "b/x/main.cpp")
""")
    there, built = project.root / "b/.hipcache-targets.json", project.root / "b"
    project.build("-n")
    assert not there.exists()
    project.build()
    assert sorted(json.loads(there.read_text())["targets"]) == ["x/libkernels.a", "y/libkernels.so", "y/libplugin.so"]
    targets, names = Targets(), ["x/libkernels.a", "y/libkernels.so"]
    assert [targets.of(f"{built}/{path}") for path in ("x/one.o", "y/one.os")] == names
    assert targets.of(f"{built}/y/two.os") == targets.of(f"{built}/y/libplugin.so") == "plugin"
    assert targets.names(f"{built}/y/two.os") == {"plugin", "libplugin.so", f"{built}/y/libplugin.so"}
    before = there.stat()
    again = project.build("--debug=explain")
    assert not again.compiled, again.out
    assert there.stat() == before
    explained = subprocess.run(
        [PROGRAMS / "hipcache", "explain", "plugin"],
        env=project.variables(),
        cwd=built,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "two.os" in explained.stdout and "one.o" not in explained.stdout, explained
    project.build("-c")
    assert not there.exists() and not list(built.glob(".hip*"))


@pytest.mark.skipif(not shutil.which("hipcc"), reason="hipcc is not installed")
def test_hipcc_is_cached_as_the_clang_that_it_runs(project: Project) -> None:
    hipcc = 'env["HIPCXX"], env["ENV"]["HIP_PLATFORM"] = "hipcc", "amd"\n'
    project.construct(hipcc + 'env.HipObject("one.hip")')
    assert "hipcc -o one.o" in project.build().out
    assert project.outcomes == {"miss": 1}
    assert project.build().up_to_date
    project.build("-c")
    project.build()
    assert project.outcomes == {"hit": 1, "miss": 1}
    project.write({"hip_in_short.hpp": HIP_IN_SHORT + "#define MORE\n"})
    assert "hipcc -o one.o" in project.build().out
    project.construct(hipcc + 'env["ENV"]["HIPCC_COMPILE_FLAGS_APPEND"] = "-DMORE"\nenv.HipObject("one.hip")')
    assert "hipcc -o one.o" in project.build().out
    assert project.build().up_to_date


# -- the example


def test_the_example_builds_cold_and_warm(tmp_path: Path) -> None:
    root = tmp_path / "example"
    shutil.copytree(CHECKOUT / "examples" / "scons", root, ignore=shutil.ignore_patterns("build", ".scons*"))
    project = Project(root, "newest")
    project.environ["PATH"] = f"{PROGRAMS}:{os.environ['PATH']}"
    settings = [
        f"HIPCXX={CLANG}",
        "HIPPATH=/usr",
        "HIPFLAGS=" + " ".join(("-O1", *HIP_FLAGS)),
    ]
    project.build("-j2", *settings, "HIP_ARCHS=gfx906,gfx90a")
    program = subprocess.run([root / "build" / "axpy-check"], capture_output=True, text=True, check=True)
    assert program.stdout in ("no device\n", "GPU and CPU agree\n")
    assert project.build("-j2", *settings, "HIP_ARCHS=gfx906,gfx90a").up_to_date
    assert project.build("-j2", *settings, "HIP_ARCHS=gfx906,gfx90a", "HIPCACHE=no").up_to_date
    project.build("-c", *settings)
    project.build("-j2", *settings, "HIP_ARCHS=gfx906,gfx90a")
    assert project.outcomes == {"hit": 2, "miss": 2}
    project.build("-j2", *settings, "HIP_ARCHS=gfx906,gfx90a,gfx1030")
    assert project.outcomes == {"hit": 2, "miss": 2, "partial": 2}
