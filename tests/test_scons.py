"""The SCons tool against real SCons (Debian's 4.4 and the newest), and real clang 15.

What was rebuilt is read from SCons' own output, what was compiled from hipcache's statistics.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import cmake_project
import direct_records
import forked_scons
import hip
import pytest
from cmake_project import ARCHES, CHECKOUT, HIP_IN_SHORT, MODULE_PATH, PROGRAMS, hip_source
from hip import DEVICE_LIBRARIES, in_terminal, know_tools, settle, statistics, watched_compiler, write_files
from hipcache.report import stats_log
from hipcache.report.targets import Targets
from poison import poison

pytestmark = pytest.mark.takes_turns("project")

SCONSES = {"debian": Path("/usr/bin/scons"), "newest": PROGRAMS / "scons"}
TOOLS = CHECKOUT / "plugins" / "hipcache_scons"
CLANG = "/usr/lib/llvm-15/bin/clang++"
HEADERLIGHT = "-nogpuinc -nogpulib -O2"
# Lines of an SConstruct: a file is old after an instant (see tests/hip.py), not only after two seconds.
QUICK = """\
import functools
import hipcache_scons.cached
hipcache_scons.cached.open_engine = functools.partial(hipcache_scons.cached.open_engine, racy=0.03)
"""

ENVIRONMENT = f"""\
env = Environment(
    tools=["default", "hipcache"],
    toolpath=["{TOOLS}"],
    HIPCXX="{CLANG}",
    HIP_ARCHS=["gfx906", "gfx90a"],
    HIPFLAGS="{HEADERLIGHT}".split(),
)
"""


@dataclass
class Built:
    """What a run of SCons left behind. `compiled`: names of the objects whose HIP compile was started, in order."""

    status: int
    out: str
    err: str

    @property
    def compiled(self) -> list[str]:
        return re.findall(r"^\S*clang\S* -o (\S+) -c", self.out, re.MULTILINE)

    @property
    def up_to_date(self) -> bool:
        return "is up to date" in self.out and not self.compiled


@dataclass
class Project:
    """A directory with an SConstruct, a store, and a version of SCons."""

    root: Path
    scons: str
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, files: Mapping[str, str]) -> Project:
        write_files(self.root, files)
        # A file that is as young as the compile counts as changed while the compiler ran.
        settle()
        return self

    def construct(self, text: str, environment: str = ENVIRONMENT) -> Project:
        return self.write({"SConstruct": environment + text})

    def command(self, *arguments: str) -> list[str]:
        return [str(SCONSES[self.scons]), "-Q", *arguments]

    def variables(self) -> dict[str, str]:
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("HIPCACHE", "MAKE", "MFLAGS", "SCONS"))}
        settings = {"HIPCACHE_DIR": str(self.root / "store"), "HIPCACHE_RESIDENT": "0"}
        return environ | settings | {"LC_ALL": "C"} | self.environ

    def try_build(self, *arguments: str) -> Built:
        know_tools(self.variables())
        if hip.forks and not hip.AS_USERS and zlib.crc32(self.root.name.encode()) % 20:  # the others are audits
            return self.forked(*arguments) or self.started(*arguments)
        return self.started(*arguments)

    def forked(self, *arguments: str) -> Built | None:
        words = self.command(*arguments)[1:]
        ended = forked_scons.run(SCONSES[self.scons], words, self.root, self.variables(), 500)
        return Built(*ended) if ended else None

    def started(self, *arguments: str) -> Built:
        """As users start it."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.root,
            env=self.variables(),
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        return Built(done.returncode, done.stdout, done.stderr)

    def build(self, *arguments: str) -> Built:
        built = self.try_build(*arguments)
        assert built.status == 0, built.out + built.err
        return built

    def stats(self) -> dict[str, dict[str, int]]:
        return statistics(self.variables())  # type: ignore[return-value]

    @property
    def outcomes(self) -> dict[str, int]:
        return {name: count for name, count in self.stats()["compiles"].items() if count}


@pytest.fixture(params=list(SCONSES))
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    if not SCONSES[request.param].exists():
        pytest.skip(f"no '{SCONSES[request.param]}'")
    return Project(tmp_path, request.param).write({"hip_in_short.hpp": HIP_IN_SHORT, "one.hip": hip_source("one")})


@pytest.fixture
def newest(tmp_path: Path) -> Project:
    return Project(tmp_path, "newest").write({"hip_in_short.hpp": HIP_IN_SHORT, "one.hip": hip_source("one")})


SURROUNDINGS = """\
import json, os, signal, sys
known = [number for number in range(1, 65) if number not in (32, 33)]
print(json.dumps([
    sys.argv, sys.path, os.getcwd(), sorted(os.environ.items()), os.isatty(1), os.getgid(), sys.getrecursionlimit(),
    sorted(map(int, os.listdir("/proc/self/fd"))), [str(signal.getsignal(number)) for number in known],
    sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))), sys.stdout.encoding, sys.stderr.errors,
]))
sys.stderr.write("to the other stream\\n")
Exit(7)
"""


def test_a_forked_scons_has_what_one_has_that_is_started(project: Project) -> None:
    project.construct(SURROUNDINGS, environment="")
    project.environ |= {"ONLY": "here"}
    started, forked = project.started("-j2", "word=1"), project.forked("-j2", "word=1")
    if forked is None:
        pytest.skip("Python is set up by the environment")
    assert (started.status, forked.status) == (7, 7), started.err + forked.err
    assert json.loads(forked.out) == json.loads(started.out)
    assert forked.err == started.err == "to the other stream\n"


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


RUNTIME_AND_MAIN = """\
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*) { return 0; }
extern "C" unsigned __hipPushCallConfiguration(dim3, dim3, unsigned long, void*) { return 1; }
extern "C" unsigned __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, void*) { return 0; }
extern "C" void** __hipRegisterFatBinary(const void*) { static void* handle; return &handle; }
extern "C" void __hipUnregisterFatBinary(void**) {}
extern "C" void __hipRegisterFunction(
    void**, const void*, char*, const char*, unsigned, void*, void*, void*, void*, int*) {}
int one(int*); int two(int*); int four(int*);
int main() { int p[2] = {}; return one(p) + two(p) + four(p); }
"""


def test_objects_that_are_built_again_are_hits(project: Project) -> None:
    project.construct('env.HipObject("one.hip")')
    project.build()
    first = (project.root / "one.o").read_bytes()
    project.build("-c")
    assert not (project.root / "one.o").exists()
    project.build()
    assert (project.root / "one.o").read_bytes() == first
    assert project.outcomes == {"hit": 1, "miss": 1}


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


# -- links of relocatable device code

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


# -- ways in


@pytest.mark.as_users
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


@pytest.mark.as_users
def test_the_tool_leaves_the_package_of_its_name_importable(project: Project) -> None:
    """SCons makes the tool module `sys.modules["hipcache"]`; the engine is a package of that name."""
    project.construct(f"""
other = Environment(tools=["default", "hipcache"], toolpath=["{TOOLS}"])
import hipcache, hipcache.cli.arches
assert hipcache.__version__ and hipcache.__path__
""")
    project.build()


@pytest.mark.as_users
def test_a_python_without_hipcache_is_told_what_to_install(newest: Project) -> None:
    (newest.root / "tools").mkdir()
    shutil.copy(TOOLS / "hipcache.py", newest.root / "tools")
    newest.construct("", 'env = Environment(tools=["hipcache"], toolpath=["tools"])\n')
    newest.scons = "debian"
    built = newest.try_build()
    assert built.status == 2
    assert "has no module 'hipcache" in built.err
    assert "with this Python's pip (/usr/bin/python3" in built.err


# -- signatures


def test_a_header_that_only_a_device_pass_reads_rebuilds(project: Project) -> None:
    """No scanner of SCons sees it: a system header behind a macro. It counts in the next run, not the one after."""
    project.write(
        {
            "system/only_device.h": "#define VALUE 1\n",
            "one.hip": "#include <hip_in_short.hpp>\n#ifdef __HIP_DEVICE_COMPILE__\n#define NAME <only_device.h>\n"
            "#include NAME\n#else\n#define VALUE 0\n#endif\n__global__ void k(int* p) { *p = VALUE; }\n",
        }
    )
    project.construct(f'env.Append(HIPFLAGS=["-I.", "-isystem", "{project.root}/system"])\nenv.HipObject("one.hip")')
    assert project.build().compiled == ["one.o"]
    assert project.build().up_to_date
    project.write({"system/only_device.h": "#define VALUE 2\n"})
    again = project.build("--debug=explain")
    assert again.compiled == ["one.o"]
    assert "because `system/only_device.h' changed" in again.out
    assert project.build().up_to_date
    assert project.outcomes == {"miss": 1, "partial": 1}


def test_a_header_that_a_changed_header_now_includes_counts_at_once(project: Project) -> None:
    project.write(
        {
            "inc/a.hpp": "#define VALUE 1\n",
            "inc/b.hpp": "#define VALUE 2\n",
            "one.hip": '#include "hip_in_short.hpp"\n#include <a.hpp>\n__global__ void k(int* p) { *p = VALUE; }\n',
        }
    )
    project.construct(f'env.Append(HIPFLAGS=["-isystem", "{project.root}/inc"])\nenv.HipObject("one.hip")')
    project.build()
    project.write({"inc/a.hpp": '#include "b.hpp"\n'})
    assert project.build().compiled == ["one.o"]
    assert project.build().up_to_date
    project.write({"inc/b.hpp": "#define VALUE 3\n"})
    assert project.build().compiled == ["one.o"]
    assert project.build().up_to_date
    # The one that is no longer read may go.
    project.write({"inc/a.hpp": "#define VALUE 1\n"})
    (project.root / "inc" / "b.hpp").unlink()
    assert project.build().compiled == ["one.o"]
    assert project.build().up_to_date


@pytest.mark.parametrize(
    ("line", "appears"),
    [
        ("#include <value.hpp>", "first/value.hpp"),
        ('#include "value.hpp"', "sub/value.hpp"),
        ("#define NAME <value.hpp>\n#include NAME", "first/value.hpp"),
        ('#if __has_include("asked.hpp")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif', "sub/asked.hpp"),
    ],
)
def test_a_header_that_appears_and_would_be_found_first_rebuilds(project: Project, line: str, appears: str) -> None:
    """No scanner knows these directories: they come by options of the compiler."""
    source = f'#include "hip_in_short.hpp"\n{line}\n__global__ void k(int* p) {{ *p = VALUE; }}\n'
    project.write({"sub/one.hip": source, "second/value.hpp": "#define VALUE 1\n", "first/other.hpp": ""})
    system = [f"-isystem{project.root}/{name}" for name in ("first", "second")]
    project.construct(f'env.Append(HIPFLAGS=["-I.", *{system}])\nenv.HipObject("sub/one.hip")')
    assert project.build().compiled == ["sub/one.o"]
    before = (project.root / "sub/one.o").read_bytes()
    assert project.build().up_to_date
    project.write({appears: "#define VALUE 2\n"})
    assert project.build().compiled == ["sub/one.o"]
    assert (project.root / "sub/one.o").read_bytes() != before
    assert project.build().up_to_date
    (project.root / appears).unlink()
    assert project.build().compiled == ["sub/one.o"]
    assert (project.root / "sub/one.o").read_bytes() == before
    assert project.build().up_to_date


def test_a_store_that_was_cleared_rebuilds_nothing(newest: Project) -> None:
    newest.construct('env.HipObject("one.hip")')
    newest.build()
    subprocess.run([sys.executable, "-m", "hipcache", "clear"], env=newest.variables(), check=True)
    assert newest.build().up_to_date


def test_a_store_that_must_not_be_written_compiles_once(newest: Project) -> None:
    newest.environ["HIPCACHE_READONLY"] = "1"
    newest.construct('env.Append(HIPFLAGS=["-MD"])\nenv.HipObject("one.hip")')
    assert newest.build().compiled == ["one.o"]
    assert newest.build().up_to_date


def test_a_run_with_nothing_to_do_starts_no_process(newest: Project) -> None:
    newest.construct(
        QUICK
        + """
env.HipObject("one.hip")
env.Clone(CPPDEFINES=["MORE"]).HipObject("more.o", "one.hip")
import sys
starts = ("subprocess.Popen", "os.fork", "os.posix_spawn")
sys.addaudithook(lambda event, what: print(event, *what[:2]) if event in starts else None)
"""
    )
    assert re.search(r"^(subprocess.Popen .*clang|os.fork)", newest.build().out, re.MULTILINE)
    settle()
    newest.build()
    again = newest.build()
    assert again.up_to_date
    newest.build("-c")
    served = newest.build()
    assert served.compiled == ["more.o", "one.o"]
    assert newest.outcomes == {"hit": 2, "miss": 1, "partial": 1}
    for out in (again.out, served.out):  # SCons itself asks for the versions of gcc
        assert not re.search("^(os|subprocess).*(fork|clang|lld|spawn)", out, re.MULTILINE)


def test_a_compile_for_which_nothing_has_changed_is_served_without_the_engine(newest: Project) -> None:
    newest.write({"value.hpp": "#define VALUE 4\n"})
    newest.write({"one.hip": '#include "hip_in_short.hpp"\n#include "value.hpp"\nint one() { return VALUE; }\n'})
    newest.construct(QUICK + 'env.HipObject("one.hip")')
    newest.build()
    settle()
    for _ in range(2):
        newest.build("-c")
        made = newest.build().compiled
    content = (newest.root / "one.o").read_bytes()
    without = QUICK + 'env.HipObject("one.hip")\nimport hipcache_scons.cached\nhipcache_scons.cached.several = None'
    before = direct_records.states(newest.root / "store")
    newest.construct(without)
    newest.build("-c")
    last = newest.build()
    assert last.compiled == made == ["one.o"]
    after = direct_records.states(newest.root / "store")
    assert newest.outcomes == {"miss": 1, "hit": 3}, (direct_records.changes(before, after), last)
    assert (newest.root / "one.o").read_bytes() == content
    assert newest.build().up_to_date
    newest.write({"value.hpp": "#define VALUE 5\n"})
    newest.construct('env.HipObject("one.hip")')
    assert newest.build().compiled == ["one.o"]
    assert (newest.root / "one.o").read_bytes() != content


@pytest.mark.parametrize("served_by", ["direct", "engine"])
def test_hits_are_compared_where_that_is_asked_for(newest: Project, served_by: str) -> None:
    newest.construct(QUICK + 'env.HipObject("one.hip")')
    for _ in range(2):
        newest.build()
        settle()
        newest.build("-c")
    log = newest.root / "stats.jsonl"
    newest.environ |= {"HIPCACHE_VERIFY": "1", "HIPCACHE_STATS_LOG": str(log)}

    def other_variables() -> None:
        """Those of a direct record are others then."""
        if served_by == "engine":
            newest.environ |= {"HIPCACHE_JOBS": str(int(newest.environ.get("HIPCACHE_JOBS", "1")) + 1)}

    other_variables()
    newest.build()
    right = (newest.root / "one.o").read_bytes()
    (told,) = stats_log.read(log)
    assert (told.outcome, told.object, told.direct) == ("hit", str(newest.root / "one.o"), served_by == "direct")
    assert newest.stats()["verified"] == {"same": 1, "different": 0, "varying": 0}
    poison(newest.root / "store", right)
    newest.build("-c")
    other_variables()
    assert "THE STORE SERVED A WRONG OBJECT" in newest.build().err
    assert (newest.root / "one.o").read_bytes() == right
    assert newest.stats()["verified"] == {"same": 1, "different": 1, "varying": 0}
    newest.build("-c")
    assert newest.build().err == ""
    assert (newest.root / "one.o").read_bytes() == right


def test_a_hit_that_the_compiler_does_not_confirm_fails_in_its_words(newest: Project) -> None:
    newest.construct('env.HipObject("one.hip")')
    newest.build()
    newest.build("-c")
    newest.environ |= {"HIPCACHE_VERIFY": "1"}
    newest.construct(
        "import hipcache_scons.cached\n"
        "def compare(*_): raise hipcache_scons.cached.delivered.CompilerFails\n"
        "hipcache_scons.cached.delivered.compare = compare\n"
        'env.HipObject("one.hip")'
    )
    newest.build()
    assert newest.outcomes == {"hit": 1, "miss": 1, "passed_through": 1}
    assert (newest.root / "one.o").exists()


def test_with_the_cache_off_nothing_rebuilds_and_headers_count_as_before(project: Project) -> None:
    project.write({"system/deep.h": "#define VALUE 1\n"})
    project.write(
        {"one.hip": '#include "hip_in_short.hpp"\n#ifdef __HIP_DEVICE_COMPILE__\n#include <deep.h>\n#endif\n'}
    )
    text = f'env.Append(HIPFLAGS=["-isystem", "{project.root}/system"])\nenv.HipObject("one.hip")'
    project.construct(text)
    project.build()
    project.construct('env["HIPCACHE"] = False\n' + text)
    assert project.build().up_to_date
    project.environ["HIPCACHE_DISABLE"] = "1"
    project.construct(text)
    assert project.build().up_to_date
    project.write({"system/deep.h": "#define VALUE 2\n"})
    assert project.build().compiled == ["one.o"]
    assert project.build().up_to_date
    del project.environ["HIPCACHE_DISABLE"]
    assert project.build().up_to_date
    assert project.outcomes == {"miss": 1}


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
    (llvm / "lib").symlink_to("/usr/lib/llvm-15/lib")
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


def test_a_generated_header_is_made_first_and_counts(project: Project) -> None:
    project.write({"template.txt": "#define VALUE 1\n"})
    project.write(
        {"one.hip": '#include "hip_in_short.hpp"\n#include "made.hpp"\n__global__ void k(int* p) { *p = VALUE; }\n'}
    )
    project.construct("""
env.Append(CPPPATH=["gen"])
env.HipObject("one.hip")
env.Command("gen/made.hpp", "template.txt", Copy("$TARGET", "$SOURCE"))
""")
    project.build("-j2")
    assert project.build("-j2").up_to_date
    project.write({"template.txt": "#define VALUE 2\n"})
    assert project.build("-j2").compiled == ["one.o"]
    assert project.build("-j2").up_to_date


@pytest.mark.parametrize("duplicate", [0, 1])
def test_variant_directories_work(project: Project, duplicate: int) -> None:
    project.write({"src/inc/value.hpp": "#define VALUE 1\n"})
    project.write(
        {"src/k.hip": '#include "hip_in_short.hpp"\n#include "value.hpp"\n__global__ void k(int* p) { *p = VALUE; }\n'}
    )
    project.construct(f"""
env.Append(CPPPATH=["#", "#out/inc", "#src/inc"])
VariantDir("out", "src", duplicate={duplicate})
env.HipObject("out/k.hip")
""")
    assert project.build().compiled == ["out/k.o"]
    assert project.build().up_to_date
    project.write({"src/inc/value.hpp": "#define VALUE 2\n"})
    assert project.build().compiled == ["out/k.o"]
    assert project.build().up_to_date


# -- how SCons behaves


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


def test_silent_runs_print_nothing_and_comstr_is_used(newest: Project) -> None:
    newest.construct('env["HIPCOMSTR"] = "HIP $TARGET"\nenv.HipObject("one.hip")')
    assert newest.build().out == "HIP one.o\n"
    newest.build("-c")
    assert newest.build("-s").out == ""


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


def test_shared_objects_have_a_text_of_their_own(newest: Project) -> None:
    newest.construct('env["SHHIPCOMSTR"] = "SHARED $TARGET"\nenv.SharedHipObject("one.hip")')
    assert newest.build().out == "SHARED one.os\n"


def test_warnings_are_clangs_and_come_again_with_a_hit(project: Project) -> None:
    project.write({"one.hip": '#include "hip_in_short.hpp"\n#warning "mind the step"\n'})
    project.construct('env.HipObject("one.hip")')
    first = project.build()
    assert first.err.count("mind the step") == 3 * 2  # two archs and the host, each with the line of the source
    project.build("-c")
    assert project.build().err == first.err
    assert project.outcomes == {"hit": 1, "miss": 1}


@pytest.mark.parametrize("term", ["dumb", "xterm-256color", ""])
def test_in_a_terminal_warnings_look_as_clangs(newest: Project, term: str) -> None:
    """A dumb one has no colours, but may have a width."""
    newest.write({"one.hip": f'#include "hip_in_short.hpp"\n#warning "{"mind the step " * 5}"\n'})
    seen = set()
    for cache in (True, False):
        variables = f'env["ENV"] |= {{"TERM": "{term}", "COLUMNS": "70"}}\nenv["HIPCACHE"] = {cache}\n'
        newest.construct(variables + 'env.HipObject("one.hip")')
        status, text = in_terminal(newest.command(), newest.root, newest.variables(), 70)
        assert status == 0
        assert text.count(b"mind") >= 6
        seen.add(text)
        newest.build("-c")
    assert seen == {text}
    assert newest.outcomes == {"miss": 1}


def test_a_failed_compile_fails_its_target_and_keep_going_goes_on(project: Project) -> None:
    project.write({"bad.hip": "int f() { return undeclared; }\n"})
    project.construct('env.HipObject("bad.hip")\nenv.HipObject("one.hip")')
    built = project.try_build("-k")
    assert built.status == 2
    assert "use of undeclared identifier 'undeclared'" in built.err
    assert "[bad.o] Error 1" in built.err
    assert (project.root / "one.o").exists()
    assert not (project.root / "bad.o").exists()
    assert project.outcomes == {"failed": 1, "miss": 1}
    project.write({"bad.hip": "int f() { return 1; }\n"})
    assert project.build("-k").compiled == ["bad.o"]
    assert project.build("-k").up_to_date


def test_what_the_engine_leaves_is_compiled_by_scons_itself(project: Project) -> None:
    """-H is not cached; its headers count all the same, those of the device alone too."""
    project.write({"system/deep.h": "\n"})
    project.write(
        {"one.hip": '#include "hip_in_short.hpp"\n#ifdef __HIP_DEVICE_COMPILE__\n#include <deep.h>\n#endif\n'}
    )
    project.construct(f'env.Append(HIPFLAGS=["-H", "-isystem", "{project.root}/system"])\nenv.HipObject("one.hip")')
    project.build()
    assert project.build().up_to_date
    assert project.outcomes == {"passed_through": 1}
    project.write({"system/deep.h": "#define MORE\n"})
    assert project.build().compiled == ["one.o"]


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


def test_clones_share_an_engine_and_parallel_jobs_are_all_counted(project: Project) -> None:
    project.write({f"k{number}.hip": hip_source(f"k{number}") for number in range(6)})
    project.construct("""
for number in range(6):
    env.Clone(CPPDEFINES=["N=%d" % number]).HipObject("k%d.hip" % number)
from hipcache_scons import cached
import atexit
atexit.register(lambda: print("engines", len(cached._open)))
""")
    built = project.build("-j4")
    assert "engines 1" in built.out
    assert project.outcomes == {"miss": 6}
    assert project.build("-j4").up_to_date


@pytest.mark.parametrize("limit", [1, 2])
def test_parallel_jobs_share_the_limit_of_compilers(newest: Project, limit: int) -> None:
    """Three sources of three passes each under -j3: never more compilers at once than the limit, but as many."""
    log = newest.root / "log"
    compiler = watched_compiler(
        newest.root / "counted",
        "15",
        f'echo + >>{log}; sleep 0.1; /usr/lib/llvm-15/bin/clang "$@"; status=$?; echo - >>{log}; exit $status',
    )
    newest.environ["HIPCACHE_JOBS"] = str(limit)
    newest.write({f"k{number}.hip": hip_source("k" * (number + 1)) for number in range(3)})
    newest.construct(f'env["HIPCXX"] = "{compiler}"\nfor number in range(3):\n    env.HipObject("k%d.hip" % number)')
    newest.build("-j3")
    assert newest.outcomes == {"miss": 3}
    running = most = 0
    for mark in log.read_text().split():
        running += 1 if mark == "+" else -1
        most = max(most, running)
    assert (running, most) == (0, limit)


def test_compiles_change_neither_the_directory_nor_the_environment_of_scons(newest: Project) -> None:
    """Its other threads would see that. (SCons itself goes to the directory of the SConstruct.)"""
    newest.write({f"k{number}.hip": hip_source(f"k{number}") for number in range(3)})
    newest.construct("""
import os, sys
for number in range(3):
    env.HipObject("k%d.hip" % number)
env.HipObject("listed.o", "one.hip", HIPFLAGS=["-H", *env["HIPFLAGS"]])
scons = os.getpid()
def look(event, what):
    if event in ("os.chdir", "os.putenv", "os.unsetenv") and os.getpid() == scons:
        caller = sys._getframe(1).f_code.co_filename
        print("changed by", "SCons" if "/SCons/" in caller else caller, event, what)
sys.addaudithook(look)
""")
    built = newest.build("-j2")
    assert newest.outcomes == {"miss": 3, "passed_through": 1}
    assert set(re.findall(r"changed by (\S+)", built.out)) == {"SCons"}, built.out


def test_an_interrupt_ends_the_build_and_leaves_no_object(project: Project) -> None:
    """As Ctrl-C does, the signal goes to the whole process group. The compiler would run for an hour."""
    compiler = watched_compiler(project.root / "slow", "15", f"touch {project.root}/started; exec sleep 3600")
    project.construct(f'env["HIPCXX"] = "{compiler}"\nenv.HipObject("one.hip")')
    running = subprocess.Popen(
        project.command("-j2"),
        cwd=project.root,
        env=project.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (project.root / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 2, err
    assert "interrupted" in err
    assert not (project.root / "one.o").exists()


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


# -- bad input


def test_a_missing_compiler_is_named_with_what_to_do(project: Project) -> None:
    project.construct('env["HIPCXX"] = "no-such-clang"\nenv.HipObject("one.hip")')
    built = project.try_build()
    assert built.status == 2
    assert "no compiler 'no-such-clang' on the PATH" in built.err
    assert "set HIPCXX" in built.err


def test_a_wrong_arch_is_named_with_the_target_and_a_right_one(newest: Project) -> None:
    newest.construct('env["HIP_ARCHS"] = ["90a"]\nenv.HipObject("one.hip")')
    built = newest.try_build()
    assert built.status == 2
    assert "target 'one.o': HIP_ARCHS: '90a' is no offload arch" in built.err
    assert "HIP_ARCHS=['gfx90a']" in built.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            'env["HIP_ARCHS"].append("gfx1100")\n'
            'env["HIPFLAGS"] = "-nogpuinc --rocm-path=/usr --rocm-device-lib-path=' + str(DEVICE_LIBRARIES) + '"',
            "cannot find ROCm device library for gfx1100",
        ),
        ('env["HIP_ARCHS"].append("gfx90f")', "invalid target ID 'gfx90f'"),
        ('env.Append(HIPFLAGS=["--no-such-option"])', "no-such-option"),
        ('env["HIP_ARCHS"] = ["gfx90a:xnack"]', "target 'one.o': HIP_ARCHS: 'gfx90a:xnack' is no offload arch"),
    ],
    ids=["not covered by the device libraries", "not known to the compiler", "an unknown option", "half a target ID"],
)
def test_what_the_compiler_cannot_do_is_said_once(newest: Project, change: str, said: str) -> None:
    newest.construct(f'{change}\nenv.HipObject("one.hip")')
    built = newest.try_build()
    assert built.status == 2
    assert built.err.count(said) == 1, built.err
    assert "Traceback" not in built.err
    assert not (newest.root / "one.o").exists()


def test_settings_that_cannot_be_read_are_told_and_the_build_goes_on(newest: Project) -> None:
    newest.environ["HIPCACHE_MAX_SIZE"] = "much"
    newest.construct('env.HipObject("one.hip")')
    built = newest.build()
    assert built.err.count("HIPCACHE_MAX_SIZE") == 1
    assert built.compiled == ["one.o"]


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("HIPCACHE_MAXSIZE", "1G", "did you mean 'HIPCACHE_MAX_SIZE'?"),
        ("HIPCACHE_DIR", "/dev/null/x", "not a directory"),
    ],
)
def test_what_keeps_from_caching_is_said_once_as_the_sconstruct_is_read(
    newest: Project, variable: str, value: str, said: str
) -> None:
    newest.environ[variable] = value
    newest.construct('env.HipObject("one.hip")\nenv.Clone().HipObject("two.o", "one.hip")\nprint("is read")')
    built = newest.build()
    assert built.err.count(said) == 1
    assert newest.try_build("-n").err.count(said) == 1


# -- other fronts


@pytest.mark.parametrize("clang", ["15", "19"])
def test_a_unit_that_cmake_compiled_is_a_hit(newest: Project, clang: str) -> None:
    """CMake names the source from the root, and the object otherwise. With clang 19 that name is in the host's object,
    as the CUID; in the device code it is replaced."""
    cmake = cmake_project.Project(newest.root)
    cmake.write({"CMakeLists.txt": cmake_project.simple_project()["CMakeLists.txt"]})
    compiler = f"/usr/bin/clang++-{clang}"
    cmake.configure(MODULE_PATH, ARCHES, "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_HIP_COMPILER={compiler}")
    cmake.build()
    assert newest.outcomes == {"miss": 1}
    done = cmake.run(PROGRAMS / "ninja", "-C", cmake.build_dir, "-t", "commands")
    (line,) = (line for line in done.stdout.splitlines() if " -c " in line)
    words = line.partition(compiler)[2].split()
    flags = " ".join(word for word in words[: words.index("-MD")] if "--offload-arch" not in word)
    flags = flags.replace("-x hip", "")
    newest.construct(f'env["HIPCXX"], env["HIPFLAGS"] = "{compiler}", "{flags}"\nenv.HipObject("one.hip")')
    assert newest.build().compiled == ["one.o"]
    stats = newest.stats()
    assert stats["jobs"]["frontend"] == stats["jobs"]["backend"] == {"hits": 2, "misses": 2}  # type: ignore[comparison-overlap]
    host = {"hits": 1, "misses": 1} if clang == "15" else {"hits": 0, "misses": 2}
    assert stats["units"]["host"] == host  # type: ignore[comparison-overlap]


def test_the_same_command_from_another_front_is_a_hit(project: Project) -> None:
    # In a working copy the CUID of an object is made from its path in it, whatever builds it.
    (project.root / ".git").mkdir()
    command = [CLANG, *["--offload-arch=gfx906", "--offload-arch=gfx90a"], *HEADERLIGHT.split(), "-c", "one.hip"]
    launcher = [sys.executable, "-m", "hipcache", *command, "-o", "one.o", "-MD", "-MF", "one.d"]
    subprocess.run(launcher, cwd=project.root, env=project.variables(), check=True)
    project.construct('env.HipObject("one.hip")')
    project.build()
    assert project.outcomes == {"hit": 1, "miss": 1}


# -- the example


@pytest.mark.as_users
def test_the_example_builds_cold_and_warm(tmp_path: Path) -> None:
    root = tmp_path / "example"
    shutil.copytree(CHECKOUT / "examples" / "scons", root, ignore=shutil.ignore_patterns("build", ".scons*"))
    project = Project(root, "newest")
    project.environ["PATH"] = f"{PROGRAMS}:{os.environ['PATH']}"
    settings = [
        "HIPCXX=clang++-15",
        "HIPPATH=/usr",
        "HIPFLAGS=-O1 --rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode",
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
