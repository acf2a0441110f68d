"""Lays one build out (sources, build directory, build.ninja), runs it, and looks at what came out."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import Times, timed
from scenario import ALONE, NINJA
from tool import Tool
from trouble import BenchError
from workload import Compile, Workload

#: How clang names a code object within the fat binary: hip, hipv4 ... and the target triple before the architecture.
CODE_OBJECT = re.compile(rb"hip[a-z0-9]*-amdgcn-amd-amdhsa-[a-z0-9]*-(gfx[0-9a-z-]+)")


@dataclass(frozen=True)
class Bench:
    """Where the builds happen, and with what."""

    workload: Workload
    compiler: str
    ninja: str
    directory: Path
    cores: int

    def sources(self, form: str) -> tuple[str, ...]:
        """The sources that a form builds."""
        return (self.workload.alone,) if form == ALONE else self.workload.sources

    @property
    def source_dir(self) -> Path:
        """The sources: one directory for all tools."""
        return self.directory / "src"

    def write_sources(self, edit: str) -> None:
        """The sources after the edit of that kind, or as they were. A file that does not change keeps its time."""
        pristine = self.directory / "pristine"
        if not pristine.exists():
            pristine.mkdir(parents=True)
            self.workload.prepare(pristine)
            shutil.copytree(pristine, self.source_dir)
        edits = self.workload.edits.get(edit, ())
        for name in sorted({change.file for changes in self.workload.edits.values() for change in changes}):
            text = (pristine / name).read_text(encoding="utf-8")
            for change in edits:
                if change.file == name:
                    text = change.apply(text)
            target = self.source_dir / name
            if target.read_text(encoding="utf-8") != text:
                target.write_text(text, encoding="utf-8")

    def build(self, tool: Tool, form: str, archs: Sequence[str]) -> Times:
        """Build a form's sources in an empty build directory; only the build itself is timed."""
        directory = self._build_dir(tool)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        compiles = self._compiles(tool, form, archs)
        if form == NINJA:
            (directory / "build.ninja").write_text(ninja_file(compiles), encoding="utf-8")
            argv = [self.ninja, "-j", str(self.cores)]
        else:
            argv = list(compiles[0].argv)
        server_before = tool.server_cpu()
        times = timed(argv, cwd=directory, env=tool.environment(), log=self.directory / f"{tool.name}.log")
        server = tool.server_cpu() - server_before
        return Times(times.wall, times.cpu + server, max(times.others - server, 0.0))

    def inspect(self, tool: Tool, form: str, archs: Sequence[str], edit: str) -> None:
        """Every object is there, for these architectures and no others, and of the sources as they are now."""
        for compile_ in self._compiles(tool, form, archs):
            path = self._build_dir(tool) / compile_.output
            if not path.is_file():
                raise BenchError(f"{tool.title} left no '{compile_.output}'")
            content = path.read_bytes()
            found = {match.decode() for match in CODE_OBJECT.findall(content)}
            if found != set(archs):
                raise BenchError(
                    f"{tool.title}'s '{compile_.output}' holds code for {', '.join(sorted(found)) or 'nothing'}",
                    f"the command asked for {', '.join(sorted(archs))}",
                )
            for kind, changes in self.workload.edits.items():
                for change in changes:
                    stale = change.file == compile_.source and change.marker
                    if stale and (change.marker.encode() in content) != (kind == edit):
                        raise BenchError(
                            f"{tool.title}'s '{compile_.output}' was not made from the source as it is",
                            f"the text '{change.marker}' tells",
                        )

    def _build_dir(self, tool: Tool) -> Path:
        return self.directory / f"build-{tool.name}"

    def _compiles(self, tool: Tool, form: str, archs: Sequence[str]) -> list[Compile]:
        command = (*tool.launcher(), self.compiler)
        return self.workload.compiles(command, self.sources(form), archs, self.source_dir)


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
