"""The fuzzer's sources that use headers with many kinds of declarations (`fuzz.py --declarations`).

Which of a header's declarations a source uses must not change what a precompiled preamble makes of it: one source makes
the preamble and comes to trust it, others use it that need other parts of the same headers. (Clang keeps lists of what
it has met that a precompiled header does not hold.) All kinds are in `fuzz_declared.txt`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fuzz_case import BARE, Case, numbered, table

BASE = """\
#pragma once
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __launch_bounds__(n) __attribute__((launch_bounds(n)))
#define HD __host__ __device__
#define KERNEL __global__ void
struct dim3 {
    unsigned x, y, z;
    HD constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
typedef struct ihipStream_t* hipStream_t;
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, hipStream_t);
extern "C" int __hipPushCallConfiguration(dim3, dim3, unsigned long = 0, hipStream_t = nullptr);
extern "C" int __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, hipStream_t*);
template <class T> int copy_to(const T& symbol, const void* from) { return *(const char*)&symbol + *(const char*)from; }
extern "C" int host_value(int);
"""
FLAGS = table("""
-Wall | -Wall -Wextra | -Wall -Wextra -Wconversion -Wshadow | -Wunused-member-function -Wunused-template -Wall
-Wundefined-inline -Wundefined-internal -Wall | -Wweak-vtables -Wglobal-constructors -Wexit-time-destructors
-Wunneeded-internal-declaration -Wunneeded-member-function -Wmissing-noreturn | -Wmissing-variable-declarations -Wall
-Woverloaded-virtual -Wnon-virtual-dtor -Wunused-const-variable | -Wmissing-prototypes | -w | -fPIC | -fPIE
-ffunction-sections -fdata-sections | -fno-inline | -fvisibility=hidden | -fgpu-rdc | -fno-exceptions | -ffast-math
-fno-threadsafe-statics | -fno-rtti | -fno-common | -fno-use-cxa-atexit | -fstrict-vtable-pointers
-fmerge-all-constants | -fkeep-static-consts | -fno-gpu-allow-device-init | -fhip-new-launch-api
-fno-delete-null-pointer-checks | -fno-stack-protector
""")
LEVELS = ("-O1", "-O2", "-O3", "-O3", "-Os")
HEADERS = ("one.h", "two.h", "three.h")
SOURCES = ("a.hip", "b.hip", "c.hip")
Kind = tuple[str, list[str]]


def _kinds() -> tuple[list[Kind], list[Kind]]:
    """All that may stand together, and those of which a project may have one: the lines of a header, and the ways in
    which a source uses them."""
    several, single = list[Kind](), list[Kind]()
    text = Path(__file__).with_name("fuzz_declared.txt").read_text()
    for block in text.strip().split("\n\n"):
        if block.startswith("//"):
            continue
        lines = block.removeprefix("! ").splitlines()
        header = "\n".join(line for line in lines if not line.startswith("    "))
        uses = [line.strip().replace("@", "\n") for line in lines if line.startswith("    ")]
        (single if block.startswith("! ") else several).append((header, uses))
    return several, single


SEVERAL, SINGLE = _kinds()


@dataclass
class Declarations(Case):
    """Sources with the same headers, which use other parts of them each time."""

    STEPS = (8, 16)
    SAME_STORE = 1.0
    step: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        some = self.random
        self.variables |= {"HIPCACHE_PREAMBLES": "all", "HIPCACHE_PREAMBLE_CHECKS": "1000000"}
        self.flags = [word for _ in range(some.randrange(3)) for word in some.choice(FLAGS)]
        self.level = some.choice(LEVELS)
        self.side = some.choice((["--cuda-host-only"], ["--cuda-device-only"], [], []))
        self.search = some.choice(("-I", "-I", "-I", "-isystem"))
        self.source = SOURCES[0]
        self.uses: list[str] = []
        self._new_headers()

    def words(self) -> list[str]:
        options = [*BARE, "-cuid=5eed", "-std=c++17", self.level, self.search, f"{self.work}/lead"]
        options += [*self.flags, *self.side]
        return [self.compiler, "--offload-arch=gfx906", *options, "-MD", "-o", "out.o", "-c", self.source]

    def _edit(self) -> str:
        self.step += 1
        if self.step % len(SOURCES) == 0 and self.random.random() < 0.1:
            return self._new_headers()
        self.source = SOURCES[self.step % len(SOURCES)]
        self._new_source(self.source)
        return f"now {self.source}, with other uses"

    def _new_headers(self) -> str:
        some = self.random
        kinds = some.sample(SEVERAL, some.choice((0, 1, 1, 2, 3, 4, 6, 8)))
        kinds += some.sample(SINGLE, some.randrange(2))
        some.shuffle(kinds)
        texts = dict.fromkeys(HEADERS, "#pragma once\n")
        self.uses = []
        for number, (header, uses) in enumerate(kinds, some.randrange(1, 50)):
            texts[some.choice(HEADERS)] += numbered(header, number) + "\n"
            self.uses += [numbered(use, number) for use in uses]
        self._write("lead/base.h", BASE)
        for name, text in texts.items():
            self._write(f"lead/{name}", text)
        for name in SOURCES:
            self._new_source(name)
        return "other headers"

    def _new_source(self, name: str) -> None:
        used = [use for use in self.uses if self.random.random() < 0.5]
        self.random.shuffle(used)
        lines = [f"#include <{header}>" for header in ("base.h", *HEADERS)]
        self._write(name, "\n".join([*lines, *used, f"int end_of_{name[0]};", ""]))
