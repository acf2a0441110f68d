"""The fuzzer's compiles: a source, its headers, and the flags of `fuzz_flags`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import fuzz_labels
from fuzz_case import BARE, FULL_HEADER, LEVELS, REAL, SHORT_HEADER, Case, Difference
from fuzz_flags import ARCHS, CHOICES, ENDS, LEAVING, LINKING, ODD_ARCHS, OUTPUTS, RULES, SEVERAL, SOURCES, VARIABLES
from hip_toolchain import hips_own

BODY = """\
#include "value.h" /* the number */
#ifndef VALUE
#define VALUE 1
#endif
#ifndef TEXT
#define TEXT "none"
#endif
#define STRING(x) #x
#if defined(ONLY_DEVICE) && defined(__HIP_DEVICE_COMPILE__)
#include "device.h"
#endif
#if defined(ONLY_HOST) && !defined(__HIP_DEVICE_COMPILE__)
#include "host.h"
#endif
#ifdef MORE
#include <vector.h>
#endif
#if defined(ASK) && __has_include("asked.h")
#include "asked.h"
#endif
#ifdef TWICE
#include "once.h"
#include "inc/once.h"
#endif
#ifdef WARN
static int never_used() { return 1; }
#warning said so
#endif
#ifdef BROKEN
int broken = ;
#endif
extern "C" __global__ void kernel(float* p, int n) {
#ifdef UNROLL
#pragma unroll 7
#endif
    for (int i = 0; i < n; ++i) p[i] = p[i] * (VALUE) + i; // a loop
}
template <int N> __global__ void more(float* p) { __shared__ float s[N]; s[0] = p[N]; p[1] = s[0]; }
template __global__ void more<VALUE>(float*);
extern "C" int host(int x) { return x + (VALUE) * __LINE__; }
extern "C" const char* text() { return STRING(TEXT); }
"""
NAMES = ("value.h", "device.h", "host.h", "vector.h", "asked.h", "before.h", "once.h")


@dataclass
class Compile(Case):
    """A source, and flags. `programs`: the part of cases that link at once; `labels`: the part of cases with a function
    that is named like an intrinsic."""

    programs: float = 0.1
    labels: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.flags = [self._some_flag() for _ in range(self.random.randrange(5))]
        self.shape = self._some_shape()
        self.archs = self._some_archs()
        self.end = self.random.choice(LINKING) if self.random.random() < self.programs else ["-c"]
        self.level = self.random.choice(LEVELS)
        self.rule = self.random.choice(RULES) if self.random.random() < 0.6 else []
        self.source = self.random.choice(SOURCES)
        self.output = (
            [] if self.source[1] in SEVERAL and self.random.random() < 0.9 else shlex.split(self.random.choice(OUTPUTS))
        )
        self._write_project()

    # The project, and what happens to it

    def _write_project(self) -> None:
        body = BODY + (fuzz_labels.some(self.random) if self.random.random() < self.labels else "")
        head = FULL_HEADER if self.real else SHORT_HEADER
        names = {name for _, name in SOURCES} - {"nowhere.hip", "link.hip", *SEVERAL}
        for name in names:
            self._write(name, head + body)
        self._write("second.hip", head + body.replace("// a loop", "// another one"))
        self._write("inc/value.h", "#pragma once\n// a number\n")
        for name in ("inc/device.h", "inc/host.h", "inc/vector.h", "before.h", "inc/before.h", "inc/once.h", "host.h"):
            self._write(name, f"// {name}\n")
        self._write("value.h", "")
        self._write("device.h", "#define FOR_DEVICE 1\n")
        self._write("once.h", "#pragma once\nstatic const int number = 1;\n")
        self._write("inc2/vector.h", "// of inc2\n")
        self._write("list.txt", "fun:never*\n")
        self._write("response", "-DVALUE=12 '-DTEXT=\"of a file\"'\n")
        self._write("sub.dir/nested", "-DMORE\n")
        self._write("clang.cfg", "-DVALUE=13\n")
        self._write_profile(3)
        for link, target in (
            ("link.hip", "k.hip"),
            ("linked", "inc"),
            ("linked.d", "elsewhere.d"),
            ("linked.o", "k.o"),
        ):
            (self.work / link).symlink_to(target)

    def _write_profile(self, count: int) -> None:
        text = f"host\n# Func Hash:\n24\n# Num Counters:\n1\n# Counter Values:\n{count}\n"
        words = [str(hips_own().root / "bin/llvm-profdata"), "merge", "-o", "data.profdata", "-"]
        subprocess.run(words, cwd=self.work, input=text.encode(), check=True)

    def _profile(self) -> str:
        self.version += 1
        self._write_profile(self.version + 100)
        return "data.profdata is another one"

    def _response(self) -> str:
        self.version += 1
        name, more = self.random.choice([("response", ""), ("response", " @sub.dir/nested"), ("sub.dir/nested", "")])
        self._write(name, f"-DVALUE={self.version + 40}{more}\n")
        return f"{name} says otherwise{more}"

    def _edit(self) -> str:
        edits: list[Callable[[], str]] = [
            *(self._nothing,) * 4,
            *(self._header, self._header, self._comment, self._source_edit, self._remove, self._variable),
            *(
                self._flag,
                self._flag,
                self._arch,
                self._end_otherwise,
                self._touch,
                self._shadow,
                self._relink,
                self._move,
            ),
            *((self._profile,) if any("data.profdata" in word for word in self.words()) else ()),
            *((self._response,) * 4 if "@response" in self.words() else ()),
        ]
        return self.random.choice(edits)()

    def _some_flag(self) -> list[str]:
        return self.random.choice(CHOICES if self.random.random() < 0.93 else LEAVING)

    def _some_shape(self) -> list[str]:
        return self.random.choice(ENDS) if self.random.random() < 0.3 else []

    def _some_archs(self) -> list[str]:
        """Mostly such as go together; an architecture with a feature and without it do not."""
        if self.random.random() < 0.1:
            return self.random.sample(ODD_ARCHS, 2)
        return self.random.sample(ARCHS, self.random.randrange(1, 3))

    def _some_header(self) -> str:
        return self.random.choice(["", "inc/", "inc2/", "sub.dir/"]) + self.random.choice(NAMES)

    def _header(self) -> str:
        name = self._some_header()
        self.version += 1
        self._write(name, f"#ifndef VALUE\n#define VALUE {self.version + 20}\n#endif\n")
        return f"{name} is other text"

    def _comment(self) -> str:
        path = self.work / self.random.choice(["k.hip", "value.h", "inc/value.h", "device.h"])
        if not path.exists():
            return "nothing changed"
        self.version += 1
        path.write_text(re.sub(r"(//|/\*)[^\n*]*", rf"\1 comment {self.version} ", path.read_text()))
        return f"comments of {path.name}"

    def _source_edit(self) -> str:
        path = self.work / "k.hip"
        old, new = self.random.choice([("x +", "x -"), ("p[i] *", "p[n] *"), ("// a loop", "\n"), ("x -", "x +")])
        path.write_text(path.read_text().replace(old, new))
        return f"'{old}' -> '{new}' in k.hip"

    def _remove(self) -> str:
        name = self._some_header()
        (self.work / name).unlink(missing_ok=True)
        return f"{name} is gone"

    def _shadow(self) -> str:
        """The same text under an earlier or later name: a copy or a link."""
        name = self.random.choice(NAMES)
        source, target = self.work / "inc" / name, self.work / self.random.choice(["inc2", ".", "sub.dir"]) / name
        if not source.is_file():
            return "nothing changed"
        target.unlink(missing_ok=True)
        if self.random.random() < 0.5:
            shutil.copy2(source, target)
            return f"{target.name} copied to {target.parent.name}"
        target.symlink_to(source)
        return f"{target.name} linked in {target.parent.name}"

    def _relink(self) -> str:
        link, target = self.work / "linked", self.random.choice(["inc", "inc2", "sub.dir"])
        link.unlink()
        link.symlink_to(target)
        return f"linked -> {target}"

    def _touch(self) -> str:
        (self.work / "k.hip").touch()
        return "k.hip is touched"

    def _variable(self) -> str:
        return self._toggle_variable(VARIABLES)

    def _flag(self) -> str:
        if self.flags and self.random.random() < 0.5:
            return f"without {self.flags.pop(self.random.randrange(len(self.flags)))}"
        self.flags.append(self._some_flag())
        return f"with {self.flags[-1]}"

    def _arch(self) -> str:
        self.archs = self._some_archs()
        return f"archs {self.archs}"

    def _end_otherwise(self) -> str:
        self.shape = self._some_shape()
        return f"ends with {self.shape}"

    # The command

    def words(self) -> list[str]:
        before, source = self.source
        archs = [f"--offload-arch={arch}" for arch in self.archs]
        surroundings = REAL if self.real else BARE
        flags = [word for flag in self.flags for word in flag]
        names = source.split(" ") if source in SEVERAL else [source]
        return [
            *self.compiler.split(),
            *archs,
            *surroundings,
            "-cuid=5eed",
            self.level,
            *flags,
            *self.shape,
            *self.rule,
            *self.output,
            *self.end,
            *before,
            *names,
        ]

    def _same_file(self, name: str, mine: bytes, other: bytes) -> None:
        if mine == other:
            return
        if name.endswith(".d"):
            extra = [_listed(mine) - _listed(other), _listed(other) - _listed(mine)]
            named = ("device.h", "value.h", "vector.h", *(("k.", "second.") if self.source[1] in SEVERAL else ()))
            device = {n for n in extra[0] if not os.path.basename(n).startswith(named)}
            if extra[1] or (device and not self.real):
                raise Difference(f"'{name}' lists too much {sorted(device)}, or lacks {sorted(extra[1])}")
            return
        if any("TIME" in word or "DATE" in word for word in self.words()):
            return
        super()._same_file(name, mine, other)


def _listed(rule: bytes) -> set[str]:
    """The files that a dependency file names, in its own quoting."""
    text = rule.decode("utf-8", "surrogateescape").replace("\\\n", " ")
    words = re.findall(r"(?:\\.|[^\s\\])+", text.partition(": ")[2])
    return {os.path.normpath(word.rstrip(":")) for word in words}
