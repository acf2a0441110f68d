"""Links of relocatable device code: the LTO of each arch is cached, the program is plain clang's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest
from hip import (
    FULL,
    HIT,
    PASSED_THROUGH,
    Lab,
    script,
)
from programs import MAIN, Program

one_version = pytest.mark.parametrize("lab", ["15", "19"] if FULL else ["19"], indirect=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory with the objects that a version of clang makes."""

    @lru_cache
    def build(version: str) -> Path:
        lab = Lab.make(tmp_path_factory.mktemp(f"clang{version}"), version)
        Program(lab).build()
        return lab.root

    return build


@pytest.fixture
def program(lab: Lab, built: Callable[[str], Path]) -> Program:
    shutil.copytree(built(lab.version), lab.root, dirs_exist_ok=True)
    return Program(lab)


@one_version
def test_an_architecture_added_is_linked_alone(program: Program) -> None:
    for name in (program.one, program.two):
        name("0" if name == program.one else "2", "--offload-arch=gfx1030")
    program.warm()
    _, counted = program.link("--offload-arch=gfx1030")
    assert counted.missed == {"gfx1030", "link"}


@one_version
@pytest.mark.parametrize(
    ("more", "other"),
    [
        (["-O2"], ["-O3"]),
        (["one.o", "two.o", "main.o"], ["two.o", "one.o", "main.o"]),
        (["-O1"], ["-O1", "-Xoffload-linker", "-mllvm=-amdgpu-early-inline-all"]),
    ],
    ids=["level", "order", "option"],
)
def test_another_command_is_another_link(program: Program, more: list[str], other: list[str]) -> None:
    program.warm(*more)
    _, counted = program.link(*other)
    assert counted.outcome != HIT or counted.reason == "linker_option"


@pytest.mark.parametrize("more", [["-shared", "-fPIC"], ["-g"], ["@objects.rsp"], ["-Wl,-Map=program.map"], ["-r"]])
def test_other_ways_to_link_are_plain_clangs(program: Program, more: list[str]) -> None:
    program.lab.write("objects.rsp", "one.o two.o\nmain.o\n")
    if "-shared" in more:
        program.one("0", "-fPIC")
        program.two("2", "-fPIC")
    for _ in range(2):
        made, counted = program.link(*more)
    assert counted.outcome == HIT or (more == ["-r"] and counted.outcome == PASSED_THROUGH)
    assert bool(made) or more == ["-r"]


def test_a_library_with_device_code_is_taken_apart(program: Program) -> None:
    lab = program.lab
    # Clang 15 looks for device code in -l alone, clang 19 does not see there that the host needs a fat binary.
    library = "-ltwo" if lab.version == "15" else "libtwo.a"

    def pack() -> None:
        (lab.root / "libtwo.a").unlink(missing_ok=True)
        assert lab.run(["ar", "rc", "libtwo.a", "two.o"]).status == 0

    pack()
    before = program.warm("one.o", "main.o", library)
    program.two(gfx90a="9")
    pack()
    after, counted = program.link("one.o", "main.o", library)
    assert after != before
    assert counted.missed == {"gfx90a", "link"}


@one_version
def test_device_code_that_lacks_a_function_is_clangs_error(program: Program) -> None:
    program.warm()
    _, counted = program.link("one.o", "main.o")
    assert counted.outcome == "failed"


def test_what_the_host_linker_refuses_is_not_linked_twice(program: Program, tmp_path: Path) -> None:
    program.warm()
    script(tmp_path / "ld", f'echo once >>{tmp_path}/count\necho "no, $8 never" >&2\nexit 3\n')
    made, counted = program.link(f"-B{tmp_path}")
    assert (made, counted.outcome) == (b"", "failed")
    assert (tmp_path / "count").read_text() == "once\n" * 2
    # A host function that is not there, a library, with colours: the real linker's words, and the driver's.
    for more in (["one.o", "two.o"], ["-lnone"], ["-lnone", "-fcolor-diagnostics"]):
        made, counted = program.link(*more)
        assert (made, counted.outcome) == (b"", "failed")


def test_a_host_linker_that_is_killed_is_run_again(program: Program, tmp_path: Path) -> None:
    script(tmp_path / "ld", f"echo once >>{tmp_path}/count\nkill -SEGV $$\n")
    assert program.lab.hipcache(*program.words(f"-B{tmp_path}")).status != 0
    assert (tmp_path / "count").read_text() == "once\n" * 2


def test_what_the_linkers_say_is_shown_each_time(program: Program) -> None:
    program.lab.write("main.cpp", MAIN + 'asm(".section .gnu.warning.host\\n.ascii \\"a warning\\"\\n.text\\n");\n')
    assert program.lab.run([program.lab.compiler, "-c", "main.cpp", "-o", "main.o"]).status == 0
    for _ in range(2):
        program.link("-fno-such-thing", "-Wl,--no-such-option")
        program.link("-Xlinker", "--warn-common")


@one_version
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["-v"], "asks_driver"),
        (["--save-temps"], "save_temps"),
        (["-fno-gpu-rdc"], "link_or_not_hip"),
        (["-flto"], "lto"),
        (["-gsplit-dwarf"], "side_output"),
        (["-fsave-optimization-record"], "side_output"),
        (["-Xoffload-linker", "-Map=device.map"], "linker_option"),
        (["-fprofile-use=runs.profdata"], "linker_option"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_what_is_not_cached_is_left_to_the_compiler(program: Program, more: list[str], reason: str) -> None:
    program.lab.hipcache(*program.words(*more))
    counted = program.lab.counted()
    assert (counted.outcome, counted.reason) == (PASSED_THROUGH, reason)


@one_version
def test_a_source_that_is_no_hip_in_a_link_is_left_to_the_compiler(program: Program) -> None:
    _, counted = program.link("main.cpp", "one.o", "two.o")
    assert (counted.outcome, counted.reason) == (PASSED_THROUGH, "link")
