"""Never a wrong object: headers that a pass reads, and those that it looks for in vain.

Each test first shows a hit, then makes a change, and compares with a fresh compile of plain clang.
"""

from __future__ import annotations

import os

import pytest
from hip import HIT, MISS, Lab, kernel, rewrite

pytestmark = [pytest.mark.archs(1), pytest.mark.new_driver]


@pytest.mark.archs(2)
def test_an_unchanged_source_is_served(lab: Lab) -> None:
    assert lab.compile().outcome == MISS
    warm = lab.compile()
    assert warm.outcome == HIT
    assert warm.counted.served == {"gfx906", "gfx90a", "host"}


def test_an_edited_source_is_compiled(lab: Lab) -> None:
    before = lab.warm()
    lab.write("k.hip", kernel("4"))
    lab.changed(before)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["-I", "-isystem"])
@pytest.mark.parametrize("flags", [(), ("-MD",), ("-MMD",)], ids=["no-d", "MD", "MMD"])
def test_an_edited_header_is_seen(lab: Lab, kind: str, flags: tuple[str, ...]) -> None:
    header = lab.write("include/value.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    before = lab.warm(kind, "include", *flags)
    header.write_text("#define VALUE 2\n")
    lab.changed(before, kind, "include", *flags)


def test_an_edit_that_is_taken_back_is_served_again(lab: Lab) -> None:
    first = lab.warm()
    old = (lab.root / "k.hip").read_text()
    lab.write("k.hip", kernel("4"))
    lab.changed(first)
    lab.write("k.hip", old)
    again = lab.compile()
    assert again.outcome == HIT
    assert again.object == first.object


@pytest.mark.parametrize("name", ["dir199/value.hpp", "dir7/value.hpp", "dir7/asked.hpp", "beside.hpp"])
def test_a_header_that_comes_first_in_one_of_many_directories_is_seen(lab: Lab, name: str) -> None:
    """The pass itself lists what it misses there (native/observer/missed.c)."""
    flags = [word for number in range(201) for word in ("-I", f"dir{number}")]
    for number in range(201):
        (lab.root / f"dir{number}").mkdir()
    lab.write("dir200/value.hpp", "#define VALUE 1\n")
    asks = '#if __has_include("asked.hpp") || __has_include("beside.hpp")\n#undef VALUE\n#define VALUE 3\n#endif'
    lab.write("k.hip", kernel("VALUE", f"#include <value.hpp>\n{asks}"))
    before = lab.warm(*flags)
    lab.write(name, "#define VALUE 2\n")
    lab.changed(before, *flags)
    os.remove(lab.root / name)
    assert lab.compile(*flags).object == before.object


@pytest.mark.archs(2)
@pytest.mark.parametrize("flags", [(), ("-MMD",)], ids=["no-d", "MMD"])
def test_a_header_that_one_archs_device_pass_reads_is_seen_by_that_arch_alone(lab: Lab, flags: tuple[str, ...]) -> None:
    header = lab.write("only_906.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", '#ifdef __gfx906__\n#include "only_906.hpp"\n#else\n#define VALUE 9\n#endif'))
    before = lab.warm(*flags)
    header.write_text("#define VALUE 2\n")
    after = lab.changed(before, *flags)
    assert after.counted.missed == {"gfx906"}
    assert after.counted.served == {"gfx90a", "host"}


@pytest.mark.archs(2)
def test_a_header_that_only_the_device_passes_read_is_seen(lab: Lab) -> None:
    header = lab.write("device.hpp", "#define VALUE 1\n")
    lab.write(
        "k.hip", kernel("VALUE", '#ifdef __HIP_DEVICE_COMPILE__\n#include "device.hpp"\n#else\n#define VALUE 9\n#endif')
    )
    before = lab.warm()
    header.write_text("#define VALUE 2\n")
    after = lab.changed(before)
    assert after.counted.missed == {"gfx906", "gfx90a"}


def test_a_host_only_edit_runs_no_back_end(lab: Lab) -> None:
    lab.write("k.hip", kernel("1") + "int more() { return 1; }\n")
    before = lab.warm()
    lab.write("k.hip", kernel("1") + "int more() { return 2; }\n")
    after = lab.changed(before)
    assert after.counted.missed == {"host"}
    assert after.counted.back_ends == 0


def test_a_header_rewritten_with_the_same_size_and_modification_time_is_seen(lab: Lab) -> None:
    header = lab.write("value.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", '#include "value.hpp"'))
    os.utime(header, (1_600_000_000, 1_600_000_000))
    before = lab.warm()
    rewrite(header, "#define VALUE 2\n")
    lab.changed(before)


def test_a_header_replaced_by_a_file_of_the_same_size_and_modification_time_is_seen(lab: Lab) -> None:
    header = lab.write("value.hpp", "#define VALUE 1\n")
    other = lab.write("other.hpp", "#define VALUE 2\n")
    for path in (header, other):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    lab.write("k.hip", kernel("VALUE", '#include "value.hpp"'))
    before = lab.warm()
    other.replace(header)
    lab.changed(before)


def test_a_header_touched_but_not_changed_is_still_a_hit(lab: Lab) -> None:
    lab.warm()
    os.utime(lab.root / "hip_in_short.hpp")
    assert lab.compile().outcome == HIT


# What was looked for in vain


@pytest.mark.parametrize("flags", [(), ("-MMD",)], ids=["no-d", "MMD"])
def test_a_header_that_appears_earlier_in_the_include_path_is_seen(lab: Lab, flags: tuple[str, ...]) -> None:
    lab.write("second/value.hpp", "#define VALUE 1\n")
    (lab.root / "first").mkdir()
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    path = ("-I", "first", "-I", "second", *flags)
    before = lab.warm(*path)
    lab.write("first/value.hpp", "#define VALUE 2\n")
    lab.changed(before, *path)


def test_a_header_that_appears_in_an_include_directory_that_did_not_exist_is_seen(lab: Lab) -> None:
    lab.write("second/deep/value.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include <deep/value.hpp>"))
    path = ("-I", "first", "-I", "second")
    before = lab.warm(*path)
    lab.write("first/deep/value.hpp", "#define VALUE 2\n")
    lab.changed(before, *path)


def test_a_header_that_appears_beside_the_source_is_seen(lab: Lab) -> None:
    lab.write("include/value.hpp", "#define VALUE 1\n")
    lab.write("src/k.hip", kernel("VALUE", '#include "value.hpp"'))
    flags = ("-I", "include", "-I", ".")
    before = lab.warm(*flags, source="src/k.hip")
    lab.write("src/value.hpp", "#define VALUE 2\n")
    lab.changed(before, *flags, source="src/k.hip")


def test_a_header_that_appears_beside_the_header_that_includes_it_is_seen(lab: Lab) -> None:
    lab.write("a/outer.hpp", '#include "inner.hpp"\n')
    lab.write("b/inner.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include <outer.hpp>"))
    before = lab.warm("-I", "a", "-I", "b")
    lab.write("a/inner.hpp", "#define VALUE 2\n")
    lab.changed(before, "-I", "a", "-I", "b")


def test_a_header_that_appears_for_include_next_is_seen(lab: Lab) -> None:
    lab.write("a/value.hpp", "#include_next <value.hpp>\n")
    (lab.root / "b").mkdir()
    lab.write("c/value.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    path = ("-I", "a", "-I", "b", "-I", "c")
    before = lab.warm(*path)
    lab.write("b/value.hpp", "#define VALUE 2\n")
    lab.changed(before, *path)


def test_a_header_that_appears_for_an_include_whose_name_is_given_by_a_flag_is_seen(lab: Lab) -> None:
    (lab.root / "a").mkdir()
    lab.write("b/value.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include NAME"))
    path = ("-DNAME=<value.hpp>", "-I", "a", "-I", "b")
    before = lab.warm(*path)
    lab.write("a/value.hpp", "#define VALUE 2\n")
    lab.changed(before, *path)


def test_an_included_first_file_that_appears_earlier_is_seen(lab: Lab) -> None:
    lab.write("include/first.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE"))
    flags = ("-I", "include", "-include", "first.hpp")
    before = lab.warm(*flags)
    lab.write("first.hpp", "#define VALUE 2\n")
    lab.changed(before, *flags)


@pytest.mark.parametrize(
    "asked", ['"feature.hpp"', "<feature.hpp>", '"deep/feature.hpp"'], ids=["quoted", "angled", "deep"]
)
def test_a_file_that_has_include_looked_for_and_that_appears_is_seen(lab: Lab, asked: str) -> None:
    lab.write("k.hip", kernel("VALUE", f"#if __has_include({asked})\n#define VALUE 2\n#else\n#define VALUE 1\n#endif"))
    before = lab.warm("-I", "include")
    lab.write("include/" + asked[1:-1], "")
    lab.changed(before, "-I", "include")


def test_a_file_that_has_include_found_and_that_goes_is_seen(lab: Lab) -> None:
    lab.write(
        "k.hip", kernel("VALUE", '#if __has_include("feature.hpp")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif')
    )
    feature = lab.write("feature.hpp", "")
    before = lab.warm()
    feature.unlink()
    lab.changed(before)


@pytest.mark.archs(2)
def test_a_file_that_only_one_archs_has_include_looked_for_is_seen(lab: Lab) -> None:
    text = '#if defined(__gfx906__) && __has_include("feature.hpp")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif'
    lab.write("k.hip", kernel("VALUE", text))
    before = lab.warm()
    lab.write("feature.hpp", "")
    lab.changed(before)


def test_a_question_asked_by_a_macro_of_the_command_line_never_gives_an_old_answer(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE", "#if ASK\n#define VALUE 2\n#else\n#define VALUE 1\n#endif"))
    flags = ("-I", "include", "-DASK=__has_include(<feature.hpp>)")
    before = lab.compile(*flags)
    lab.compile(*flags)
    lab.write("include/feature.hpp", "")
    lab.changed(before, *flags)
