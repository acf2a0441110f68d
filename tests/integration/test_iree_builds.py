"""IREE modules in CMake, Meson and SCons: the example in each, one target added, and words that would confuse."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cmake_project import CHECKOUT, PROGRAMS
from hip import know_tools, settle, statistics
from hipcache.iree import module
from iree_lab import LIBRARIES, needs_iree

pytestmark = needs_iree

EXAMPLE = CHECKOUT / "examples" / "iree"
NAMES = {
    "layer.hip.gfx942.vmfb",
    "layer.amdgpu.gfx942.vmfb",
    "layer.local.vmfb",
}
ONE = "-DLAYER_TARGETS=gfx942"
# Tool -> the commands that configure and build, those that add a target, and those that run the test.
TOOLS = {
    "cmake": (
        [
            [*("cmake", "-S", ".", "-B", "build", "-G", "Ninja", f"-DCMAKE_MODULE_PATH={CHECKOUT / 'cmake'}", ONE)],
            ["cmake", "--build", "build"],
        ],
        [["cmake", "build", "-DLAYER_TARGETS=gfx942;gfx90a"], ["cmake", "--build", "build"]],
        [["ctest", "--test-dir", "build"]],
    ),
    "meson": (
        [["meson", "setup", "build", "-Dtargets=gfx942"], ["meson", "compile", "-C", "build"]],
        [["meson", "configure", "build", "-Dtargets=gfx942,gfx90a"], ["meson", "compile", "-C", "build"]],
        [["meson", "test", "-C", "build"]],
    ),
    "scons": (
        [["scons", "-Q", "GPU_TARGETS=gfx942"]],
        [["scons", "-Q", "GPU_TARGETS=gfx942,gfx90a"]],
        [["scons", "-Q", "check"]],
    ),
}


class Example:
    """A copy of the example, and a store."""

    def __init__(self, root: Path) -> None:
        self.root = root / "example"
        shutil.copytree(EXAMPLE, self.root, ignore=shutil.ignore_patterns("build", ".scons*", "subprojects"))
        (self.root / "subprojects").mkdir()
        (self.root / "subprojects" / "hipcache").symlink_to(CHECKOUT / "meson")
        foreign = ("HIPCACHE", "CMAKE_", "MAKE", "MFLAGS", "MESON", "CXX", "CC")
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        # IREE's program itself, before its script: a Python less for each module.
        self.environ["PATH"] = f"{LIBRARIES}:{PROGRAMS}:{self.environ.get('PATH', os.defpath)}"
        self.environ |= {"HIPCACHE_DIR": str(root / "store"), "HIPCACHE_RESIDENT": "0", "HIP_PLATFORM": "amd"}
        know_tools(self.environ)

    def run(self, *commands: list[str]) -> str:
        said = ""
        for command in commands:
            status, text = self.attempt(command)
            assert status == 0, text
            said += text
        return said

    def attempt(self, command: list[str]) -> tuple[int, str]:
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout

    def modules(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.root / "build").glob("*.vmfb")}

    def counted(self) -> tuple[int, int]:
        compiles = statistics(self.environ)["compiles"]
        return compiles["hit"], compiles["miss"]  # type: ignore[index]


@pytest.fixture
def example(tmp_path: Path) -> Example:
    return Example(tmp_path)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_example_is_a_module_for_each_device_and_target(example: Example, tool: str) -> None:
    build, add, check = TOOLS[tool]
    settle()
    example.run(*build)
    made = example.modules()
    assert made.keys() == NAMES
    assert example.counted() == (0, len(NAMES))
    listed = json.loads((example.root / "build" / "layer.iree.json").read_text())["modules"]
    assert {one["file"] for one in listed} == NAMES
    assert {(one["device"], one["target"]) for one in listed if one["target"]} == {
        ("hip", "gfx942"),
        ("amdgpu", "gfx942"),
    }
    found = module.read(str(example.root / "build" / "layer.amdgpu.gfx942.vmfb"))
    assert (found.devices, found.archs) == (("amdgpu",), ("gfx942",))

    example.run(*check)

    # One target more, from an empty build directory: the others come from the cache.
    shutil.rmtree(example.root / "build")
    (example.root / ".sconsign.dblite").unlink(missing_ok=True)
    example.run(*build[:1] if tool != "scons" else [], *add)
    assert example.counted() == (len(NAMES), len(NAMES) + 2)
    assert {name: content for name, content in example.modules().items() if name in NAMES} == made


def test_cmake_says_what_would_make_another_module(example: Example) -> None:
    lists = example.root / "CMakeLists.txt"
    text = lists.read_text()
    configure = TOOLS["cmake"][0][0]
    wrong = {
        "TARGETS ${LAYER_TARGETS}": ("", "no TARGETS for hip"),
        "DEVICES hip amdgpu local": ("DEVICES rocm", "unknown device 'rocm'"),
        "FLAGS": ("FLAGS --iree-rocm-target=gfx908", "which would make another module"),
        "DEVICE local": ("DEVICE hip TARGET gfx908", "has no module for hip gfx908"),
    }
    for words, (instead, said) in wrong.items():
        lists.write_text(text.replace(words, instead, 1))
        status, answer = example.attempt(configure)
        assert status != 0 and said in " ".join(answer.split()), answer


def test_a_build_without_the_cache_makes_the_same_modules(example: Example) -> None:
    configure, build = TOOLS["cmake"][0]
    example.run([*configure, "-DHIPCACHE=OFF"], build)
    assert example.counted() == (0, 0)
    plain = example.modules()
    example.run(["cmake", "build", "-DHIPCACHE=ON"], ["cmake", "--build", "build", "--clean-first"])
    assert example.modules() == plain


def test_scons_says_what_would_make_another_module(example: Example) -> None:
    sconstruct = example.root / "SConstruct"
    text = sconstruct.read_text()
    for words, instead, said in (
        ('"hip", "amdgpu", "local"', '"rocm"', "unknown device 'rocm'"),
        ("--iree-llvmcpu-target-cpu=generic", "--iree-rocm-target=gfx908", "which would make another module"),
    ):
        sconstruct.write_text(text.replace(words, instead, 1))
        status, answer = example.attempt(["scons", "-Q"])
        assert status != 0 and said in answer
