"""What is compiled: workloads as data. Another real project becomes a workload by one entry in `WORKLOADS`.

A workload names its sources, its architecture sets, the compile command of a source, and for each kind
of edit the places where the text changes. Nothing here runs anything.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trouble import BenchError

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "scripts"))
from hip_toolchain import chosen, hips_own  # noqa: E402

#: The kinds of edit that scenarios ask for; each workload says what they are in its sources.
HOST, HOST_AGAIN, COMMENT, DEVICE_IF = "host", "host-again", "comment", "device-if"


@dataclass(frozen=True)
class Edit:
    """One change of one file. `find` occurs exactly once; an empty `find` means the end of the file.

    `marker` is text that the object holds after the edit, and not before: it shows that no stale object was served.
    """

    file: str
    find: str
    replace: str
    marker: str = ""

    def apply(self, text: str) -> str:
        """The file's text after the edit."""
        if not self.find:
            return text + self.replace
        if text.count(self.find) != 1:
            raise BenchError(
                f"the edit of '{self.file}' finds '{self.find.strip()}' {text.count(self.find)} times, not once",
                "correct the workload's edits in bench/workload.py",
            )
        return text.replace(self.find, self.replace)


@dataclass(frozen=True)
class Architectures:
    """The sets that scenarios compile for. `edited` is the one whose `#if` an edit changes; it is in `base`."""

    base: tuple[str, ...]
    many: tuple[str, ...]
    added: str
    edited: str


@dataclass(frozen=True)
class Compile:
    """One compile command, as CMake would write it into build.ninja; run in the build directory."""

    source: str
    output: str
    depfile: str
    argv: tuple[str, ...]


def compile_of(command: Sequence[str], archs: Sequence[str], source: Path) -> Compile:
    """`command`: the compiler, a launcher before it and flags behind it included."""
    output = f"{source.name}.o"
    depfile = f"{output}.d"
    targets = [f"--offload-arch={arch}" for arch in archs]
    files = ["-MD", "-MT", output, "-MF", depfile, "-o", output, "-x", "hip", "-c", str(source)]
    return Compile(source.name, output, depfile, (*command, *targets, *files))


def copy_tree(origin: Path) -> Callable[[Path], None]:
    """A `prepare` that copies a folder of sources."""

    def prepare(target: Path) -> None:
        shutil.copytree(origin, target, dirs_exist_ok=True)

    return prepare


@dataclass(frozen=True)
class Workload:
    """A project, or the part of one, that is built by every tool.

    `prepare` fills an empty directory with the sources; `sources` are built together under ninja, in this order
    (the long ones first, as a build tool that knows its business does); `alone` is the one built by itself.
    """

    name: str
    about: str
    prepare: Callable[[Path], None]
    sources: tuple[str, ...]
    alone: str
    archs: Architectures
    flags: tuple[str, ...]
    edits: Mapping[str, tuple[Edit, ...]] = field(default_factory=dict)

    def compiles(
        self, compiler: Sequence[str], sources: Sequence[str], archs: Sequence[str], source_dir: Path
    ) -> list[Compile]:
        """The commands for `sources`. `compiler` is the compiler's command, a launcher before it included."""
        return [compile_of((*compiler, *self.flags), archs, source_dir / name) for name in sources]


#: HIP's own clang, and the flags with which it finds HIP: Debian 12's does not find its device libraries by itself.
COMPILERS = tuple(toolchain.name for toolchain in chosen())
COMPILER = hips_own().name
DEBIAN = hips_own().flags

#: Architectures that Debian's device libraries and rocPRIM both cover.
DEBIAN_ARCHS = Architectures(
    base=("gfx906", "gfx908", "gfx90a", "gfx1030"),
    many=("gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx1010", "gfx1030", "gfx1031"),
    added="gfx1012",
    edited="gfx90a",
)


def _rocprim_edits(files: Sequence[str]) -> dict[str, tuple[Edit, ...]]:
    no_memory = '        return "no device memory";\n'
    words = {HOST: "out of device memory, free some and try again", HOST_AGAIN: "the device has no memory left"}

    def host(more_words: str) -> str:
        return (
            "    {\n"
            '        std::cerr << bytes << " bytes of scratch memory\\n";\n'
            f'        return "{more_words}";\n'
            "    }\n"
        )

    return {
        **{kind: tuple(Edit(one, no_memory, host(said), marker=said) for one in files) for kind, said in words.items()},
        COMMENT: tuple(Edit(file, "", "\n// Measured again: nothing to add.\n") for file in files),
        DEVICE_IF: tuple(Edit(file, "items = 4;", "items = 8;") for file in files),
    }


def _rocprim(name: str, about: str, sources: tuple[str, ...], alone: str) -> Workload:
    return Workload(
        name=name,
        about=about,
        prepare=copy_tree(HERE / "sources"),
        sources=sources,
        alone=alone,
        archs=DEBIAN_ARCHS,
        flags=("-O3", "-std=c++17", *DEBIAN),
        edits=_rocprim_edits(sources),
    )


def _small() -> Workload:
    sources = tuple(sorted(path.name for path in (HERE / "small").glob("*.hip")))
    only_there = "\n#ifdef __gfx90a__\n__device__ __attribute__((used)) int edited() { return 8; }\n#endif\n"
    return Workload(
        name="small",
        about="24 small sources, one to three kernels each; their front ends take most of the time",
        prepare=copy_tree(HERE / "small"),
        sources=sources,
        alone="softmax.hip",
        archs=DEBIAN_ARCHS,
        flags=("-O3", "-std=c++17", *DEBIAN),
        edits={
            HOST: tuple(
                Edit(file, ": as it was", ": edited on the host", marker="edited on the host") for file in sources
            ),
            HOST_AGAIN: tuple(
                Edit(file, ": as it was", ": and once more", marker=": and once more") for file in sources
            ),
            COMMENT: tuple(Edit(file, "", "\n// Measured again: nothing to add.\n") for file in sources),
            DEVICE_IF: tuple(Edit(file, "", only_there) for file in sources),
        },
    )


#: With two cores, the radix sort takes as long as the three others together: both cores are busy to the end.
WORKLOADS = {
    workload.name: workload
    for workload in (
        _rocprim(
            "rocprim",
            "rocPRIM algorithms with a kernel of their own each; one takes some 12 s for 4 architectures",
            ("sort.hip", "merge_sort.hip", "scan.hip", "reduce.hip"),
            "sort.hip",
        ),
        _rocprim(
            "rocprim-light", "the two quickest of 'rocprim', for `--quick`", ("scan.hip", "reduce.hip"), "reduce.hip"
        ),
        _small(),
    )
}
