"""Front ends and host passes are shared between spellings of paths (CMake's, SCons', Meson's), and only where no path
gets into what they make. Every compile here is compared with plain clang's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hip import HIP_IN_SHORT, HIT, LAUNCHER, MISS, Compiled, Lab, only_15, only_19, script
from hipcache.inputs.shown import names
from hipcache.making import unnamed
from hipcache.planning.cuid import clangs_hash

SOURCE = """\
#include <hip_in_short.hpp>
#include "beside.hpp"
#if __has_include("none.hpp")
#endif
WHAT
__global__ void kernel(int* p) { p[0] = p[1] * BESIDE + (DEVICE); }
int host(int* p) { kernel<<<1, 1>>>(p); return (HOST) + VALUE; }
"""
# CUIDs whose hashes have all digits.
ONE, TWO = "first", "second"


@pytest.fixture(autouse=True)
def project(lab: Lab) -> None:
    write(lab)


def write(lab: Lab, what: str = "", *, device: str = "1", host: str = "1", **headers: str) -> None:
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
    for way in ("scons", "meson", "make"):
        assert compile_as(lab, way).outcome == HIT


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


# The parts


@pytest.mark.parametrize("width", [7, 8, 12])
@pytest.mark.parametrize("shift", range(8))
def test_a_type_without_a_name_is_found_at_any_bit(width: int, shift: int) -> None:
    def vbr6(char: int) -> int:
        return (char & 31 | 32) | (char >> 5) << 6

    text = b"int f(T) [T = (lambda at src/k.hip:1:2)]"
    bits = sum((vbr6(char) if width == 12 else char) << (width * number) for number, char in enumerate(text))
    content = b"\xff" * 5 + (bits << shift).to_bytes(len(text) * 2, "little") + b"\xff" * 5
    assert unnamed.in_bitcode(content)
    assert not unnamed.in_bitcode(content.replace(b"\xff", b"")[30:])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"int f();\n", set()),
        (b"// __FILE__ and assert()\n/* __PRETTY_FUNCTION__ */\n", set()),
        (b"static_assert(1); int my_assert; __assert_fail();", set()),
        (b"assert(1);", {"assert"}),
        (b"#define X(a) /*\n*/ \\\n  assert(a)\n", {"assert", "assert in a macro"}),
        (b"  # undef /**/ NDEBUG\n", {"#undef NDEBUG"}),
        (b"#ifdef NDEBUG\n#endif\n", set()),
        (b"#define _GLIBCXX_ASSERTIONS 1\n", {"__glibcxx"}),
        (b"__glibcxx_assert(1);", {"__glibcxx"}),
        (b"f(__builtin_FILE());", {"__builtin_FILE"}),
    ],
)
def test_names_that_show_paths(text: bytes, found: set[str]) -> None:
    assert names(text) == found
