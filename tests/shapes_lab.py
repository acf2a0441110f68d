"""Compiles that end in one side, assembly or bitcode: by plain clang and by hipcache, all that they leave compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hip import BARE, CUID, HIT, MISS, Counted, Lab, explained, skip_without_coverage

SOURCE = """\
static __device__ int table[64];
template <class T> __device__ T sum(T a, T b) { T s = 0; for (int i = 0; i < 9; ++i) s += a * table[i] + b; return s; }
__global__ void more(int* p) { table[p[0]] = p[1]; p[2] = sum(p[3], p[4]); }
"""


@dataclass(frozen=True)
class Left:
    """What a command left behind: its end, and each new file with its permissions."""

    status: int
    out: bytes
    err: bytes
    files: dict[str, tuple[bytes, int]]

    @property
    def one(self) -> bytes:
        (content,) = (content for name, (content, _) in self.files.items() if not name.endswith(".d"))
        return content


def words(lab: Lab, *more: str | Path) -> list[str]:
    archs = () if any("-arch=" in str(word) for word in more) else lab.archs
    return [lab.compiler, *lab.driver, *archs, *BARE, "-O2", CUID, "k.hip", *map(str, more)]


def same(
    lab: Lab, *more: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
) -> tuple[Left, Counted]:
    """Plain clang, then hipcache: everything they leave must be the same."""
    directory = cwd or lab.root
    before = set(directory.iterdir())
    command = words(lab, *more)

    def run(*launcher: str) -> Left:
        ended = lab.run([*launcher, *command], env=env, cwd=cwd)
        new = sorted(set(directory.iterdir()) - before)
        files = {path.name: (path.read_bytes(), path.stat().st_mode) for path in new}
        for path in new:
            path.unlink()
        return Left(ended.status, ended.out, ended.err, files)

    plain, cached = lab.by_both(run, command, cwd=cwd, env=env)
    skip_without_coverage(plain.err)
    assert cached.err.decode() == plain.err.decode()
    assert cached == plain
    return cached, lab.counted()


def warm(lab: Lab, *more: str | Path) -> Left:
    first, counted = same(lab, *more)
    assert first.status == 0, first.err
    assert counted.outcome in (MISS, "partial"), counted
    told = explained(lab.environ)
    second, counted = same(lab, *more)
    assert counted.outcome == HIT, told + explained(lab.environ)
    assert second == first
    return second


ENDS = [
    "-c --offload-device-only -o out.o",
    "-c --cuda-device-only",
    "--cuda-device-only -o out.hsaco",
    "-c --offload-device-only --gpu-bundle-output -MD -MF out.d",
    "-c --offload-device-only --no-gpu-bundle-output",
    "-c --offload-device-only --no-gpu-bundle-output --offload-arch=gfx906 -o out.hsaco -MMD",
    "-c --offload-device-only --no-gpu-bundle-output --offload-arch=gfx908:xnack+ --offload-arch=gfx908:xnack-",
    "-S --offload-device-only",
    "-S --offload-device-only --offload-arch=gfx90a -o out.s -MD -g",
    "-S --offload-device-only -emit-llvm",
    "-c --offload-device-only -emit-llvm --offload-arch=gfx906 -o out.bc",
    "-c --offload-host-only -o out.o -MD",
    "-c --cuda-host-only -fgpu-rdc",
    "-S --offload-host-only",
    "-S --offload-host-only -emit-llvm -o out.ll",
    "-S -o out.s",
    "-S -emit-llvm",
    "-c -emit-llvm -o out.bc",
    "-c -fgpu-rdc -o out.o -MD",
    "-c -fgpu-rdc -g -fPIC",
    "-c -fgpu-rdc --offload-device-only",
    "-c --offload-new-driver -MD -o out.o",
    "-c --offload-new-driver -fgpu-rdc -o out.o",
    "-c --offload-new-driver -fgpu-rdc -g --offload-arch=gfx908:xnack+ --offload-arch=gfx906",
    "-c -foffload-lto -o out.o -MD",
    "-c -foffload-lto=thin -o out.o -g",
    "-c -foffload-lto=thin -fgpu-rdc",
    "-c -foffload-lto=full --offload-new-driver -fgpu-rdc",
    "-c -foffload-lto=thin --offload-new-driver -fgpu-rdc",
    "-c -flto -o out.o -MD",
    "-c -flto=thin -foffload-lto -fsplit-lto-unit",
    "-c -flto -ffat-lto-objects -g",
    "-c -flto=thin -fgpu-rdc --offload-new-driver -o out.o",
    "-c -flto --offload-host-only",
    "-S -flto --offload-new-driver",
    "-S --offload-new-driver -MD",
    "-c -emit-llvm --offload-new-driver",
]
