"""A project that SCons builds with hipcache's tool: Debian's SCons or the newest, HIP's own clang, an empty store.

What was rebuilt is read from SCons' own output, what was compiled from hipcache's statistics.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cmake_project import CHECKOUT, HIP_IN_SHORT, PROGRAMS, hip_source
from hip import COMPILERS, LLVM, know_tools, settle, statistics, write_files

SCONSES = {"debian": Path("/usr/bin/scons"), "newest": PROGRAMS / "scons"}
TOOLS = CHECKOUT / "plugins" / "hipcache_scons"
CLANG = str(LLVM[COMPILERS[0]] / "bin/clang++")
HEADERLIGHT = "-nogpuinc -nogpulib -O2"
# Lines of an SConstruct: a file is old after an instant (see tests/hip.py), not only after two seconds.
QUICK = """\
import functools
import hipcache_scons.cached
hipcache_scons.cached.open_context = functools.partial(hipcache_scons.cached.open_context, racy=0.03)
"""

ENVIRONMENT = f"""\
env = Environment(
    tools=["default", "hipcache"],
    toolpath=["{TOOLS}"],
    HIPCXX="{CLANG}",
    HIP_ARCHS=["gfx906", "gfx90a"],
    HIPFLAGS="{HEADERLIGHT}".split(),
)
"""


@dataclass
class Built:
    """What a run of SCons left behind. `compiled`: names of the objects whose HIP compile was started, in order."""

    status: int
    out: str
    err: str

    @property
    def compiled(self) -> list[str]:
        return re.findall(r"^\S*clang\S* -o (\S+) -c", self.out, re.MULTILINE)

    @property
    def up_to_date(self) -> bool:
        return "is up to date" in self.out and not self.compiled


@dataclass
class Project:
    """A directory with an SConstruct, a store, and a version of SCons."""

    root: Path
    scons: str
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, files: Mapping[str, str]) -> Project:
        write_files(self.root, files)
        # A file that is as young as the compile counts as changed while the compiler ran.
        settle()
        return self

    def construct(self, text: str, environment: str = ENVIRONMENT) -> Project:
        return self.write({"SConstruct": environment + text})

    def command(self, *arguments: str) -> list[str]:
        return [str(SCONSES[self.scons]), "-Q", *arguments]

    def variables(self) -> dict[str, str]:
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("HIPCACHE", "MAKE", "MFLAGS", "SCONS"))}
        settings = {"HIPCACHE_DIR": str(self.root / "store"), "HIPCACHE_RESIDENT": "0"}
        return environ | settings | {"LC_ALL": "C"} | self.environ

    def try_build(self, *arguments: str) -> Built:
        know_tools(self.variables())
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.root,
            env=self.variables(),
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        return Built(done.returncode, done.stdout, done.stderr)

    def build(self, *arguments: str) -> Built:
        built = self.try_build(*arguments)
        assert built.status == 0, built.out + built.err
        return built

    def stats(self) -> dict[str, dict[str, int]]:
        return statistics(self.variables())  # type: ignore[return-value]

    @property
    def outcomes(self) -> dict[str, int]:
        return {name: count for name, count in self.stats()["compiles"].items() if count}


@pytest.fixture(params=list(SCONSES))
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    if not SCONSES[request.param].exists():
        pytest.skip(f"no '{SCONSES[request.param]}'")
    return Project(tmp_path, request.param).write({"hip_in_short.hpp": HIP_IN_SHORT, "one.hip": hip_source("one")})


@pytest.fixture
def newest(tmp_path: Path) -> Project:
    return Project(tmp_path, "newest").write({"hip_in_short.hpp": HIP_IN_SHORT, "one.hip": hip_source("one")})


RUNTIME_AND_MAIN = """\
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*) { return 0; }
extern "C" unsigned __hipPushCallConfiguration(dim3, dim3, unsigned long, void*) { return 1; }
extern "C" unsigned __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, void*) { return 0; }
extern "C" void** __hipRegisterFatBinary(const void*) { static void* handle; return &handle; }
extern "C" void __hipUnregisterFatBinary(void**) {}
extern "C" void __hipRegisterFunction(
    void**, const void*, char*, const char*, unsigned, void*, void*, void*, void*, int*) {}
int one(int*); int two(int*); int four(int*);
int main() { int p[2] = {}; return one(p) + two(p) + four(p); }
"""
