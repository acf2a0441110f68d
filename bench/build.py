"""Lays one build out (sources, build directory, build.ninja), runs it, and compares what came out."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from measure import Times, timed
from rows import ALL, SMALLEST, Row
from tool import Tool
from workload import HEADER, SHARED_HEADER, Architectures, Compile, Workload, edited

#: A row's objects by name.
Objects = dict[str, bytes]


@dataclass
class Bench:
    """The builds of a workload below `directory`: a project in each of its places, made from `pristine`."""

    workload: Workload
    archs: Architectures
    compiler: str
    ninja: str
    directory: Path
    cores: int
    base_dir: bool = False
    _texts: dict[str, bytes] = field(default_factory=dict)

    def prepare(self) -> None:
        """The project in its first place."""
        pristine = self.directory / "pristine"
        if not pristine.exists():
            self.workload.prepare(self.directory / "project")
            shutil.copytree(self.directory / "project", pristine)
            names = [*self.workload.sources, *([SHARED_HEADER] if (pristine / SHARED_HEADER).exists() else [])]
            self._texts = {name: (pristine / name).read_bytes() for name in names}

    def sources(self, which: str) -> tuple[str, ...]:
        """All sources, or the smallest, or that of the middle size."""
        if which == ALL:
            return self.workload.sources
        by_size = sorted(self.workload.sources, key=lambda name: (len(self._texts[name]), name))
        return (by_size[0 if which == SMALLEST else len(by_size) // 2],)

    def write_sources(self, row: Row) -> None:
        """The row's project, edited. A file that does not change keeps its time, except in a fresh clone."""
        root = self.directory / row.place
        if row.renewed:
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(self.directory / "pristine", root, copy_function=shutil.copyfile)
        for name, before in self._texts.items():
            text = before.decode("utf-8", "surrogateescape")
            if name != SHARED_HEADER:
                text = edited(text, row.edit)
            elif row.edit == HEADER:
                text = text.replace("\n", "\n// a comment line that was not here before\n", 1)
            after = text.encode("utf-8", "surrogateescape")
            if (root / name).read_bytes() != after:
                (root / name).write_bytes(after)

    def bases(self, row: Row) -> tuple[Path, ...]:
        """The places of the project, that of the row first, if tools are told of base directories."""
        places = sorted(("project", "clone"), key=lambda place: place != row.place)
        return tuple(self.directory / place for place in places) if row.base_dir or self.base_dir else ()

    def build(self, tool: Tool, row: Row, only: Sequence[str] = (), *, empty: bool = True) -> Times:
        """Build the row's sources, or `only` these outputs, in a build directory that is `empty` or left as it is; only
        the build itself is timed."""
        directory = self._build_directory(tool, row)
        if empty:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            (directory / "build.ninja").write_text(ninja_file(self.compiles(tool, row)), encoding="utf-8")
        server_before = tool.server_cpu()
        argv = [self.ninja, "-j", str(self.cores), *only]
        times = timed(argv, cwd=directory, env=tool.environment(), log=self.directory / f"{tool.name}.log")
        server = tool.server_cpu() - server_before
        return Times(times.wall, times.cpu + server, max(times.others - server, 0.0))

    def objects(self, tool: Tool, row: Row) -> Objects:
        """What the last build left."""
        directory = self._build_directory(tool, row)
        return {one.output: (directory / one.output).read_bytes() for one in self.compiles(tool, row)}

    def differing(self, plain: Tool, row: Row, mine: Mapping[str, bytes], truth: Mapping[str, bytes]) -> dict[str, str]:
        """Objects that are not plain clang's, and whether plain clang's second try is its first one."""
        names = [name for name, content in mine.items() if truth[name] != content]
        if not names:
            return {}
        self.build(plain, row, names)
        directory = self._build_directory(plain, row)
        steady = {name: (directory / name).read_bytes() == truth[name] for name in names}
        return {name: "differs" if steady[name] else "plain clang differs from itself" for name in names}

    def compiles(self, tool: Tool, row: Row) -> list[Compile]:
        """The row's commands."""
        command = (*tool.launcher(), self.compiler, f"-DGIT_SHA={row.version}")
        archs, root = self.archs.of(row.archs), self.directory / row.place
        return [self.workload.compile(command, source, archs, root) for source in self.sources(row.sources)]

    def _build_directory(self, tool: Tool, row: Row) -> Path:
        return self.directory / row.place / f"build-{tool.name}"


def ninja_file(compiles: Sequence[Compile]) -> str:
    """A build.ninja with the dependency files read as CMake's generator has it."""
    lines = [
        "ninja_required_version = 1.5",
        "rule hip",
        "  command = $argv",
        "  depfile = $out.d",
        "  deps = gcc",
        "  description = HIP $out",
    ]
    for compile_ in compiles:
        lines += [
            f"build {_path(compile_.output)}: hip {_path(compile_.argv[-1])}",
            f"  argv = {_value(shlex.join(compile_.argv))}",
        ]
        if compile_.depfile != f"{compile_.output}.d":
            lines.append(f"  depfile = {_value(compile_.depfile)}")
    outputs = " ".join(_path(compile_.output) for compile_ in compiles)
    return "\n".join([*lines, f"default {outputs}", ""])


def _value(text: str) -> str:
    return text.replace("$", "$$")


def _path(text: str) -> str:
    return _value(text).replace(" ", "$ ").replace(":", "$:")
