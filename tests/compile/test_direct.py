"""Direct hits: a whole compile that nothing has changed for is served by the native launcher, without the engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from direct_lab import VALUE, Direct, direct
from hip import HIT, LAUNCHER, Lab, apart, in_terminal, only_19, replace, rewrite, script, settle, since_19, toolchain

__all__ = ["direct"]
pytestmark = pytest.mark.archs(1)


@pytest.mark.archs(2)
def test_a_warm_compile_starts_no_engine_and_writes_what_the_compiler_would(direct: Direct) -> None:
    lab = direct.lab
    flags = ("-MD", "-MF", "out.d", "-Wall")
    lab.write("k.hip", VALUE + "static int unused;\n")
    before = lab.warm(*flags)
    rule = (lab.root / "out.d").read_text()
    for name in ("out.o", "out.d"):
        (lab.root / name).unlink()
    ended = lab.run([str(direct.program), *lab.words(*flags)])
    assert (ended.status, ended.out, ended.err.decode()) == (0, b"", before.messages)
    assert "unused" in before.messages
    assert (lab.root / "out.o").read_bytes() == before.object
    assert (lab.root / "out.d").read_text() == rule
    assert (lab.root / "out.o").stat().st_mode & 0o777 == 0o666 & ~_umask()
    counted = lab.counted()
    assert (counted.outcome, counted.missed, counted.served) == (HIT, frozenset(), {"gfx906", "gfx90a", "host"})


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_messages_on_a_terminal_are_those_for_that_terminal(direct: Direct) -> None:
    lab = direct.lab
    lab.write("k.hip", VALUE + "static int a_variable_with_a_rather_long_name_that_nobody_has_ever_used;\n")
    words, colours = lab.words("-Wall"), lab.environ | {"TERM": "xterm-256color"}
    plain = in_terminal(words, lab.root, colours | {"COLUMNS": "60"})
    assert b"\x1b[" in plain[1]
    lab.warm("-Wall")
    served, narrow = colours | {"COLUMNS": "60"}, colours | {"COLUMNS": "30"}
    for _ in range(2):
        settle()
        assert in_terminal([*LAUNCHER, *words], lab.root, served) == plain
    assert in_terminal([str(direct.program), *words], lab.root, served) == plain
    for other in (narrow, served | {"TERM": "dumb"}):
        assert in_terminal([str(direct.program), *words], lab.root, other)[0] == 99
        assert in_terminal([*LAUNCHER, *words], lab.root, other) == in_terminal(words, lab.root, other)
    # Those that go elsewhere have a record of their own.
    lab._seen = lab.stats()
    assert direct.ask("-Wall")
    assert b"\x1b[" not in lab.run([str(direct.program), *words]).err
    lab.write("k.hip", VALUE + "static int another;\n")
    assert in_terminal([str(direct.program), *words], lab.root, served)[0] == 99


def test_explain_tells_of_a_direct_hit(direct: Direct) -> None:
    direct.lab.warm()
    assert direct.ask()
    told = direct.lab.hipcache("explain", "out.o").out.decode()
    assert ": hit" in told.splitlines()[0]
    assert direct.lab.hipcache("explain").out.decode() == told


@only_19
def test_only_an_option_that_says_native_asks_the_machine(direct: Direct) -> None:
    """Not a project by that name."""
    lab = direct.lab
    (lab.root / "native").mkdir()
    lab.write("own.cfg", "-march=native\n")
    for flag, known in ((f"-I{lab.root}/native", True), ("--config=./own.cfg", False)):
        lab.compile(flag)
        lab.compile(flag)
        assert direct.ask(flag) is known


# What makes it none


Change = Callable[[Lab], object]

CHANGES: dict[str, Change] = {
    "a header has other text": lambda lab: lab.write("value.hpp", '#include "hip_in_short.hpp"\n#define VALUE 2\n'),
    "a header of the same size and time": lambda lab: rewrite(
        lab.root / "value.hpp", (lab.root / "value.hpp").read_text().replace("1", "3")
    ),
    "a file in its place with the same size and time": lambda lab: replace(
        lab.root / "value.hpp", (lab.root / "value.hpp").read_bytes().replace(b"1", b"4")
    ),
    "a file that was looked for in vain": lambda lab: lab.write("first/value.h", "#error\n"),
    "a file by the name of an option's value": lambda lab: lab.write("225", ""),
    "the source is gone": lambda lab: (lab.root / "k.hip").unlink(),
    "a config file": lambda lab: lab.write(lab.root.parent / "home/.config/hipcache/hipcache.yaml", "jobs: 1\n"),
}


@only_19
@pytest.mark.parametrize("change", CHANGES)
def test_it_is_no_direct_hit_after(direct: Direct, change: str) -> None:
    (direct.lab.root / "first").mkdir()
    lab, flags = direct.lab, ("-Ifirst", "-mllvm", "-inline-threshold=225")
    lab.warm(*flags)
    assert direct.ask(*flags)
    CHANGES[change](lab)
    assert not direct.ask(*flags)
    if change != "the source is gone":
        lab.compile(*flags)
        settle()


@only_19
def test_a_working_copy_that_begins_elsewhere_is_another_cuid(direct: Direct) -> None:
    lab = direct.lab
    words = [word for word in lab.words() if "cuid" not in word]
    for _ in range(2):
        settle()
        assert lab.run([*LAUNCHER, *words]).status == 0
    assert lab.run([str(direct.program), *words]).status == 0
    (lab.root / ".git").mkdir()
    assert lab.run([str(direct.program), *words]).status == 99


@only_19
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CPATH", "/nowhere"),
        ("SOURCE_DATE_EPOCH", "1"),
        ("LD_LIBRARY_PATH", "/nowhere"),
        ("ROCM_PATH", "/x"),
        ("HOME", "/"),
    ],
)
def test_a_variable_that_a_tool_can_ask_for_matters(direct: Direct, name: str, value: str) -> None:
    direct.lab.warm()
    assert direct.ask()
    assert not direct.ask(env={name: value})
    assert direct.ask()


@only_19
def test_a_variable_that_no_tool_can_ask_for_does_not_matter(direct: Direct) -> None:
    job = "BUILD_NUMBER_OF_THIS_JOB"
    for number in (1, 2):
        direct.lab.compile(env={job: str(number)})
    assert direct.ask(env={job: "3"})
    assert direct.ask()
    assert not direct.ask(env={"HIPCHECK_NUMBER": "1"}), "the name begins as one of HIP's own"


def test_pwd_matters_only_where_it_is_another_name_of_the_working_directory(direct: Direct) -> None:
    """Debug information has the directory's name as PWD has it; `make -C` leaves PWD as it was."""
    lab, here = direct.lab, str(direct.lab.root)
    link = lab.root.with_name("link")
    link.symlink_to(lab.root)
    others = ["/", "/nowhere", "k.hip", ".", str(lab.root.parent), here + "\n", here]
    before = lab.warm("-g", env={"PWD": others[0]})
    for pwd in others:
        assert direct.ask("-g", env={"PWD": pwd}), pwd
        assert (lab.root / "out.o").read_bytes() == before.object
    assert not direct.ask("-g", env={"PWD": str(link)})
    after = lab.changed(before, "-g", env={"PWD": str(link)})
    assert direct.ask("-g", env={"PWD": str(link)})
    assert (lab.root / "out.o").read_bytes() == after.object
    for pwd in (here + "/.", *others):
        assert not direct.ask("-g", env={"PWD": pwd}), pwd


def test_pwd_matters_to_a_compiler_that_is_a_script(direct: Direct) -> None:
    lab = direct.lab
    real, lab.compiler = lab.compiler, str(lab.root / "clang++")
    script(lab.root / "clang++", f'exec {real} "$@"\n')
    settle()
    for pwd in ("/", "/nowhere"):
        lab.compile(env={"PWD": pwd})
        assert not direct.ask(env={"PWD": "/tmp"})


@only_19
def test_a_tool_that_changes_ends_direct_hits(lab: Lab, tmp_path: Path) -> None:
    compiler = toolchain(tmp_path / "llvm", lab.version)
    lab.compiler = str(compiler)
    direct = Direct(lab, tmp_path / "alone")
    settle()
    lab.warm()
    assert direct.ask()
    content = compiler.with_name("lld").read_bytes()
    replace(compiler.with_name("lld"), content[:-1] + bytes([content[-1] ^ 1]))
    assert not direct.ask()


def test_an_edit_and_back_within_one_tick_is_seen(direct: Direct) -> None:
    lab, header = direct.lab, direct.lab.root / "value.hpp"
    before = lab.warm()
    text = header.read_text()
    for value in range(2, 10):  # each right after the compile, without a wait
        rewrite(header, text.replace("1", str(value)))
        ended = lab.run([*LAUNCHER, *lab.words()])
        made = (lab.root / "out.o").read_bytes()
        lab.run(lab.words())
        assert (ended.status, made) == (0, (lab.root / "out.o").read_bytes())
    assert made != before.object


@only_19
def test_a_directory_that_became_a_link_to_another_one_is_seen(direct: Direct) -> None:
    lab = direct.lab
    lab.write("one/value.hpp", (lab.root / "value.hpp").read_bytes())
    lab.write("two/value.hpp", (lab.root / "value.hpp").read_text().replace("1", "2"))
    (lab.root / "value.hpp").unlink()
    before = lab.warm("-Ione", "-I.")
    assert direct.ask("-Ione", "-I.")
    (lab.root / "one").rename(lab.root / "old")
    (lab.root / "one").symlink_to("two")
    assert not direct.ask("-Ione", "-I.")
    assert lab.compile("-Ione", "-I.").object != before.object


@only_19
def test_a_file_system_mounted_over_a_directory_is_seen(direct: Direct) -> None:
    lab = direct.lab
    lab.write("one/value.hpp", (lab.root / "value.hpp").read_bytes())
    lab.write("two/value.hpp", (lab.root / "value.hpp").read_bytes().replace(b"1", b"2"))
    (lab.root / "value.hpp").unlink()
    lab.warm("-Ione", "-I.")
    assert direct.ask("-Ione", "-I.")
    argv = [direct.program, *lab.words("-Ione", "-I.")]
    assert apart(lab, "", argv).status == 0  # all but the mount is as here
    lab.counted()
    assert apart(lab, "mount --bind two one || exit 1", argv).status == 99
    assert direct.ask("-Ione", "-I.")


ONE_OUTPUT = [
    "--offload-compress",
    "--offload-new-driver",
    "--offload-new-driver -fgpu-rdc",
    "-fgpu-rdc",
    "-emit-llvm",
    "--offload-device-only",
    "--offload-device-only --gpu-bundle-output -emit-llvm",
    "--offload-host-only",
]


@pytest.mark.sampled(2)
@since_19
@pytest.mark.parametrize("flags", [*ONE_OUTPUT, "-S", "-S --offload-host-only"])
def test_whatever_has_one_output_is_a_direct_hit(direct: Direct, flags: str) -> None:
    words, lab = flags.split(), direct.lab
    before = lab.warm(*words)
    assert direct.ask(*words)
    assert (lab.root / "out.o").read_bytes() == before.object
    lab.write("value.hpp", '#include "hip_in_short.hpp"\n#define VALUE 2\n')
    assert not direct.ask(*words)
