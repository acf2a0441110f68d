"""The Meson subproject against real Meson (Debian's 1.0.1 and the newest), Ninja and clang 15.

TEST_FULL=1 (`make test-full`) runs every combination.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import cmake_project
import hipcache
import programs
import pytest
from cmake_project import CHECKOUT, COMPILER, HIPCACHE, PROGRAMS
from hip import FULL, HIP_IN_SHORT, know_tools, script, settle, statistics, write_files
from hipcache.report.targets import Targets

pytestmark = pytest.mark.takes_turns("meson")

SUBPROJECT = CHECKOUT / "meson"
EXAMPLE = CHECKOUT / "examples" / "meson"
MESONS = {"debian": Path("/usr/bin/meson"), "newest": PROGRAMS / "meson"}
# No hipcache there, nor the newest Meson and CMake.
PLAIN_PATH = "/usr/bin:/bin"
# Without HIP's headers and device libraries a compile takes a tenth of a second.
BARE = "-Dhipcache:hip_flags=-nogpuinc,-nogpulib"

each_meson = pytest.mark.parametrize("meson", MESONS)
full = pytest.mark.skipif(not FULL, reason="one more combination: make test-full")
newest_or_each = pytest.mark.parametrize("meson", [pytest.param("debian", marks=full), "newest"])


@dataclass
class Project:
    """A Meson project in `root`, which has the subproject as a link, with real commands around it."""

    root: Path
    meson: str
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def build_dir(self) -> Path:
        return self.root / "build"

    def write(self, files: Mapping[str, str]) -> Project:
        write_files(self.root, files)
        link = self.root / "subprojects" / "hipcache"
        if not link.exists():
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(SUBPROJECT)
        return self

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        # No setting of the machine reaches a test, and no test another's store.
        foreign = ("HIPCACHE", "HIP", "ROCM", "MESON", "NINJA", "CXX", "CC", "CMAKE", "CPPFLAGS", "CFLAGS", "LDFLAGS")
        environ = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        environ |= {"PATH": f"{PROGRAMS}:{PLAIN_PATH}", "LC_ALL": "C.UTF-8"}
        environ |= {"HIPCACHE_DIR": str(self.root / "store"), "HIPCACHE_RESIDENT": "0"}
        environ |= self.environ
        know_tools(environ)
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.root,
            env=environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    def try_setup(self, *options: str | Path) -> tuple[int, str]:
        again = ["--reconfigure"] if (self.build_dir / "build.ninja").exists() else []
        done = self.run(MESONS[self.meson], "setup", self.build_dir, *again, *options)
        return done.returncode, done.stdout

    def setup(self, *options: str | Path) -> str:
        status, text = self.try_setup(*options)
        assert status == 0, text
        return text

    def setup_fails(self, *options: str | Path) -> str:
        """What it says, in one line."""
        status, text = self.try_setup(*options)
        assert status != 0, text
        return " ".join(text.partition("ERROR:")[2].split())

    def ninja(self, *words: str) -> str:
        done = self.run(PROGRAMS / "ninja", "-C", self.build_dir, *words)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def built(self) -> set[str]:
        """Build, and say which HIP objects were made."""
        settle()
        return set(re.findall(r"'\S+?\.p/(\S+\.hip)\.o'", self.ninja()))

    def commands(self) -> list[list[str]]:
        """The commands that make HIP objects."""
        lines = self.ninja("-t", "commands").splitlines()
        return [line.split() for line in lines if " -x hip " in line]

    def units(self) -> dict[str, tuple[int, int]]:
        """For the host and each architecture: how many units were served, and how many compiled."""
        document = self.stats()
        tallies = {name: (tally["hits"], tally["misses"]) for name, tally in document["units"].items()}
        return {name: tally for name, tally in tallies.items() if any(tally)}

    def stats(self) -> dict[str, dict[str, dict[str, int]]]:
        return statistics({**os.environ, "HIPCACHE_DIR": str(self.root / "store"), **self.environ})  # type: ignore[return-value]


def source(name: str, before: str = "") -> str:
    return f"""\
#include "hip_in_short.hpp"
{before}
#ifndef ADDED
#define ADDED 0
#endif
__global__ void {name}_kernel(int* p) {{ p[0] = p[1] * {len(name)} + ADDED; }}
extern "C" int {name}(int* p)
{{
    {name}_kernel<<<1, 1>>>(p);
    return {len(name)};
}}
"""


HEAD = """\
project('simple', 'cpp')
hip = subproject('hipcache', default_options: ['hip_architectures=gfx906,gfx90a'])
hip_object = hip.get_variable('hip_object')
hip_dep = hip.get_variable('hip_dep')
"""
LIBRARY = "static_library('kernels', hip_object.process('one.hip', 'two.hip'))\n"
OPTION = "option('hip_cache', type: 'boolean', value: true)\n"


def simple(text: str = LIBRARY, head: str = HEAD) -> dict[str, str]:
    return {
        "meson.build": head + text,
        "meson_options.txt": OPTION,
        "hip_in_short.hpp": HIP_IN_SHORT,
        "one.hip": source("one"),
        "two.hip": source("two"),
    }


class TestCache:
    """One compile fills the store, the next one of the same is served."""

    @each_meson
    def test_a_second_build_is_served_each_unit(self, tmp_path: Path, meson: str) -> None:
        project = Project(tmp_path, meson).write(simple())
        project.setup(BARE)
        assert project.built() == {"one.hip", "two.hip"}
        assert project.units() == {"gfx906": (0, 2), "gfx90a": (0, 2), "host": (0, 2)}
        project.ninja("-t", "clean")
        project.built()
        assert project.units() == {"gfx906": (2, 2), "gfx90a": (2, 2), "host": (2, 2)}
        assert project.ninja() == f"ninja: Entering directory `{project.build_dir}'\nninja: no work to do.\n"

    def test_an_architecture_more_compiles_that_one(self, tmp_path: Path) -> None:
        project = Project(tmp_path, "newest").write(simple())
        project.setup(BARE)
        project.built()
        project.run(
            MESONS["newest"], "configure", project.build_dir, "-Dhipcache:hip_architectures=gfx906,gfx90a,gfx1030"
        )
        project.built()
        assert project.units() == {"gfx906": (2, 2), "gfx90a": (2, 2), "gfx1030": (0, 2), "host": (2, 2)}

    @each_meson
    def test_hip_cache_of_the_project_switches_it_off_and_on(self, tmp_path: Path, meson: str) -> None:
        project = Project(tmp_path, meson).write(simple())
        text = project.setup(BARE, "-Dhip_cache=false")
        assert "off (hip_cache)" in text
        project.built()
        assert all(str(HIPCACHE) not in command for command in project.commands())
        assert project.units() == {}

        plain = (project.build_dir / "libkernels.a.p" / "one.hip.o").read_bytes()
        project.setup("-Dhip_cache=true")
        assert all(command[command.index(COMPILER) - 1] == str(HIPCACHE) for command in project.commands())
        assert project.built() == {"one.hip", "two.hip"}
        assert project.units()["gfx906"] == (0, 2)
        assert (project.build_dir / "libkernels.a.p" / "one.hip.o").stat().st_size == len(plain)

        project.setup("-Dhip_cache=false")
        project.setup("-Dhip_cache=true")
        assert "no work to do" in project.ninja()

    @each_meson
    def test_its_targets_are_those_that_meson_lists(self, tmp_path: Path, meson: str) -> None:
        text = (
            "shared_library('kernels', hip_object.process('one.hip', 'two.hip'), version: '1.2', name_prefix: 'my-')\n"
        )
        project = Project(tmp_path, meson).write(simple(text))
        project.setup(BARE)
        objects = [f"{project.build_dir}/{command[command.index('-o') + 1]}" for command in project.commands()]
        targets = Targets()
        assert [targets.of(path) for path in objects] == ["kernels", "kernels"]
        assert "my-kernels.so.1.2" in targets.names(objects[0])

    @pytest.mark.parametrize("clang", ["15", "19"])
    def test_units_that_cmake_compiled_are_hits(self, tmp_path: Path, clang: str) -> None:
        """Both name the source and the object in ways of their own. With clang 19 the object's name is in the host's
        object, as the CUID; in the device code it is replaced."""
        shared = {"HIPCACHE_DIR": str(tmp_path / "the store")}
        text = "static_library('kernels', hip_object.process('one.hip'))\n"
        meson = Project(tmp_path / "project", "newest", shared).write(simple(text))
        cmake = cmake_project.Project(meson.root, environ=shared)
        cmake.write({"CMakeLists.txt": cmake_project.simple_project()["CMakeLists.txt"]})
        flags = "-DCMAKE_HIP_FLAGS=-fPIC -nogpuinc -nogpulib"
        compiler = f"clang++-{clang}"
        way = (cmake_project.MODULE_PATH, cmake_project.ARCHES, f"-DCMAKE_HIP_COMPILER=/usr/bin/{compiler}")
        cmake.configure(*way, "-DCMAKE_BUILD_TYPE=Release", flags)
        cmake.build()
        assert meson.units() == {"gfx906": (0, 1), "gfx90a": (0, 1), "host": (0, 1)}
        shutil.rmtree(meson.build_dir)
        # From hip-lang, the CMake package of HIP.
        more = "-D__HIP_ROCclr__=1,-mllvm,-amdgpu-early-inline-all=true,-mllvm,-amdgpu-function-calls=false"
        options = ("--buildtype=release", "-Db_ndebug=true", "-Dwarning_level=0")
        meson.setup(f"{BARE},{more}", f"-Dhipcache:hip_compiler={compiler}", *options)
        meson.ninja()
        units = meson.units()
        assert units["gfx906"] == units["gfx90a"] == (1, 1)
        assert units["host"] == ((1, 1) if clang == "15" else (0, 2))
        assert meson.stats()["jobs"]["frontend"] == {"hits": 2, "misses": 2}

    @pytest.mark.skipif(not shutil.which("hipcc"), reason="hipcc is not installed")
    @newest_or_each
    def test_hipcc_is_cached_as_the_clang_that_it_runs(self, tmp_path: Path, meson: str) -> None:
        project = Project(tmp_path, meson, {"HIP_PLATFORM": "amd"}).write(simple())
        project.setup(BARE, "-Dhipcache:hip_compiler=hipcc")
        # (Debian's Meson puts a script before both.)
        assert all(command[command.index(str(HIPCACHE)) + 1] == "/usr/bin/hipcc" for command in project.commands())
        project.ninja()
        project.ninja("-t", "clean")
        project.ninja()
        assert project.units() == {"gfx906": (2, 2), "gfx90a": (2, 2), "host": (2, 2)}


class TestDependencies:
    """What an edit compiles again."""

    @each_meson
    def test_an_edit_of_a_header_that_only_a_device_pass_reads_compiles_its_reader(
        self, tmp_path: Path, meson: str
    ) -> None:
        files = simple()
        files["one.hip"] = source("one", '#ifdef __HIP_DEVICE_COMPILE__\n#include "only_device.hpp"\n#endif')
        files["only_device.hpp"] = "#define ADDED 1\n"
        project = Project(tmp_path, meson).write(files)
        project.setup(BARE)
        project.built()
        project.write({"only_device.hpp": "#define ADDED 2\n"})
        assert project.built() == {"one.hip"}
        assert project.units() == {"gfx906": (0, 3), "gfx90a": (0, 3), "host": (1, 2)}

    @each_meson
    def test_sources_of_one_name_in_two_folders_have_objects_and_dependencies_of_their_own(
        self, tmp_path: Path, meson: str
    ) -> None:
        """Meson before 1.12 gives all of them one dependency file."""
        folders = [f"folder{number}" for number in range(4)]
        sources = ", ".join(f"'{folder}/same.hip'" for folder in folders)
        call = f"hip_object.process({sources}, preserve_path_from: meson.current_source_dir())"
        files = simple(f"static_library('kernels', {call})\n")
        for folder in folders:
            files[f"{folder}/same.hip"] = source(folder, '#include "own.hpp"').replace('"hip_in', '"../hip_in')
            files[f"{folder}/own.hpp"] = "#define ADDED 1\n"
        project = Project(tmp_path, meson).write(files)
        project.setup(BARE)
        assert project.built() == {f"{folder}/same.hip" for folder in folders}
        for value, folder in enumerate(folders, 2):
            project.write({f"{folder}/own.hpp": f"#define ADDED {value}\n"})
            assert project.built() == {f"{folder}/same.hip"}
        listed = project.run("nm", "--defined-only", project.build_dir / "libkernels.a").stdout
        assert all(f" T {folder}\n" in listed for folder in folders)

    @each_meson
    def test_without_preserve_path_from_meson_refuses_two_of_one_name(self, tmp_path: Path, meson: str) -> None:
        files = simple("static_library('kernels', hip_object.process('a/same.hip', 'b/same.hip'))\n")
        project = Project(tmp_path, meson).write(files | {"a/same.hip": source("a"), "b/same.hip": source("b")})
        assert "same.hip.o" in project.setup_fails(BARE)

    def test_sources_of_one_name_and_two_suffixes_do_not_meet(self, tmp_path: Path) -> None:
        files = simple("static_library('kernels', hip_object.process('one.hip', 'one.cu'))\n")
        project = Project(tmp_path, "newest").write(files | {"one.cu": source("cuda")})
        project.setup(BARE)
        project.built()
        assert (project.build_dir / "libkernels.a.p" / "one.cu.o").is_file()

    def test_a_dependency_file_that_is_yet_to_be_read_is_not_replaced(self, tmp_path: Path) -> None:
        own, shared, done = tmp_path / "own.d", tmp_path / "shared.d", tmp_path / "done"
        shared.write_text("another's")
        words = ["sh", str(SUBPROJECT / "shared-depfile.sh"), str(own), str(shared)]
        with subprocess.Popen([*words, "sh", "-c", f"echo mine > {own}; touch {done}"]) as process:
            while not done.exists():
                settle()
            settle()
            assert process.poll() is None
            assert shared.read_text() == "another's"
            shared.unlink()
        assert process.returncode == 0
        assert shared.read_text() == "mine\n"

    def test_a_dependency_file_that_a_killed_ninja_left_is_not_read_for_another(self, tmp_path: Path) -> None:
        own, shared = tmp_path / "own.d", tmp_path / "shared.d"
        own.write_text("old")
        shared.hardlink_to(own)
        words = ["sh", str(SUBPROJECT / "shared-depfile.sh"), str(own), str(shared)]
        subprocess.run([*words, "sh", "-c", f"rm {own}; echo new > {own}"], check=True)
        assert shared.read_text() == "new\n"

    def test_the_status_of_a_failed_compile_is_kept(self, tmp_path: Path) -> None:
        words = ["sh", str(SUBPROJECT / "shared-depfile.sh"), str(tmp_path / "own.d"), str(tmp_path / "shared.d")]
        assert subprocess.run([*words, "sh", "-c", "exit 7"], check=False).returncode == 7
        assert list(tmp_path.iterdir()) == []


class TestTargets:
    """What the objects become."""

    @each_meson
    def test_libraries_and_programs_link_test_and_install(self, tmp_path: Path, meson: str) -> None:
        text = """\
static = static_library('one', hip_object.process('one.hip'), install: true)
shared = shared_library('two', hip_object.process('two.hip'),
  dependencies: hip_dep, link_language: 'cpp', install: true)
program = executable('program', 'main.cpp', hip_object.process('three.hip'),
  link_with: [static, shared], dependencies: hip_dep, install: true)
test('program', program)
custom_target('four', input: 'one.hip', output: 'four.o', depfile: 'four.d', install: true, install_dir: 'objects',
  command: [hip.get_variable('hip_command'), '-MD', '-MF', '@DEPFILE@', '-c', '@INPUT@', '-o', '@OUTPUT@'])
"""
        files = simple(text) | {"three.hip": source("three")}
        files["main.cpp"] = """\
#include <hip/hip_runtime_api.h>
extern "C" int one(int*);
extern "C" int two(int*);
extern "C" int three(int*);
int main()
{
    int count = 0;
    if (hipGetDeviceCount(&count) != hipSuccess || count == 0) return 77;
    int* p = nullptr;
    if (hipMalloc(&p, 2 * sizeof(int)) != hipSuccess) return 1;
    return one(p) + two(p) + three(p) == 11 ? 0 : 1;
}
"""
        project = Project(tmp_path, meson).write(files)
        project.setup(BARE, "--prefix=/usr", "--libdir=lib", "-Db_pie=true", "-Dwarning_level=2", "-Dwerror=true")
        project.built()
        done = project.run(MESONS[meson], "test", "-C", project.build_dir)
        assert done.returncode == 0, done.stdout
        project.environ["DESTDIR"] = str(tmp_path / "dest")
        done = project.run(MESONS[meson], "install", "-C", project.build_dir)
        assert done.returncode == 0, done.stdout
        installed = {path.relative_to(tmp_path / "dest" / "usr") for path in (tmp_path / "dest").rglob("*.*")}
        assert {str(path) for path in installed} == {"lib/libone.a", "lib/libtwo.so", "objects/four.o"}
        assert project.units()["gfx906"][1] == 3  # four.o has the same device code as one.hip's object

    @each_meson
    def test_compile_commands_has_the_compiles_of_hip_from_the_compiler_on(self, tmp_path: Path, meson: str) -> None:
        """They are real: run as they stand, they make the objects."""
        project = Project(tmp_path, meson).write(simple(LIBRARY + "executable('program', 'main.cpp')\n"))
        project.write({"main.cpp": "int main() { return 0; }\n"})
        project.setup(f'{BARE},-DQUOTED="a b"')

        def entries() -> dict[str, dict[str, str]]:
            listed = json.loads((project.build_dir / "compile_commands.json").read_text())
            return {Path(entry["file"]).name: entry for entry in listed}

        assert set(entries()) == {"main.cpp", "one.hip", "two.hip"}
        project.ninja()
        for name in ("one.hip", "two.hip"):
            entry = entries()[name]
            words = shlex.split(entry["command"])
            assert words[0] == COMPILER
            assert '-DQUOTED="a b"' in words
            output = Path(entry["directory"], entry["output"])
            output.unlink()
            assert subprocess.run(words, cwd=entry["directory"], check=False).returncode == 0
            assert output.is_file()

        # Ninja configures again by itself.
        settle()
        project.write({"meson.build": HEAD + LIBRARY.replace(", 'two.hip'", "")})
        project.ninja()
        assert set(entries()) == {"one.hip"}

    def test_a_ninja_that_tells_no_commands_is_no_hindrance(self, tmp_path: Path) -> None:
        ninja = script(tmp_path / "ninja", "echo no such tool\nexit 1\n")
        listed = '[{"directory": ".", "command": "c++ -c main.cpp", "file": "main.cpp"}]'
        (tmp_path / "compile_commands.json").write_text(listed)
        done = subprocess.run(
            [sys.executable, SUBPROJECT / "compile-commands.py", COMPILER, ninja],
            env={"MESON_BUILD_ROOT": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "compile_commands.json has no HIP sources" in done.stdout
        assert (tmp_path / "compile_commands.json").read_text() == listed

    @each_meson
    def test_a_source_may_be_the_output_of_another_target(self, tmp_path: Path, meson: str) -> None:
        text = """\
made = custom_target('made', input: 'one.hip', output: 'made.hip', command: ['cp', '@INPUT@', '@OUTPUT@'])
static_library('kernels', hip_object.process(made, extra_args: '-I' + meson.current_source_dir()))
"""
        project = Project(tmp_path, meson).write(simple(text))
        project.setup(BARE)
        assert project.built() == {"made.hip"}
        project.write({"one.hip": source("other")})
        assert project.built() == {"made.hip"}

    def test_a_project_in_c_has_hip_too(self, tmp_path: Path) -> None:
        project = Project(tmp_path, "debian").write(simple(head=HEAD.replace("'cpp'", "'c'")))
        project.setup(BARE)
        assert project.built() == {"one.hip", "two.hip"}


RELOCATABLE = """\
linked = custom_target('linked', output: 'kernels.o',
  command: [hip.get_variable('hip_link'), '@INPUT@', '-o', '@OUTPUT@'],
  input: hip_object.process('one.hip', 'two.hip', extra_args: '-fgpu-rdc'))
executable('program', 'main.cpp', 'runtime.cpp', linked)
"""


class TestRelocatableDeviceCode:
    """Objects of -fgpu-rdc, whose device code is linked before a program or library takes them."""

    @each_meson
    def test_the_device_link_is_cached(self, tmp_path: Path, meson: str) -> None:
        def sources(host: str, gfx90a: str) -> dict[str, str]:
            one = "#define DEVICE 1\n" + programs.ONE.format(host=host)
            return {"one.hip": one, "two.hip": programs.TWO.format(gfx90a=gfx90a)}

        def links() -> tuple[int, int]:
            return project.units()["link"]

        project = Project(tmp_path, meson).write(simple(RELOCATABLE))
        project.write({"main.cpp": programs.MAIN, "runtime.cpp": programs.RUNTIME, **sources("0", "2")})
        project.setup(BARE, "-Dbuildtype=release")
        project.built()
        assert project.run(project.build_dir / "program").returncode == 0
        assert links() == (0, 2)
        project.write(sources("7", "2"))
        project.built()
        assert project.run(project.build_dir / "program").returncode == 7
        assert links() == (2, 2)
        project.write(sources("7", "5"))
        project.built()
        assert links() == (3, 3)
        assert project.ninja().endswith("no work to do.\n")

    def test_without_the_cache_it_is_the_same_object(self, tmp_path: Path) -> None:
        """With one CUID for both: clang's own hashes the command."""
        text = RELOCATABLE.replace("'one.hip', 'two.hip', extra_args: '-fgpu-rdc'", "'two.hip', extra_args: RDC")
        head = HEAD + "RDC = ['-fgpu-rdc', '-cuid=5eed']\n"
        project = Project(tmp_path, "newest").write(simple(text, head=head))
        project.write({"main.cpp": "", "runtime.cpp": "", "two.hip": programs.TWO.format(gfx90a="2")})
        made = []
        for cache in ("true", "false"):
            project.setup(BARE, f"-Dhip_cache={cache}")
            project.ninja("kernels.o")
            made.append((project.build_dir / "kernels.o").read_bytes())
        assert made[0] == made[1]
        assert project.units()["link"] == (0, 2)

    def test_the_native_file_caches_a_program_of_hip_that_is_compiled_as_cpp(self, tmp_path: Path) -> None:
        text = """\
project('native', 'cpp')
flags = ['-fgpu-rdc', '-nogpulib', '--offload-arch=gfx906', '--offload-arch=gfx90a']
kernels = static_library('kernels', 'one.cpp', 'two.cpp', cpp_args: ['-x', 'hip', '-nogpuinc', flags])
executable('program', 'main.cpp', 'runtime.cpp', objects: kernels.extract_all_objects(recursive: false),
  link_args: ['--hip-link', '-no-hip-rt', flags])
"""
        project = Project(tmp_path, "newest")
        files = {"one.cpp": "#define DEVICE 1\n" + programs.ONE.format(host="0")}
        files |= {"two.cpp": programs.TWO.format(gfx90a="2"), "hip_in_short.hpp": HIP_IN_SHORT}
        project.write(files | {"meson.build": text, "main.cpp": programs.MAIN, "runtime.cpp": programs.RUNTIME})
        own = tmp_path / "own.ini"
        own.write_text("[constants]\ncompiler = 'clang++-15'\n")
        project.setup("--native-file", SUBPROJECT / "hipcache-native.ini", "--native-file", own)
        project.ninja()
        assert project.units()["link"] == (0, 2)


class TestOptions:
    """Meson's own options and ours, in the commands."""

    def flags(self, tmp_path: Path, meson: str, *options: str) -> list[str]:
        """What stands between the compiler and the flags that name HIP."""
        project = Project(tmp_path, meson).write(simple())
        project.setup(BARE, *options)
        command = project.commands()[0]
        return command[command.index(COMPILER) + 1 : command.index("-nogpuinc")]

    @newest_or_each
    @pytest.mark.parametrize(
        ("options", "flags"),
        [
            ((), "-fPIC -O0 -g -Wall"),
            (("--buildtype=release", "-Db_ndebug=if-release"), "-fPIC -O3 -Wall -DNDEBUG"),
            (
                ("-Doptimization=s", "-Ddebug=true", "-Dcpp_std=c++17", "-Dwerror=true", "-Dwarning_level=3"),
                "-fPIC -Os -g -Wall -Wextra -Wpedantic -Werror -std=c++17",
            ),
            (("--buildtype=plain", "-Db_ndebug=true", "-Dwarning_level=0"), "-fPIC -DNDEBUG"),
        ],
    )
    def test_mesons_options_reach_the_compile(
        self, tmp_path: Path, meson: str, options: tuple[str, ...], flags: str
    ) -> None:
        assert " ".join(self.flags(tmp_path, meson, *options)) == flags

    @each_meson
    def test_options_that_the_project_declares_reach_the_subproject(self, tmp_path: Path, meson: str) -> None:
        files = simple(head=HEAD.replace(", default_options: ['hip_architectures=gfx906,gfx90a']", ""))
        files["meson_options.txt"] += """\
option('hip_architectures', type: 'array', value: ['gfx908:xnack+', 'gfx1030'])
option('hip_flags', type: 'array', value: ['-nogpuinc', '-nogpulib'])
option('hip_compiler', type: 'string', value: 'clang++-19')
"""
        project = Project(tmp_path, meson).write(files)
        text = project.setup()
        assert re.search(r"architectures\s*: gfx908:xnack\+ gfx1030", text)
        assert re.search(r"compiler\s*: /usr/bin/clang\+\+-19, clang 19\.1\.7", text)
        assert "--offload-arch=gfx908:xnack+ --offload-arch=gfx1030 -x hip" in " ".join(project.commands()[0])

    @each_meson
    def test_extra_args_come_after_the_options_and_per_call(self, tmp_path: Path, meson: str) -> None:
        files = simple("""\
static_library('kernels',
  hip_object.process('one.hip', extra_args: ['-O1', '-DADDED=5', '-I' + meson.current_source_dir() / 'include']),
  hip_object.process('two.hip'))
""")
        files["one.hip"] = source("one", "#include <in_include.hpp>")
        files["include/in_include.hpp"] = "static_assert(ADDED == 5);\n"
        project = Project(tmp_path, meson).write(files)
        project.setup(BARE)
        assert project.built() == {"one.hip", "two.hip"}
        one, two = project.commands()
        assert one.index("-O1") > one.index("-O0")
        assert "-O1" not in two

    @each_meson
    def test_debians_hip_is_found_without_a_flag(self, tmp_path: Path, meson: str) -> None:
        """The compiler is the one that hipcc uses, even beside an nvcc, though clang++-19 is there as well."""
        project = Project(tmp_path, meson).write(simple())
        text = project.setup()
        assert re.search(r"compiler\s*: /usr/bin/clang\+\+-15, clang 15\.0\.6", text)
        libraries = "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode"
        assert f"--rocm-path=/usr --rocm-device-lib-path={libraries}" in " ".join(project.commands()[0])
        assert "WARNING" not in text


class TestBadInput:
    """Setup says what is wrong, which, and what to do."""

    @newest_or_each
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            pytest.param(
                "-Dhipcache:hip_architectures=gfx906,gfx1100",
                f"the device libraries of '{COMPILER}' do not cover 'gfx1100' they cover gfx1010 gfx1011",
                id="an architecture that the device libraries do not cover",
            ),
            pytest.param(
                "-Dhipcache:hip_architectures=gfx90z",
                f"hip_architectures: clang 15.0.6 of '{COMPILER}' says: invalid target ID 'gfx90z'",
                id="an architecture that the compiler does not know",
            ),
            pytest.param(
                "-Dhipcache:hip_architectures=",
                "hip_architectures is empty: there is nothing to compile for name the GPU architectures",
                id="no architecture",
            ),
            pytest.param(
                "-Dhipcache:hip_compiler=clang++-99",
                "hip_compiler: there is no program 'clang++-99' name an installed clang++",
                id="a compiler that is not there",
            ),
            pytest.param(
                "-Dhipcache:hip_compiler=g++",
                "hip_compiler: '/usr/bin/g++' is not clang",
                id="a compiler that is not clang",
            ),
            pytest.param(
                "-Dhipcache:hip_flags=-O2,--no-such-option",
                f"hip_flags: clang 15.0.6 of '{COMPILER}' says: unsupported option '--no-such-option' correct ",
                id="an unknown option",
            ),
            pytest.param(
                "-Dhipcache:hip_flags=-fno-such-option",
                f"hip_flags: clang 15.0.6 of '{COMPILER}' says: unknown argument: '-fno-such-option' correct ",
                id="another unknown option",
            ),
            pytest.param(
                "-Dhipcache:hip_flags=--rocm-path=/nowhere,--hip-path=/nowhere",
                f"'{COMPILER}' cannot compile HIP: cannot find ",
                id="flags with which HIP is not found",
            ),
        ],
    )
    def test_named_with_a_remedy(self, tmp_path: Path, meson: str, options: str, said: str) -> None:
        assert said in Project(tmp_path, meson).write(simple()).setup_fails(options)

    def test_a_target_that_misspells_an_option_is_told_by_meson(self, tmp_path: Path) -> None:
        assert "hip_archs" in Project(tmp_path, "newest").write(simple()).setup_fails("-Dhipcache:hip_archs=gfx906")


class TestInstallation:
    """Where the subproject and the program come from."""

    def copied(self, root: Path, meson: str) -> Project:
        """A project with a copy of the subproject, on a machine without hipcache."""
        shutil.copytree(SUBPROJECT, root / "subprojects" / "hipcache")
        return Project(root, meson, {"PATH": PLAIN_PATH}).write(simple())

    @each_meson
    def test_a_missing_hipcache_is_an_error_that_says_what_to_do(self, tmp_path: Path, meson: str) -> None:
        said = self.copied(tmp_path, meson).setup_fails(BARE)
        assert "hip_cache is true, but the program 'hipcache' was not found" in said
        assert "-Dhip_cache=false" in said

    def test_a_hipcache_that_does_not_start_is_an_error(self, tmp_path: Path) -> None:
        project = self.copied(tmp_path, "newest")
        broken = tmp_path / "bin" / "hipcache"
        broken.parent.mkdir()
        broken.write_text("#!/bin/sh\necho no module >&2\nexit 1\n")
        broken.chmod(0o755)
        project.environ["PATH"] = f"{broken.parent}:{PLAIN_PATH}"
        assert f"'{broken} --version' fails: no module" in project.setup_fails(BARE)

    def test_what_keeps_from_caching_is_said_at_setup(self, tmp_path: Path) -> None:
        project = Project(tmp_path, "newest").write(simple())
        project.environ["HIPCACHE_MAX_SIZE"] = "much"
        said = project.setup(BARE)
        assert "WARNING: hipcache: nothing is cached: environment variable 'HIPCACHE_MAX_SIZE': 'much'" in said

    @each_meson
    def test_without_the_cache_no_hipcache_is_needed(self, tmp_path: Path, meson: str) -> None:
        project = self.copied(tmp_path, meson)
        project.setup(BARE, "-Dhip_cache=false")
        assert project.built() == {"one.hip", "two.hip"}

    @each_meson
    def test_an_installed_subproject_takes_the_program_of_its_prefix(self, tmp_path: Path, meson: str) -> None:
        prefix = tmp_path / "a prefix"
        shutil.copytree(SUBPROJECT, prefix / "share" / "hipcache" / "meson")
        (prefix / "bin").mkdir()
        (prefix / "bin" / "hipcache").symlink_to(HIPCACHE)
        (tmp_path / "subprojects").mkdir()
        (tmp_path / "subprojects" / "hipcache").symlink_to(prefix / "share" / "hipcache" / "meson")
        project = Project(tmp_path, meson).write(simple())
        assert re.search(rf"cache\s*: {prefix}/bin/hipcache\n", project.setup(BARE))
        assert project.built() == {"one.hip", "two.hip"}
        assert project.units()["gfx906"] == (0, 2)

    @each_meson
    def test_the_wrap_file_unpacks_an_archive_and_provides_the_library(self, tmp_path: Path, meson: str) -> None:
        text = """\
project('wrapped', 'cpp')
executable('program', 'main.cpp', dependencies: dependency('amdhip64', version: '>=5'))
"""
        project = Project(tmp_path, meson).write({"meson.build": text, "meson_options.txt": OPTION})
        (tmp_path / "main.cpp").write_text("#include <hip/hip_runtime_api.h>\nint main() { return hipInit(0) == 1; }\n")
        (tmp_path / "subprojects" / "hipcache").unlink()
        wrap = SUBPROJECT / "hipcache.wrap"
        shutil.copy(wrap, tmp_path / "subprojects")
        commands = [line[6:] for line in wrap.read_text().splitlines() if re.match(r"#     ( |mkdir|tar)", line)]
        done = project.run("sh", "-ec", "\n".join(commands))
        assert done.returncode == 0, done.stdout
        project.setup("-Dhipcache:hip_architectures=gfx906")
        project.ninja()
        assert project.run("readelf", "--dynamic", project.build_dir / "program").stdout.count("[libamdhip64.so") == 1

    @each_meson
    def test_the_wrap_file_of_a_release_is_downloaded(self, tmp_path: Path, meson: str) -> None:
        """From this machine, by the name that a release would have; and not if it has other bytes."""
        served = tmp_path / "served"
        served.mkdir()
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(served))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}"
            subprocess.run([CHECKOUT / "scripts/meson_wrap.sh", url, served], check=True, timeout=60)
            declared = re.findall(r"^option\(.*\)$", (CHECKOUT / "docs/meson.md").read_text(), re.MULTILINE)
            project = Project(tmp_path / "project", meson)
            project.write({**simple(), "meson_options.txt": "\n".join(declared)})
            (project.root / "subprojects/hipcache").unlink()
            shutil.copy(served / "hipcache.wrap", project.root / "subprojects")
            done = project.run(MESONS[meson], "subprojects", "download")
            assert done.returncode == 0, done.stdout
            (archive,) = served.glob("*.tar.gz")
            assert (project.root / "subprojects" / archive.name.removesuffix(".tar.gz") / "meson.build").is_file()
            told = project.setup(BARE, "-Dhip_cache=false", "-Dhip_architectures=gfx1030")
            assert re.search(r"architectures *: gfx1030\n", told) and re.search(r"cache *: off", told), told
            archive.write_bytes(b"of somebody else")
            shutil.rmtree(project.root / "subprojects/packagecache")
            shutil.rmtree(project.root / "subprojects" / archive.name.removesuffix(".tar.gz"))
            assert "hash" in project.run(MESONS[meson], "subprojects", "download").stdout.lower()
            assert not (project.root / "subprojects" / archive.name.removesuffix(".tar.gz")).exists()
            server.shutdown()

    def test_mesondir_is_the_directory_of_the_subproject(self, tmp_path: Path) -> None:
        assert Project(tmp_path, "newest").run(HIPCACHE, "--mesondir").stdout == f"{SUBPROJECT}\n"

    def test_the_subproject_has_the_version_of_the_python_package(self) -> None:
        assert (
            f"project('hipcache', 'cpp', version: '{hipcache.__version__}'" in (SUBPROJECT / "meson.build").read_text()
        )


@each_meson
def test_the_native_file_caches_hip_that_is_compiled_as_cpp(tmp_path: Path, meson: str) -> None:
    text = """\
project('native', 'cpp')
add_project_arguments('-x', 'hip', '-nogpuinc', '-nogpulib', '--offload-arch=gfx906', language: 'cpp')
static_library('kernels', 'one.cpp')
"""
    project = Project(tmp_path, meson).write(
        {
            "meson.build": text,
            "hip_in_short.hpp": HIP_IN_SHORT,
            "only_device.hpp": "#define ADDED 1\n",
            "one.cpp": source("one", '#ifdef __HIP_DEVICE_COMPILE__\n#include "only_device.hpp"\n#endif'),
        }
    )
    own = tmp_path / "own.ini"
    own.write_text("[constants]\ncompiler = 'clang++-15'\n")
    project.setup("--native-file", SUBPROJECT / "hipcache-native.ini", "--native-file", own)
    project.ninja()
    project.ninja("-t", "clean")
    project.ninja()
    assert project.units() == {"gfx906": (1, 1), "host": (1, 1)}
    assert project.ninja().endswith("no work to do.\n")
    settle()
    project.write({"only_device.hpp": "#define ADDED 2\n"})
    project.ninja()
    assert project.units() == {"gfx906": (1, 2), "host": (2, 1)}


@each_meson
def test_the_example_builds_cold_and_warm_with_its_one_command(tmp_path: Path, meson: str) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    project = Project(tmp_path, meson)
    command = re.search(
        r"^    (meson setup .* && meson test \S+ \w+)", (EXAMPLE / "README.md").read_text(), re.MULTILINE
    )
    assert command
    done = project.run("sh", "-c", command[1].replace("meson ", f"{MESONS[meson]} "))
    assert done.returncode == 0, done.stdout
    assert re.search(r"1/1 \S*sums +(SKIP|OK)", done.stdout)
    assert project.units() == {"gfx906": (0, 3), "gfx90a": (0, 3), "gfx1030": (0, 3), "host": (0, 3)}
    project.ninja("-t", "clean")
    project.ninja()
    assert project.units() == {"gfx906": (3, 3), "gfx90a": (3, 3), "gfx1030": (3, 3), "host": (3, 3)}
