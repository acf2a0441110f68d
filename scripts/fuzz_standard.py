"""The fuzzer's sources that begin with standard headers and use other parts of them each time (`fuzz.py --standard`).

What one source uses must not change what the precompiled preamble makes of it: one source makes the preamble and comes
to trust it, others use it that need other parts of the same headers. (Clang keeps lists of what it has met that a
precompiled header does not hold.) The headers are the real ones; all uses are in `fuzz_standard.txt`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fuzz_case import REAL, Case, numbered, table

BASE = "#define HD __host__ __device__\n#define KERNEL __global__ void\n"
FLAGS = table("""
-Wall | -Wall -Wextra | -Wall -Wextra -Wconversion -Wshadow | -Wunused-member-function -Wunused-template -Wall
-Wweak-vtables -Wglobal-constructors -Wexit-time-destructors | -Wmissing-prototypes | -Wsystem-headers | -pedantic | -w
-Werror | -fPIC | -ffunction-sections -fdata-sections | -fno-inline | -fvisibility=hidden | -fno-exceptions | -fno-rtti
-ffast-math | -fno-math-errno | -fno-threadsafe-statics | -fno-use-cxa-atexit | -fmerge-all-constants | -DNDEBUG
-D_GLIBCXX_ASSERTIONS | -D_GLIBCXX_DEBUG | -D_GLIBCXX_USE_CXX11_ABI=0 | -D_FORTIFY_SOURCE=2 | -U_GNU_SOURCE
-D_FILE_OFFSET_BITS=64 | -DVALUE=1 | -fgpu-default-stream=per-thread | -fno-gpu-allow-device-init
-fstack-protector-all
-fcolor-diagnostics | -fno-delete-null-pointer-checks | -funsigned-char | -fshort-enums | -fwrapv | -fno-builtin
""")
STANDARDS = table("-std=c++14 | -std=c++17 | -std=c++17 | -std=gnu++17 | -std=gnu++14 | -std=c++17 | -std=c++20")
LEVELS = ("-O0", "-O1", "-O2", "-O3", "-O3", "-Os")
# So many that the first one makes a preamble.
SOURCES = ("a.hip", "b.hip", "c.hip", "d.hip", "e.hip", "f.hip", "g.hip")


def _kinds() -> list[tuple[list[str], list[str]]]:
    """The headers of each kind, and the ways in which a source uses them."""
    found = []
    for block in Path(__file__).with_name("fuzz_standard.txt").read_text().strip().split("\n\n"):
        names, *uses = [line for line in block.splitlines() if not line.startswith("//")] or [""]
        if uses:
            found.append((names.split(), [use.strip().replace("@", "\n") for use in uses]))
    return found


KINDS = _kinds()


@dataclass
class Standard(Case):
    """Sources with the same standard headers, which use other parts of them each time."""

    STEPS = (5, 9)
    SAME_STORE = 1.0
    step: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        some = self.random
        self.variables |= {"HIPCACHE_PREAMBLES": "1", "HIPCACHE_PREAMBLE_CHECKS": "1000000"}
        self.flags = [word for _ in range(some.randrange(3)) for word in some.choice(FLAGS)]
        self.standard, self.level = some.choice(STANDARDS), some.choice(LEVELS)
        self.side = some.choice((["--cuda-device-only"], [], []))
        self.source = SOURCES[0]
        chosen = [KINDS[0], *some.sample(KINDS[1:], some.randrange(1, 5))]
        if some.random() < 0.5:
            some.shuffle(chosen)
        quote = some.choice(("<>", "<>", '""'))
        self.head = [f"#include {quote[0]}{some.choice(names)}{quote[1]}" for names, _ in chosen]
        self.uses = [use for _, uses in chosen for use in uses]
        for name in SOURCES:
            self._new_source(name)

    def words(self) -> list[str]:
        options = [*REAL, "-cuid=5eed", *self.standard, self.level, *self.flags, *self.side]
        return [
            self.compiler,
            "--offload-arch=gfx906",
            *options,
            "-MD",
            "-o",
            "out.o",
            "-c",
            str(self.work / self.source),
        ]

    def _edit(self) -> str:
        self.step += 1
        self.source = SOURCES[self.step % len(SOURCES)]
        self._new_source(self.source)
        return f"now {self.source}, with other uses"

    def _new_source(self, name: str) -> None:
        some = self.random
        possible = [use for use in self.uses if not use.startswith("!") or some.random() < 0.1]
        used = some.sample(possible, min(len(possible), some.randrange(1, 6)))
        lines = [numbered(use.lstrip("! "), number) for number, use in enumerate(used, 10 * some.randrange(1, 90))]
        text = "\n".join([*self.head, BASE, *lines, f"int end_of_{name[0]};", ""])
        self._write(name, text)
