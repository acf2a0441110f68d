"""What the Meson subproject makes of a project's targets and dependencies, with relocatable device code too."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import programs
import pytest
from cmake_project import COMPILER
from hip import HIP_IN_SHORT, script, settle
from meson_project import BARE, HEAD, LIBRARY, MESONS, SUBPROJECT, Project, each_meson, simple, source

pytestmark = pytest.mark.takes_turns("meson")


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

    def test_a_dependency_file_is_shared_where_there_are_no_hard_links(self, tmp_path: Path) -> None:
        """As on FAT, and in some shared folders."""
        own, shared = tmp_path / "own.d", tmp_path / "shared.d"
        (tmp_path / "bin").mkdir()
        script(tmp_path / "bin/ln", "exit 1\n")
        words = ["sh", str(SUBPROJECT / "shared-depfile.sh"), str(own), str(shared)]
        path = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
        subprocess.run([*words, "sh", "-c", f"echo mine > {own}"], env=path, check=True, timeout=60)
        assert shared.read_text() == "mine\n"

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
        project.setup(BARE, "-Dbuildtype=release", "-Dwerror=true")  # flags that no link uses are no error
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
        own.write_text(f"[constants]\ncompiler = '{COMPILER}'\n")
        project.setup("--native-file", SUBPROJECT / "hipcache-native.ini", "--native-file", own)
        project.ninja()
        assert project.units()["link"] == (0, 2)
