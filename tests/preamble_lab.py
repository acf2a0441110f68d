"""A lab whose compiles may use precompiled preambles."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

import pytest
from hip import Compiled, Lab, settle
from hipcache import config
from hipcache.engine.opening import open_engine
from hipcache.execution import preamble_values
from hipcache.loop.front import make
from hipcache.planning import command
from hipcache.processes.runner import SubprocessRunner, Traced
from hipcache.values import replace
from kernels import HIP_IN_SHORT

# One device and the host.
BOTH = 2
NEVER_CHECKED = "999999999"
# Also where tests call the engine in their own process (see `launchers`).
preamble_values.FIRST = 1


@pytest.fixture
def prelab(lab: Lab) -> Lab:
    """A lab whose front ends may use preambles, none of which is checked by chance. What the tests count are the passes
    of one architecture and the host's, in a full run too."""
    lab.archs = lab.archs[:1]
    lab.environ |= {"HIPCACHE_PREAMBLES": "1", "HIPCACHE_PREAMBLE_CHECKS": NEVER_CHECKED}
    lab.write("own/hip/hip_runtime.h", "")
    lab.write("own/hip/in_short.hpp", HIP_IN_SHORT)
    lab.write("own/hip/value.hpp", "#pragma once\n#define VALUE 3\ninline int twice(int x) { return 2 * x; }\n")
    return lab


def source(lab: Lab, number: int, head: str = "", body: str = "") -> str:
    name = f"s{number}.hip"
    text = f"// {number}\n#include <hip/in_short.hpp>\n#include <hip/value.hpp> // values\n{head}"
    text += f'extern "C" __global__ void k(int* p) {{ p[0] = VALUE * {number} + __LINE__; }}\n'
    text += f'extern "C" int host() {{ return twice(VALUE) + {number}; }}\n{body}'
    lab.write(name, text)
    return name


def add_to_header(lab: Lab, text: str) -> None:
    header = lab.root / "own/hip/value.hpp"
    header.write_text(header.read_text() + text)


def words(lab: Lab) -> list[str]:
    """Those of a search path: `own` is a system directory with a HIP of its own, whose headers are standard ones."""
    users = [f"-I{lab.root}/{place}" for place in ("first", "inc", ".")]
    return [*users, "-Xclang", "-internal-isystem", "-Xclang", f"{lab.root}/own", "-MD"]


def build(lab: Lab, number: int, *flags: str, head: str = "", body: str = "") -> Compiled:
    done = lab.compile(*words(lab), *flags, source=source(lab, number, head, body))
    assert done.dependencies == done.plain_dependencies
    return done


def counts(lab: Lab) -> dict[str, int]:
    told = lab.stats()
    found = told["preambles"]
    assert isinstance(found, dict)
    print("without a preamble:", told["without_preamble"])  # for who reads of a failure
    return found


def prepare(lab: Lab, *flags: str, head: str = "", body: str = "") -> None:
    """After that there is a preamble for the device and for the host. (It takes two sources; where something else on
    the machine touches a directory above meanwhile, nothing is kept, and it takes some more, or another store.)"""
    for _ in range(3):
        for number in range(91, 98):
            build(lab, number, *flags, head=head, body=body)
            if number > 91 and counts(lab)["made"] >= BOTH:
                break
        if counts(lab) == {"used": 0, "made": BOTH, "checked": BOTH, "different": 0}:
            return
        shutil.rmtree(lab.store)
    raise AssertionError("no preamble is made")


class Watching(SubprocessRunner):
    """Looks at each traced process."""

    def group(self) -> SubprocessRunner:
        return self

    def after(self, argv: Sequence[str], traced: Traced) -> Traced:
        """What hipcache is told of it."""
        return traced

    def trace(self, argv: Sequence[str], **how: Any) -> Traced:
        return self.after(argv, super().trace(argv, **how))


def compile_in_process(lab: Lab, runner: SubprocessRunner, name: str, *flags: str) -> dict[str, int]:
    """What became of preambles when the engine compiled that source in this process."""
    settle()
    engine = replace(open_engine(config.load(lab.environ), lab.environ, racy=0.03), runner=runner)
    argv = lab.words(*words(lab), *flags, source=name)
    return dict(make(engine, command.parse(tuple(argv), str(lab.root), lab.environ), None).outcome.preambles)
