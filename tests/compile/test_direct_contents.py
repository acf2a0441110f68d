"""Direct hits by content: the same files with other inodes and times (a fresh clone, an unpacked store) are a hit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from direct_lab import Direct, anew, direct, served_twice
from hip import LAUNCHER, Lab, apart, only_19, replace, rewrite, settle, toolchain
from hipcache.direct.record import NO_STATE
from test_direct_trust import Record

__all__ = ["direct"]

pytestmark = pytest.mark.archs(1)

STATE = 1


@pytest.mark.files
@only_19
def test_a_fresh_clone_is_served_by_content_and_then_by_its_new_state(direct: Direct) -> None:
    lab = direct.lab
    before = lab.warm()
    old = direct.record().stat().st_ino
    anew(lab)
    settle()
    served_twice(direct)
    assert direct.record().stat().st_ino != old
    assert (lab.root / "out.o").read_bytes() == before.object
    rewrite(lab.root / "value.hpp", (lab.root / "value.hpp").read_text().replace("1", "2"))
    assert not direct.ask()
    lab.changed(before)


@only_19
def test_young_files_are_served_by_content_and_their_state_is_not_relied_on(direct: Direct) -> None:
    """A header of the future is younger than any clock says."""
    lab = direct.lab
    lab.write("value.hpp", (lab.root / "value.hpp").read_bytes())
    os.utime(lab.root / "value.hpp", (1 << 33, 1 << 33))
    lab.warm()
    assert Record(direct).parts[STATE].hex() == NO_STATE
    for _ in range(2):
        assert direct.ask()
        assert Record(direct).parts[STATE].hex() == NO_STATE
    rewrite(lab.root / "value.hpp", (lab.root / "value.hpp").read_text().replace("1", "2"))
    assert not direct.ask()


Change = Callable[[Lab], object]


def _link(lab: Lab, name: str, to: str) -> None:
    (lab.root / name).rename(lab.root / to)
    (lab.root / name).symlink_to(to)


SAME: dict[str, Change] = {
    "a header with other times": lambda lab: os.utime(lab.root / "value.hpp", (1, 1)),
    "another file of the same content": lambda lab: replace(
        lab.root / "value.hpp", (lab.root / "value.hpp").read_bytes()
    ),
    "the source is a link to the same text": lambda lab: _link(lab, "k.hip", "other.hip"),
    "an empty header": lambda lab: os.utime(lab.root / "empty.hpp"),
    "other permissions": lambda lab: (lab.root / "value.hpp").chmod(0o640),
}
OTHER: dict[str, Change] = {
    "a header changed in place, its times restored": lambda lab: rewrite(
        lab.root / "value.hpp", (lab.root / "value.hpp").read_text().replace("1", "3")
    ),
    "a header that is empty now": lambda lab: lab.write("value.hpp", ""),
    "an empty header that is not": lambda lab: lab.write("empty.hpp", "#define MORE\n"),
    "a comment more": lambda lab: lab.write("k.hip", (lab.root / "k.hip").read_text() + "//\n"),
    "a file that was looked for in vain": lambda lab: lab.write("first/value.hpp", ""),
    "a directory by that name": lambda lab: (lab.root / "first/value.hpp").mkdir(),
    "a link that leads nowhere": lambda lab: (lab.root / "k.hip").unlink() or (lab.root / "k.hip").symlink_to("none"),
    "a link to another text": lambda lab: (
        lab.write("other.hpp", "#define VALUE 4\n"),
        (lab.root / "value.hpp").unlink(),
        (lab.root / "value.hpp").symlink_to("other.hpp"),
    ),
    "a directory in a file's place": lambda lab: (
        (lab.root / "value.hpp").unlink(),
        (lab.root / "value.hpp").mkdir(),
    ),
    "a pipe in a file's place": lambda lab: (
        (lab.root / "value.hpp").unlink(),
        os.mkfifo(lab.root / "value.hpp"),
    ),
    "a program in a header's place": lambda lab: (lab.root / "value.hpp").chmod(0o755),
}


@pytest.fixture
def many(direct: Direct) -> Direct:
    lab = direct.lab
    lab.write("empty.hpp", "")
    lab.write("first/none.hpp", "")
    lab.write("k.hip", '#include "empty.hpp"\n#include <value.hpp>\n' + (lab.root / "k.hip").read_text())
    return direct


FLAGS = ("-Ifirst", "-I.")


@only_19
def test_what_has_the_same_content_is_served(many: Direct) -> None:
    lab = many.lab
    before = lab.warm(*FLAGS)
    for change in SAME.values():
        change(lab)
        settle()
        served_twice(many, *FLAGS)
    assert lab.compile(*FLAGS).object == before.object


@only_19
@pytest.mark.parametrize("cloned", [False, True])
def test_what_has_not_is_left_to_the_engine(many: Direct, cloned: bool) -> None:
    """`cloned`: all else has another state too."""
    lab = many.lab
    lab.warm(*FLAGS)
    kept = lab.root.with_name("kept")
    shutil.copytree(lab.root, kept, symlinks=True)
    for name, change in OTHER.items():
        change(lab)
        if cloned and "pipe" not in name:
            anew(lab)
        assert not many.ask(*FLAGS), name
        shutil.rmtree(lab.root)
        shutil.copytree(kept, lab.root, symlinks=True)
        assert many.ask(*FLAGS), name


@only_19
def test_names_that_were_looked_for_in_vain_are_seen_also_by_renewed_guards(many: Direct) -> None:
    lab = many.lab
    lab.warm(*FLAGS)
    anew(lab)
    settle()
    served_twice(many, *FLAGS)
    lab.write("first/value.hpp", "#error\n")
    assert not many.ask(*FLAGS)
    (lab.root / "first/value.hpp").unlink()
    settle()
    served_twice(many, *FLAGS)
    lab.write("first/value.hpp", "#error\n")
    assert not many.ask(*FLAGS)


@only_19
def test_a_directory_that_comes_between_ends_what_its_guard_answers_for(direct: Direct) -> None:
    """`later` is missing: the guard of what is looked for in it is the directory above, until it is there."""
    lab = direct.lab
    flags = ("-Ilater/on", "-I.")
    lab.write("k.hip", "#include <value.hpp>\n" + (lab.root / "k.hip").read_text())
    lab.warm(*flags)
    (lab.root / "later").mkdir()
    anew(lab)
    settle()
    if not direct.ask(*flags):  # that a directory is missing may matter, too
        return
    served_twice(direct, *flags)
    lab.write("later/on/value.hpp", "#error\n")
    assert not direct.ask(*flags)


@only_19
def test_two_names_of_one_file_are_not_two_files(direct: Direct) -> None:
    """#pragma once takes a file with two names once, and a copy of it twice."""
    lab = direct.lab
    text = '#pragma once\n#include "hip_in_short.hpp"\nstatic int number = __COUNTER__;\n'.replace("__COUNTER__", "1")
    for name in ("one.hpp", "two.hpp"):
        lab.write(name, text.replace("static int number", "extern int number;\n#define TWICE\n//"))
    lab.write("k.hip", '#include "one.hpp"\n#include "two.hpp"\n' + (lab.root / "k.hip").read_text())
    lab.warm()
    anew(lab)
    assert direct.ask()
    (lab.root / "two.hpp").unlink()
    os.link(lab.root / "one.hpp", lab.root / "two.hpp")
    assert not direct.ask()


@only_19
def test_the_number_of_a_file_that_is_in_the_object_is_compared(direct: Direct) -> None:
    """Without a CUID clang names static variables of relocatable code after the source's inode."""
    lab = direct.lab
    lab.write("k.hip", (lab.root / "k.hip").read_text() + "static __attribute__((device)) int number;\n")
    words = [word for word in lab.words("-fgpu-rdc", "-fuse-cuid=none") if "5eed" not in word]
    program = [str(direct.program), *words]
    for _ in range(2):
        settle()
        assert lab.run([*LAUNCHER, *words]).status == 0
    if lab.run(program).status != 0:
        pytest.skip("such a compile is never a direct hit")
    anew(lab)
    assert lab.run(program).status == 99


@only_19
def test_a_compiler_is_known_by_its_content(lab: Lab, tmp_path: Path) -> None:
    compiler = toolchain(tmp_path / "llvm", lab.version)
    lab.compiler = str(compiler)
    direct = Direct(lab, tmp_path / "alone")
    settle()
    lab.warm()
    lld = compiler.with_name("lld")
    content = lld.read_bytes()
    for _ in range(2):
        replace(lld, content)
        settle()
        served_twice(direct)
    replace(lld, content[:-1] + bytes([content[-1] ^ 1]))
    assert not direct.ask()
    replace(lld, content)
    assert direct.ask()


OVERLAY = """\
mount -t tmpfs none {place} && mkdir {place}/upper {place}/work || exit 1
mount -t overlay -o lowerdir={root},upperdir={place}/upper,workdir={place}/work none {root} || exit 1
cd {root} || exit 1
"""


@only_19
def test_a_clone_in_an_overlay_is_served_and_none_of_its_directories_is_a_guard(many: Direct) -> None:
    """As in a container: an overlay does not keep the times of directories."""
    lab = many.lab
    lab.compile("-DFIRST", *FLAGS)  # compares all variables
    before = lab.warm(*FLAGS)
    place = lab.root.parent / "layers"
    place.mkdir()
    mounted = OVERLAY.format(root=lab.root, place=place)
    if apart(lab, mounted, ["true"]).status:
        pytest.skip("this machine lets nobody mount an overlay")
    told = lab.environ.get("PWD")  # the shell has one of its own
    program = " ".join(["env", f"PWD={told}" if told else "-uPWD", str(many.program), *lab.words(*FLAGS)])
    (lab.root / "out.o").unlink()
    twice = f"{program} && {program} || exit 98\ncat out.o\necho '#error' >first/value.hpp; {program}"
    ended = apart(lab, mounted, ["sh", "-c", twice])
    assert (ended.status, ended.out) == (99, before.object)
