"""Clang 22, where Debian's packages are installed: what is built on 15 and 19 holds for what comes after them.

Without HIP's own headers: Debian's HIP 5.2 is too old for this clang.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from failing_lab import Trial
from hip import FAILED, FULL, HIT, LLVM, MISS, PASSED_THROUGH, Lab, kernel, script, settle, toolchain
from programs import ALL, Program
from shapes_lab import ENDS, SOURCE, same, warm
from test_failing import ALL as WRONG_IN_ALL
from test_failing import HOST, MISSING, MISSING_HOST, MISSING_SECOND, SECOND, WARNS
from test_identity import SOURCES, check

pytestmark = pytest.mark.skipif(not LLVM["22"].exists(), reason="clang 22 is not installed")

FLAGS = [("-O2", "-g"), ("-O3",), ("-O0",)]
BARE_SOURCES = [path for path in SOURCES if path.stem != "real_headers"]
# By then the linker wrapper makes the device code of these compiles.
WRAPPED = [end for end in ENDS if "--offload-new-driver" in end and "-fgpu-rdc" not in end]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab.make(tmp_path, "22")


@pytest.mark.parametrize(
    "source", [path for path in SOURCES if path.stem != "real_headers"], ids=lambda path: path.stem
)
def test_an_object_is_plain_clangs(lab: Lab, source: Path) -> None:
    flags = FLAGS[SOURCES.index(source) % len(FLAGS)]
    check(lab, source, flags, ("gfx90a:xnack-", "gfx906"), ("-nogpuinc", "-nogpulib", "-I", str(lab.root)))


@pytest.mark.parametrize("end", [end for end in ENDS if end not in WRAPPED])
def test_other_ends_are_plain_clangs_and_served_again(lab: Lab, end: str) -> None:
    if not FULL and ENDS.index(end) % 4:
        pytest.skip("one in four: make test-full")
    lab.write("k.hip", kernel("1") + SOURCE)
    assert warm(lab, *end.split()).files


@pytest.mark.parametrize("end", WRAPPED)
def test_what_the_linker_wrapper_compiles_is_left_to_it(lab: Lab, end: str) -> None:
    _, counted = same(lab, *end.split())
    assert (counted.outcome, counted.reason) == (PASSED_THROUGH, "plan")


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    "text", [WRONG_IN_ALL, HOST, SECOND, WARNS + SECOND, MISSING, MISSING_SECOND, MISSING_HOST], ids=range(7)
)
def test_a_source_that_is_wrong_fails_as_with_plain_clang(lab: Lab, text: str) -> None:
    """The device's passes write no dependency file: an old one stays where one of them fails."""
    assert Trial(lab).same(text, "-Wall") == FAILED


def test_an_edit_compiles_what_it_changes(lab: Lab) -> None:
    lab.write("k.hip", kernel("1"))
    lab.warm()
    lab.write("k.hip", kernel("1", "#ifndef __HIP_DEVICE_COMPILE__\nint more() { return 1; }\n#endif"))
    assert lab.compile().counted.missed == {"host"}
    lab.write("k.hip", kernel("1", "#ifdef __gfx90a__\n__device__ int more;\n#endif"))
    assert lab.compile().counted.missed == {"gfx90a", "host"}


def test_a_link_runs_the_lto_of_what_changed(tmp_path: Path, lab: Lab) -> None:
    program = Program(lab)
    program.build()
    program.warm()
    program.one(host="1")
    assert program.link()[1].outcome == HIT
    program.two(gfx90a="5")
    assert program.link()[1].missed == {"gfx90a", "link"}


def test_another_linker_of_the_device_links_again(lab: Lab, tmp_path: Path) -> None:
    program = Program(lab)
    program.build()
    compiler = toolchain(tmp_path / "llvm", "22")
    lld = tmp_path / "llvm" / "bin" / "lld"
    script(lld, f'exec {LLVM["22"]}/bin/lld "$@" --build-id=none\n')
    own = Program(Lab(lab.root, "22", str(compiler), lab.environ))
    settle()
    assert own.link()[1].outcome == MISS
    script(lld, f'exec {LLVM["22"]}/bin/lld "$@" --build-id=0xab\n')
    settle()
    assert own.link()[1].missed == ALL


def test_a_link_by_the_new_driver_is_left_to_the_compiler(lab: Lab) -> None:
    program = Program(lab, ("--offload-new-driver",))
    program.build()
    assert program.link()[1].reason == "new_driver"
