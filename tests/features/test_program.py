"""Programs that one command compiles and links: cached for each architecture, and plain clang's to the last byte."""

from __future__ import annotations

import re
import shutil

import pytest
from at_once import LIBRARIES, MAIN, both, words
from hip import (
    ARCHS,
    BARE,
    CUID,
    FAILED,
    HIT,
    LAUNCHER,
    MISS,
    PARTIAL,
    PASSED_THROUGH,
    Lab,
    explained,
    kernel,
    only_15,
    only_19,
    script,
    settle,
)
from programs import RUNTIME

pytestmark = pytest.mark.archs(1)


@pytest.fixture
def sources(lab: Lab) -> Lab:
    """A program of one source that warns in each pass, and of that source and another one; and a runtime to link."""
    lab.write("k.hip", kernel("VALUE", '#include "value.hpp"\n#warning first') + MAIN)
    lab.write("l.hip", kernel("4", "#warning second").replace("kernel", "other").replace("host", "another"))
    lab.write("value.hpp", "#define VALUE 3\n")
    lab.write("plain.cpp", "#warning third\nint plain() { return 1; }\n")
    lab.write("runtime.cpp", RUNTIME)
    assert lab.run([lab.compiler, "-c", "runtime.cpp"]).status == 0
    assert lab.run(["ar", "rc", "libruntime.a", "runtime.o"]).status == 0
    return lab


@pytest.mark.archs(2)
def test_a_program_is_plain_clangs_and_the_next_one_runs_no_compiler(sources: Lab) -> None:
    first = both(sources, "k.hip")
    assert (first.counted.outcome, first.counted.missed) == (MISS, {"gfx906", "gfx90a", "host"})
    assert set(first.files) == {"program"}
    assert first.ended.err.count(b"#warning first") >= 3
    second = both(sources, "k.hip")
    assert (second.counted.outcome, second.program) == (HIT, first.program)
    assert b": hit" in sources.hipcache("explain", "program").out
    sources.write("program", first.program).chmod(0o755)
    assert sources.run([sources.root / "program"]).status == 0


@pytest.mark.archs(2)
def test_what_changed_is_compiled_alone(sources: Lab) -> None:
    first = both(sources, "k.hip", "l.hip")
    sources.write("value.hpp", "#define VALUE 5\n")
    after = both(sources, "k.hip", "l.hip")
    assert after.program != first.program
    assert (after.counted.outcome, after.counted.front_ends) == (PARTIAL, 2), explained(sources.environ)
    said = sources.hipcache("explain", "program").out.decode()
    assert re.search(r"gfx906 of 'k\.hip' +miss\n +file 'value.hpp' changed", said)
    assert re.search(r"gfx906 of 'l\.hip' +hit", said)


@pytest.mark.archs(2)
def test_an_architecture_added_is_compiled_alone(sources: Lab) -> None:
    both(sources, "k.hip")
    assert both(sources, "k.hip", *ARCHS, "--offload-arch=gfx1030").counted.missed == {"gfx1030"}


def test_another_option_is_another_compile(sources: Lab) -> None:
    both(sources, "k.hip")
    assert both(sources, "k.hip", "-fPIC").counted.missed


def test_objects_and_libraries_are_the_linkers_and_read_each_time(sources: Lab) -> None:
    sources.write("more.cpp", "int more = 1;\n")
    assert sources.run([sources.compiler, "-c", "more.cpp"]).status == 0
    first = both(sources, "k.hip", "more.o")
    sources.write("more.cpp", "int more = 2;\n")
    assert sources.run([sources.compiler, "-c", "more.cpp"]).status == 0
    after = both(sources, "k.hip", "more.o")
    assert after.counted.outcome == HIT
    assert after.program != first.program


@only_19
def test_a_linker_that_appears_where_the_driver_looks_first_is_taken(sources: Lab) -> None:
    (sources.root / "bin").mkdir()
    for _ in range(2):
        first = both(sources, "k.hip", "-Bbin")
    for number in "ab":
        script(sources.root / "bin/ld", f'exec /usr/bin/ld "$@" --build-id=0x{number}{number}\n')
        after = both(sources, "k.hip", "-Bbin")
        assert after.program != first.program
        assert after.counted.outcome == HIT
        first = after


@pytest.mark.parametrize("more", [["--hip-link"], ["-g"], ["-shared", "-fPIC"], ["-fuse-ld=lld"], ["-o", "a.out"]])
def test_other_ways_to_link_are_plain_clangs(sources: Lab, more: list[str]) -> None:
    for _ in range(2):
        found = both(sources, "-x", "hip", "k.hip", *more)
    assert found.counted.outcome == HIT
    assert len(found.files) == 1


@only_19
def test_other_ends_are_plain_clangs(sources: Lab) -> None:
    for more in (["--offload-new-driver"], ["-Wl,-Map=/dev/null"], ["-static-libgcc"]):
        if "--offload-new-driver" in more and sources.version in ("20", "21"):
            continue  # its plan passes through
        for _ in range(2):
            found = both(sources, "k.hip", *more)
        assert found.counted.outcome == HIT, (more, explained(sources.environ))


def test_a_library_that_gets_device_code_is_seen(sources: Lab) -> None:
    """The driver takes libraries apart for the device link of each pass."""
    for _ in range(2):
        first = both(sources, "k.hip")
    assert first.counted.outcome == HIT
    sources.write("part.hip", "__attribute__((device)) int part() { return 1; }\n")
    assert sources.run([sources.compiler, *ARCHS, *BARE, CUID, "-fgpu-rdc", "-c", "part.hip"]).status == 0
    assert sources.run(["ar", "rc", "libruntime.a", "part.o"]).status == 0
    after = both(sources, "k.hip")
    assert (after.counted.outcome, after.counted.reason) == (PASSED_THROUGH, "link")
    assert b"'./libruntime.a'" in sources.hipcache("explain", "program").out


def test_without_a_name_the_program_is_a_out(sources: Lab) -> None:
    settle()
    line = [word for word in words(sources, "k.hip") if word not in ("-o", "program")]
    made = []
    for launcher in ((), LAUNCHER, LAUNCHER):
        assert sources.run([*launcher, *line]).status == 0
        made.append((sources.root / "a.out").read_bytes())
        (sources.root / "a.out").unlink()
    assert made[1:] == made[:1] * 2
    assert b": hit" in sources.hipcache("explain", "a.out").out


@pytest.mark.parametrize("more", [["-MD"], ["-MMD", "-MP", "-MF", "rules.d"]])
def test_its_dependency_file_lists_the_headers_of_all_sources(sources: Lab, more: list[str]) -> None:
    for _ in range(2):
        found = both(sources, "k.hip", "l.hip", *more)
    assert found.counted.outcome == HIT
    rule = next(content.decode() for name, (content, _) in found.files.items() if name.endswith(".d"))
    assert rule.startswith("program:")
    assert {"k.hip", "l.hip", "value.hpp", "hip_in_short.hpp"} <= set(rule.replace("\\\n", " ").split())


def test_without_a_name_each_source_has_a_dependency_file(sources: Lab) -> None:
    line = [word for word in words(sources, "k.hip", "l.hip", "-MD") if word not in ("-o", "program")]
    rules = []
    for launcher in ((), LAUNCHER):
        assert sources.run([*launcher, *line]).status == 0
        rules.append({path.name: path.read_text() for path in sources.root.glob("*.d")})
        for name in rules[-1]:
            (sources.root / name).unlink()
    assert rules[1] == rules[0]
    assert len(rules[1]) == 2


def test_of_one_source_the_dependency_file_is_plain_clangs(sources: Lab) -> None:
    line = words(sources, "k.hip", "-MD")
    rules = []
    for launcher in ((), LAUNCHER):
        assert sources.run([*launcher, *line]).status == 0
        rules.append((sources.root / "program.d").read_text())
    assert rules[1] == rules[0]


@pytest.mark.archs(2)
def test_a_source_that_is_compiled_alone_shares_its_units(sources: Lab) -> None:
    """Without a CUID of the user's: ours is that of an object that the compiler names."""
    alone = [word for word in words(sources, libraries=()) if word not in ("-o", "program", CUID)]
    settle()
    assert sources.hipcache(*alone, "-c", "k.hip").status == 0
    assert sources.counted().outcome == MISS
    assert sources.hipcache(*alone, "k.hip", *LIBRARIES, "-o", "program").status == 0
    assert sources.counted().outcome == HIT
    assert sources.hipcache(*alone, "k.hip", *LIBRARIES, "-o", "other").status == 0
    assert sources.counted().outcome == HIT
    assert sources.hipcache(*alone, "-c", "k.hip", "-o", "other.o").status == 0
    assert sources.counted().back_ends == 0


def test_each_source_has_a_cuid_of_its_own(sources: Lab) -> None:
    line = [word for word in words(sources, "k.hip", "l.hip") if word not in (CUID, "-Wl,-z,muldefs")]
    for expected in (MISS, HIT):
        settle()
        assert sources.hipcache(*line).status == 0, "two symbols of one name"
        assert sources.counted().outcome == expected


def test_a_link_that_fails_ends_as_plain_clang_ends_it(sources: Lab) -> None:
    sources.write("program", "old")
    for more in ([], ["-fuse-ld=lld"], ["-fmessage-length=40"], ["-fmessage-length=0"]):
        found = both(sources, "k.hip", "-Wl,--no-undefined", *more, libraries=("-no-hip-rt",))
        assert (found.ended.status, found.counted.outcome, found.files) == (1, FAILED, {})
        assert b"first" in found.ended.err
        assert b"linker command failed" in found.ended.err


def test_what_a_linker_says_comes_last(sources: Lab) -> None:
    for _ in range(2):
        found = both(sources, "k.hip", "-Wl,--warn-common,-z,execstack,-z,nonsense")
    assert found.counted.outcome == HIT
    assert found.ended.err.index(b"first") < found.ended.err.index(b"nonsense")


@pytest.mark.parametrize("order", [["bad.hip", "k.hip"], ["k.hip", "bad.hip"]])
def test_a_source_that_does_not_compile_ends_as_plain_clang_ends_it(sources: Lab, order: list[str]) -> None:
    both(sources, "k.hip")
    sources.write("program", "old")
    sources.write("bad.hip", kernel("nothing"))
    found = both(sources, *order)
    assert (found.ended.status, found.counted.outcome) == (1, FAILED)


def test_a_source_of_another_language_is_compiled_as_the_driver_plans_it(sources: Lab) -> None:
    first = both(sources, "k.hip", "plain.cpp", "l.hip")
    assert first.counted.outcome == MISS
    said = [first.ended.err.index(word) for word in (b"first", b"third", b"second")]
    assert said == sorted(said)
    again = both(sources, "k.hip", "plain.cpp", "l.hip")
    assert (again.counted.outcome, again.program) == (HIT, first.program)
    sources.write("plain.cpp", "int plain() { return 2; }\n")
    assert both(sources, "k.hip", "plain.cpp", "l.hip").program != first.program


@only_19
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["k.hip", "plain.cpp", "-MD"], "several_sources"),
        (["k.hip", "part.s"], "plan"),
        (["k.hip", "-save-temps=obj"], "save_temps"),
        (["k.hip", "-flto", "-fuse-ld=lld"], "lto"),
        (["k.hip", "-v"], "asks_driver"),
    ],
)
def test_what_is_not_understood_is_left_to_the_compiler(sources: Lab, more: list[str], reason: str) -> None:
    sources.write("part.s", ".globl part\npart: ret\n")
    line = words(sources, *more)
    assert sources.run(line).status == 0
    plain = (sources.root / "program").read_bytes()
    assert sources.hipcache(*line).status == 0
    assert (sources.root / "program").read_bytes() == plain
    assert (sources.counted().outcome, next(iter(sources.stats()["passed_through"]))) == (PASSED_THROUGH, reason)  # type: ignore[call-overload]


@only_19
def test_a_script_in_place_of_the_compiler_makes_the_program_itself(sources: Lab) -> None:
    sources.compiler = str(script(sources.root / "compiler", f'exec {sources.compiler} "$@"\n'))
    found = both(sources, "k.hip")
    assert (found.counted.outcome, found.counted.reason) == (PASSED_THROUGH, "wrapper")


@only_15
@pytest.mark.skipif(not shutil.which("hipcc"), reason="no hipcc here")
def test_hipcc_makes_a_program_too(sources: Lab) -> None:
    for name in "kl":
        sources.write(f"{name}.cpp", (sources.root / f"{name}.hip").read_bytes())
    sources.compiler = "hipcc"
    first = both(sources, "k.cpp", "l.cpp")
    assert first.counted.outcome == MISS
    again = both(sources, "k.cpp", "l.cpp")
    assert (again.counted.outcome, again.program) == (HIT, first.program)
    sources.write("value.hpp", "#define VALUE 4\n")
    assert both(sources, "k.cpp", "l.cpp").counted.outcome == PARTIAL
    failed = both(sources, "k.cpp", "l.cpp", "-Wl,--no-such-option")
    assert (failed.ended.status, failed.counted.outcome) == (1, FAILED)
