"""What the doctor says of settings, of architectures in variables, and of the launcher that a hipcc is told."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from fake_machine import FakeMachine, faults, machine
from hip import COMPILERS
from hipcache.cli import Console, dispatch

__all__ = ["machine"]


def test_wrong_settings_are_a_fault(machine: FakeMachine) -> None:
    machine.clang()
    for environ in ({"HIPCACHE_MAXSIZE": "1G"}, {"HIPCACHE_MAX_SIZE": "much"}):
        status, text = machine.examine(**environ)
        assert status == 1
        assert next(iter(environ)) in faults(text)[0]


def test_a_store_that_cannot_be_written_is_a_fault(machine: FakeMachine) -> None:
    machine.clang()
    (machine.root / "file").touch()
    status, text = machine.examine(HIPCACHE_DIR=str(machine.root / "file/cache"))
    assert status == 1
    assert "HIPCACHE_DIR" in faults(text)[0]


def test_modes_that_defeat_the_cache_and_stray_variables_are_noted(machine: FakeMachine) -> None:
    machine.clang()
    environ = {"HIPCACHE_DISABLE": "1", "HIPCACHE_RECACHE": "1", "HIPCACHE_READONLY": "1", "AMDGPU_TARGETS": "gfx906"}
    status, text = machine.examine(**environ)
    assert status == 0
    for words in ("switched off", "no hits are served", "it is read-only", "AMDGPU_TARGETS is set: gfx906"):
        assert any(line.startswith("  note") and words in line for line in text.splitlines()), words


def test_variables_that_name_different_architectures_are_noted(machine: FakeMachine) -> None:
    machine.clang()
    environ = {"GPU_TARGETS": "gfx906;gfx90a", "PYTORCH_ROCM_ARCH": "gfx90a", "HCC_AMDGPU_TARGET": "gfx90a,gfx1030"}
    status, text = machine.examine(**environ)
    assert status == 0
    assert "GPU_TARGETS is set: gfx906;gfx90a" in text
    lacking = "GPU_TARGETS lacks gfx1030, PYTORCH_ROCM_ARCH lacks gfx906 gfx1030, HCC_AMDGPU_TARGET lacks gfx906"
    assert f"they disagree: {lacking}" in text


def test_variables_that_name_the_same_architectures_in_their_own_ways_agree(machine: FakeMachine) -> None:
    machine.clang()
    environ = {"AMDGPU_TARGETS": "gfx906;gfx90a:xnack+;", "GPU_ARCHS": "gfx90a:xnack+ gfx906"}
    text = machine.examine(HCC_AMDGPU_TARGET="gfx906,gfx90a:xnack+", **environ)[1]
    assert "disagree" not in text


def test_architectures_in_variables_with_options_count_too(machine: FakeMachine) -> None:
    machine.clang()
    environ = {
        "GPU_TARGETS": "gfx906;gfx90a",
        "HIPFLAGS": "-O3 --offload-arch=gfx906,gfx90a --offload-arch=gfx1030",
        "CXXFLAGS": "-O2",
        "HIPCC_COMPILE_FLAGS_APPEND": "--amdgpu-target=gfx90a --offload-arch gfx906:xnack+",
    }
    text = machine.examine(**environ)[1]
    assert "HIPFLAGS names architectures: gfx906 gfx90a gfx1030\n" in text
    assert "HIPCC_COMPILE_FLAGS_APPEND names architectures: gfx906:xnack+ gfx90a\n" in text
    lacking = (
        "GPU_TARGETS lacks gfx906:xnack+ gfx1030, HIPFLAGS lacks gfx906:xnack+, "
        "HIPCC_COMPILE_FLAGS_APPEND lacks gfx906 gfx1030\n"
    )
    assert f"they disagree: {lacking}" in text
    assert "CXXFLAGS" not in text
    del environ["GPU_TARGETS"], environ["HIPCC_COMPILE_FLAGS_APPEND"]
    assert "disagree" not in machine.examine(**environ)[1]


def test_architectures_in_cmakes_cache_count_with_those_in_the_environment(machine: FakeMachine) -> None:
    machine.clang()
    cache = machine.program("build/CMakeCache.txt")
    cache.write_text(
        "# This is the CMakeCache file.\n//Architectures\nCMAKE_HIP_ARCHITECTURES:STRING=gfx906;gfx90a\n"
        "CMAKE_HIP_FLAGS:STRING=-O3\nAMDGPU_TARGETS-ADVANCED:INTERNAL=1\nGPU_TARGETS:UNINITIALIZED=\n"
        "CMAKE_CXX_FLAGS:STRING=-x hip --offload-arch=gfx906\n"
    )
    place = f" in '{cache}'"
    text = machine.examine(PYTORCH_ROCM_ARCH="gfx906 gfx90a")[1]
    assert f"CMAKE_HIP_ARCHITECTURES is set{place}: gfx906;gfx90a\n" in text
    assert f"CMAKE_CXX_FLAGS{place} names architectures: gfx906\n" in text
    assert f"they disagree: CMAKE_CXX_FLAGS{place} lacks gfx90a\n" in text
    cache.write_text("CMAKE_HIP_ARCHITECTURES:STRING=gfx906;gfx90a\n")
    assert "disagree" not in machine.examine(PYTORCH_ROCM_ARCH="gfx906 gfx90a")[1]


@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake")
def test_the_cache_of_a_real_cmake_is_read(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.21)\nproject(p LANGUAGES NONE)\n")
    ways = ["-DGPU_TARGETS=gfx906;gfx1030", "-DCMAKE_HIP_ARCHITECTURES:STRING=gfx90a"]
    subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "b", *ways], check=True, capture_output=True)
    out = io.StringIO()
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HIP_PLATFORM": "amd"}
    dispatch(
        ["doctor", "--compiler", f"clang++-{COMPILERS[0]}", "--build", str(tmp_path / "b")], Console(environ, out, out)
    )
    place = f" in '{tmp_path}/b/CMakeCache.txt'"
    assert (
        f"they disagree: CMAKE_HIP_ARCHITECTURES{place} lacks gfx906 gfx1030, GPU_TARGETS{place} lacks gfx90a\n"
        in out.getvalue()
    )


HIPCC = Path("/usr/bin/hipcc.pl")
_READS = not HIPCC.exists() or "HIP_CLANG_LAUNCHER" in HIPCC.read_text()
INSTEAD = 'put hipcache before hipcc (make CXX="hipcache hipcc"), or let HIP_CLANG_PATH name a directory of scripts'


def hipcc(machine: FakeMachine, text: str, path: str = "usr/bin/hipcc") -> Path:
    file = machine.program(path)
    file.write_text(text)
    return file


def test_a_hipcc_that_ignores_the_launcher_is_told_with_what_to_do_instead(machine: FakeMachine) -> None:
    machine.clang()
    old = hipcc(machine, "#!/usr/bin/perl\nexec 'hipcc.pl', @ARGV\n")
    machine.program("usr/bin/hipcc.pl").write_text("#!/usr/bin/perl\nsystem($CMD)\n")
    text = machine.examine()[1]
    assert f"  ok     '{old}' reads no HIP_CLANG_LAUNCHER\n         {INSTEAD}" in text
    status, text = machine.examine(HIP_CLANG_LAUNCHER=str(machine.program("bin/hipcache")))
    assert status == 0
    assert f"  note   HIP_CLANG_LAUNCHER is set, but '{old}' does not read it\n         {INSTEAD}" in text


@pytest.mark.parametrize("where", ["hipcc", "hipcc.pl", "hipcc.bin"])
def test_a_hipcc_that_runs_its_clang_through_a_launcher_is_known(machine: FakeMachine, where: str) -> None:
    """By the variable's name, in the script or the binary; that of /opt/rocm where none is on PATH."""
    machine.clang()
    newer = hipcc(machine, "\x7fELF", "opt/rocm-7.13/bin/hipcc")
    with (newer.parent / where).open("a") as file:
        file.write("\0HIP_CLANG_LAUNCHER\0")
    launcher = str(machine.program("bin/hipcache"))
    for environ in ({}, {"HIP_CLANG_LAUNCHER": launcher}, {"HIP_CLANG_LAUNCHER": f"{launcher} with words"}):
        status, text = machine.examine(**environ)
        assert status == 0
        assert f"  ok     '{newer}' runs its clang through HIP_CLANG_LAUNCHER\n" in text


def test_a_launcher_that_is_no_program_is_a_fault_where_it_is_read(machine: FakeMachine) -> None:
    machine.clang()
    newer = hipcc(machine, "\x7fELF HIP_CLANG_LAUNCHER")
    (machine.root / "usr/bin/directory").mkdir()
    for launcher in ("/nowhere/else/hipcache", "hipcashe -v", "directory"):
        status, text = machine.examine(HIP_CLANG_LAUNCHER=launcher)
        assert status == 1
        assert (
            f"HIP_CLANG_LAUNCHER is '{launcher}', which is not a program: each compile by '{newer}'" in faults(text)[0]
        )
        assert "export HIP_CLANG_LAUNCHER=$(command -v hipcache)" in faults(text)[0]


def test_nothing_is_said_of_a_hipcc_that_is_somebodys_script_or_not_there(machine: FakeMachine) -> None:
    machine.clang()
    assert "hipcc" not in machine.examine()[1]
    hipcc(machine, '#!/bin/sh\nexec hipcache /opt/rocm/bin/hipcc "$@"\n')
    assert "LAUNCHER" not in machine.examine()[1]


@pytest.mark.skipif(_READS, reason="this hipcc reads it, or is not installed")
def test_debians_own_hipcc_ignores_the_launcher(tmp_path: Path) -> None:
    out = io.StringIO()
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HIP_PLATFORM": "amd", "HIP_CLANG_LAUNCHER": "/bin/true"}
    dispatch(["doctor", "--compiler", f"clang++-{COMPILERS[0]}"], Console(environ, out, io.StringIO()))
    assert "HIP_CLANG_LAUNCHER is set, but '/usr/bin/hipcc' does not read it" in out.getvalue()
