"""CMake's probes: try_compile() works in a directory, and for a target, of random names."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping

import pytest
from cmake_project import CMAKES, PROGRAMS, TOOLCHAIN
from hip import ARCHS, BARE, HIT, LAUNCHER, Compiled, Lab, only_15, settle


class Probe:
    """One try_compile(), as CMake writes it."""

    def __init__(self, lab: Lab, name: str, text: str = "int main() { return 0; }\n", *, below: str = "build") -> None:
        self.lab = lab
        self.directory = lab.root / below / "CMakeFiles/CMakeScratch" / f"TryCompile-{name}"
        self.target = f"CMakeFiles/cmTC_{name[:5]}.dir"
        lab.write(self.directory / "src.hip", text)
        (self.directory / self.target).mkdir(parents=True, exist_ok=True)

    def compile(self, *flags: str, env: Mapping[str, str] | None = None) -> Compiled:
        output = f"{self.target}/src.hip.o"
        words = ["-MD", "-MT", output, "-MF", f"{self.target}/src.hip.d", *flags]
        return self.lab.compile(*words, source=self.directory / "src.hip", cwd=self.directory, output=output, env=env)


def test_a_probe_of_cmake_hits_in_the_next_directory(lab: Lab) -> None:
    Probe(lab, "0a1b2c").compile()
    assert Probe(lab, "3d4e5f").compile().outcome == HIT


def test_a_probe_hits_in_a_package_s_next_directory(lab: Lab) -> None:
    """The builder's directory is the base directory, and mapped."""
    for number, name in enumerate(("0a1b2c", "3d4e5f")):
        base = lab.root / f"package-{number}"
        mapped = f"-ffile-prefix-map={base}=."
        probe = Probe(lab, name, below=f"package-{number}/build")
        done = probe.compile("-g0", mapped, env={"HIPCACHE_BASEDIR": str(base)})
    assert done.outcome == HIT


SHOWN = {
    "by a name": ('extern "C" const char* at() { return __FILE__; }\n', ()),
    "by the length of a name": ('extern "C" int size() { return sizeof(__FILE__); }\n', ()),
    "in debug information": ("int main() { return 0; }\n", ("-g",)),
}


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("how", SHOWN)
def test_a_probe_that_shows_its_directory_is_no_other_s(lab: Lab, how: str, mapped: bool) -> None:
    """`Lab.compile` compares with plain clang. A map that takes the build directory away leaves the random name."""
    text, flags = SHOWN[how]
    for name in ("0a1b2c", "3d4e5f6"):
        words = [*flags, f"-ffile-prefix-map={lab.root}/build=." if mapped else "-O1"]
        done = Probe(lab, name, text).compile(*words)
    assert done.outcome != HIT


def test_a_message_names_the_probe_s_own_directory(lab: Lab) -> None:
    for name in ("0a1b2c", "3d4e5f6"):
        probe = Probe(lab, name, "#warning here\nint main() { return 0; }\n")
        done = probe.compile()
        assert f"{probe.directory}/src.hip:1:2: warning" in done.messages
    assert done.outcome == HIT


def test_a_header_that_appears_beside_a_probe_is_seen(lab: Lab) -> None:
    text = '#if __has_include("more.h")\n#include "more.h"\n#endif\nint main() { return 0; }\n'
    Probe(lab, "0a1b2c", text).compile()
    other = Probe(lab, "3d4e5f", text)
    lab.write(other.directory / "more.h", 'extern "C" int more() { return 1; }\n')
    assert other.compile().outcome != HIT
    assert Probe(lab, "6a7b8c", text).compile().outcome == HIT


def test_a_probe_hits_with_a_cuid_of_ours(lab: Lab) -> None:
    """From clang 18 on it is in the host's object: a symbol that another probe's object has, too."""
    objects = []
    for name in ("0a1b2c", "3d4e5f"):
        probe = Probe(lab, name)
        settle()
        words = [*LAUNCHER, lab.compiler, *ARCHS, *BARE, "-c", str(probe.directory / "src.hip"), "-o"]
        assert lab.run([*words, f"{probe.target}/src.hip.o"], cwd=probe.directory).status == 0
        objects.append((probe.directory / probe.target / "src.hip.o").read_bytes())
    stats = lab.stats()
    assert stats["checks"] == {"hit": 1, "miss": 1}
    assert not any(stats["compiles"].values()), "checks count nowhere else"  # type: ignore[attr-defined]
    assert objects[0] == objects[1]


LISTS = """\
cmake_minimum_required(VERSION 3.21)
project(probing LANGUAGES HIP)
try_compile(works ${CMAKE_BINARY_DIR} SOURCES ${CMAKE_SOURCE_DIR}/probe.hip)
if(NOT works)
  message(FATAL_ERROR "the probe fails")
endif()
"""


@only_15
def test_the_second_configure_of_cmake_hits(lab: Lab) -> None:
    """The launcher is in the environment, as builders of packages put it: so CMake's probes have it, too."""
    lab.write("CMakeLists.txt", LISTS)
    lab.write("probe.hip", "int main() { return 0; }\n")
    options = [
        "--toolchain",
        str(TOOLCHAIN),
        f"-DCMAKE_HIP_COMPILER={lab.compiler}",
        "-DCMAKE_HIP_ARCHITECTURES=gfx906",
    ]
    counted = []
    for build in ("one", "another"):
        settle()
        ended = lab.run(
            [CMAKES["newest"], "-G", "Ninja", "-S", ".", "-B", build, *options],
            env={"CMAKE_HIP_COMPILER_LAUNCHER": LAUNCHER[0], "PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
        )
        assert ended.status == 0, ended.err
        stats = lab.stats()
        counted.append(Counter(stats["compiles"]) + Counter(stats["checks"]))  # type: ignore[call-overload]
    first, both = counted
    assert first["miss"] + first["hit"] > 0
    assert (both["miss"], both["partial"], both["failed"]) == (first["miss"], first["partial"], first["failed"])
    assert both["hit"] > first["hit"]
    assert stats["checks"], "what try_compile() compiles counts apart"
