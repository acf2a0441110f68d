"""Extensions of Python in HIP as docs/python.md builds them: by pip, isolated, from a source distribution that it
unpacks in another directory each time."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from cmake_project import CHECKOUT, PROGRAMS, Counted, Project
from hip import HIP_IN_SHORT

# In a main file that pragma warns.
KERNELS = (
    HIP_IN_SHORT.replace("#pragma once\n", "")
    + """\
__global__ void kernel(int* p) { p[0] = p[1] * 3; }
extern "C" void* PyInit_extension() { kernel<<<1, 1>>>(nullptr); return nullptr; }
"""
)
TOML = '[build-system]\nrequires = ["{}"]\nbuild-backend = "{}"\n'
NAMED = '[project]\nname = "extension"\nversion = "1"\n'
SETUP = """\
import os
from setuptools import Extension, setup
flags = ["-nogpuinc", "-nogpulib", *(f"--offload-arch={arch}" for arch in os.environ["ARCHS"].split(";"))]
setup(name="extension", version="1", packages=[],
      ext_modules=[Extension("extension", ["kernels.cpp"], extra_compile_args=flags)])
"""
LISTS = """\
cmake_minimum_required(VERSION 3.21)
project(extension LANGUAGES CXX HIP)
add_library(extension MODULE kernels.hip)
install(TARGETS extension DESTINATION .)
"""
MESON = """\
project('extension', 'cpp', version: '1')
hip = subproject('hipcache')
objects = hip.get_variable('hip_object').process('kernels.hip', extra_args: ['-nogpuinc'])
py = import('python').find_installation(pure: false)
py.extension_module('extension', objects, link_language: 'cpp', install: true)
"""
PROJECTS = {
    "setuptools": {"pyproject.toml": TOML.format("setuptools>=66", "setuptools.build_meta"), "setup.py": SETUP},
    "scikit-build-core": {
        "pyproject.toml": TOML.format("scikit-build-core", "scikit_build_core.build") + NAMED,
        "CMakeLists.txt": LISTS,
    },
    "meson-python": {"pyproject.toml": TOML.format("meson-python", "mesonpy") + NAMED, "meson.build": MESON},
}
PAGE = (CHECKOUT / "docs/python.md").read_text()


def lines(backend: str) -> str:
    """The page's block, for a source distribution in the place of the directory."""
    (block,) = re.findall(rf"^## {backend}\n.*?```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return block.replace("pip wheel .", f"{sys.executable} -m pip wheel --no-deps extension-1.tar.gz")


@pytest.mark.parametrize("backend", PROJECTS)
def test_pip_builds_cold_warm_and_with_one_architecture_more(tmp_path: Path, backend: str) -> None:
    tree = tmp_path / "extension-1"
    files = {**PROJECTS[backend], "kernels.hip": KERNELS, "kernels.cpp": KERNELS, "PKG-INFO": "Name: extension\n"}
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(content)
    script = lines(backend)
    if "subprojects" in script:
        prepared, _, script = script.rpartition("\n\n")
        subprocess.run(["sh", "-ec", prepared], cwd=tree, env={"PATH": f"{PROGRAMS}:/usr/bin:/bin"}, check=True)
    with tarfile.open(tmp_path / "extension-1.tar.gz", "w:gz", dereference=True) as archive:
        archive.add(tree, "extension-1")
    own = {"HIPFLAGS": "-nogpuinc -nogpulib", "HCC_AMDGPU_TARGET": "gfx906", "PATH": f"{PROGRAMS}:/usr/bin:/bin"}
    project = Project(tmp_path, environ=own)
    counted = Counted(project)
    for archs, expected in (
        ("gfx906", {"miss": 1, "gfx906 compiled": 1, "host compiled": 1}),
        ("gfx906", {"hit": 1}),
        ("gfx906;gfx90a", {"partial": 1, "gfx90a compiled": 1}),
    ):
        asked = script.replace("gfx906;gfx90a", archs).replace("gfx906,gfx90a", archs.replace(";", ","))
        done = project.run("env", "-C", tmp_path, f"ARCHS={archs}", "sh", "-ec", asked)
        assert done.returncode == 0, done.stdout
        assert counted.compiles() == expected
        assert list(tmp_path.glob("extension-1-*.whl"))
