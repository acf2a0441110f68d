"""A small HIP project of our own under real Meson (Debian's 1.0.1 or the newest), Ninja and clang 15."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cmake_project import CHECKOUT, PROGRAMS
from hip import HIP_IN_SHORT, know_tools, settle, statistics, write_files

SUBPROJECT = CHECKOUT / "meson"
MESONS = {"debian": Path("/usr/bin/meson"), "newest": PROGRAMS / "meson"}
# No hipcache there, nor the newest Meson and CMake.
PLAIN_PATH = "/usr/bin:/bin"
# Without HIP's headers and device libraries a compile takes a tenth of a second.
BARE = "-Dhipcache:hip_flags=-nogpuinc,-nogpulib"

each_meson = pytest.mark.parametrize("meson", MESONS)


@dataclass
class Project:
    """A Meson project in `root`, which has the subproject as a link, with real commands around it."""

    root: Path
    meson: str
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def build_dir(self) -> Path:
        return self.root / "build"

    def write(self, files: Mapping[str, str]) -> Project:
        write_files(self.root, files)
        link = self.root / "subprojects" / "hipcache"
        if not link.exists():
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(SUBPROJECT)
        return self

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        # No setting of the machine reaches a test, and no test another's store.
        foreign = ("HIPCACHE", "HIP", "ROCM", "MESON", "NINJA", "CXX", "CC", "CMAKE", "CPPFLAGS", "CFLAGS", "LDFLAGS")
        environ = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        environ |= {"PATH": f"{PROGRAMS}:{PLAIN_PATH}", "LC_ALL": "C.UTF-8"}
        environ |= {"HIPCACHE_DIR": str(self.root / "store"), "HIPCACHE_RESIDENT": "0"}
        environ |= self.environ
        know_tools(environ)
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.root,
            env=environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    def try_setup(self, *options: str | Path) -> tuple[int, str]:
        again = ["--reconfigure"] if (self.build_dir / "build.ninja").exists() else []
        done = self.run(MESONS[self.meson], "setup", self.build_dir, *again, *options)
        return done.returncode, done.stdout

    def setup(self, *options: str | Path) -> str:
        status, text = self.try_setup(*options)
        assert status == 0, text
        return text

    def setup_fails(self, *options: str | Path) -> str:
        """What it says, in one line."""
        status, text = self.try_setup(*options)
        assert status != 0, text
        return " ".join(text.partition("ERROR:")[2].split())

    def ninja(self, *words: str) -> str:
        done = self.run(PROGRAMS / "ninja", "-C", self.build_dir, *words)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def built(self) -> set[str]:
        """Build, and say which HIP objects were made."""
        settle()
        return set(re.findall(r"'\S+?\.p/(\S+\.hip)\.o'", self.ninja()))

    def commands(self) -> list[list[str]]:
        """The commands that make HIP objects."""
        lines = self.ninja("-t", "commands").splitlines()
        return [line.split() for line in lines if " -x hip " in line]

    def units(self) -> dict[str, tuple[int, int]]:
        """For the host and each architecture: how many units were served, and how many compiled."""
        document = self.stats()
        tallies = {name: (tally["hits"], tally["misses"]) for name, tally in document["units"].items()}
        return {name: tally for name, tally in tallies.items() if any(tally)}

    def stats(self) -> dict[str, dict[str, dict[str, int]]]:
        return statistics({**os.environ, "HIPCACHE_DIR": str(self.root / "store"), **self.environ})  # type: ignore[return-value]


def source(name: str, before: str = "") -> str:
    return f"""\
#include "hip_in_short.hpp"
{before}
#ifndef ADDED
#define ADDED 0
#endif
__global__ void {name}_kernel(int* p) {{ p[0] = p[1] * {len(name)} + ADDED; }}
extern "C" int {name}(int* p)
{{
    {name}_kernel<<<1, 1>>>(p);
    return {len(name)};
}}
"""


HEAD = """\
project('simple', 'cpp')
hip = subproject('hipcache', default_options: ['hip_architectures=gfx906,gfx90a'])
hip_object = hip.get_variable('hip_object')
hip_dep = hip.get_variable('hip_dep')
"""
LIBRARY = "static_library('kernels', hip_object.process('one.hip', 'two.hip'))\n"
OPTION = "option('hip_cache', type: 'boolean', value: true)\n"


def simple(text: str = LIBRARY, head: str = HEAD) -> dict[str, str]:
    return {
        "meson.build": head + text,
        "meson_options.txt": OPTION,
        "hip_in_short.hpp": HIP_IN_SHORT,
        "one.hip": source("one"),
        "two.hip": source("two"),
    }
