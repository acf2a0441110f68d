"""A compile that fails: plain clang's words, status and files, and no job that runs in vain or twice."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from fake_compiler import host_template
from hip import (
    ARCHS,
    BARE,
    FAILED,
    HIT,
    LAUNCHER,
    MISS,
    PASSED_THROUGH,
    Lab,
    in_terminal,
    launcher_of_comparisons,
    only_15,
    only_19,
)
from hipcache.errors import CommandFailed, JobFailed
from hipcache.report import outcome
from hipcache.report.history import Record
from test_compile_story import World

ALL = "__device__ int f() { return wrong_in_all; }\n"
HOST = "#ifndef __HIP_DEVICE_COMPILE__\nint g() { return wrong_on_host; }\n#endif\n"
DEVICE = "#ifdef __HIP_DEVICE_COMPILE__\nint g() { return wrong_on_devices; }\n#endif\n"
SECOND = "#ifdef __gfx90a__\n__device__ int f() { return wrong_in_one; }\n#endif\n"
WARNS = "static __device__ int unused_one() { return 1; }\nint two() { int x; return x; }\n"
MISSING = '#include "nowhere.hpp"\n'
MISSING_SECOND = '#ifdef __gfx90a__\n#include "nowhere.hpp"\n#endif\n'
MISSING_HOST = '#ifndef __HIP_DEVICE_COMPILE__\n#include "nowhere.hpp"\n#endif\n'
MANY = "".join(f"int v{number} = wrong_{number};\n" for number in range(30))


KERNEL = 'extern "C" __global__ void k(int* p) { *p = 1; }\n'


def source(text: str) -> str:
    return f'#include "hip_in_short.hpp"\n#include "own.hpp"\n{text}{KERNEL}'


class Trial:
    """A source that does not compile, beside old outputs."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        lab.write("own.hpp", "#pragma once\n")

    def run(self, command: list[str], *launcher: str) -> tuple[int, bytes, bytes, dict[str, str]]:
        """How it ended, and what lies in the directory then."""
        for name in ("out.o", "out.d"):
            (self.lab.root / name).unlink(missing_ok=True)
            self.lab.write(name, f"old {name}")
        ended = self.lab.run([*launcher, *command])
        found = {path.name: path.read_text(errors="replace") for path in self.lab.root.iterdir() if path.is_file()}
        return ended.status, ended.out, ended.err, found

    def same(self, text: str, *flags: str) -> str:
        """It fails as with plain clang: with an empty store, again, and after an edit. The last outcome."""
        command = self.lab.words("-MD", "-MF", "out.d", *flags)
        for edit in ("", "", "// an edit\n"):
            self.lab.write("k.hip", source(text) + edit)
            status, out, err, files = self.run(command)
            assert status != 0, "the test shows nothing"
            cached = self.run(command, *launcher_of_comparisons())
            assert cached[2].decode() == err.decode()
            assert cached[:2] == (status, out)
            rule, cached_rule = files.pop("out.d", None), cached[3].pop("out.d", None)
            assert cached[3] == files
            assert _files(cached_rule) >= _files(rule)
            assert (cached_rule is None) == (rule is None)
            counted = self.lab.counted()
            assert list((self.lab.store / "v1" / "tmp").iterdir()) == []
        return counted.outcome


def _files(rule: str | None) -> set[str]:
    return set((rule or "").replace("\\\n", " ").split())


@pytest.fixture
def trial(lab: Lab) -> Trial:
    return Trial(lab)


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    "text",
    [ALL, HOST, DEVICE, SECOND, WARNS + ALL, WARNS + SECOND, WARNS + HOST, MISSING, MISSING_SECOND, MISSING_HOST, MANY],
    ids=[
        *("all", "host", "devices", "one", "warns-all", "warns-one", "warns-host"),
        *("missing", "missing-one", "missing-host", "many"),
    ],
)
def test_a_source_that_is_wrong_fails_as_with_plain_clang(trial: Trial, text: str) -> None:
    assert trial.same(text, "-Wall") == FAILED


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    "flags",
    [
        ["-fgpu-rdc"],
        ["--cuda-host-only"],
        ["-ferror-limit=3"],
        ["-fcolor-diagnostics"],
        ["-fmessage-length=40"],
        ["-fno-caret-diagnostics"],
        ["-fdiagnostics-format=msvc"],
        ["-Wfatal-errors"],
        ["-MMD", "-MF", "out.d"],
        ["-MP"],
        ["-g"],
        ["-gsplit-dwarf"],
        ["--coverage"],
        ["-O0"],
        ["-Xclang", "-no-such-option"],
        ["-flto"],
        ["-w"],
        ["-fsyntax-only"],
        ["-S"],
        ["--offload-new-driver"],
    ],
    ids=lambda flags: flags[-1],
)
@pytest.mark.parametrize("text", [HOST, WARNS + SECOND + MANY], ids=["host", "one"])
def test_an_option_changes_nothing_about_it(trial: Trial, flags: list[str], text: str) -> None:
    if "--cuda-host-only" in flags:
        text = HOST + MANY
    assert trial.same(text, "-Wall", *flags) in (FAILED, PASSED_THROUGH)


@pytest.mark.archs(2)
@pytest.mark.parametrize("flags", [["--cuda-device-only"], ["--cuda-device-only", "-emit-llvm"]])
def test_devices_alone_fail_as_with_plain_clang(trial: Trial, flags: list[str]) -> None:
    assert trial.same(SECOND, *flags) in (FAILED, PASSED_THROUGH)


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    "text",
    [
        '__device__ void f() { asm volatile("no_such_instruction"); }\nextern "C" __global__ void l() { f(); }\n',
        '#ifndef __HIP_DEVICE_COMPILE__\nvoid g() { asm volatile("no_such_instruction"); }\n#endif\n',
        'extern __device__ int nowhere();\nextern "C" __global__ void l(int* p) { *p = nowhere(); }\n',
        'extern "C" __global__ void l(int* p) { __shared__ int large[1 << 20]; large[*p] = 1; *p = large[1]; }\n',
    ],
    ids=["asm", "asm-host", "undefined", "memory"],
)
def test_a_back_end_and_a_linker_fail_as_with_plain_clang(trial: Trial, text: str) -> None:
    lab = trial.lab
    lab.write("k.hip", source(text))
    command = lab.words()
    ended = [trial.run(command, *launcher) for launcher in ((), LAUNCHER, LAUNCHER)]
    names = [re.sub(rb"/tmp/[\w./-]+|k-gfx\w+-\w+", b"T", err) for _, _, err, _ in ended]
    assert ended[0][0] != 0, "the test shows nothing"
    assert names[0] == names[1] == names[2]
    assert ended[0][0] == ended[1][0] == ended[2][0]
    assert ended[0][3] == ended[1][3] == ended[2][3]


def test_a_compiler_that_crashes_reports_as_ever(trial: Trial, tmp_path: Path) -> None:
    """The report is the driver's work: the user's own command writes it."""
    lab = trial.lab
    lab.write("k.hip", source("#pragma clang __debug crash\n"))
    reports = []
    for launcher in ((), LAUNCHER):
        place = tmp_path / f"tmp-{len(launcher)}"
        place.mkdir()
        ended = lab.run([*launcher, *lab.words()], env={"TMPDIR": str(place)})
        # (A pass that is ended while it prints its stack leaves what it gave the symbolizer: no part of the report.)
        written = sorted(path.suffix for path in place.rglob("*") if path.is_file() and path.suffix)
        reports.append((ended.status, b"PLEASE submit a bug report" in ended.err, written))
    assert reports[0] == reports[1]
    assert reports[0][1]


@pytest.mark.parametrize(
    "flags",
    [
        ["--typo"],
        ["--typo", "-Wall", "--and-another"],
        ["nowhere.hip"],
        ["-Wno-such-warning", "--typo"],
        ["--offload-arch=bogus"],
        ["-std=c++99"],
        ["-march=nothing"],
        ["-fsplit-machine-functions"],
        ["-Xarch_device", "-o", "x"],
        ["-x", "nothing"],
        ["-cuid=a", "-fuse-cuid=wrong"],
        ["@nowhere.rsp"],
        ["--target=bogus"],
        ["-fcolor-diagnostics", "--typo"],
        ["--rocm-path=/nowhere", "--rocm-device-lib-path=/nowhere", "-UBARE"],
    ],
    ids=" ".join,
)
def test_a_command_that_the_driver_refuses_fails_in_its_words(trial: Trial, flags: list[str]) -> None:
    lab = trial.lab
    words = [word for word in lab.words(*flags) if word not in (BARE if "-UBARE" in flags else ())]
    plain = trial.run(words)
    for _ in range(2):
        assert trial.run(words, *LAUNCHER) == plain


@pytest.mark.archs(1)
@pytest.mark.parametrize(
    "flags", [["--typo"], ["-fno-such", "--offlod-arch=gfx906", "-Wall"], ["-fno-exceptions", "-no"]], ids=" ".join
)
def test_an_unknown_option_is_told_without_the_engine(trial: Trial, flags: list[str]) -> None:
    lab = trial.lab
    lab.compile()  # there is a store
    launcher = lab.root.parent / "alone" / "hipcache"
    launcher.parent.mkdir()
    launcher.hardlink_to(LAUNCHER[0])
    lab.environ["TMPDIR"] = str(lab.root.parent / "temporary")
    temporary = Path(lab.environ["TMPDIR"])
    temporary.mkdir()
    assert trial.run(lab.words(*flags), str(launcher)) == (plain := trial.run(lab.words(*flags)))
    assert plain[0] == 1
    assert lab.counted().outcome == FAILED
    lab.environ["HIPCACHE_CONFIG"] = str(lab.write("../empty.yaml", ""))
    assert trial.run(lab.words(*flags), str(launcher)) == plain
    lab.write("../empty.yaml", "verify: 1/2\n")
    assert b"cannot start 'hipcache-engine'" in trial.run(lab.words(*flags), str(launcher))[2]
    del lab.environ["HIPCACHE_CONFIG"]
    shutil.rmtree(temporary)
    temporary.mkdir()
    trial.run(lab.words(*flags), str(launcher))
    assert list(temporary.iterdir()) == []
    assert trial.run(lab.words("-fno-math-errno"), *LAUNCHER)[0] == 0
    assert list(temporary.iterdir()) == [], "a command that the driver takes leaves something, too"


@pytest.mark.archs(1)
@pytest.mark.parametrize("flag", ["-std=c++71", "-std=c+17", "-std=c17", "-std=", "-std=c++117"])
def test_a_misspelt_standard_is_left_to_the_compiler_without_the_engine(trial: Trial, flag: str) -> None:
    lab = trial.lab
    lab.compile()
    launcher = lab.root.parent / "alone" / "hipcache"
    launcher.parent.mkdir()
    launcher.hardlink_to(LAUNCHER[0])
    assert trial.run(lab.words(flag), str(launcher)) == (plain := trial.run(lab.words(flag)))
    assert plain[0] == 1
    assert lab.counted().outcome == FAILED


@pytest.mark.archs(1)
@pytest.mark.parametrize(
    "flags", ["-std=c++17", "-std=gnu++20", "-std=c++2a", "-std=c++71 -std=c++14", "-std=c++14 -std=c++71"]
)
def test_a_standard_that_there_is_is_cached(trial: Trial, flags: str) -> None:
    lab = trial.lab
    for end in (MISS, HIT):
        done = lab.compile(*flags.split())
        assert done.status or done.outcome == end


@pytest.mark.archs(1)
@pytest.mark.parametrize(
    "flags",
    [
        *(
            ["--typo", word]
            for word in ("-v", "--verbose", "--version", "--help", "-###", "-L", "-o", "-x", "--", "@words")
        ),
        *(["--typo", word] for word in ("-print-resource-dir", "-dumpversion", "-fdriver-only", "-Werror", "-c")),
        *(
            ["--typo", word]
            for word in ("--config=own.cfg", "--driver-mode=cl", "--driver-mode=gcc", "-Xclang", "-mllvm")
        ),
        *(
            ["--typo", word]
            for word in ("-fdiagnostics-format=msvc", "-fcolor-diagnostics", "-save-temps", "-M", "-###")
        ),
        ["--typo", "--target=bogus"],
        ["--typo", "--rocm-path=/nowhere", "-UBARE"],
        ["--typo'", "-Dclang version "],
        ["--typo", "nowhere.o"],
    ],
    ids=" ".join,
)
def test_so_is_one_with_any_other_option(trial: Trial, flags: list[str]) -> None:
    lab = trial.lab
    lab.compile()
    lab.write("own.cfg", "--more-typos\n")
    lab.write("words", "-v --and-more\n")
    words = [word for word in lab.words(*flags) if word not in (BARE if "-UBARE" in flags else ())]
    assert trial.run(words, *LAUNCHER) == trial.run(words)


@pytest.mark.archs(1)
@only_15
@pytest.mark.parametrize("name", ["CCC_OVERRIDE_OPTIONS", "TMPDIR", "COMPILER_PATH", "CPATH"])
def test_so_is_one_with_variables_of_the_driver(trial: Trial, name: str) -> None:
    lab = trial.lab
    lab.compile()
    lab.environ[name] = "+--more-typos" if name.startswith("CCC") else "/nowhere"
    assert trial.run(lab.words("--typo"), *LAUNCHER) == trial.run(lab.words("--typo"))


@pytest.mark.parametrize("source", ["nowhere.hip", "k.hip"])
@pytest.mark.parametrize("flags", [[], ["--no-such-option"], ["--serialize-diagnostics", "said", "--no-such-option"]])
def test_so_does_one_without_its_source_or_with_messages_in_a_file(trial: Trial, flags: list[str], source: str) -> None:
    words = [source if word == "k.hip" else word for word in trial.lab.words(*flags)]
    plain = trial.run(words)
    assert trial.run(words, *LAUNCHER) == plain


@only_15
@pytest.mark.archs(2)
def test_messages_of_a_failure_in_a_terminal_are_clangs(lab: Lab) -> None:
    lab.write("own.hpp", "#pragma once\n")
    lab.write("k.hip", source(WARNS + SECOND))
    command = lab.words("-Wall")
    environ = {**lab.environ, "TERM": "xterm", "COLUMNS": "50"}
    plain = in_terminal(command, lab.root, environ)
    assert b"\x1b[" in plain[1]
    for _ in range(2):
        assert in_terminal([*LAUNCHER, *command], lab.root, environ) == plain


@only_19
@pytest.mark.parametrize("place", ["nowhere/out.o", "own.hpp/out.o"])
def test_an_object_that_cannot_be_written_is_told_first(trial: Trial, place: str) -> None:
    """Clang opens its output before it reads the source."""
    lab = trial.lab
    lab.write("k.hip", source(HOST))
    ended = [lab.run([*launcher, *lab.words(output=place)]) for launcher in ((), LAUNCHER, LAUNCHER)]
    texts = [re.sub(rb"out-[0-9a-f]+\.o\.tmp", b"", one.err) for one in ended]
    assert texts[0] == texts[1] == texts[2]
    assert b"wrong_on_host" not in texts[0]


def ends_alike_behind_a_link(lab: Lab, link: Path, words: list[str]) -> None:
    """The link leads to an old file before each compile."""
    target = lab.root / "target"
    ends = []
    for launcher in ((), LAUNCHER):
        target.write_text("old")
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        ended = lab.run([*launcher, *words])
        ends.append((ended.status, ended.err, os.path.lexists(link), link.is_symlink(), target.read_text()))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("text", [ALL, MISSING], ids=["wrong", "missing"])
@pytest.mark.parametrize("rule", ["nowhere/out.d", "link.d"])
def test_a_dependency_file_in_an_odd_place_ends_as_with_plain_clang(trial: Trial, rule: str, text: str) -> None:
    lab = trial.lab
    lab.write("k.hip", source(text))
    ends_alike_behind_a_link(lab, lab.root / "link.d", lab.words("-MD", "-MF", rule))


@only_19
def test_an_object_behind_a_link_ends_as_with_plain_clang(trial: Trial) -> None:
    lab = trial.lab
    lab.write("k.hip", source(HOST))
    ends_alike_behind_a_link(lab, lab.root / "out.o", lab.words())


@only_19
def test_what_was_right_before_the_failure_is_served_afterwards(trial: Trial) -> None:
    lab = trial.lab
    lab.write("k.hip", source(HOST))
    assert lab.compile().status == 1
    lab.write("k.hip", source(HOST.replace("wrong_on_host", "1234")))
    right = lab.compile()
    assert right.status == 0
    assert right.counted.back_ends == 0


@only_15
def test_hipccs_word_about_a_failure_is_its_own(lab: Lab) -> None:
    """It may say more behind the compiler."""
    lab.write("own.hpp", "#pragma once\n")
    lab.write("k.hip", source(ALL))
    command = ["hipcc", *ARCHS, *BARE, "-c", "k.hip", "-o", "out.o"]
    plain, cached = lab.run(command), lab.run([*LAUNCHER, *command])
    assert cached.status == plain.status != 0
    assert cached.err.count(b"generated when compiling") == plain.err.count(b"generated when compiling") == 1


# Which jobs run


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return host_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def world(tmp_path: Path, template: bytes) -> World:
    world = World(tmp_path, template)
    world.compile()
    world.write("k.hip", "include x.h\nkernel 2\nhost 2\n")
    return world


def fail(world: World, kind: str, arch: str) -> CommandFailed:
    """A compile whose job of that kind finds a fault, recorded as the launcher does."""
    world.compiler.fails = {kind}
    world.compiler.says = {kind: f"k.hip:1:1: error: no\n1 error generated when compiling for {arch}.\n"}
    with pytest.raises(CommandFailed) as failed:
        world.compile()
    told = outcome.FAILED, "", str(failed.value)
    world.history.save(Record(f"{world.root}/out/k.o", world.clock(), (), str(world.root), *told, (), {}, ()))
    return failed.value


def test_after_an_edit_the_first_pass_runs_alone_until_it_is_through(world: World) -> None:
    failed = fail(world, "front gfx1030", "gfx1030")
    assert world.ran() == {"front gfx1030"}
    assert failed.text == "k.hip:1:1: error: no\n1 error generated when compiling for gfx1030.\n"
    assert failed.status == 1


def test_the_pass_that_failed_last_is_waited_for(world: World) -> None:
    fail(world, "front gfx906", "gfx906")
    world.write("k.hip", "include x.h\nkernel 3\nhost 2\n")
    fail(world, "front gfx906", "gfx906")
    assert world.ran("front") == {"front gfx1030", "front gfx906"}
    assert world.ran("host") == set()


def test_passes_before_a_failure_come_to_their_end_and_are_kept(world: World) -> None:
    failed = fail(world, "host", "host")
    assert failed.job == "host"
    world.compiler.fails = set()
    done = world.compile()
    assert world.ran() == {"host", "bundle"}
    assert done.outcome.outcome == "partial"


def test_what_passes_before_a_failure_said_is_told_first(world: World) -> None:
    world.compiler.fails = {"host"}
    world.compiler.says = {
        "front gfx906": "warning of gfx906\n",
        "host": "error: no\n1 error generated when compiling for host.\n",
    }
    with pytest.raises(CommandFailed) as failed:
        world.compile()
    assert failed.value.text == "warning of gfx906\nerror: no\n1 error generated when compiling for host.\n"


@pytest.mark.parametrize("kind", ["back gfx906", "link", "bundle"])
def test_a_job_behind_the_passes_is_told_by_the_users_own_command(world: World, kind: str) -> None:
    world.compiler.fails = {kind}
    world.compiler.says = {kind: "error: no\n1 error generated when compiling for gfx906.\n"}
    with pytest.raises(JobFailed) as failed:
        world.compile()
    assert not isinstance(failed.value, CommandFailed)


@pytest.mark.parametrize("said", ["error: no\n", "1 error generated.\nand more\n", "k: 1 error generated.\n", ""])
def test_a_pass_that_ends_without_its_count_is_told_by_the_users_own_command(world: World, said: str) -> None:
    world.compiler.fails = {"front gfx1030"}
    world.compiler.says = {"front gfx1030": said}
    with pytest.raises(JobFailed) as failed:
        world.compile()
    assert not isinstance(failed.value, CommandFailed)
