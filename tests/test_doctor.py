"""The doctor: what it finds, in a machine made up of files and a fake runner, and on this one."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hipcache.cli import Session, dispatch, doctor, toolchain
from hipcache.processes.runner import Completed

NO_LIBRARY = "clang: error: cannot find ROCm device library; provide its path via '--rocm-path'\n"
MACROS = b"#define HIP_VERSION_MAJOR 6\n#define HIP_VERSION_MINOR 2\n#define HIP_VERSION_PATCH 41133\n"


@dataclass
class FakeClang:
    """Answers as a clang would. `finds` are the flags with which it finds its device libraries."""

    bin: Path
    libraries: Path
    finds: tuple[str, ...] = ()
    version: str = "AMD clang version 18.0.0git (https://github.com/RadeonOpenCompute/llvm-project)\n"
    isa: str = "gfx906"
    header_error: str = ""
    new_driver: bool = False

    def answer(self, words: Sequence[str]) -> Completed:
        if words == ["--version"]:
            return Completed(0, self.version.encode(), b"")
        if "-E" in words:
            if self.header_error:
                return Completed(1, b"", f"clang: error: {self.header_error}\n".encode())
            return Completed(0, MACROS, b"")
        assert words[-1] == "-###"
        arch = next(word for word in words if word.startswith("--offload-arch=")).partition("=")[2]
        if not all(flag in words for flag in self.finds):
            return Completed(1, b"", NO_LIBRARY.encode())
        if arch != self.isa:
            return Completed(1, b"", f"clang: error: cannot find ROCm device library for {arch}\n".encode())
        return Completed(0, b"", self.plan(arch).encode())

    def plan(self, arch: str) -> str:
        bitcode = self.libraries / f"oclc_isa_version_{arch.removeprefix('gfx')}.bc"
        compiler = f'{self.bin}/clang-18" "-cc1" "-triple'
        common = '"-main-file-name" "null"'
        device = (
            f' "{compiler}" "amdgcn-amd-amdhsa" "-emit-obj" {common} "-fcuda-is-device" "-mlink-builtin-bitcode" '
            f'"{bitcode}" "-target-cpu" "{arch}" "-o" "/tmp/a.o" "-x" "hip" "/dev/null"\n'
        )
        if self.new_driver:
            packager = f' "{self.bin}/clang-offload-packager" "-o" "/tmp/b.out" "--image=file=/tmp/a.out"\n'
            return f"{self.version}{device}{packager}"
        link = f' "{self.bin}/lld" "-flavor" "gnu" "-shared" "-o" "/tmp/a.out" "/tmp/a.o"\n'
        targets = f"-targets=host-x86_64-unknown-linux,hipv4-amdgcn-amd-amdhsa--{arch}"
        bundle = (
            f' "{self.bin}/clang-offload-bundler" "-type=o" "-bundle-align=4096" "{targets}" '
            '"-input=/dev/null" "-input=/tmp/a.out" "-output=/tmp/a.hipfb"\n'
        )
        host = (
            f' "{compiler}" "x86_64-pc-linux-gnu" "-emit-obj" {common} "-fcuda-include-gpubinary" "/tmp/a.hipfb" '
            '"-o" "/dev/null" "-x" "hip" "/dev/null"\n'
        )
        return f"{self.version}{device}{link}{bundle}{host}"


@dataclass
class FakeRunner:
    """Starts nothing: `clangs` and `others` answer by the path that is run."""

    clangs: dict[str, FakeClang] = field(default_factory=dict)
    others: dict[str, Completed] = field(default_factory=dict)

    def run(self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Completed:
        if argv[0] in self.clangs:
            return self.clangs[argv[0]].answer(list(argv[1:]))
        if argv[0] in self.others:
            return self.others[argv[0]]
        raise FileNotFoundError(2, "No such file or directory", argv[0])


class FakeMachine:
    """A root directory under which compilers and HIP can be installed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runner = FakeRunner()
        self.environ = {"HOME": str(root / "home"), "PATH": str(root / "usr/bin")}
        (root / "home").mkdir()
        (root / "usr/bin").mkdir(parents=True)

    def program(self, path: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o755)
        return file

    def device_libraries(self, path: str, *numbers: str) -> Path:
        directory = self.root / path
        directory.mkdir(parents=True)
        for number in numbers:
            (directory / f"oclc_isa_version_{number}.bc").touch()
        return directory

    def clang(self, path: str = "usr/bin/clang++", **answers: object) -> FakeClang:
        """A clang with its tools and device libraries, all of it in order."""
        file = self.program(path)
        self.program("llvm/bin/lld")
        self.program("llvm/bin/clang-18")
        self.program("llvm/bin/clang-offload-bundler")
        libraries = self.root / "llvm/bitcode"
        if not libraries.exists():
            self.device_libraries("llvm/bitcode", "906", "90a", "1030", "803")
        clang = FakeClang(self.root / "llvm/bin", **{"libraries": libraries, **answers})  # type: ignore[arg-type]
        self.runner.clangs[str(file)] = clang
        return clang

    def examine(self, *named: str, **environ: str) -> tuple[int, str]:
        out = io.StringIO()
        session = Session({**self.environ, **environ}, out, io.StringIO(), self.runner)
        return doctor.examine_all(list(named), session, self.root, self.root / "build"), out.getvalue()


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def faults(text: str) -> list[str]:
    """The faults, each with its advice."""
    lines = text.splitlines()
    return [f"{line.strip()} | {lines[n + 1].strip()}" for n, line in enumerate(lines) if line.startswith("  fault")]


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


def test_debian_needs_two_flags_and_the_doctor_says_which(machine: FakeMachine) -> None:
    bitcode = machine.device_libraries("usr/lib/x86_64-linux-gnu/amdgcn/bitcode", "906")
    flags = (f"--rocm-path={machine.root}/usr", f"--rocm-device-lib-path={bitcode}")
    machine.clang(finds=flags, libraries=bitcode)
    status, text = machine.examine()
    assert status == 0
    assert f'-DCMAKE_HIP_FLAGS="{flags[0]} {flags[1]}"' in text


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
    assert "rocm-device-libs" in faults(text)[0]


def test_device_libraries_that_lack_the_first_arch_asked_for_are_still_found(machine: FakeMachine) -> None:
    machine.clang(isa="gfx1100", libraries=machine.device_libraries("new", "1100", "1201", "942"))
    status, text = machine.examine()
    assert status == 0
    assert "gfx942 gfx1100 gfx1201" in text


def test_a_missing_linker_or_bundler_is_a_fault_that_names_it(machine: FakeMachine) -> None:
    machine.clang()
    (machine.root / "llvm/bin/lld").unlink()
    status, text = machine.examine()
    assert status == 1
    assert "llvm/bin/lld" in faults(text)[0]
    assert "lld-18" in faults(text)[0]


def test_a_plan_that_hipcache_does_not_cache_is_noted(machine: FakeMachine) -> None:
    machine.clang(new_driver=True)
    machine.program("llvm/bin/clang-offload-packager")
    status, text = machine.examine()
    assert status == 0
    assert "hipcache does not cache its compiles" in text


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
    dispatch(["doctor", "--compiler", "clang++-15", "--build", str(tmp_path / "b")], Session(environ, out, out))
    place = f" in '{tmp_path}/b/CMakeCache.txt'"
    assert (
        f"they disagree: CMAKE_HIP_ARCHITECTURES{place} lacks gfx906 gfx1030, GPU_TARGETS{place} lacks gfx90a\n"
        in out.getvalue()
    )


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


@pytest.mark.skipif(not os.path.exists("/usr/bin/hipcc.pl"), reason="Debian's hipcc is not installed")
def test_debians_own_hipcc_ignores_the_launcher(tmp_path: Path) -> None:
    out = io.StringIO()
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HIP_PLATFORM": "amd", "HIP_CLANG_LAUNCHER": "/bin/true"}
    dispatch(["doctor", "--compiler", "clang++-15"], Session(environ, out, io.StringIO()))
    assert "HIP_CLANG_LAUNCHER is set, but '/usr/bin/hipcc' does not read it" in out.getvalue()


def test_the_doctor_is_green_and_red_on_a_terminal(machine: FakeMachine) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    doctor.examine_all([], Session(machine.environ, out, io.StringIO(), machine.runner), machine.root, machine.root)
    assert "\x1b[31mfault\x1b[0m" in out.getvalue()
    assert "\x1b[32mok   \x1b[0m" in out.getvalue()


@pytest.mark.parametrize("compiler", ["clang++-15", "clang++-19"])
def test_debians_own_clang_is_found_fit_with_the_flags_it_needs(compiler: str, tmp_path: Path) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    out, err = io.StringIO(), io.StringIO()
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HIP_PLATFORM": "amd"}
    assert dispatch(["doctor", "--compiler", compiler], Session(environ, out, err)) == 0, out.getvalue()
    text = out.getvalue()
    assert f"is clang {compiler.removeprefix('clang++-')}." in text
    assert "--rocm-path=/usr --rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode" in text
    assert "headers of HIP 5." in text
    assert "gfx906 gfx908 gfx909 gfx90a" in text
    assert "hipcache understands its plan" in text
    assert err.getvalue() == ""
