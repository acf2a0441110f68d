"""The Meson subproject: what is cached of a build, its options, and bad input.

TEST_FULL=1 (`make test-full`) runs every combination.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import cmake_project
import pytest
from cmake_project import CHECKOUT, COMPILER, HIPCACHE, full
from hip import COMPILERS, HIP_IN_SHORT, settle
from hipcache.report.targets import Targets
from meson_project import BARE, HEAD, MESONS, SUBPROJECT, Project, each_meson, simple, source

pytestmark = pytest.mark.takes_turns("meson")

EXAMPLE = CHECKOUT / "examples" / "meson"
newest_or_each = pytest.mark.parametrize("meson", [pytest.param("debian", marks=full), "newest"])


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

    @pytest.mark.parametrize("clang", COMPILERS)
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
        assert units["host"] == ((1, 1) if int(clang) < 18 else (0, 2))
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
        """The compiler is the one that hipcc uses, even beside an nvcc, though clang++-19 is there as well. It leaves
        nothing in the directory for temporary files."""
        (tmp_path / "tmp").mkdir()
        project = Project(tmp_path, meson, {"TMPDIR": str(tmp_path / "tmp")}).write(simple())
        text = project.setup()
        assert list((tmp_path / "tmp").iterdir()) == []
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
    own.write_text(f"[constants]\ncompiler = '{COMPILER}'\n")
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


@pytest.mark.parametrize("standard", ["c++20", "c++23", "gnu++23"])
def test_a_standard_that_the_compiler_knows_by_another_name(tmp_path: Path, standard: str) -> None:
    """Clang 15 knows C++23 as c++2b. Meson itself tries that for C++."""
    project = Project(tmp_path, "newest").write(simple())
    project.setup(BARE, f"-Dcpp_std={standard}")
    name = standard.replace("23", "2b")
    assert all(f"-std={name}" in command for command in project.commands())


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
