"""What is compiled: workloads as values. `programs.py` makes the one that others wrote.

A workload names its sources, flags and the places of its files; the edits fit any source. Nothing here runs anything.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "scripts"))
from hip_toolchain import chosen, hips_own  # noqa: E402

#: The kinds of edit. A host edit may have a number behind it: each number is another edit.
HOST, COMMENT, HEADER, DEVICE_IF = "host", "comment", "header", "device-if"

#: A header of the benchmark's own, which all sources of a workload may include, and that `HEADER` edits.
SHARED_HEADER = "shared_by_all.h"
SHARED_TEXT = "#pragma once\ninline int shared_by_all() { return 1; }\n"

_MAIN = re.compile(r"^[ \t]*(?:int|auto|void)\s+main\s*\([^;{}]*\)\s*\{", re.MULTILINE)


def edited(text: str, kind: str) -> str:
    """A source's text after the edit.

    host*: a statement in `main`, or a function of the host at the end where there is no `main`; comment: a comment
    line before the first line of code; device-if: a device function for gfx90a alone, at the end.
    """
    if kind.startswith(HOST):
        main = _MAIN.search(text)
        if main is None:
            return f'{text}\nconst char *edited_by_bench() {{ return "{kind}"; }}\n'
        statement = f'\n  const char *volatile edited_by_bench = "{kind}";\n  (void)edited_by_bench;\n'
        return f"{text[: main.end()]}{statement}{text[main.end() :]}"
    if kind == COMMENT:
        return f"// a comment line that was not here before\n{text}"
    if kind == DEVICE_IF:
        function = "__attribute__((device, used)) int edited_by_bench() { return 8; }"
        return f"{text}\n#ifdef __gfx90a__\n{function}\n#endif\n"
    return text


@dataclass(frozen=True)
class Architectures:
    """The sets that rows compile for."""

    base: tuple[str, ...]
    many: tuple[str, ...]
    added: str

    def of(self, name: str) -> tuple[str, ...]:
        """`base`, `more` (one added), `few` (two of them), `many`."""
        sets = {"base": self.base, "more": (*self.base, self.added), "few": self.base[:2], "many": self.many}
        return sets[name]


@dataclass(frozen=True)
class Compile:
    """One compile command, as CMake would write it into build.ninja; run in the build directory."""

    source: str
    output: str
    depfile: str
    argv: tuple[str, ...]


def compile_of(command: Sequence[str], archs: Sequence[str], source: Path, name: str = "") -> Compile:
    """`command`: the compiler, a launcher before it and flags behind it included; `name`: the object's, without .o."""
    output = f"{name or source.name}.o"
    depfile = f"{output}.d"
    targets = [f"--offload-arch={arch}" for arch in archs]
    files = ["-MD", "-MT", output, "-MF", depfile, "-o", output, "-x", "hip", "-c", str(source)]
    return Compile(source.name, output, depfile, (*command, *targets, *files))


def flat(source: str) -> str:
    """A source's path as the name of one file."""
    return source.replace("/", "_")


def copy_tree(origin: Path) -> Callable[[Path], None]:
    """A `prepare` that copies a folder of sources."""

    def prepare(target: Path) -> None:
        shutil.copytree(origin, target, dirs_exist_ok=True)

    return prepare


@dataclass(frozen=True)
class Workload:
    """A project, or the part of one, that is built by every tool.

    `prepare` fills a directory with the files; `sources` are paths in it, built together under ninja in this order (the
    long ones first, as a build tool that knows its business does). `own`: more flags of a source; directories behind
    -I are paths in the project.
    """

    name: str
    prepare: Callable[[Path], None]
    sources: tuple[str, ...]
    flags: tuple[str, ...]
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def compile(self, command: Sequence[str], source: str, archs: Sequence[str], root: Path) -> Compile:
        """The command for a source. All tools get one CUID: only then their objects can be compared."""
        cuid = hashlib.sha256(source.encode()).hexdigest()[:16]
        own = [f"-I{root / word[2:]}" if word.startswith("-I") else word for word in self.own.get(source, ())]
        words = (*command, *self.flags, *own, f"-cuid={cuid}")
        return compile_of(words, archs, root / source, flat(source))


#: HIP's own clang, and the flags with which it finds HIP: Debian 12's does not find its device libraries by itself.
COMPILERS = tuple(toolchain.name for toolchain in chosen())
COMPILER = hips_own().name
DEBIAN = hips_own().flags

#: Architectures that Debian's device libraries and rocPRIM both cover.
DEBIAN_ARCHS = Architectures(
    base=("gfx906", "gfx908", "gfx90a", "gfx1030"),
    many=("gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx1010", "gfx1030", "gfx1031"),
    added="gfx1012",
)


def rocprim(flags: Sequence[str] = ("-O3", "-std=c++17", *DEBIAN)) -> Workload:
    """rocPRIM algorithms with a kernel of their own each; one takes some 12 s for 4 architectures.

    With two cores, the radix sort takes as long as the three others together: both cores are busy to the end.
    """
    sources = ("sort.hip", "merge_sort.hip", "scan.hip", "reduce.hip")
    return Workload("rocprim", copy_tree(HERE / "sources"), sources, tuple(flags))
