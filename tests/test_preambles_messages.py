"""Messages of passes with precompiled preambles are plain clang's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hip import Lab, only_19
from hipcache.processes.runner import Traced
from preamble_lab import (
    BOTH,
    Watching,
    add_to_header,
    build,
    compile_in_process,
    counts,
    prelab,
    prepare,
    source,
    words,
)

__all__ = ["prelab"]
pytestmark = pytest.mark.archs(1)

WARNS = "[[nodiscard]] int kept();\nvoid dropped() { kept(); }\n"


def test_a_pass_that_warns_uses_one(prelab: Lab) -> None:
    prepare(prelab)
    assert "warning" in build(prelab, 1, body=WARNS).messages
    assert counts(prelab)["used"] == BOTH


def test_sources_that_warn_have_one_made(prelab: Lab) -> None:
    add_to_header(prelab, "[[deprecated]] int olden(int);\n[[nodiscard]] int kept();\n")
    body = "#define VALUE 4\nint dropped() { kept(); return olden(3); }\n"
    for number in (1, 2, 3):
        told = build(prelab, number, "-Wall", "-Wextra", body=body).messages
        assert told.count("declared here") + told.count("deprecated here") >= 1, "notes are in the header"
    assert counts(prelab) == {"used": BOTH, "made": BOTH, "checked": BOTH, "different": 0}


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("#define PASTE(a) a##1\n", "int f() { int PASTE(x); return 0; }\n"),
        ("", "#define GIVEN 7\n"),
        ("", "#define __HIP__ 7\n"),
    ],
    ids=["pasted", "command line", "built in"],
)
def test_messages_with_a_place_that_is_told_otherwise(prelab: Lab, header: str, body: str) -> None:
    add_to_header(prelab, header)
    for number in (91, 92, 93):
        build(prelab, number, "-Wall", "-Wextra", "-DGIVEN=2")
        if number > 91 and counts(prelab)["made"] >= BOTH:
            break
    assert "warning" in build(prelab, 1, "-Wall", "-Wextra", "-DGIVEN=2", body=body).messages
    assert counts(prelab)["different"] == 0


@pytest.mark.parametrize("option", ["-isystem", "-I"])
@pytest.mark.parametrize("line", ["clang diagnostic ignored", "GCC diagnostic ignored", "clang diagnostic error"])
def test_a_header_that_switches_a_warning(prelab: Lab, line: str, option: str) -> None:
    """The state lasts beyond the header, and so beyond the preamble."""
    prelab.write("sys/state.hpp", f'#pragma {line} "-Wunused-result"\n#pragma {line} "-Wunused-value"\n')
    flags = [f"{option}{prelab.root}/sys", "-Wall"]
    for number in range(91, 95):
        build(prelab, number, *flags, head="#include <state.hpp>\n")
    done = prelab.compile(*words(prelab), *flags, source=source(prelab, 1, "#include <state.hpp>\n", WARNS))
    assert done.status == (line == "clang diagnostic error")
    assert counts(prelab)["different"] == 0


@pytest.mark.parametrize(
    "flags",
    [
        ["-fcolor-diagnostics"],
        ["-fno-show-source-location"],
        ["-fdiagnostics-show-note-include-stack"],
        ["-fdiagnostics-absolute-paths"],
        ["-fno-caret-diagnostics"],
        ["-fdiagnostics-format=vi"],
        ["-Wno-everything"],
        ["-ferror-limit=1", "-fmessage-length=40"],
    ],
)
def test_messages_of_another_format(prelab: Lab, flags: Sequence[str]) -> None:
    add_to_header(prelab, "[[deprecated]] int olden(int);\n")
    for number in (1, 2, 3):
        build(prelab, number, "-Wall", *flags, body=WARNS + "int o() { return olden(2); }\n")
    assert counts(prelab)["different"] == 0


@pytest.mark.parametrize(
    "head",
    [
        "/* one /* two */\n",
        "// bad \udcff bytes\n",
        "/* bad \udcff */\n",
        "// no comment any more\r#define HIDDEN 1\n",
    ],
    ids=["comment in comment", "bytes", "bytes between", "carriage return"],
)
def test_a_comment_that_the_pass_must_read_itself(prelab: Lab, head: str) -> None:
    prepare(prelab)
    text = f"#include <hip/in_short.hpp>\n{head}#include <hip/value.hpp>\n"
    text += "#ifdef HIDDEN\nint hidden = 1;\n#endif\nint x = VALUE;\n"
    for number in range(4):
        (prelab.root / f"c{number}.hip").write_bytes((text + f"int y = {number};\n").encode("utf-8", "surrogateescape"))
        prelab.compile(*words(prelab), "-Wall", "-pedantic", source=f"c{number}.hip")
    assert counts(prelab)["different"] == 0


def test_a_source_that_fails(prelab: Lab) -> None:
    prepare(prelab)
    done = prelab.compile(*words(prelab), source=source(prelab, 1, body="int wrong() { return nothing; }\n"))
    assert done.status != 0


class Recording(Watching):
    """Counts passes with a preamble."""

    tries = 0

    def after(self, argv: Sequence[str], traced: Traced) -> Traced:
        self.tries += "-include-pch" in argv
        return traced


def tries(lab: Lab, body: str, *flags: str) -> int:
    """How often a compile of that source has a pass with a preamble."""
    runner = Recording()
    compile_in_process(lab, runner, source(lab, 1, body=body), *flags)
    return runner.tries


@only_19
def test_a_pass_whose_messages_come_out_otherwise_is_not_tried_in_vain_again(prelab: Lab) -> None:
    """The words of the lines that clang quotes have colours only without one. Until it says nothing of that kind."""
    prepare(prelab)
    colours = "-fcolor-diagnostics"
    assert tries(prelab, WARNS, colours) == BOTH
    assert tries(prelab, WARNS + "int more;\n", colours) == 0
    assert tries(prelab, WARNS + "int much_more;\n") == BOTH, "without colours they are the same"
    assert tries(prelab, "int quiet;\n", colours) == 0
    assert tries(prelab, "int silent;\n", colours) == BOTH
    assert "\x1b[" in build(prelab, 1, colours, body=WARNS).messages
    assert counts(prelab)["different"] == 0


@only_19
def test_one_pass_alone_may_have_such_messages(prelab: Lab) -> None:
    prepare(prelab)
    colours = "-fcolor-diagnostics"
    for number, expected in enumerate((BOTH, BOTH - 1, BOTH - 1)):
        body = f"#ifndef __HIP_DEVICE_COMPILE__\n{WARNS}#endif\nint x{number};\n"
        assert tries(prelab, body, colours) == expected
