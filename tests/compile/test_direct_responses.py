"""Direct hits of commands with response files: what these say is part of what the compile depended on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from direct_lab import Direct, direct
from hip import BARE, CUID, HIP_IN_SHORT, HIT, LAUNCHER, Ended, Lab, only_19, replace, rewrite, script, settle
from hipcache.app.front import Compiled, make
from hipcache.build.context import open_context
from hipcache.clang.command import Command, parse
from hipcache.config import Config
from hipcache.direct.provenance import Indirect, Provenance

pytestmark = pytest.mark.archs(1)

__all__ = ["direct"]

SOURCE = '#include "hip_in_short.hpp"\nextern "C" __global__ void kernel(int* p) { p[0] = ONE * 10 + TWO; }\n'


@pytest.fixture
def nested(direct: Direct) -> Direct:
    """`@words.rsp` names the source and the response file `sub/more`, relative to the working directory."""
    lab = direct.lab
    lab.write("k.hip", SOURCE)
    lab.write("words.rsp", "--offload-arch=gfx906 -DONE=1 @sub/more k.hip")
    lab.write("sub/more", "-DTWO=2")
    lab.write("other", "-DTWO=3")
    return direct


def words(lab: Lab) -> list[str]:
    return [lab.compiler, "@words.rsp", *BARE, CUID, "-c", "-o", "out.o"]


def made(lab: Lab, launcher: tuple[str, ...], command: list[str]) -> tuple[Ended, bytes]:
    settle()
    (lab.root / "out.o").unlink(missing_ok=True)
    ended = lab.run([*launcher, *command])
    return ended, (lab.root / "out.o").read_bytes() if (lab.root / "out.o").exists() else b""


def warm(direct: Direct, command: list[str] | None = None) -> bytes:
    """The object of a command that is a direct hit from now on."""
    lab = direct.lab
    command = command or words(lab)
    plain, first = both(lab, command)
    second, served = (made(lab, launcher, command) for launcher in (LAUNCHER, (str(direct.program),)))
    assert plain[0].status == 0, plain[0].err
    assert first == second == served == plain
    return plain[1]


def both(lab: Lab, command: list[str]) -> tuple[tuple[Ended, bytes], tuple[Ended, bytes]]:
    """What plain clang makes, and hipcache."""
    return lab.by_both(lambda *launcher: made(lab, launcher, command), command, without=[lab.root / "out.o"])


Change = Callable[[Lab], object]
CHANGES: dict[str, Change] = {
    "edited": lambda lab: lab.write("words.rsp", "--offload-arch=gfx906 -DONE=7 @sub/more k.hip"),
    "edited in the time and size of before": lambda lab: rewrite(
        lab.root / "words.rsp", "--offload-arch=gfx906 -DONE=8 @sub/more k.hip"
    ),
    "a nested one is edited": lambda lab: lab.write("sub/more", "-DTWO=9"),
    "a nested one is replaced by one of the same size and times": lambda lab: replace(
        lab.root / "sub/more", b"-DTWO=5"
    ),
    "another one is named": lambda lab: lab.write("words.rsp", "--offload-arch=gfx906 -DONE=1 @other k.hip"),
    "one is a link to another": lambda lab: (
        (lab.root / "sub/more").unlink(),
        (lab.root / "sub/more").symlink_to("../other"),
    ),
    "its directory is a link to another": lambda lab: (
        lab.write("away/more", "-DTWO=6"),
        (lab.root / "sub").rename(lab.root / "old"),
        (lab.root / "sub").symlink_to("away"),
    ),
    "gone": lambda lab: (lab.root / "words.rsp").unlink(),
    "a nested one is gone": lambda lab: (lab.root / "sub/more").unlink(),
}


@only_19
@pytest.mark.parametrize("change", CHANGES)
def test_it_is_no_direct_hit_after(nested: Direct, change: str) -> None:
    lab = nested.lab
    before = warm(nested)
    CHANGES[change](lab)
    assert made(lab, (str(nested.program),), words(lab))[0].status == 99
    plain, cached = both(lab, words(lab))
    assert plain == cached
    assert plain[1] != before


@pytest.mark.archs(2)
def test_what_it_says_anew_in_other_words_is_found_by_the_engine(nested: Direct) -> None:
    lab = nested.lab
    before = warm(nested)
    lab.write("words.rsp", "'--offload-arch=gfx906'\n-DONE=1 @sub/more\nk.hip\n")
    lab._seen = lab.stats()
    assert made(lab, LAUNCHER, words(lab))[1] == before
    assert lab.counted().outcome == HIT
    assert warm(nested) == before


@only_19
def test_the_same_words_elsewhere_are_another_command(nested: Direct) -> None:
    lab = nested.lab
    warm(nested)
    lab.write("else/k.hip", SOURCE)
    lab.write("else/hip_in_short.hpp", HIP_IN_SHORT)
    lab.write("else/all", (lab.root / "words.rsp").read_text())
    lab.write("else/sub/more", "-DTWO=4")
    assert lab.run([nested.program, *words(lab)], cwd=lab.root / "else").status == 99


def parsed(lab: Lab) -> Command:
    return parse(tuple(words(lab)), str(lab.root), lab.environ)


def compiled(lab: Lab, command: Command) -> Compiled:
    settle()
    context = open_context(Config(dir=lab.store), lab.environ, racy=0.03)
    return make(context, command, None)


@pytest.mark.archs(2)
@only_19
def test_one_that_changes_after_the_command_was_read_is_not_relied_on(nested: Direct) -> None:
    lab = nested.lab
    assert isinstance(compiled(lab, parsed(lab)).provenance, Provenance)
    command = parsed(lab)
    lab.write("sub/more", "-DTWO=8")
    assert compiled(lab, command).provenance == Indirect("a response file changed")
    command = parsed(lab)
    (lab.root / "sub/more").unlink()
    lab.write("words.rsp", "--offload-arch=gfx906 -DONE=1 k.hip")
    lab.write("k.hip", SOURCE.replace("TWO", "0"))
    assert compiled(lab, command).provenance == Indirect("a response file changed")


@only_19
def test_behind_a_script_that_hands_it_on_it_is_watched(nested: Direct) -> None:
    lab = nested.lab
    compiler = script(lab.root / "clang++", f'exec {lab.compiler} "$@"\n')
    command = [str(compiler), *words(lab)[1:]]
    warm(nested, command)
    lab.write("sub/more", "-DTWO=5")
    assert made(lab, (str(nested.program),), command)[0].status == 99


@only_19
def test_one_that_a_script_reads_itself_is_the_engines_affair(nested: Direct) -> None:
    lab = nested.lab
    compiler = script(lab.root / "clang++", f'shift; exec {lab.compiler} $(cat words.rsp) "$@"\n')
    command = [str(compiler), *words(lab)[1:]]
    plain = made(lab, (), command)
    for _ in range(3):
        assert made(lab, LAUNCHER, command) == plain
    assert made(lab, (str(nested.program),), command)[0].status == 99
