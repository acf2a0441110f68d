"""Headers that change, appear or stand behind links, for passes that are shared between spellings of paths; and their
dependency files, as plain clang writes them."""

from __future__ import annotations

import shutil

import pytest
from hip import HIP_IN_SHORT, HIT, Lab
from spelled_lab import ONE, compile_as, differ, project, write

__all__ = ["project"]
pytestmark = pytest.mark.archs(1)

# Files


@pytest.mark.parametrize("name", ["p/src/k.hip", "p/src/beside.hpp", "p/inc/value.hpp"])
def test_an_edit_is_seen_in_every_spelling(lab: Lab, name: str) -> None:
    before = compile_as(lab, "cmake")
    path = lab.root / name
    text = path.read_text()
    path.write_text(text.replace("VALUE 3", "VALUE 4").replace("BESIDE 2", "BESIDE 5").replace("+ (1)", "+ (6)"))
    after = compile_as(lab, "scons")
    assert after.outcome != HIT
    assert after.object != before.object


@pytest.mark.parametrize("name", ["p/src/hip_in_short.hpp", "p/inc/none.hpp", "p/src/none.hpp"])
def test_a_header_that_appears_is_seen_in_every_spelling(lab: Lab, name: str) -> None:
    text = (lab.root / "p/src/k.hip").read_text()
    text = text.replace("<hip_in_short.hpp>", '"hip_in_short.hpp"').replace("#endif", "#define NONE\n#endif")
    lab.write("p/src/k.hip", text + "#ifdef NONE\nint more() { return 1; }\n#endif\n")
    before = compile_as(lab, "cmake")
    lab.write(name, HIP_IN_SHORT + "int appeared() { return 1; }\n" if "short" in name else "")
    for way in ("scons", "meson"):
        assert compile_as(lab, way).object != before.object


def test_a_directory_that_went_does_not_hide_what_appeared(lab: Lab) -> None:
    """A path that goes through the other command's directory would be absent for good."""
    write(lab, "#if __has_include(<asked.hpp>)\n#define ASKED 1\n#else\n#define ASKED 0\n#endif", host="ASKED")
    before = compile_as(lab, "meson elsewhere")
    shutil.rmtree(lab.root / "p/other")
    lab.write("p/inc/asked.hpp", "")
    assert compile_as(lab, "scons").object != before.object


def test_the_order_of_directories_matters(lab: Lab) -> None:
    for number in (1, 2):
        lab.write(f"p/{number}/which.hpp", f"#define WHICH {number}\n")
    write(lab, "#include <which.hpp>", device="WHICH", host="WHICH")
    top = lab.root / "p"
    one = compile_as(lab, "cmake", f"-I{top}/1", f"-I{top}/2")
    two = compile_as(lab, "scons", "-I2", "-I1")
    assert one.object != two.object
    assert compile_as(lab, "scons", "-I1", "-I2").outcome == HIT
    assert compile_as(lab, "meson", "-I../2", "-I../1").outcome == HIT
    assert compile_as(lab, "meson", "-isystem", "../2", "-I../1").object == one.object


def test_the_order_of_macros_matters_where_one_is_defined_twice(lab: Lab) -> None:
    write(lab, "#ifndef A\n#define A 3\n#endif", device="A + B", host="A")
    one = compile_as(lab, "cmake", "-DA=1", "-DB=2")
    assert compile_as(lab, "scons", "-DB=2", "-DA=1").outcome == HIT
    for flags in (["-DB=2", "-DA=1", "-UA"], ["-UA", "-DB=2", "-DA=1"], ["-UA", "-DB=2"]):
        made = compile_as(lab, "scons", *flags)
        assert (made.object == one.object) == (flags[0] == "-UA" and len(flags) == 3)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (['-DX=R"(', "-DA=1", '-DZ=)"'], ['-DX=R"(', '-DZ=)"', "-DA=1"]),
        (["-DX=/*", "-DA=1", "-DZ=*/"], ["-DA=1", "-DX=/*", "-DZ=*/"]),
        (["-DX=??/", "-DA=1", "-std=c++14", "-w"], ["-DA=1", "-DX=??/", "-std=c++14", "-w"]),
        (["-UC=\\", "-DA=1", "-w"], ["-DA=1", "-UC=\\", "-w"]),
        (["-UC(\\", "-DA=1", "-w"], ["-DA=1", "-UC(\\", "-w"]),
        (["-DA =1", "-DA=2", "-w"], ["-DA=2", "-DA =1", "-w"]),
        (["-D\\u00e9=1", "-D\u00e9=2", "-w"], ["-D\u00e9=2", "-D\\u00e9=1", "-w"]),
    ],
)
def test_the_order_of_definitions_matters_where_one_takes_in_or_replaces_another(
    lab: Lab, one: list[str], two: list[str]
) -> None:
    define = "#ifndef A\n#define A 3\n#endif\n#ifndef \u00e9\n#define \u00e9 4\n#endif"
    write(lab, define, device="A + 10 * \u00e9", host="A")
    assert compile_as(lab, "cmake", *one).object != compile_as(lab, "cmake", *two).object


@pytest.mark.parametrize("option", ["-U NDEBUG", "-U\tNDEBUG"])
def test_assertions_name_their_place_however_they_are_switched_on(lab: Lab, option: str) -> None:
    write(lab, "#include <cassert>", host="[] (int n) { assert(n); return n; }(2)")
    for way in ("cmake", "scons"):
        compile_as(lab, way, "-w", "-DNDEBUG", option)


def test_a_header_of_the_working_directory_is_its_own(lab: Lab) -> None:
    write(lab, "#ifndef FORCED\n#define FORCED 0\n#endif", device="FORCED", host="FORCED")
    lab.write("p/inc/forced.hpp", "#define FORCED 1\n")
    top = compile_as(lab, "cmake", "-include", "forced.hpp")
    assert compile_as(lab, "meson", "-include", "forced.hpp").outcome == HIT
    lab.write("p/forced.hpp", "#define FORCED 2\n")
    assert compile_as(lab, "scons", "-include", "forced.hpp").object != top.object
    lab.write("p/other/deep/forced.hpp", "#define FORCED 3\n")
    assert compile_as(lab, "cmake elsewhere", "-include", "forced.hpp").object != top.object
    assert compile_as(lab, "make", "-include", "forced.hpp").object == top.object
    lab.write("p/src/forced.hpp", "#define FORCED 4\n")
    assert compile_as(lab, "make", "-include", "forced.hpp").object != top.object


def test_a_header_that_is_named_from_the_working_directory_is_its_own(lab: Lab) -> None:
    for number, directory in enumerate(("p", "p/build", "p/other/deep")):
        lab.write(f"{directory}/sub/forced.hpp", f"#define FORCED {number}\n")
    write(lab, device="FORCED", host="FORCED")
    differ(lab, "-include", "sub/forced.hpp", ways=("cmake", "scons", "cmake elsewhere"))


@pytest.mark.archs(2)
def test_a_directory_behind_a_link_is_not_taken_for_another_one(lab: Lab) -> None:
    """`../inc` of a working directory that is a link is another directory than its name says."""
    lab.write("far/inc/value.hpp", "#define VALUE 7\n")
    lab.write("far/inc/hip_in_short.hpp", HIP_IN_SHORT)
    lab.write("far/build/src/beside.hpp", "#define BESIDE 2\n#include <value.hpp>\n")
    lab.write("far/src/beside.hpp", "#define BESIDE 2\n#include <value.hpp>\n")
    shutil.copy(lab.root / "p/src/k.hip", lab.root / "far/src/k.hip")
    (lab.root / "p" / "link").symlink_to(lab.root / "far" / "build")
    (lab.root / "far" / "build").mkdir(exist_ok=True)
    before = compile_as(lab, "meson")
    made = lab.compile(
        *("--offload-arch=gfx906", f"-cuid={ONE}", "-MD", "-I", "../inc"),
        source="../src/k.hip",
        cwd=lab.root / "p" / "link",
        env={"PWD": str(lab.root / "p" / "link")},
    )
    assert made.object != before.object
    assert made.dependencies == made.plain_dependencies


def test_a_link_to_the_source_directory_is_spelled_as_it_is(lab: Lab) -> None:
    shutil.move(lab.root / "p/src", lab.root / "p/real")
    (lab.root / "p/src").symlink_to("real")
    compile_as(lab, "cmake")
    for way in ("scons", "meson"):
        assert compile_as(lab, way).outcome == HIT
    compile_as(lab, "make")


# Dependency files: each is compared with plain clang's


def test_a_name_that_could_be_spelled_in_two_ways_is_spelled_as_clang_does(lab: Lab) -> None:
    write(lab, "#include <src/beside.hpp>\n#include <inc/value.hpp>")
    top = str(lab.root / "p")
    compile_as(lab, "cmake", f"-I{top}")
    compile_as(lab, "scons", "-I.")
    compile_as(lab, "scons", f"-I{top}")
    compile_as(lab, "cmake", f"-I{top}/build", f"-I{top}")
    compile_as(lab, "meson", "-I.", "-I..")
    compile_as(lab, "make", "-I..", "-I.")


@pytest.mark.archs(2)
@pytest.mark.parametrize("include", ["inc/", "./inc", "inc//", ".//inc", "src/../inc", "../p/inc", "./inc/."])
def test_a_directory_in_an_odd_spelling(lab: Lab, include: str) -> None:
    compile_as(lab, "cmake")
    made = lab.compile(
        "--offload-arch=gfx906", f"-cuid={ONE}", "-MD", "-I", include, source="src/k.hip", cwd=lab.root / "p"
    )
    assert made.dependencies == made.plain_dependencies
    compile_as(lab, "meson")


@pytest.mark.parametrize("name", ["./beside.hpp", ".//beside.hpp", "./../src/beside.hpp", "../inc/./value.hpp"])
def test_a_name_that_begins_with_dots(lab: Lab, name: str) -> None:
    write(lab, f'#include "{name}"')
    for ways in (("cmake", "scons", "make"), ("make", "cmake")):
        for way in ways:
            compile_as(lab, way, "-I.")
        shutil.rmtree(lab.store)


def test_a_name_from_the_root_stays_one(lab: Lab) -> None:
    write(lab, f'#include "{lab.root}/p/inc/value.hpp"\n#include <value.hpp>')
    for way in ("cmake", "scons"):
        compile_as(lab, way)


def test_a_name_from_the_root_in_a_macro_stays_one(lab: Lab) -> None:
    write(lab, "#include CONFIG")
    for way in ("cmake", "scons"):
        compile_as(lab, way, f'-DCONFIG="{lab.root}/p/inc/value.hpp"')


def test_a_forced_header_from_the_root_stays_one(lab: Lab) -> None:
    for way in ("cmake", "scons"):
        compile_as(lab, way, "-include", f"{lab.root}/p/inc/value.hpp")
        compile_as(lab, way, "-include", f"{lab.root}/p/other/../inc/value.hpp")


def test_a_list_of_headers_in_the_place_of_a_directory(lab: Lab) -> None:
    lab.write("p/headers.hmap", b"no list of headers")
    for way in ("cmake", "scons"):
        compile_as(lab, way, f"-I{lab.root}/p/headers.hmap")
