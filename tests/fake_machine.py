"""A machine made up of files and a fake runner, for the doctor."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hipcache.cli import Console, doctor
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
    compiles: bool = True

    def answer(self, words: Sequence[str]) -> Completed:
        if words == ["--version"]:
            return Completed(0, self.version.encode(), b"")
        if "-E" in words:
            if self.header_error:
                return Completed(1, b"", f"clang: error: {self.header_error}\n".encode())
            return Completed(0, MACROS, b"")
        if words[-1] != "-###":
            return Completed(0 if self.compiles else 1, b"", b"")
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
        self.passed_through: dict[str, str] = {}
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
        session = Console({**self.environ, **environ}, out, io.StringIO(), self.runner)
        status = doctor.examine_all(list(named), session, self.root, self.root / "build", self._why_passed_through)
        return status, out.getvalue()

    def _why_passed_through(self, compiler: Sequence[str], environ: Mapping[str, str]) -> str:
        """As of the compiler's name: nothing is compiled here."""
        return self.passed_through.get(compiler[0], "")


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def faults(text: str) -> list[str]:
    """The faults, each with its advice."""
    lines = text.splitlines()
    return [f"{line.strip()} | {lines[n + 1].strip()}" for n, line in enumerate(lines) if line.startswith("  fault")]
