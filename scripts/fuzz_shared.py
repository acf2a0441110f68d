"""The fuzzer's sources for several GPUs that are alike, whose front ends are shared (`fuzz.py --shared`).

The archs are some of a group with the same features, and maybe others. Sources have uses of the real headers
(`fuzz_standard.txt`) and lines that tell one GPU from another: conditions, pragmas, numbers and names of GPUs. Most
steps compile another text, so that pairs that were compared for one source serve the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuzz_case import REAL, Case, numbered, table
from fuzz_standard import BASE, FLAGS, KINDS, LEVELS

GROUPS = (
    ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    ("gfx900", "gfx902", "gfx909", "gfx90c"),
    ("gfx1010", "gfx1011", "gfx1012", "gfx1013"),
    ("gfx906", "gfx908", "gfx90a", "gfx904", "gfx90a:xnack+", "gfx90a:xnack-"),
)
# Options that a front end, a back end or neither looks at.
MORE = table("""
-munsafe-fp-atomics | -mwavefrontsize64 | -mcumode | -mcode-object-version=4 | -g | -fgpu-rdc | -Xarch_device -O1
-Xarch_device -DGPU=1 | -mllvm -amdgpu-early-inline-all=true | -fgpu-flush-denormals-to-zero
-fgpu-approx-transcendentals
--gpu-max-threads-per-block=256 | -foffload-lto | -fno-gpu-rdc | -Xclang -disable-O0-optnone | -ffp-contract=fast
""")
LINES = """\
#ifdef __GPU__@__device__ int only_# = #;@#endif
#ifdef __GPU__@KERNEL only_#(int* p) { p[0] = #; }@#endif
#ifdef __GPU__@#pragma clang fp contract(off)@#endif
#ifdef __GPU__@#pragma clang optimize off@#endif
#ifdef __GPU__@#warning here@#endif
#ifdef __GPU__@!int wrong_#(;@#endif
#if defined(__GPU__) || defined(__OTHER__)@__device__ int both_# = #;@#endif
#ifdef __GPU__@#define SAME_# #@#else@#define SAME_# #@#endif@__device__ int same_# = SAME_#;
KERNEL number_#(int* p) { p[0] = NUMBER; }
__device__ int number_# = NUMBER;
__device__ const char name_#[] = "target-cpu\\0GPU";
__device__ const char which_#[] = __amdgcn_processor__;
__device__ __attribute__((annotate("GPU"))) int noted_#;
KERNEL line_#(int* p) { p[0] = __LINE__ + __COUNTER__; }
KERNEL exp_#(float* p) { p[0] = expf(p[1]) + logf(p[2]); }
KERNEL pow_#(double* p) { p[0] = pow(p[1], p[2]) + NUMBER; }
struct Shape_# { __device__ virtual int f() { return #; } };@KERNEL shape_#(int* p) { Shape_# s; p[0] = s.f(); }
KERNEL waves_#(int* p) { p[0] = warpSize + __builtin_amdgcn_wavefrontsize(); }
KERNEL asm_#(int* p) { int x; asm volatile("v_mov_b32 %0, #" : "=v"(x)); p[0] = x; }
__device__ auto lambda_# = [](int x) { return x + #; };@KERNEL call_#(int* p) { p[0] = lambda_#(p[1]); }
"""


@dataclass
class Shared(Case):
    """Sources for GPUs that are alike."""

    STEPS = (4, 8)
    SAME_STORE = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        some = self.random
        self.variables |= {"HIPCACHE_JOBS": "1", "HIPCACHE_PREAMBLE_CHECKS": some.choice(("3", "1000000", "1000000"))}
        self.variables |= {"HIPCACHE_PREAMBLES": some.choice("01"), "HIPCACHE_SHARED_FRONT_ENDS": "1"}
        group = some.choice(GROUPS)
        self.archs = some.sample(group, some.randrange(2, min(4, len(group)) + 1))
        self.archs += some.sample(some.choice(GROUPS), 1) if some.random() < 0.3 else []
        self.archs = [*dict.fromkeys(self.archs)]
        if any(":" in arch for arch in self.archs):  # with a feature or without: clang takes one kind of target ID
            self.archs = [arch for arch in self.archs if arch != "gfx90a"]
        self.flags = [word for _ in range(some.randrange(2)) for word in some.choice(FLAGS)]
        self.flags += some.choice(MORE) if some.random() < 0.3 else []
        self.level = some.choice(LEVELS)
        self._write("own.hpp", "#pragma once\n#define OWN 1\n")
        self._edit()

    def words(self) -> list[str]:
        archs = [f"--offload-arch={arch}" for arch in self.archs]
        options = [*archs, *REAL, "-cuid=5eed", self.level, *self.flags]
        return [self.compiler, *options, "-MD", "-o", "out.o", "-c", "a.hip"]

    def _edit(self) -> str:
        some = self.random
        chance = some.random()
        if chance < 0.1:
            some.shuffle(self.archs)
            return "other order of GPUs"
        if chance < 0.2:
            self._write("own.hpp", f"#pragma once\n#define OWN {some.randrange(99)}\n")
            return "another header"
        if chance < 0.25:
            return self._nothing()
        uses = [use for _, uses in (KINDS[0], some.choice(KINDS[1:])) for use in uses if not use.startswith("!")]
        lines = some.sample(uses, some.randrange(1, 3)) + some.sample(LINES.splitlines(), some.randrange(5))
        lines = [line for line in lines if "!" not in line or some.random() < 0.2]
        names = [name for names, uses in KINDS if any(line in uses for line in lines) for name in names]
        text = "".join(f"#include <{name}>\n" for name in dict.fromkeys(["hip/hip_runtime.h", *names]))
        text += '#include "own.hpp"\n' + BASE
        for number, line in enumerate(lines, 10 * some.randrange(1, 90)):
            text += self._named(numbered(line.replace("@", "\n").replace("\n!", "\n"), number)) + "\n"
        self._write("a.hip", text + "int own = OWN;\n")
        return "another text"

    def _named(self, line: str) -> str:
        """With the names and numbers of GPUs of this command."""
        some = self.random
        gpus = [some.choice(self.archs).partition(":")[0] for _ in range(2)]
        digits = gpus[0][3:]
        number = int(digits[:-2]) * 1000 + int(digits[-2], 16) * 100 + int(digits[-1], 16)
        return line.replace("GPU", gpus[0]).replace("OTHER", gpus[1]).replace("NUMBER", str(number))
