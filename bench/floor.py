"""The floor of warm builds: a program that only copies the finished objects."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tool import Tool
from workload import HERE

FLOOR = "copying"
# As hatch_build.py links the launcher.
SMALL_PROGRAM = ("musl-gcc" if shutil.which("musl-gcc") else "cc", "-static")


class Copying(Tool):
    """The floor: the program knows where the finished object is, and checks nothing."""

    name = FLOOR
    title = "only copying"
    compiler: Sequence[str] = ("cc",)

    def __init__(self, home: Path, env: Mapping[str, str]) -> None:
        super().__init__(home, env)
        self._program = home / "copy"
        subprocess.run([*self.compiler, "-O2", "-o", self._program, HERE / "copy.c"], check=True)

    def launcher(self) -> tuple[str, ...]:
        return (str(self._program), str(self.store))


class CopyingSmall(Copying):
    """The same program, linked as hipcache's launcher is: it starts in a quarter of the time."""

    name = "copying-small"
    title = "only copying, linked as hipcache is"
    compiler = SMALL_PROGRAM
