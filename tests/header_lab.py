"""A lab whose passes may use the driver's header precompiled: a short one in the place of the compiler's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hip import MISS, Compiled, Lab, settle
from hipcache import config
from hipcache.app.front import make
from hipcache.base.values import replace
from hipcache.build.context import open_context
from hipcache.clang import command
from hipcache.driver_header import header
from hipcache.driver_header.entry import ENOUGH, PAYS
from hipcache.processes.runner import Runner
from kernels import HIP_IN_SHORT

# One device and the host.
BOTH = 2
NEVER_CHECKED = "999999999"
WEAK = "".join(
    f"__device__ __attribute__((weak)) void __cxa_{name}_virtual() {{ __builtin_trap(); }}\n"
    for name in ("pure", "deleted")
)
WRAPPER = f"""\
#ifndef OF_DRIVER
#define OF_DRIVER
#include <in_short.hpp>
#include <value.hpp>
extern "C" {{ {WEAK} }}
void for_host_alone();
inline constexpr __host__ __device__ int below(int x) {{ if (x > 9) for_host_alone(); return x; }}
#ifdef _DOUBLED
#define VALUE 6
#else
#define VALUE 3
#endif
#endif
"""


@pytest.fixture
def header_lab(lab: Lab) -> Lab:
    return _header_lab(lab)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where what `prepared` begins with is kept, for each version of clang."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def prepared(lab: Lab, kept: Path) -> Lab:
    """A lab after `prepare`: all begin in the same place, since a precompiled header names the files of which it was
    made."""
    place, copy = kept / f"{lab.version}", kept / f"copy-{lab.version}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    made = _header_lab(Lab.make(place, lab.version))
    if not copy.exists():
        prepare(made)
        shutil.copytree(place, copy, symlinks=True)
    shutil.copytree(copy, place, symlinks=True, dirs_exist_ok=True)
    made.count_anew()
    settle()
    return made


def _header_lab(lab: Lab) -> Lab:
    """None of its passes is compared by chance. What the tests count are the passes of one architecture and the host's,
    in a full run too."""
    lab.archs = lab.archs[:1]
    lab.environ |= {"HIPCACHE_PREAMBLES": "1", "HIPCACHE_PREAMBLE_CHECKS": NEVER_CHECKED}
    lab.environ["TMPDIR"] = str(lab.root.with_name("temporary"))
    lab.root.with_name("temporary").mkdir()
    lab.write(f"own/{header.NAME}", WRAPPER)
    lab.write("own/in_short.hpp", HIP_IN_SHORT.replace("#pragma once", "#ifndef SHORT\n#define SHORT") + "#endif\n")
    lab.write("own/value.hpp", "#ifndef TWICE\n#define TWICE\ninline int twice(int x) { return 2 * x; }\n#endif\n")
    return lab


def headers(lab: Lab) -> Path:
    """The store of the precompiled headers."""
    return lab.root.with_name("temporary") / f"hipcache-{os.geteuid()}" / "headers"


def words(lab: Lab) -> list[str]:
    return ["-isystem", f"{lab.root}/own", "-include", header.NAME, f"-I{lab.root}/first", "-MD"]


def build(lab: Lab, number: int, *flags: str, body: str = "") -> Compiled:
    """Compile a source of that number, compared with plain clang."""
    text = f'extern "C" __global__ void k(int* p) {{ p[0] = VALUE * {number} + __LINE__; }}\n'
    text += f'extern "C" int host() {{ return twice(VALUE) + {number}; }}\n{body}'
    lab.write(f"s{number}.hip", text)
    done = lab.compile(*words(lab), *flags, source=f"s{number}.hip")
    assert done.dependencies == done.plain_dependencies
    return done


def counts(lab: Lab) -> dict[str, int]:
    told = lab.stats()
    found = told["preambles"]
    assert isinstance(found, dict)
    print("without:", told["without_preamble"])  # for who reads of a failure
    return found


def wait(lab: Lab) -> None:
    """After that the next source makes it."""
    for number in range(80, 80 + PAYS):
        build(lab, number)


def prepare(lab: Lab, *flags: str) -> None:
    """After that the header is precompiled for the device and for the host, and trusted."""
    for number in range(90, 91 + PAYS + ENOUGH):
        build(lab, number, *flags)
        if counts(lab)["checked"] >= ENOUGH * BOTH:
            return
    raise AssertionError(counts(lab))


def build_with(lab: Lab, runner: Runner, number: int, *, checks: int = 1, same: bool = True) -> dict[str, int]:
    """What became of headers when a new source was compiled in this process, its compilers run by that runner and one
    in `checks` uses of a header compared. `same`: its object is that of an earlier plain compile."""
    settle()
    opened = open_context(config.load(lab.environ), lab.environ, racy=0.03)
    lab.write("own_runner.hip", f'extern "C" __global__ void k(int* p) {{ p[0] = VALUE + {number}; }}\n')
    argv = tuple(lab.words(*words(lab), source="own_runner.hip"))
    plain = lab.run(list(argv))
    before = (lab.root / "out.o").read_bytes()
    made = make(replace(opened, runner=runner, preambles=checks), command.parse(argv, str(lab.root), lab.environ), None)
    assert made.outcome.outcome == MISS
    assert plain.status == 0
    assert not same or (lab.root / "out.o").read_bytes() == before
    return dict(made.outcome.preambles)
