"""Clang 22, where Debian's packages are installed, by both offload drivers: what is built on 15 and 19 holds for what
comes after them. (From clang 23 on the new driver is the default.)

Without HIP's own headers: Debian's HIP 5.2 is too old for this clang.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from failing_lab import Trial
from hip import (
    FAILED,
    HIT,
    LAUNCHER,
    LLVM,
    MISS,
    PASSED_THROUGH,
    Lab,
    in_terminal,
    kernel,
    script,
    settle,
    toolchain,
)
from programs import ALL, Program
from shapes_lab import ENDS, SOURCE, warm
from test_failing import ALL as WRONG_IN_ALL
from test_failing import HOST, MISSING, MISSING_HOST, MISSING_SECOND, SECOND, WARNS
from test_identity import SOURCES, check
from toolchains import BY_NEW_DRIVER

pytestmark = [
    pytest.mark.skipif(not LLVM["22"].exists(), reason="clang 22 is not installed"),
    pytest.mark.parametrize("lab", ["22", f"22{BY_NEW_DRIVER}"], indirect=True),
    pytest.mark.new_driver,
    pytest.mark.archs(1),
]

FLAGS = [("-O2", "-g"), ("-O3",), ("-O0",)]


@pytest.mark.parametrize(
    "source", [path for path in SOURCES if path.stem != "real_headers"], ids=lambda path: path.stem
)
def test_an_object_is_plain_clangs(lab: Lab, source: Path) -> None:
    flags = FLAGS[SOURCES.index(source) % len(FLAGS)]
    check(lab, source, flags, ("gfx90a:xnack-", "gfx906"), ("-nogpuinc", "-nogpulib", "-I", str(lab.root)))


@pytest.mark.archs(2)
@pytest.mark.sampled(4)
@pytest.mark.parametrize("end", ENDS)
def test_other_ends_are_plain_clangs_and_served_again(lab: Lab, end: str) -> None:
    lab.write("k.hip", kernel("1") + SOURCE)
    assert warm(lab, *end.split()).files


def test_preprocessed_text_is_plain_clangs_and_served_again(lab: Lab) -> None:
    lab.write("k.hip", kernel("1", "#ifdef __HIP_DEVICE_COMPILE__\n#warning said\n#endif"))
    assert set(warm(lab, "-E", "-MD", "-o", "out.i").files) == {"out.i", "out.d"}


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    "text", [WRONG_IN_ALL, HOST, SECOND, WARNS + SECOND, MISSING, MISSING_SECOND, MISSING_HOST], ids=range(7)
)
def test_a_source_that_is_wrong_fails_as_with_plain_clang(lab: Lab, text: str) -> None:
    """The device's passes write no dependency file: an old one stays where one of them fails."""
    assert Trial(lab).same(text, "-Wall") == FAILED


@pytest.mark.archs(2)
def test_an_edit_compiles_what_it_changes(lab: Lab) -> None:
    lab.write("k.hip", kernel("1"))
    lab.warm()
    lab.write("k.hip", kernel("1", "#ifndef __HIP_DEVICE_COMPILE__\nint more() { return 1; }\n#endif"))
    assert lab.compile().counted.missed == {"host"}
    lab.write("k.hip", kernel("1", "#ifdef __gfx90a__\n__device__ int more;\n#endif"))
    assert lab.compile().counted.missed == {"gfx90a", "host"}


def test_spirv_is_compiled_each_time_and_all_else_is_served(lab: Lab) -> None:
    """Debian's translator of SPIR-V is not for this clang: here bitcode stands for SPIR-V."""
    translator = lab.root.parent / "bin" / "llvm-spirv"
    translator.parent.mkdir(exist_ok=True)
    script(translator, 'for word; do case $word in --*) ;; *) in=${in:-$word} ;; esac; done; exec cp "$in" "$word"\n')
    env = {"PATH": f"{translator.parent}:{lab.environ['PATH']}"}
    spirv = "--offload-arch=amdgcnspirv"
    lab.write("k.hip", kernel("1", "int other() { int unused; return 1; }"))
    assert lab.compile(spirv, "-Wall", env=env).outcome == MISS
    assert lab.compile(spirv, "-Wall", env=env).counted.missed == {"amdgcnspirv"}
    lab.write("k.hip", kernel("1", "#ifndef __HIP_DEVICE_COMPILE__\nint more() { return 1; }\n#endif"))
    assert lab.compile(spirv, "-Wall", env=env).counted.missed == {"amdgcnspirv", "host"}
    lab.write("k.hip", kernel("1", "#ifdef __SPIRV__\nwrong;\n#endif"))
    assert lab.compile(spirv, "-Wall", env=env).outcome == FAILED
    assert lab.compile(spirv, "-fgpu-rdc", env=env).outcome == PASSED_THROUGH


def test_warnings_of_the_devices_linker_have_colours_on_a_terminal(lab: Lab) -> None:
    """The new driver's linker makes the code, and warns of it."""
    lab.write("k.hip", kernel("1", "__global__ void more(volatile int* p) { volatile int a[64]; p[0] = a[p[1]]; }"))
    words = lab.words("-Wframe-larger-than=1", "--offload-arch=gfx90a")
    colours = lab.environ | {"TERM": "xterm-256color", "COLUMNS": "60"}
    plain = in_terminal(words, lab.root, colours)
    assert (b"ld.lld: \x1b[0;35mwarning: " in plain[1]) == ("--offload-new-driver" in words)
    for _ in range(3):
        settle()
        assert in_terminal([*LAUNCHER, *words], lab.root, colours) == plain


def test_a_link_runs_the_lto_of_what_changed(tmp_path: Path, lab: Lab) -> None:
    program = Program(lab, lab.driver)
    program.build()
    program.warm()
    program.one(host="1")
    assert program.link()[1].outcome == HIT
    program.two(gfx90a="5")
    assert program.link()[1].missed == {"gfx90a", "link"}


def test_another_linker_of_the_device_links_again(lab: Lab, tmp_path: Path) -> None:
    program = Program(lab, lab.driver)
    program.build()
    compiler = toolchain(tmp_path / "llvm", "22")
    lld = tmp_path / "llvm" / "bin" / "lld"
    script(lld, f'exec {LLVM["22"]}/bin/$(basename $0) "$@" --build-id=none\n')
    own = Program(Lab(lab.root, "22", str(compiler), lab.environ), lab.driver)
    settle()
    assert own.link()[1].outcome == MISS
    script(lld, f'exec {LLVM["22"]}/bin/$(basename $0) "$@" --build-id=0xab\n')
    settle()
    assert own.link()[1].missed == ALL
