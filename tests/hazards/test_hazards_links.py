"""Never a wrong object where names of headers and directories change their meaning, and no content changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hip import Lab, kernel, settle
from hipcache.build.context import open_context
from hipcache.clang import driver
from hipcache.config import Config
from hipcache.processes.runner import SubprocessRunner, Traced

pytestmark = pytest.mark.archs(1)


def switch(link: Path, target: str) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def test_a_link_to_another_version_counts_where_the_old_one_is_searched_too(lab: Lab) -> None:
    lab.write("old/include/value.h", "#define VALUE 1\n")
    lab.write("new/include/value.h", "#define VALUE 2\n")
    lab.write("k.hip", kernel("VALUE", "#include <value.h>"))
    switch(lab.root / "current", "old")
    flags = ("-Icurrent/include", "-isystem", "old/include")
    before = lab.warm(*flags)
    switch(lab.root / "current", "new")
    lab.changed(before, *flags)


def test_two_names_of_one_directory_that_become_two_directories(lab: Lab) -> None:
    lab.write("first/other.h", "")
    lab.write("last/value.h", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include <value.h>"))
    switch(lab.root / "second", "first")
    flags = ("-Ifirst", "-Isecond", "-Ilast")
    before = lab.warm(*flags)
    (lab.root / "second").unlink()
    lab.write("second/value.h", "#define VALUE 2\n")
    lab.changed(before, *flags)


@pytest.mark.parametrize("switch_on", ["#pragma clang diagnostic warning", "#pragma GCC diagnostic error"])
def test_an_edit_of_a_comment_counts_where_the_text_switches_warnings_about_comments_on(
    lab: Lab, switch_on: str
) -> None:
    text = kernel("1", f'{switch_on} "-Wdocumentation"\n/// \\param p the numbers\n')
    lab.write("k.hip", text)
    lab.warm()
    lab.write("k.hip", text.replace("param p", "param q"))
    assert "parameter 'q' not found" in lab.compile().messages


def test_a_header_that_was_a_link_to_another_one_and_is_a_copy_now_is_read_twice(lab: Lab) -> None:
    lab.write("a/once.h", "#pragma once\nstatic int number = 1;\n")
    lab.write("k.hip", kernel("1", '#include "a/once.h"\n#include "b/once.h"'))
    (lab.root / "b").mkdir()
    switch(lab.root / "b/once.h", "../a/once.h")
    lab.warm()
    (lab.root / "b/once.h").unlink()
    lab.write("b/once.h", (lab.root / "a/once.h").read_bytes())
    assert "redefinition" in lab.compile().messages


class Meanwhile(SubprocessRunner):
    """Makes a change when the driver has just looked at everything."""

    def __init__(self, change: Callable[[], object]) -> None:
        super().__init__()
        self._change = change

    def trace(self, argv: Sequence[str], **how: Any) -> Traced:
        traced = super().trace(argv, **how)
        self._change()
        return traced


@pytest.mark.parametrize("change", ["compiler", "directory", "read through a link", "listed"])
def test_a_plan_is_not_remembered_if_a_change_came_while_the_driver_made_it(lab: Lab, change: str) -> None:
    """What the driver finds then are old files, whose own change times say nothing."""
    lab.write("v1/c.cfg", "-DVALUE=1\n")
    lab.write("v2/c.cfg", "-DVALUE=2\n")
    lab.write("k.hip", "")
    lab.write("gcc/lib/gcc/x86_64-linux-gnu/11/crtbegin.o", "")
    lab.write("prepared/crtbegin.o", "")
    compiler, current, gcc = (lab.root / name for name in ("compiler++", "current", "gcc/lib/gcc/x86_64-linux-gnu"))
    compiler.symlink_to(lab.compiler)
    current.symlink_to("v1")
    changes: dict[str, Callable[[], object]] = {
        "compiler": lambda: switch(compiler, "/usr/bin/true"),
        "directory": lambda: (current.rename(lab.root / "old"), (lab.root / "v2").rename(current)),
        "read through a link": lambda: switch(current, "v2"),
        "listed": lambda: (lab.root / "prepared").rename(gcc / "12"),
    }
    if change == "directory":
        current.unlink()
        (lab.root / "v1").rename(current)
    settle()
    words = [str(compiler), "-###", "--config", f"{current}/c.cfg", f"--gcc-toolchain={lab.root}/gcc"]
    words += ["--offload-arch=gfx906", "-nogpuinc", "-nogpulib", "-c", "k.hip"]
    context = open_context(Config(dir=lab.store), lab.environ, racy=0.03)
    for runner, known in ((Meanwhile(changes[change]), False), (Meanwhile(str), True)):
        with context.store.workdir() as scratch:
            argv = [lab.compiler, *words[1:]] if known and change == "compiler" else words
            answered = driver.run(argv[0], argv, context, runner, lab.root, scratch)
        assert bool(answered.observations) is known
        settle()
