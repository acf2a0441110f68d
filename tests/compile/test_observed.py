"""Headers that clang looks for, however the text names them: one that appears, or goes, changes the compile."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hip import ARCHS, BARE, DEVICE_LIBRARIES, HIT, Lab, kernel, since_19, unobserved, write_files
from hipcache.build import depfile
from hipcache.clang import cc1
from hipcache.inputs import observing
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.file_manager import FileManager
from hipcache.inputs.readset import paths
from hipcache.inputs.search import probes
from hipcache.processes.runner import SubprocessRunner

pytestmark = pytest.mark.archs(1)

ASKS = "#if {}\n#define VALUE 5\n#else\n#define VALUE 6\n#endif"
BOM = "\ufeff"

# Name: (the source's lines before its kernel, other files, the file that appears).
QUESTIONS = {
    "in a macro of another directory": (
        '#include "inc/config.h"\n' + ASKS.format("HAS_X"),
        {"inc/config.h": '#define HAS_X __has_include("x.h")\n'},
        "x.h",
    ),
    "whose name is a macro": ('#define NAME "x.h"\n' + ASKS.format("__has_include(NAME)"), {}, "x.h"),
    "by another name": ("#define ASK __has_include\n" + ASKS.format('ASK("x.h")'), {}, "x.h"),
    "by a macro of the name": ("#define ASK(name) __has_include(name)\n" + ASKS.format('ASK("x.h")'), {}, "x.h"),
    "put together": ("#define ASK(a, b) a##b\n" + ASKS.format('ASK(__has_, include)("x.h")'), {}, "x.h"),
    "behind a byte order mark": ('#include "first.h"', {"first.h": BOM + ASKS.format('__has_include("x.h")')}, "x.h"),
    "behind a comment of several lines": (ASKS.format('__has_include("x.h")').replace("#if", "/*\n*/ #if"), {}, "x.h"),
    "behind a form feed": (ASKS.format('__has_include("x.h")').replace("#if", "\f#if"), {}, "x.h"),
    "behind a vertical tab": (ASKS.format('__has_include("x.h")').replace("#if", "\v#\vif"), {}, "x.h"),
    "in a line that goes on": (ASKS.format('1 && \\ \n__has_include("x.h")'), {}, "x.h"),
    "of the next directory": (
        "#include <a.h>",
        {"one/a.h": ASKS.format("__has_include_next(<a.h>)"), "two/other.h": ""},
        "two/a.h",
    ),
}
DIRECTIVES = {
    "of a macro": '#define NAME "x.h"\n#include NAME',
    "that goes on": '#include \\\n"x.h"',
    "behind a comment of several lines": '/*\n*/ #include "x.h"',
    "with a comment of several lines": '#include /*\n*/ "x.h"',
    "by import": '#import "x.h"',
    "of an alias": '#pragma include_alias("y.h", "x.h")\n#include "y.h"',
}


def shadowed(lab: Lab, before: str, files: Mapping[str, str], *flags: str) -> None:
    """A compile that is served, until `x.h` appears in the first directory."""
    write_files(lab.root, {"second/x.h": "#define VALUE 7\n", "first/other.h": "", **files})
    lab.write("k.hip", kernel("VALUE", before))
    warm = lab.warm("-Ifirst", "-Isecond", *flags)
    lab.write("first/x.h", "#define VALUE 8\n")
    lab.changed(warm, "-Ifirst", "-Isecond", *flags)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_file_that_was_asked_for_in_vain_appears(lab: Lab, question: str) -> None:
    before, files, appears = QUESTIONS[question]
    write_files(lab.root, files)
    lab.write("k.hip", kernel("VALUE", before))
    flags = ("-Ione", "-Itwo", "-w")
    warm = lab.warm(*flags)
    lab.write(appears, "#define OTHER\n")
    lab.changed(warm, *flags)


@since_19
def test_a_file_that_an_embed_asked_for_in_vain_appears(lab: Lab) -> None:
    lab.write("inc/config.h", '#define HAS_X __has_embed("x.h")\n')
    lab.write("k.hip", kernel("VALUE", '#include "inc/config.h"\n' + ASKS.format("HAS_X")))
    warm = lab.warm("-w")
    lab.write("x.h", "1")
    lab.changed(warm, "-w")


@pytest.mark.parametrize("directive", DIRECTIVES)
def test_a_header_appears_before_one_that_was_included(lab: Lab, directive: str) -> None:
    flags = ("-fms-extensions",) if "alias" in directive else ()
    shadowed(lab, '#include "plain.h"\n' + DIRECTIVES[directive], {"plain.h": "#include <x.h>\n"}, "-w", *flags)


def test_a_header_appears_before_one_that_was_included_behind_a_byte_order_mark(lab: Lab) -> None:
    shadowed(lab, '#include "marked.h"\n#include <x.h>', {"marked.h": BOM + '#include "x.h"\n'}, "-w")


def test_a_file_whose_age_was_asked_for_goes(lab: Lab) -> None:
    lab.write("f.txt", "")
    lab.write("k.hip", kernel("1", '#pragma GCC dependency "f.txt"'))
    assert lab.compile().outcome != HIT
    assert lab.compile().outcome != HIT
    (lab.root / "f.txt").unlink()
    assert lab.compile().status == 1


@pytest.mark.parametrize("asked", ['#pragma GCC dependency "f.txt"', '_Pragma("GCC /**/ dependency \\"f.txt\\"")'])
def test_a_file_whose_age_was_asked_for_becomes_newer(lab: Lab, asked: str) -> None:
    lab.write("f.txt", "")
    lab.write("k.hip", kernel("1", asked))
    os.utime(lab.root / "f.txt", (1, 1))
    assert not lab.compile().messages
    assert not lab.compile().messages
    os.utime(lab.root / "f.txt", (2e9, 2e9))
    assert "older" in lab.compile().messages


def test_a_header_appears_where_microsofts_compiler_would_look(lab: Lab) -> None:
    """In the directories of those that include the one that includes it."""
    flags = ("-Iinc", "-fms-compatibility", "-fms-extensions", "-w")
    write_files(lab.root, {"sub/a.h": '#include "deep/b.h"\n', "sub/deep/b.h": '#include "x.h"\n'})
    write_files(lab.root, {"inc/x.h": "#define VALUE 7\n"})
    lab.write("k.hip", kernel("VALUE", '#include "sub/a.h"'))
    warm = lab.warm(*flags)
    lab.write("sub/x.h", "#define VALUE 8\n")
    lab.changed(warm, *flags)


def test_a_computed_include_is_served(lab: Lab) -> None:
    lab.write("x.h", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", '#define NAME "x.h"\n#include NAME\n#if __has_include(NAME)\n#endif'))
    lab.warm()


# Where passes cannot be observed


@pytest.mark.parametrize("question", ["in a macro of another directory", "whose name is a macro", "put together"])
def test_unobserved_a_question_that_the_text_does_not_tell_is_not_kept(lab: Lab, question: str) -> None:
    lab = unobserved(lab)
    before, files, appears = QUESTIONS[question]
    write_files(lab.root, files)
    lab.write("k.hip", kernel("VALUE", before))
    first = lab.compile()
    assert lab.stats()["not_kept"] == {"unobserved": 1}
    assert lab.compile().outcome != HIT
    lab.write(appears, "#define OTHER\n")
    lab.changed(first)


def test_unobserved_a_computed_include_is_not_kept(lab: Lab) -> None:
    lab = unobserved(lab)
    shadowed_unobserved = '#include "plain.h"\n#define NAME <x.h>\n#include NAME'
    write_files(lab.root, {"second/x.h": "#define VALUE 7\n", "first/other.h": "", "plain.h": "#include <x.h>\n"})
    lab.write("k.hip", kernel("VALUE", shadowed_unobserved))
    first = lab.compile("-Ifirst", "-Isecond")
    assert lab.stats()["not_kept"] == {"unobserved": 1}
    lab.write("first/x.h", "#define VALUE 8\n")
    lab.changed(first, "-Ifirst", "-Isecond")


def test_unobserved_a_plain_text_is_kept(lab: Lab) -> None:
    lab = unobserved(lab)
    lab.compile()
    assert lab.compile().outcome == HIT


# The scan held against what was observed


def _sources() -> Iterator[tuple[str, tuple[str, ...]]]:
    for name in ("two_sides", "templates", "static_variables"):
        yield name, BARE
    yield "real_headers", ("--rocm-path=/usr", f"--rocm-device-lib-path={DEVICE_LIBRARIES}")


@pytest.mark.archs(2)
@pytest.mark.parametrize(("name", "flags"), [*_sources()])
def test_what_is_looked_for_is_what_the_text_names(lab: Lab, name: str, flags: tuple[str, ...]) -> None:
    """All that clang looks for in vain, but for the loader's names, is among what the names in its files lead to."""
    source = lab.write("source.hip", (Path(__file__).parents[1] / "sources" / f"{name}.hip").read_text())
    command = [lab.compiler, ARCHS[0], *flags, "--cuda-device-only", "-E", "-MD", "-MF", "rule", "-o", "text"]
    shown = lab.run([*command, source, "-###"]).err.decode().splitlines()
    words = shlex.split(next(line for line in shown if '"-cc1"' in line))
    traced = SubprocessRunner().trace(words, cwd=lab.root, env=lab.environ)
    assert traced.ended.status == 0, traced.ended.stderr
    assert traced.observed is not None, traced.why
    seen = observing.parse(traced.observed, "/nowhere")
    if not (lab.root / "rule").exists():
        pytest.skip("this clang writes no rule of a device")
    read = depfile.parse((lab.root / "rule").read_text())
    files = FileManager(str(lab.root), time.time(), Basedir(""))
    assert set(read) <= seen.opened
    options = cc1.parse(tuple(words[2:]))
    search = cc1.search_path(options)
    scans = {path: files.read(path, own=search.is_own(path, files.basedir))[2] for path in read}
    first = [option.value for option in options if option.role is cc1.Role.INCLUDE]
    guessed = probes(scans, first, search, files.listings)
    looked = {path for path in paths(observing.shortest(seen.missed, files.resolve).items()) if ".so" not in path}
    places = {os.path.normpath(place) for place in search.angled}
    unexplained = {
        path
        for path in looked
        if not any((path + "/").startswith(one.rstrip("/") + "/") for one in paths(guessed.absent.items()))
    }
    assert not {path for path in unexplained if os.path.dirname(os.path.normpath(path)) in places}
