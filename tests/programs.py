"""What the tests of links share: two objects with relocatable device code, and their links by clang and hipcache."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hip import ARCHS, HIT, LLVM, PASSED_THROUGH, Counted, Lab, toolchain

ONE = """\
#include "hip_in_short.hpp"
__device__ int twice(int a);
static __device__ int counter = 3;
void* address() {{ return (void*)&counter; }}
extern "C" __global__ void kernel(int* p) {{ p[0] = twice(p[1]) + counter + DEVICE; }}
int host() {{ return {host}; }}
"""
TWO = """\
#include "hip_in_short.hpp"
#ifdef __gfx90a__
#define FACTOR {gfx90a}
#else
#define FACTOR 2
#endif
static __device__ int counter = 4;
void* other_address() {{ return (void*)&counter; }}
__device__ int twice(int a) {{ return a * FACTOR + counter; }}
"""
MAIN = "int host(); void* other_address(); int main() { return host() + !other_address(); }\n"
RUNTIME = """\
extern "C" {
int hipLaunchKernel() { return 0; }
int __hipPushCallConfiguration() { return 0; }
int __hipPopCallConfiguration() { return 0; }
void* __hipRegisterFatBinary() { return nullptr; }
void __hipRegisterFunction() {}
void __hipRegisterVar() {}
void __hipRegisterManagedVar() {}
void __hipRegisterSurface() {}
void __hipRegisterTexture() {}
void __hipUnregisterFatBinary() {}
}
"""
ALL = frozenset(["gfx906", "gfx90a", "link"])


def linking_toolchain(root: Path, version: str) -> Path:
    """A clang of its own that links relocatable device code. The driver's path."""
    compiler = toolchain(root, version)
    origin = LLVM[version] / "bin"
    (root / "bin" / "llvm-mc").symlink_to(origin / "llvm-mc")
    return compiler


@dataclass(frozen=True)
class Program:
    """Two objects with device code that need each other, a third without, and what stands for the runtime. `flags` and
    `archs`: for compiles and links; `launcher`: that of comparisons where there is none."""

    lab: Lab
    flags: tuple[str, ...] = ()
    archs: tuple[str, ...] = ARCHS
    launcher: tuple[str, ...] = ()

    def build(self) -> None:
        lab = self.lab
        lab.write("main.cpp", MAIN)
        lab.write("runtime.cpp", RUNTIME)
        for name in ("main", "runtime"):
            assert lab.run([lab.compiler, "-c", f"{name}.cpp", "-o", f"{name}.o"]).status == 0
        assert lab.run(["ar", "rc", "libruntime.a", "runtime.o"]).status == 0
        self.one()
        self.two()

    def one(self, host: str = "0", *flags: str) -> None:
        self._compile("one", ONE.format(host=host), "-DDEVICE=1", *flags)

    def two(self, gfx90a: str = "2", *flags: str) -> None:
        self._compile("two", TWO.format(gfx90a=gfx90a), *flags)

    def _compile(self, name: str, text: str, *flags: str) -> None:
        self.lab.write(f"{name}.hip", text)
        cuid = f"-cuid={name}"
        words = [
            self.lab.compiler,
            *self.archs,
            "-nogpuinc",
            "-nogpulib",
            "-O2",
            cuid,
            "-fgpu-rdc",
            *self.flags,
            *flags,
        ]
        ended = self.lab.run([*words, "-c", f"{name}.hip", "-o", f"{name}.o"])
        assert ended.status == 0, ended.err

    def words(self, *more: str) -> list[str]:
        objects = () if any(word.endswith((".o", ".rsp")) for word in more) else ("one.o", "two.o", "main.o")
        output = () if "-o" in more else ("-o", "program")
        libraries = ("-no-hip-rt", "-L.", "-lruntime", "-Wl,-z,noexecstack")
        return [
            self.lab.compiler,
            *self.archs,
            "--hip-link",
            "-fgpu-rdc",
            *self.flags,
            *objects,
            *more,
            *libraries,
            *output,
        ]

    def link(self, *more: str, output: str = "program") -> tuple[bytes, Counted]:
        """Plain clang's link, then hipcache's: they leave the same."""
        words, made = self.words(*more), self.lab.root / output

        def run(*launcher: str) -> tuple[int, bytes, bytes, bytes, int]:
            made.unlink(missing_ok=True)
            ended = self.lab.run([*launcher, *words])
            content = (made.read_bytes(), made.stat().st_mode) if made.exists() else (b"", 0)
            # Names of temporary files differ in every run of clang.
            return ended.status, ended.out, re.sub(rb"-[0-9a-f]{6}\b", b"-", ended.err), *content

        made.unlink(missing_ok=True)
        plain, cached = self.lab.by_both(run, words, without=(made,), launcher=self.launcher)
        assert cached[2].decode() == plain[2].decode()
        assert cached == plain, "the program is not plain clang's"
        return cached[3], self.lab.counted()

    def warm(self, *more: str) -> bytes:
        first, counted = self.link(*more)
        assert first
        assert counted.missed, counted
        second, counted = self.link(*more)
        assert counted.outcome == HIT, self.lab.hipcache("explain").out.decode()
        assert second == first
        return first


def pack(lab: Lab, *objects: str, library: str = "libtwo.a") -> None:
    (lab.root / library).unlink(missing_ok=True)
    assert lab.run(["ar", "rc", library, *objects]).status == 0


def left(program: Program, *more: str) -> str:
    """The reason why this link is left to the compiler."""
    _, counted = program.link(*more)
    assert counted.outcome == PASSED_THROUGH
    return counted.reason
