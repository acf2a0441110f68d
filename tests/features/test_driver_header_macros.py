"""Questions to the preprocessor about what stands behind the driver's header, with its macros in the place of its text:
they are answered as with the text, or the text is read."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from header_lab import WRAPPER, build, counts, header_lab, kept, prepare, prepared, wait, words
from hip import HIT, Lab, only_19, settle
from hipcache import config
from hipcache.app.front import make
from hipcache.base.values import replace
from hipcache.build.context import open_context
from hipcache.clang import command
from hipcache.driver_header import header
from hipcache.processes.runner import Completed, SubprocessRunner

__all__ = ["header_lab", "kept", "prepared"]


class Listening(SubprocessRunner):
    """Notes which questions the preprocessor was asked: with the header's macros, or with its text."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def group(self, servers: object = None) -> SubprocessRunner:
        return self

    def run(self, argv: Sequence[str], **how: Any) -> Completed:
        if "-E" in argv or "-Eonly" in argv:
            self.asked.append("text" if header.NAME in argv else "macros")
        return super().run(argv, **how)


def edited(lab: Lab, text: str, *flags: str, then: Sequence[str] | None = None, line: str = "// a line\n") -> list[str]:
    """The questions at the second of two compiles: with a line before the text, or with other options. Its object is
    plain clang's, and if nothing was compiled for it, that of the first one, too."""
    lab.write("edited.hip", text)
    first = lab.compile(*words(lab), *flags, source="edited.hip")
    assert first.status == 0, first.messages
    lab.write("edited.hip", (line if then is None else "") + text)
    settle()
    runner = Listening()
    opened = replace(open_context(config.load(lab.environ), lab.environ, racy=0.03), runner=runner)
    argv = lab.words(*words(lab), *(flags if then is None else then), source="edited.hip")
    assert lab.run(list(argv)).status == 0
    plain = (lab.root / "out.o").read_bytes()
    made = make(opened, command.parse(tuple(argv), str(lab.root), lab.environ), None)
    assert (lab.root / "out.o").read_bytes() == plain
    return [f"{question} {made.outcome.outcome == HIT}" for question in runner.asked]


KERNEL = 'extern "C" __global__ void k(int* p) { p[0] = VALUE; }\n'


@only_19
def test_a_line_that_shows_nowhere_needs_the_macros_alone(prepared: Lab) -> None:
    assert set(edited(prepared, KERNEL)) == {"macros True"}


@only_19
def test_a_macro_that_nobody_uses_does_too(prepared: Lab) -> None:
    assert set(edited(prepared, KERNEL, "-DSHA=1", then=["-DSHA=2"])) == {"macros True"}


@only_19
@pytest.mark.parametrize(
    "text",
    [
        "int n = __LINE__;\n",
        "#define HERE __LINE__\nint n = HERE;\n",
        "int n = __builtin_LINE();\n",
        "#if __LINE__ > 2\nint n;\n#endif\n",
        "#include <other.hpp>\nint n = HERE;\n",
        "#pragma pack(__LINE__)\n#pragma pack()\nint n = __LINE__;\n",
    ],
)
def test_a_line_that_shows_counts(prepared: Lab, text: str) -> None:
    prepared.write("first/other.hpp", "#define HERE __LINE__\n")
    found = edited(prepared, KERNEL + text)
    assert found
    assert not any(question.endswith("True") for question in found)


@only_19
@pytest.mark.parametrize("word", ["#import", "%:import", "#/**/im\\\nport"])
def test_a_file_of_the_header_is_not_imported_again(header_lab: Lab, word: str) -> None:
    header_lab.write("own/again.hpp", "#undef NUMBER\n#define NUMBER 3\n")
    header_lab.write(f"own/{header.NAME}", f"{WRAPPER}#include <again.hpp>\n")
    prepare(header_lab, "-std=c++14")
    text = f"#undef NUMBER\n#define NUMBER __LINE__\n{word} <again.hpp>\nint n = NUMBER;\n{KERNEL}"
    found = edited(header_lab, text, "-std=c++14")
    assert {question.split()[0] for question in found} == {"macros", "text"}
    assert not any(question.endswith("True") for question in found)


@only_19
@pytest.mark.parametrize(
    "text",
    [
        "#ifdef SHA\nint n = SHA;\n#endif\n",
        "int n = SHA;\n",
        "#define TEXT(x) #x\n#define OF(x) TEXT(x)\nconst char* n = OF(SHA);\n",
        "#define PASTED(a, b) a##b\nint n = PASTED(SH, A);\n",
    ],
)
def test_a_macro_that_is_used_counts(prepared: Lab, text: str) -> None:
    found = edited(prepared, KERNEL + text, "-DSHA=1", then=["-DSHA=2"])
    assert found
    assert not any(question.endswith("True") for question in found)


@only_19
def test_what_is_said_of_a_question_is_asked_again_with_the_text(prepared: Lab) -> None:
    """Here a macro of the header is defined once more, which clang tells only of another text."""
    found = edited(
        prepared, "#define VALUE 3\n#undef VALUE\n#define VALUE (3 \n#undef VALUE\n#define VALUE 3\n" + KERNEL
    )
    assert set(found) == {"macros True"}
    prepared.write("first/told.hpp", "#warning told\n")
    assert set(edited(prepared, "#include <told.hpp>\n" + KERNEL)) <= {"macros False", "text False"}


@only_19
@pytest.mark.parametrize("name", ["_DOUBLED", "VALUE"])
def test_macros_that_the_header_asks_for_need_its_text(prepared: Lab, name: str) -> None:
    found = edited(prepared, KERNEL, f"-D{name}=1", then=[f"-D{name}=2"])
    assert not any(question.startswith("macros") for question in found)


@only_19
@pytest.mark.parametrize(
    "more",
    [
        "inline int counted = __COUNTER__;",
        "inline const char* named() { return __PRETTY_FUNCTION__; }",
        "inline const char* called() { return __func__; }",
        "inline int numbered() { return __LINE__; }",
        "#include <once.hpp>",
        "#include <said_once.hpp>",
        "#include <spelt_once.hpp>",
        "#include <pasted_once.hpp>",
    ],
)
def test_a_header_that_leaves_more_than_macros_is_read(header_lab: Lab, more: str) -> None:
    prepared = header_lab
    prepared.write("own/once.hpp", "#pragma once\n#define ONCE\n")
    prepared.write("own/said_once.hpp", '_Pragma("once")\n#define ONCE\n')
    prepared.write("own/pasted_once.hpp", "#define DO(text) _Pragma(#text)\nDO(once)\n#define ONCE\n")
    prepared.write("own/spelt_once.hpp", "%:/* */pra\\\ngma once\n#define ONCE\n")
    prepared.write(f"own/{header.NAME}", f"{WRAPPER}#ifndef MORE\n#define MORE\n{more}\n#endif\n")
    prepare(prepared)
    assert counts(prepared)["made"]
    found = edited(prepared, KERNEL)
    assert {question.split()[0] for question in found} == {"text"}


KEEPS = '#ifndef KEEPS\n#define KEEPS\n#pragma push_macro("VALUE")\n#undef VALUE\n#define VALUE 5\n'
TAKES = '#pragma clang diagnostic ignored "-Wignored-pragmas"\n#pragma pop_macro("VALUE")\n'


@only_19
@pytest.mark.parametrize(
    ("more", "body"),
    [
        (f"{KEEPS}#endif\n", TAKES),
        ('#pragma push_macro/**/("VALUE")\n', TAKES),
        ('#define NAME "VALUE"\n#pragma push_macro(NAME)\n', TAKES),
        ("#undef __has_feature\n", "#ifdef __has_feature\nint there;\n#endif\n"),
        ("%: /**/ undef\f/*\n*/__INCLUDE_LEVEL__\n", "#ifdef __INCLUDE_LEVEL__\nint there;\n#endif\n"),
    ],
    ids=["left", "comment", "computed", "builtin", "level"],
)
def test_a_header_that_leaves_what_a_pch_loses_is_not_precompiled(header_lab: Lab, more: str, body: str) -> None:
    header_lab.write(f"own/{header.NAME}", f"{WRAPPER}{more}")
    wait(header_lab)
    build(header_lab, 1, body=body)
    assert counts(header_lab)["made"] == 0
    assert {question.split()[0] for question in edited(header_lab, f"{body}{KERNEL}")} == {"text"}


@only_19
def test_a_pass_that_takes_back_what_the_header_left_is_plain(header_lab: Lab) -> None:
    """As clang 22's own header leaves a macro that is not defined behind it."""
    left = (
        '#ifndef KEEPS\n#define KEEPS\n#define NUMBER __LINE__\n#pragma push_macro("NUMBER")\n#undef NUMBER\n#endif\n'
    )
    header_lab.write(f"own/{header.NAME}", f"{WRAPPER}{left}")
    prepare(header_lab)
    taken = '#pragma clang diagnostic ignored "-Wignored-pragmas"\n#pragma pop_macro("NUMBER")\n'
    taken += "#ifdef NUMBER\nint there = NUMBER;\n#endif\n"
    build(header_lab, 1, body=taken)
    assert set(edited(header_lab, KERNEL)) == {"macros True"}
    assert {question.split()[0] for question in edited(header_lab, f"{taken}{KERNEL}")} == {"macros", "text"}
    taken = taken.replace("int there = NUMBER", "int there = OTHER")
    assert {question.split()[0] for question in edited(header_lab, f"{taken}{KERNEL}", "-DOTHER=NUMBER")} == {"text"}


@only_19
@pytest.mark.parametrize("flags", [(), ("-Werror", "-Werror=ignored-pragmas")], ids=" ".join)
def test_one_that_takes_back_what_it_kept_is(header_lab: Lab, flags: tuple[str, ...]) -> None:
    header_lab.write(f"own/{header.NAME}", f'{WRAPPER}{KEEPS}#pragma pop_macro("VALUE")\n#endif\n')
    prepare(header_lab, *flags)
    assert set(edited(header_lab, f"{TAKES}{KERNEL}", *flags)) == {"macros True"}


@only_19
def test_an_edited_file_of_the_header_is_read(header_lab: Lab) -> None:
    """The header is made anew between two compiles of one source."""
    settings = header_lab.root / "settings.hpp"
    header_lab.write("settings.hpp", "#ifndef SET\n#define SET\n#define NUMBER 1\n#endif\n")
    header_lab.write(f"own/{header.NAME}", f'{WRAPPER}#include "{settings}"\n')
    prepare(header_lab)
    header_lab.write("edited.hip", f'#include "{settings}"\nint n = NUMBER;\n{KERNEL}')
    before = header_lab.warm(*words(header_lab), source="edited.hip")
    header_lab.write("settings.hpp", "#ifndef SET\n#define SET\n#define NUMBER 2\n#endif\n")
    prepare(header_lab)
    header_lab.changed(before, *words(header_lab), source="edited.hip")


@only_19
def test_the_place_of_a_type_of_the_header_is_never_stale(header_lab: Lab) -> None:
    """Nor where an edit of another file has asked before, without the header's text."""
    types = header_lab.root / "types.hpp"
    header_lab.write("types.hpp", "#ifndef TYPES\n#define TYPES\ninline auto of_header = [] {};\n#endif\n")
    header_lab.write(f"own/{header.NAME}", f'{WRAPPER}#include "{types}"\n')
    prepare(header_lab)
    named = "template <class T> const char* name(T) { return __PRETTY_FUNCTION__; }\nconst char* n = name(of_header);\n"
    header_lab.write("first/other.hpp", "inline int other() { return 1; }\n")
    header_lab.write("edited.hip", f'#include "{types}"\n#include <other.hpp>\n{KERNEL}{named}')
    before = header_lab.warm(*words(header_lab), source="edited.hip")
    header_lab.write("first/other.hpp", "// a line\ninline int other() { return 1; }\n")
    assert header_lab.compile(*words(header_lab), source="edited.hip").outcome == HIT
    header_lab.write("types.hpp", "// a line\n" + types.read_text())
    prepare(header_lab)
    header_lab.changed(before, *words(header_lab), source="edited.hip")


@only_19
def test_half_a_text_of_macros_is_no_text(prepared: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    write, failed = Path.write_bytes, list[str]()

    def full(path: Path, content: bytes) -> int:
        if ".macros" in path.name and not failed:
            failed.append(path.name)
            write(path, content[:26])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    prepared.archs = (*prepared.archs, "--offload-arch=gfx90a")
    edited(prepared, f"#ifdef VALUE\n__device__ int n = __LINE__;\n#endif\n{KERNEL}")
    assert failed


def test_its_macros_are_those_of_the_compiler_behind_it() -> None:
    before = b"#define A 1\n#define C 2\n#define E 4\n"
    after = b"#define A 1\n#define B(x) x\n#define E 5\n"
    expected = b"#pragma GCC system_header\n#undef C\n#undef E\n#define B(x) x\n#define E 5\n"
    assert header.behind(before, after) == expected
    assert not header.behind(before, after + b"#define G \\\n#define H 1\n")
    letters = "#define \u05d0 1\n#define Z\u00e9 2\n#define Z\u00e8 3\n".encode()
    assert set(header.behind(b"", letters).splitlines()[1:]) == set(letters.splitlines())
