"""Where outputs go, and what lies there already: links, modes, odd names, no room for temporary files."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hip import HIT, LAUNCHER, PASSED_THROUGH, Ended, Lab, kernel, let_others_in, rewrite, settle
from hipcache.base.paths import is_of_kernel

pytestmark = pytest.mark.archs(1)

RULE = ("-MD", "-MF", "out.d")


def look(path: Path) -> tuple[object, ...]:
    """What shows of a file: its content, names and mode."""
    if not os.path.lexists(path):
        return ("absent",)
    found = path.lstat()
    kept = path.read_bytes() if path.exists() else b""
    return kept, found.st_nlink, stat.filemode(found.st_mode)


def made_twice(lab: Lab, name: str, before: str, *flags: str) -> list[tuple[object, ...]]:
    """What shows of `name` and of `other` beside it, by plain clang, by the engine and by a direct hit. `before`: shell
    commands that put something in its place."""
    lab.warm(*flags)

    def run(*launcher: str) -> tuple[object, ...]:
        for path in (name, "other"):
            (lab.root / path).unlink(missing_ok=True)
        lab.run(["sh", "-c", before])
        settle()
        ended = lab.run([*launcher, *lab.words(*flags)])
        return ended.status, look(lab.root / name), look(lab.root / "other")

    outputs = [lab.root / path for path in ("out.o", "out.d", "other")]
    return [*lab.by_both(run, [*lab.words(*flags), before], without=outputs), run(*LAUNCHER)]


@pytest.mark.parametrize(
    "before",
    [
        "echo old > other; ln other out.d",
        "echo old > other; ln -s other out.d",
        "ln -s other out.d",
        "echo old > out.d; chmod 640 out.d",
        "echo old > out.d",
        "true",
    ],
)
def test_a_dependency_file_is_written_as_clang_writes_it(lab: Lab, before: str) -> None:
    plain, *cached = made_twice(lab, "out.d", before, *RULE)
    assert cached == [plain, plain]


@pytest.mark.parametrize(
    "before",
    ["echo old > other; ln other out.o", "echo old > other; ln -s other out.o", "echo x > out.o; chmod 640 out.o"],
)
def test_an_object_is_replaced_as_clang_replaces_it(lab: Lab, before: str) -> None:
    plain, *cached = made_twice(lab, "out.o", before)
    assert cached == [plain, plain]


def as_another_user(lab: Lab, argv: Sequence[str]) -> Ended:
    """Runs a command as a user with no rights of root's over files, who may be this one."""
    if os.geteuid() != 0:
        return lab.run(argv)
    return lab.run(["setpriv", "--reuid", "65533", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", *argv])


@pytest.mark.parametrize("name", ["out.d", "out.o"])
@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_a_file_that_may_not_be_written_is_an_error_as_of_clang(lab: Lab, name: str, mode: int) -> None:
    if os.geteuid() == 0:
        let_others_in(lab.root)
        for path in (lab.root.parent, *lab.root.parent.rglob("*")):
            os.chown(path, 65533, -1, follow_symlinks=False)
    words = lab.words(*RULE)
    ended = []
    for launcher in (LAUNCHER, LAUNCHER, (), LAUNCHER):
        settle()
        ended.append(as_another_user(lab, [*launcher, *words]))
        assert bool(ended[-1].status) == (len(ended) > 2), ended[-1]
        (lab.root / name).chmod(mode if len(ended) > 1 else 0o644)
    assert ended[3] == ended[2]
    assert b"out." in ended[3].err


def test_tabs_in_a_name_are_part_of_it_in_a_dependency_file(lab: Lab) -> None:
    lab.write("a\tb/value.h", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", '#include "value.h"'))
    served = lab.warm("-I", "a\tb", *RULE)
    assert served.dependencies == served.plain_dependencies != ""
    lab.write("a\tb/value.h", "#define VALUE 2\n")
    lab.changed(served, "-I", "a\tb", *RULE)


def test_a_backslash_in_a_directorys_name_is_left_to_clang_which_writes_a_slash(lab: Lab) -> None:
    lab.write("a\\b/value.h", "#define VALUE 1\n")
    lab.write("a/b/value.h", "#define VALUE 3\n")
    lab.write("k.hip", kernel("VALUE", '#include "value.h"'))
    made = lab.compile("-I", "a\\b", *RULE)
    assert (made.outcome, made.counted.reason) == (PASSED_THROUGH, "compiler_option")
    assert made.dependencies == made.plain_dependencies
    lab.write("a\\b/k.hip", kernel("1"))
    assert lab.compile("-I.", *RULE, source="a\\b/k.hip").outcome == PASSED_THROUGH


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["TMPDIR", "TMP", "TEMP", "TEMPDIR"])
@pytest.mark.parametrize("place", ["/nonexistent/gone", "k.hip", "gone"])
def test_without_a_place_for_temporary_files_it_fails_as_clang_does(lab: Lab, name: str, place: str) -> None:
    lab.environ.pop("TMPDIR", None)
    lab.warm()
    failed = lab.compile(env={name: place})
    assert failed.status == 1
    assert "unable to make temporary file" in failed.messages


def test_a_place_for_temporary_files_that_goes_is_missed_at_once(lab: Lab) -> None:
    temporary = lab.root / "temporary"
    temporary.mkdir()
    lab.environ["TMPDIR"] = str(temporary)
    lab.warm()
    shutil.rmtree(temporary)
    assert lab.compile().status == 1
    temporary.mkdir()
    assert lab.compile().outcome == HIT
    assert lab.compile(env={"TMPDIR": "", "TMP": "gone"}).outcome == HIT


@pytest.mark.parametrize("option", ["-include", "-imacros"])
@pytest.mark.parametrize("rule", ["-MD", "-MMD"])
def test_the_null_device_as_a_header_is_cached(lab: Lab, option: str, rule: str) -> None:
    served = lab.warm(option, "/dev/null", rule, "-MF", "out.d")
    assert served.dependencies == served.plain_dependencies != ""
    lab.write("k.hip", kernel("3"))
    lab.changed(served, option, "/dev/null", rule, "-MF", "out.d")


def test_standard_input_as_a_header_is_not(lab: Lab) -> None:
    assert lab.compile("-include", "/dev/stdin").outcome != HIT
    assert lab.compile("-include", "/dev/stdin").outcome != HIT


def test_a_build_in_shared_memory_is_cached_like_any_other() -> None:
    """Below /dev, but no device."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        lab = Lab.make(Path(place), "19")
        lab.write("inc/value.hpp", "#define VALUE 1\n")
        source = lab.write("k.hip", kernel("VALUE", '#include "value.hpp"'))
        flags = (*RULE, f"-I{lab.root}/inc")
        for name in ("k.hip", source):
            served = lab.warm(*flags, source=name)
            rewrite(lab.root / "inc/value.hpp", "#define VALUE 2\n")
            lab.changed(served, *flags, source=name)
            rewrite(lab.root / "inc/value.hpp", "#define VALUE 1\n")
        lab.write("k.hip", "#include <absent.hpp>\n" + kernel("3"))
        assert lab.compile(*flags).status == 1
        lab.write("inc/absent.hpp", "")
        lab.warm(*flags)


@pytest.mark.parametrize("path", ["/dev/stdin", "/dev/shm/../stdin", "/proc/self/fd/0", "/dev/fd/0"])
def test_what_the_kernel_answers_is_no_file(path: str) -> None:
    assert is_of_kernel(path)
    assert not is_of_kernel("/dev/shm/../shm/k.hip") and not is_of_kernel("/device/k.hip")
