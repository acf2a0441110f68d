"""The doctor: what it finds, in a machine made up of files and a fake runner, and on this one."""

from __future__ import annotations

import io
import os
import re
import tempfile
from pathlib import Path

import pytest
from fake_machine import FakeMachine, faults, machine
from hipcache.app import trial
from hipcache.cli import Console, dispatch, doctor, toolchain
from hipcache.processes.runner import Completed
from toolchains import COMPILERS, HIP_FLAGS, LLVM

__all__ = ["machine"]


def test_a_machine_where_everything_is_in_order_is_all_green(machine: FakeMachine) -> None:
    machine.clang()
    status, text = machine.examine()
    assert status == 0
    assert faults(text) == []
    assert "clang 18.0.0git" in text
    assert "headers of HIP 6.2.41133" in text
    assert "gfx803 gfx906 gfx90a gfx1030" in text, "in the order of numbers"
    assert "understands its plan" in text
    assert "the native launcher serves hits" in text
    assert text.endswith("No problems found.\n")
    assert not (machine.root / "home/.cache").exists(), "looking creates no store"


def test_no_compiler_at_all_is_a_fault_that_says_what_to_install(machine: FakeMachine) -> None:
    status, text = machine.examine()
    assert status == 1
    assert len(faults(text)) == 1
    assert "apt install" in faults(text)[0]


def test_compilers_are_found_on_path_and_in_opt_rocm_each_once(machine: FakeMachine) -> None:
    real = machine.program("usr/lib/llvm-15/bin/clang")
    for link in ("clang++", "clang++-15"):
        (machine.root / "usr/bin" / link).symlink_to(real)
    machine.program("usr/bin/amdclang++-6.2")
    machine.program("usr/bin/clang++-extra")
    machine.program("usr/bin/clang-cl")
    machine.program("usr/bin/clang++-9").chmod(0o644)
    rocm = machine.program("opt/rocm-6.2.0/llvm/bin/clang++")
    (machine.root / "opt/rocm").symlink_to("rocm-6.2.0")
    found = toolchain.compilers(toolchain.Machine(machine.runner, machine.environ, machine.root))
    assert [os.path.realpath(path) for path in found] == [
        str(machine.root / "usr/bin/amdclang++-6.2"),
        str(real),
        str(rocm),
    ]


def test_a_compiler_that_was_named_but_is_absent_or_no_clang_is_a_fault(machine: FakeMachine) -> None:
    machine.clang()
    gcc = machine.program("usr/bin/g++")
    machine.runner.others[str(gcc)] = Completed(0, b"g++ (Debian 12.2.0-14) 12.2.0\n", b"")
    status, text = machine.examine("clang++", "clang++-99", "g++")
    assert status == 1
    assert [("clang++-99" in fault, "g++'" in fault) for fault in faults(text)] == [(True, False), (False, True)]


def test_of_installed_compilers_one_that_works_is_enough_but_a_named_one_must_work(machine: FakeMachine) -> None:
    machine.clang("usr/bin/clang++-18")
    machine.clang("usr/bin/clang++-14", header_error="cannot find HIP runtime")
    status, text = machine.examine()
    assert status == 0
    assert "  note   it cannot read <hip/hip_runtime.h>: cannot find HIP runtime" in text
    assert machine.examine("clang++-14")[0] == 1


@pytest.mark.parametrize("place", ["x86_64-linux-gnu", "llvm-22/lib/clang/22"])
def test_debian_needs_two_flags_and_the_doctor_says_which(machine: FakeMachine, place: str) -> None:
    bitcode = machine.device_libraries(f"usr/lib/{place}/amdgcn/bitcode", "906")
    flags = (f"--rocm-path={machine.root}/usr", f"--rocm-device-lib-path={bitcode}")
    machine.clang(finds=flags, libraries=bitcode)
    status, text = machine.examine()
    assert status == 0
    assert f'-DCMAKE_HIP_FLAGS="{flags[0]} {flags[1]}"' in text


def test_libraries_that_a_clang_cannot_read_are_none(machine: FakeMachine) -> None:
    bitcode = machine.device_libraries("usr/lib/llvm-22/lib/clang/22/amdgcn/bitcode", "906")
    machine.clang(finds=(f"--rocm-device-lib-path={bitcode}",), libraries=bitcode, compiles=False)
    status, text = machine.examine()
    assert (status, "cannot find ROCm device library" in text) == (1, True)


def test_rocm_in_opt_is_tried_before_the_distributions_directories(machine: FakeMachine) -> None:
    machine.device_libraries("usr/lib/x86_64-linux-gnu/amdgcn/bitcode", "906")
    rocm = machine.root / "opt/rocm-6.2.0"
    rocm.mkdir(parents=True)
    machine.clang(finds=(f"--rocm-path={rocm}",))
    status, text = machine.examine()
    assert status == 0
    assert f"only with these flags: --rocm-path={rocm}\n" in text


def test_no_device_libraries_anywhere_is_a_fault_with_the_compilers_own_words(machine: FakeMachine) -> None:
    machine.clang(finds=("--rocm-path=/nowhere",))
    status, text = machine.examine()
    assert status == 1
    assert "cannot find ROCm device library" in faults(text)[0]
    assert "apt install hipcc" in faults(text)[0]


def test_device_libraries_that_lack_the_first_arch_asked_for_are_still_found(machine: FakeMachine) -> None:
    machine.clang(isa="gfx1100", libraries=machine.device_libraries("new", "1100", "1201", "942"))
    status, text = machine.examine()
    assert status == 0
    assert "gfx942 gfx1100 gfx1201" in text


@pytest.mark.parametrize("name", ["caf\x85", "a\fb", "a\nb"])
def test_names_may_have_in_them_what_ends_a_line(machine: FakeMachine, name: str) -> None:
    machine.clang(libraries=machine.device_libraries(name, "906", "942"))
    status, text = machine.examine()
    assert ("gfx942" in text, "hipcache does not cache its compiles" in text) == ("\n" not in name, "\n" in name)
    assert status == 0 or "\n" in name


def test_a_missing_linker_or_bundler_is_a_fault_that_names_it(machine: FakeMachine) -> None:
    machine.clang()
    (machine.root / "llvm/bin/lld").unlink()
    status, text = machine.examine()
    assert status == 1
    assert "llvm/bin/lld" in faults(text)[0]
    assert "lld-18" in faults(text)[0]


def test_a_compiler_whose_compiles_pass_through_is_a_fault_that_says_why(machine: FakeMachine) -> None:
    machine.clang()
    machine.passed_through[str(machine.root / "usr/bin/clang++")] = "plan: a job of 'tool'"
    assert "hipcache does not cache its compiles: plan: a job of 'tool'" in faults(machine.examine()[1])[0]


def test_a_hipcc_whose_compiles_pass_through_is_a_fault_that_says_why(machine: FakeMachine) -> None:
    machine.clang()
    hipcc = machine.program("usr/bin/hipcc")
    machine.passed_through[str(hipcc)] = "wrapper: it writes"
    status, text = machine.examine()
    assert status == 1
    assert f"the compiles of '{hipcc}': wrapper: it writes" in faults(text)[0]


@pytest.mark.parametrize(
    ("option", "why"), [("-O2", ""), ("-no-such-option", ""), ("-save-temps", "save_temps: -save-temps")]
)
def test_a_trial_tells_whether_a_compile_would_be_cached(option: str, why: str, tmp_path: Path) -> None:
    compiler = str(LLVM[COMPILERS[0]] / "bin/clang++")
    words = [compiler, "-x", "hip", "--offload-arch=gfx906", "-nogpuinc", "-nogpulib", option]
    assert trial.why_passed_through(words, {"PATH": os.defpath, "HOME": str(tmp_path)}) == why
    assert list(tmp_path.iterdir()) == []


def test_nvcc_that_misleads_hipconfig_is_a_fault_until_hip_platform_is_amd(machine: FakeMachine) -> None:
    machine.clang()
    machine.program("usr/bin/nvcc")
    hipconfig = machine.program("usr/bin/hipconfig")
    machine.runner.others[str(hipconfig)] = Completed(0, b"nvidia", b"")
    status, text = machine.examine()
    assert status == 1
    assert "usr/bin/nvcc" in faults(text)[0]
    assert "export HIP_PLATFORM=amd" in faults(text)[0]
    assert machine.examine(HIP_PLATFORM="amd")[0] == 0
    assert "'nvidia'" in faults(machine.examine(HIP_PLATFORM="nvidia")[1])[0]
    machine.runner.others[str(hipconfig)] = Completed(0, b"amd", b"")
    assert machine.examine()[0] == 0


def test_the_doctor_is_green_and_red_on_a_terminal(machine: FakeMachine) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    doctor.examine_all([], Console(machine.environ, out, io.StringIO(), machine.runner), machine.root, machine.root)
    assert "\x1b[31mfault\x1b[0m" in out.getvalue()
    assert "\x1b[32mok   \x1b[0m" in out.getvalue()


@pytest.mark.parametrize("compiler", [f"clang++-{version}" for version in COMPILERS])
def test_debians_own_clang_is_found_fit_with_the_flags_it_needs(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it leaves nothing in the directory for temporary files."""
    out, err = io.StringIO(), io.StringIO()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HIP_PLATFORM": "amd", "TMPDIR": str(temporary)}
    assert dispatch(["doctor", "--compiler", compiler], Console(environ, out, err)) == 0, out.getvalue()
    text = out.getvalue()
    assert f"is clang {compiler.removeprefix('clang++-')}." in text
    assert " ".join(HIP_FLAGS) in text
    assert re.search(r"headers of HIP \d", text)
    assert "gfx906 gfx908 gfx909 gfx90a" in text
    assert "hipcache understands its plan" in text
    assert err.getvalue() == ""
    assert list(temporary.iterdir()) == []
