"""A project in which one source is compiled as each front (CMake, SCons, Meson, make) spells its paths."""

from __future__ import annotations

import pytest
from hip import HIP_IN_SHORT, Compiled, Lab

SOURCE = """\
#include <hip_in_short.hpp>
#include "beside.hpp"
#if __has_include("none.hpp")
#endif
WHAT
__global__ void kernel(int* p) { p[0] = p[1] * BESIDE + (DEVICE); }
int host(int* p) { kernel<<<1, 1>>>(p); return (HOST) + VALUE; }
"""
# CUIDs whose hashes have all digits.
ONE, TWO = "first", "second"


@pytest.fixture(autouse=True)
def project(lab: Lab) -> None:
    write(lab)


def write(lab: Lab, what: str = "", *, device: str = "1", host: str = "1", **headers: str) -> None:
    text = SOURCE.replace("WHAT", what).replace("DEVICE", device).replace("HOST", host)
    lab.write("p/src/k.hip", text)
    lab.write("p/src/beside.hpp", '#include "../inc/value.hpp"\n#define BESIDE 2\n')
    lab.write("p/inc/value.hpp", "#define VALUE 3\n")
    lab.write("p/inc/hip_in_short.hpp", HIP_IN_SHORT)
    for name, content in headers.items():
        lab.write(f"p/inc/{name}.hpp", content)
    for name in ("build", "other/deep"):
        (lab.root / "p" / name).mkdir(parents=True, exist_ok=True)


def spelled(lab: Lab, way: str) -> tuple[str, str, str]:
    """(working directory, source, directory of the headers) below and as each front writes them."""
    top = str(lab.root / "p")
    return {
        "cmake": ("p/build", f"{top}/src/k.hip", f"{top}/inc"),
        "cmake elsewhere": ("p/other/deep", f"{top}/src/k.hip", f"{top}/inc"),
        "scons": ("p", "src/k.hip", "inc"),
        "meson": ("p/build", "../src/k.hip", "../inc"),
        "meson elsewhere": ("p/other/deep", "../../src/k.hip", "../../inc"),
        "make": ("p/src", "k.hip", "../inc"),
    }[way]


WAYS = ("cmake", "cmake elsewhere", "scons", "meson", "meson elsewhere", "make")


def compile_as(lab: Lab, way: str, *flags: str, cuid: str = ONE, env: dict[str, str] | None = None) -> Compiled:
    """The object and the dependency file are plain clang's."""
    cwd, source, include = spelled(lab, way)
    output = f"{way.replace(' ', '-')}.o"
    words = ["--offload-arch=gfx906", f"-cuid={cuid}", "-MD", "-I", include, *flags]
    made = lab.compile(*words, source=source, cwd=lab.root / cwd, output=output, env=env)
    assert made.status == 0, made.messages
    assert made.dependencies == made.plain_dependencies
    return made


def differ(lab: Lab, *flags: str, ways: tuple[str, ...] = ("cmake", "scons")) -> None:
    """The objects are plain clang's, which are not the same in each way: the test would show a wrong one."""
    assert len({compile_as(lab, way, *flags).object for way in ways}) > 1
