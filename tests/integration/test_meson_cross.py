"""The Meson subproject in a cross build, and architectures that do not go together."""

from __future__ import annotations

from pathlib import Path

import pytest
from cmake_project import COMPILER
from meson_project import Project, each_meson, simple

pytestmark = pytest.mark.takes_turns("meson")

CROSS = """\
[binaries]
cpp = ['clang++-15', '--target=aarch64-linux-gnu', '-fuse-ld=lld']
cpp_ld = 'lld'
ar = 'ar'
strip = 'strip'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
[properties]
skip_sanity_check = true
"""
_MACHINE = 18  # in the header of an ELF file
_AARCH64 = 183


def crossing(root: Path, meson: str) -> Project:
    return Project(root, meson).write(simple() | {"cross.ini": CROSS})


@each_meson
def test_a_cross_build_has_the_device_libraries_of_the_build_machine(tmp_path: Path, meson: str) -> None:
    project = crossing(tmp_path, meson)
    project.setup("--cross-file=cross.ini", "-Dhipcache:hip_flags=-nogpuinc,--target=aarch64-linux-gnu")
    libraries = "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode"
    assert f"--rocm-device-lib-path={libraries}" in project.commands()[0]
    assert project.built() == {"one.hip", "two.hip"}
    made = (project.build_dir / "libkernels.a.p/one.hip.o").read_bytes()
    assert int.from_bytes(made[_MACHINE : _MACHINE + 2], "little") == _AARCH64


@each_meson
def test_a_cross_build_without_a_target_is_an_error(tmp_path: Path, meson: str) -> None:
    said = crossing(tmp_path, meson).setup_fails("--cross-file=cross.ini")
    assert f"'{COMPILER}' compiles HIP for x86_64-pc-linux-gnu, not for the host machine of this cross build" in said
    assert "name that one: -D[hipcache:]hip_flags=--target=aarch64-linux-gnu" in said


def test_architectures_that_exclude_each_other_are_no_fault_of_the_installation(tmp_path: Path) -> None:
    options = "-Dhipcache:hip_architectures=gfx90a,gfx90a:xnack+"
    said = Project(tmp_path, "newest").write(simple()).setup_fails(options)
    assert f"hip_architectures: clang 15.0.6 of '{COMPILER}' says: invalid offload arch combinations" in said
    assert "name each feature, such as xnack, in all architectures of one processor or in none" in said
    assert "install" not in said
