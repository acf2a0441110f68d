"""Compiles that say something, after an edit of comments: what is served, what is shown, and which passes run."""

from __future__ import annotations

import pytest
from hip import HIT, LAUNCHER, Lab, in_terminal, only_19

KERNEL = """\
#include "hip_in_short.hpp" // one
#include "h.hpp"
__global__ void kernel(int* p) { // first
  int unused; /* quoted */
  p[0] = VALUE; // of the kernel
}
/* before */
void host(int* p) { (void)p; } // last
"""
INCLUDED = "#define VALUE 3 // three\ninline void f() {\n  int idle; // quoted\n  // not so\n}\n"
OWN = ("-Wall", "-I.")


@pytest.fixture
def talking(lab: Lab) -> Lab:
    """A warm store, and a source with warnings of its own and of its header."""
    lab.write("k.hip", KERNEL)
    lab.write("h.hpp", INCLUDED)
    lab.warm(*OWN)
    assert lab.compile(*OWN).messages.count("warning: unused variable") >= 4
    return lab


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("k.hip", "// last\n", "// last, or not\n"),
        ("k.hip", "// last\n", "// last\n// at the end\n"),
        ("k.hip", "// of the kernel", ""),
        ("k.hip", "/* before */", "// behind, \xc3\xa4"),
        ("k.hip", "// first", "// the line above"),
        ("k.hip", "{ // first\n", "{ // first\r\n"),
        ("h.hpp", "// three", "//"),
        ("h.hpp", "// not so", "\t// not so"),
    ],
)
@pytest.mark.archs(1)
def test_a_comment_that_no_message_quotes_is_a_hit(talking: Lab, name: str, old: str, new: str) -> None:
    before = talking.compile(*OWN).messages
    text = (talking.root / name).read_text()
    assert old in text
    talking.write(name, text.replace(old, new))
    after = talking.compile(*OWN)
    assert (after.messages, after.outcome) == (before, HIT)
    assert served_natively(talking)


def served_natively(lab: Lab) -> bool:
    """Without the engine."""
    launcher = lab.root.parent / "alone" / "hipcache"
    launcher.parent.mkdir(exist_ok=True)
    launcher.unlink(missing_ok=True)
    launcher.hardlink_to(LAUNCHER[0])
    return lab.run([launcher, *lab.words(*OWN)]).status == 0 and lab.counted().outcome == HIT


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("k.hip", "/* quoted */", "/* said */"),
        ("k.hip", "/* quoted */", ""),
        ("k.hip", "/* quoted */\n", "/* quoted */\r\n"),
        ("k.hip", "  int unused", "\tint unused"),
        ("k.hip", "int unused", "/* */ int unused"),
        ("h.hpp", "idle; // quoted", "idle; // said"),
        ("h.hpp", "idle;", "idle;\t"),
    ],
)
@pytest.mark.archs(1)
def test_a_line_that_a_message_quotes_is_shown_as_it_is(talking: Lab, name: str, old: str, new: str) -> None:
    before = talking.compile(*OWN).messages
    talking.write(name, (talking.root / name).read_text().replace(old, new))
    after = talking.compile(*OWN)
    assert after.outcome != HIT
    assert after.counted.back_ends == 0
    assert after.messages != before or "\r" in new or new.endswith("\t")


def test_where_lines_move_messages_have_the_new_numbers_and_nothing_runs(talking: Lab) -> None:
    for text in ("// a line more\n" + KERNEL, KERNEL.replace("/* before */", "/* before\n */")):
        before = talking.compile(*OWN).messages
        talking.write("k.hip", text)
        after = talking.compile(*OWN)
        assert (after.outcome, after.counted.back_ends) == (HIT, 0)
        assert after.messages != before


@pytest.mark.archs(1)
def test_passes_with_other_messages_go_by_their_own(lab: Lab) -> None:
    """The host's pass quotes a line that the device's does not."""
    text = KERNEL.replace("(void)p;", "(void)p;\n#ifndef __HIP_DEVICE_COMPILE__\n  int mine; // the host's\n#endif\n")
    lab.write("k.hip", text)
    lab.write("h.hpp", INCLUDED)
    lab.warm(*OWN)
    lab.write("k.hip", text.replace("// the host's", "// that of the host"))
    after = lab.compile(*OWN)
    assert "that of the host" in after.messages
    assert after.counted.missed == {"host"}


@pytest.mark.archs(1)
@pytest.mark.parametrize(
    "flag",
    [
        "-fdiagnostics-print-source-range-info",
        "-fdiagnostics-parseable-fixits",
        "-fdiagnostics-format=vi",
        "-fdiagnostics-format=msvc",
        "-fno-show-column",
        "-fno-show-source-location",
        "-fcaret-diagnostics-max-lines=9",
        "-fdiagnostics-absolute-paths",
        "-fno-diagnostics-show-line-numbers",
    ],
)
@only_19
def test_in_another_format_each_byte_counts(lab: Lab, flag: str) -> None:
    lab.write("k.hip", KERNEL)
    lab.write("h.hpp", INCLUDED)
    lab.warm(*OWN, flag)
    lab.write("k.hip", KERNEL.replace("// last", "// another"))
    assert lab.compile(*OWN, flag).outcome != HIT


@pytest.mark.archs(1)
def test_on_a_terminal_comments_go_by_what_was_shown_there(talking: Lab) -> None:
    command = talking.words(*OWN)
    environ = {**talking.environ, "TERM": "xterm"}

    def shown(*launcher: str) -> bytes:
        status, text = in_terminal([*launcher, *command], talking.root, environ)
        assert status == 0
        return text

    shown(*LAUNCHER)
    talking.counted()
    talking.write("k.hip", KERNEL.replace("// last", "// shown to nobody"))
    assert (shown(*LAUNCHER), talking.counted().outcome) == (shown(), HIT)
    talking.write("k.hip", KERNEL.replace("/* quoted */", "/* shown */"))
    assert shown(*LAUNCHER) == shown()
