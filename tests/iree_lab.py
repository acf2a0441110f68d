"""What the tests of IREE modules share: programs, the real iree-compile, and modules that are made once for a run.

iree-compile takes 0.3 s for such a program; its script, which is what users run, half a second more. So most tests run
the program itself. Where IREE's packages are not installed the tests are skipped.
"""

from __future__ import annotations

import fcntl
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hip import HIT, MISS, SESSION, Compiled, Lab, explained, write_files


def _directory(package: str) -> Path | None:
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return None
    return Path(next(iter(found.submodule_search_locations))) if found and found.submodule_search_locations else None


_COMPILER, _RUNTIME = _directory("iree.compiler"), _directory("iree.runtime")
HAS_IREE = _COMPILER is not None and _RUNTIME is not None
needs_iree = pytest.mark.skipif(not HAS_IREE, reason="IREE is not installed (pip install '.[iree]')")
LIBRARIES = (_COMPILER or Path()) / "_mlir_libs"
PROGRAM = str(LIBRARIES / "iree-compile")
SCRIPT = str(Path(sys.executable).with_name("iree-compile"))

HIP = ("--iree-hal-target-device=hip", "--iree-rocm-target=gfx942")
AMDGPU = ("--iree-hal-target-device=amdgpu", "--iree-rocm-target=gfx942")
LOCAL = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=generic",
)

MATMUL = """\
func.func @product(%a: tensor<16x32xf32>, %b: tensor<32x16xf32>) -> tensor<16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x16xf32>
  %begin = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x16xf32>) -> tensor<16x16xf32>
  %sum = linalg.matmul ins(%a, %b : tensor<16x32xf32>, tensor<32x16xf32>)
      outs(%begin : tensor<16x16xf32>) -> tensor<16x16xf32>
  return %sum : tensor<16x16xf32>
}
"""
# Which takes them from ocml.bc.
WAVE = """\
func.func @wave(%a: tensor<64xf32>) -> tensor<64xf32> {
  %sine = math.sin %a : tensor<64xf32>
  %angle = math.atan2 %sine, %a : tensor<64xf32>
  return %angle : tensor<64xf32>
}
"""
CONVOLUTION = """\
func.func @blur(%image: tensor<1x8x8x4xf32>, %filter: tensor<3x3x4x8xf32>) -> tensor<1x6x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x6x6x8xf32>
  %begin = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x6x6x8xf32>) -> tensor<1x6x6x8xf32>
  %sum = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%image, %filter : tensor<1x8x8x4xf32>, tensor<3x3x4x8xf32>)
      outs(%begin : tensor<1x6x6x8xf32>) -> tensor<1x6x6x8xf32>
  return %sum : tensor<1x6x6x8xf32>
}
"""
TWO = """\
func.func @scale(%a: tensor<16xf32>) -> tensor<16xf32> {
  %two = arith.constant dense<2.0> : tensor<16xf32>
  %twice = arith.mulf %a, %two : tensor<16xf32>
  return %twice : tensor<16xf32>
}
func.func @shift(%a: tensor<32xi32>) -> tensor<32xi32> {
  %one = arith.constant dense<1> : tensor<32xi32>
  %more = arith.addi %a, %one : tensor<32xi32>
  return %more : tensor<32xi32>
}
"""
WEIGHTED = """\
util.global private @weight = #flow.parameter.named<"model"::"weight"> : tensor<16xf32>
func.func @weighted(%a: tensor<16xf32>) -> tensor<16xf32> {
  %weight = util.global.load @weight : tensor<16xf32>
  %product = arith.mulf %a, %weight : tensor<16xf32>
  return %product : tensor<16xf32>
}
"""
IMPORT = ("--iree-parameter-import=model=weights.irpa", "--iree-parameter-import-maximum-size=4096")
# name -> its text, and options of its own.
PROGRAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "matmul": (MATMUL, ()),
    "wave": (WAVE, ()),
    "convolution": (CONVOLUTION, ()),
    "two": (TWO, ()),
    "weighted": (WEIGHTED, IMPORT),
}


def weights(value: float = 1.5) -> bytes:
    """An archive with one parameter, "weight"."""
    path = SESSION / f"iree-{value}.irpa"
    with (SESSION / "iree.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            part = path.with_suffix(".part.irpa")
            write = f"save_archive_file({{'weight': numpy.full(16, {value}, numpy.float32)}}, {str(part)!r})"
            text = f"import numpy; from iree.runtime import save_archive_file; {write}"
            subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, timeout=60)
            part.rename(path)
    return path.read_bytes()


def iree_lab(tmp_path: Path) -> Lab:
    """A lab with the programs, as `NAME.mlir`."""
    lab = Lab.make(tmp_path, "19")
    write_files(lab.root, {f"{name}.mlir": text for name, (text, _) in PROGRAMS.items()})
    return lab


@pytest.fixture
def iree(tmp_path: Path) -> Iterator[Lab]:
    yield iree_lab(tmp_path)


def words(*flags: str, source: str = "matmul.mlir", output: str = "out.vmfb", program: str = PROGRAM) -> list[str]:
    return [program, *flags, source, "-o", output]


def made(name: str, *flags: str) -> Path:
    """A module of plain iree-compile, made once for all workers of a run. Not to be changed."""
    text, own = PROGRAMS[name]
    place = SESSION / "modules" / "-".join(word.rpartition("=")[2].replace("/", "_") for word in (name, *flags))
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        module = place / f"{name}.vmfb"
        if not module.exists():
            (place / f"{name}.mlir").write_text(text)
            if own:
                (place / "weights.irpa").write_bytes(weights())
            part = "part.vmfb"
            command = [PROGRAM, *flags, *own, f"{name}.mlir", "-o", part]
            subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=120)
            (place / part).rename(module)
    return module


GFX90A = (HIP[0], "--iree-rocm-target=gfx90a")


def same(
    lab: Lab, *flags: str, source: str = "matmul.mlir", cwd: Path | None = None, program: str = PROGRAM
) -> Compiled:
    return lab.same(words(*flags, source=source, program=program), output="out.vmfb", cwd=cwd)


def warm(lab: Lab, *flags: str, source: str = "matmul.mlir", program: str = PROGRAM) -> Compiled:
    first = same(lab, *flags, source=source, program=program)
    told = first.messages + explained(lab.environ)
    assert (first.status, first.outcome) == (0, MISS), told
    second = same(lab, *flags, source=source, program=program)
    assert second.outcome == HIT, told + explained(lab.environ)
    return second
