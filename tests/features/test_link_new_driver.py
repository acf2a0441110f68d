"""Links by the new offload driver: the device links of clang-linker-wrapper are cached, the rest is clang's own."""

from __future__ import annotations

import shutil
from dataclasses import replace as with_changes
from pathlib import Path

import pytest
from hip import HIT, PASSED_THROUGH, Lab, script, with_15, with_19
from programs import ALL, MAIN, Program, left, linking_toolchain, pack
from toolchains import LINKING

pytestmark = pytest.mark.takes_turns("built")

NEW = ("--offload-new-driver",)


@pytest.fixture(scope="module", params=dict.fromkeys(LINKING))
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The place with the objects."""
    lab = Lab.make(tmp_path_factory.mktemp("clang"), request.param)
    Program(lab, NEW).build()
    return lab


@pytest.fixture
def program(tmp_path: Path, built: Lab) -> Program:
    lab = Lab.make(tmp_path, built.version)
    shutil.copytree(built.root, lab.root, dirs_exist_ok=True)
    return Program(lab, NEW)


@pytest.fixture
def edited(program: Program) -> Program:
    """Its sources are compiled here: without a CUID, names of static variables have the source's inode in them."""
    program.one()
    program.two()
    return program


def test_an_architecture_added_is_linked_alone(edited: Program) -> None:
    edited.warm()
    edited.one("0", "--offload-arch=gfx1030")
    edited.two("2", "--offload-arch=gfx1030")
    # The objects say which archs there are, not the link.
    _, counted = edited.link()
    assert counted.missed == {"gfx1030", "link"}


def test_another_program_of_the_same_device_code_runs_no_lto(program: Program) -> None:
    program.warm()
    program.lab.write("main.cpp", MAIN + "int more = 3;\n")
    assert program.lab.run([program.lab.compiler, "-c", "main.cpp", "-o", "main.o"]).status == 0
    _, counted = program.link("-o", "other", "-Wl,-Map=other.map", "-fuse-ld=lld", output="other")
    assert counted.outcome == HIT


@pytest.mark.parametrize(
    ("more", "other"),
    [
        (["-O2"], ["-O3"]),
        (["-O2"], ["-O2", "-g"]),
        (["one.o", "two.o", "main.o"], ["two.o", "one.o", "main.o"]),
        (["-O1"], ["-O1", "-mllvm", "-amdgpu-early-inline-all"]),
    ],
    ids=["level", "debug", "order", "option"],
)
def test_another_command_is_another_link(program: Program, more: list[str], other: list[str]) -> None:
    program.warm(*more)
    _, counted = program.link(*other)
    assert counted.missed == ALL


@pytest.mark.parametrize(
    "more",
    [
        ["-shared", "-fPIC"],
        ["@objects.rsp"],
        ["-Wl,-z,now"],
        ["-fuse-ld=lld"],
        ["-static-libgcc"],
    ],
)
def test_other_ways_to_link_are_plain_clangs(program: Program, more: list[str]) -> None:
    program.lab.write("objects.rsp", "one.o two.o\nmain.o\n")
    if "-shared" in more:
        program.one("0", "-fPIC")
        program.two("2", "-fPIC")
    program.warm(*more)


@pytest.mark.parametrize("library", [["-ltwo"], ["./libtwo.a"], ["-l:libtwo.a"]], ids=["-l", "path", "-l:"])
def test_device_code_is_taken_from_libraries(edited: Program, library: list[str]) -> None:
    lab = edited.lab
    pack(lab, "two.o")
    words = ["one.o", "main.o", "-L.", *library]
    before = edited.warm(*words)
    edited.two(gfx90a="9")
    pack(lab, "two.o")
    after, counted = edited.link(*words)
    assert after != before
    assert counted.missed == {"gfx90a", "link"}


def test_what_of_a_library_is_linked_is_as_the_wrapper_has_it(program: Program) -> None:
    lab = program.lab
    # A member that nothing needs, one that the needed one needs, and a name that stands twice.
    lab.write("three.hip", '#include "hip_in_short.hpp"\n__device__ int thrice(int a) { return 3 * a; }\n')
    lab.write("four.hip", '#include "hip_in_short.hpp"\nstatic __device__ __attribute__((used)) int unused = 4;\n')
    words = [
        lab.compiler,
        "--offload-arch=gfx906",
        "--offload-arch=gfx90a",
        "-nogpuinc",
        "-nogpulib",
        "-fgpu-rdc",
        *NEW,
    ]
    for name in ("three", "four"):
        assert lab.run([*words, "-c", f"{name}.hip", "-o", f"{name}.o"]).status == 0
    pack(lab, "four.o", "two.o", "three.o")
    program.warm("one.o", "main.o", "libtwo.a")
    twice = ("one.o", "main.o", "libtwo.a", "libtwo.a")
    if lab.run(program.words(*twice)).status == 0:  # some link a member of a library that stands twice, twice
        program.warm(*twice)
    if lab.version == "19":  # 22 links all members of a whole library twice
        program.warm("one.o", "main.o", "-Wl,--whole-archive", "libtwo.a", "-Wl,--no-whole-archive")


def test_another_library_that_is_found_first_is_seen(edited: Program) -> None:
    lab = edited.lab
    (lab.root / "first").mkdir()
    pack(lab, "two.o")
    words = ["one.o", "main.o", "-Lfirst", "-L.", "-ltwo"]
    before = edited.warm(*words)
    edited.two(gfx90a="7")
    pack(lab, "two.o", library="first/libtwo.a")
    after, counted = edited.link(*words)
    assert after != before
    assert counted.missed == {"gfx90a", "link"}


@pytest.mark.parametrize("name", ["clang-linker-wrapper", "clang", "lld"])
def test_another_tool_links_again(program: Program, tmp_path: Path, name: str) -> None:
    compiler = linking_toolchain(tmp_path / "llvm", program.lab.version)
    tool = tmp_path / "llvm" / "bin" / name
    program = with_changes(program, lab=with_changes(program.lab, compiler=str(compiler)))
    program.warm()
    with tool.open("ab") as file:
        file.write(b"\0")
    _, counted = program.link()
    assert counted.missed == ALL


def test_options_for_every_clang_are_seen(program: Program) -> None:
    before = program.warm()
    program = with_changes(program, lab=with_changes(program.lab, environ={**program.lab.environ}))
    program.lab.environ["CCC_OVERRIDE_OPTIONS"] = "# +-Wl,--build-id=0xcd"
    after, counted = program.link()
    assert after != before
    assert counted.outcome == PASSED_THROUGH or counted.missed == ALL


def test_a_variable_that_makes_the_compiler_of_a_device_link_speak_is_seen(program: Program) -> None:
    program.warm()
    program.lab.environ["CLANG_NO_DEFAULT_CONFIG"] = "1"
    _, counted = program.link()
    assert counted.missed == ALL
    program.warm("-O1")


def test_a_failing_link_is_clangs_own(program: Program) -> None:
    program.warm()
    # Device code that lacks a function; a host that does; a flag and an object that are not there.
    for more in (["one.o", "main.o"], ["one.o", "two.o"], ["-Wl,--no-such-option"], ["one.o", "two.o", "none.o"]):
        made, counted = program.link(*more)
        assert not made
        assert counted.outcome in ("failed", PASSED_THROUGH)


def test_what_the_host_linker_refuses_is_not_linked_twice(program: Program, tmp_path: Path) -> None:
    program.warm()
    linker = script(tmp_path / "ld.once", f'echo once >>{tmp_path}/count\necho "no, never" >&2\nexit 3\n')
    words = program.words(f"--ld-path={linker}")
    plain, mine = program.lab.run(words), program.lab.hipcache(*words)
    assert (mine.status, mine.err) == (plain.status, plain.err)
    assert program.lab.counted().outcome == "failed"
    assert (tmp_path / "count").read_text() == "once\n" * 2


def test_what_the_linkers_say_is_shown_each_time(program: Program) -> None:
    program.lab.write("main.cpp", MAIN + 'asm(".section .gnu.warning.host\\n.ascii \\"a warning\\"\\n.text\\n");\n')
    assert program.lab.run([program.lab.compiler, "-c", "main.cpp", "-o", "main.o"]).status == 0
    for _ in range(2):
        program.link("-O2", "-fsome-such-thing")
        program.link("-O2", "-nogpulib", "-Xlinker", "--warn-common")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["-v"], "asks_driver"),
        (["--save-temps"], "save_temps"),
        (["-Wl,--save-temps"], "save_temps"),
        (["-Wl,--dry-run"], "linker_option"),
        (["-Wl,--wrapper-verbose"], "linker_option"),
        (["-Xoffload-linker", "-Map=device.map"], "linker_option"),
        (["-r"], "linker_option"),
        # It counts passes over all archs: of the second one no more are run.
        (["-mllvm", "-opt-bisect-limit=20"], "linker_option"),
        (["-lnone"], "named_file"),
        (["main.o"], "link"),
        (["one.o", "main.o", "libthin.a"], "object_layout"),
        (["one.o", "main.o", "cut.o"], "object_layout"),
        (["one.o", "two.o", "main.bc.o"], "object_layout"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_what_is_not_cached_is_left_to_the_compiler(program: Program, more: list[str], reason: str) -> None:
    lab = program.lab
    if "libthin.a" in more:
        assert lab.run(["ar", "rcT", "libthin.a", "two.o"]).status == 0
    if "cut.o" in more:
        lab.write("cut.o", (lab.root / "two.o").read_bytes()[:-100])
    if "main.bc.o" in more:
        assert lab.run([lab.compiler, "-flto", "-c", "main.cpp", "-o", "main.bc.o"]).status == 0
    lab.hipcache(*program.words(*more))
    counted = lab.counted()
    assert (counted.outcome, counted.reason) == (PASSED_THROUGH, reason)


FEATURES = ("gfx90a:xnack+", "gfx90a:xnack-", "gfx906:sramecc+:xnack-", "gfx1030")
# Clang 23's own objects differ each time with two features of one target ID: stray bytes are in the package.
FEATURES_OF_NEW = (*FEATURES[:2], "gfx906:xnack-", "gfx1030")


@pytest.fixture
def featured(edited: Program) -> Program:
    """For target IDs with features."""
    features = FEATURES if int(edited.lab.version) < 23 else FEATURES_OF_NEW
    program = with_changes(edited, archs=tuple(f"--offload-arch={arch}" for arch in features))
    program.one()
    program.two()
    return program


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["-Wl,--compress,--compression-level=3", "-fuse-ld=lld"],
        ["-O3", "-Wl,--whole-archive", "one.o", "two.o", "main.o", "libruntime.a", "-Wl,--no-whole-archive", "-g"],
        ["-nogpulib", "-Wl,--warn-common,--sysroot=/", "-mllvm", "-align-all-functions=6"],
    ],
    ids=["plain", "compressed", "whole", "said"],
)
def test_target_ids_with_features_are_linked_each_on_its_own(featured: Program, more: list[str]) -> None:
    before = featured.warm(*more)
    featured.two(gfx90a="7")
    after, counted = featured.link(*more)
    assert after != before
    assert counted.missed == {"gfx90a:xnack+", "gfx90a:xnack-", "link"}


def test_the_store_may_have_a_blank_in_its_name(featured: Program) -> None:
    featured.lab.environ["HIPCACHE_DIR"] = str(featured.lab.store.with_name("the store"))
    featured.warm()


def test_a_failing_link_for_features_is_clangs_own(featured: Program) -> None:
    featured.warm()
    for more in (["one.o", "main.o"], ["one.o", "two.o"], ["-Wl,--no-such-option"]):
        made, counted = featured.link(*more)
        assert not made
        assert counted.outcome in ("failed", PASSED_THROUGH)


def test_target_ids_that_are_linked_together_are_left_to_the_compiler(featured: Program) -> None:
    lab = featured.lab
    any_xnack = with_changes(featured, archs=("--offload-arch=gfx90a",))
    any_xnack.two()
    assert left(featured) == "target_id"
    pack(lab, "two.o")
    assert left(featured, "one.o", "main.o", "libtwo.a", "-Wl,--unresolved-symbols=ignore-all") == "target_id"
    lab.write("three.o", (lab.root / "two.o").read_bytes().replace(b"\0gfx90a\0", b"\0gfx9-0\0"))
    assert left(any_xnack, "one.o", "two.o", "main.o", "three.o") == "target_id"


@with_19
def test_objects_of_finished_device_code_are_only_linked(lab: Lab) -> None:
    program = Program(lab, NEW)
    program.build()
    words = [lab.compiler, "--offload-arch=gfx906", *NEW, "-nogpuinc", "-nogpulib", "-c", "k.hip", "-o", "k.o"]
    assert lab.run(words).status == 0
    assert left(program, "k.o", "main.o", "-fno-gpu-rdc", "-Wl,--unresolved-symbols=ignore-all") == "link"


@with_15
def test_another_clang_is_left_to_itself(lab: Lab) -> None:
    program = Program(lab, NEW, ("--offload-arch=gfx906",))
    program.build()
    assert left(program) == "new_driver"
