"""Commands of several sources: a compile for each, and all that plain clang leaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hip import BARE, CUID, HIT, MISS, PASSED_THROUGH, Ended, Lab, kernel, only_15, only_19, script, statistics


@dataclass(frozen=True)
class Both:
    """What both left: the end, each new file; and what hipcache counted: outcome -> compiles."""

    ended: Ended
    files: dict[str, bytes]
    counted: dict[str, int]


def words(lab: Lab, *more: str) -> list[str]:
    return [lab.compiler, "--offload-arch=gfx906", *BARE, CUID, "-O1", *more]


def both(lab: Lab, *more: str, env: dict[str, str] | None = None) -> Both:
    before = {path: path.read_bytes() for path in lab.root.iterdir() if path.is_file()}
    statistics(lab.environ, "--zero")
    command = words(lab, *more)

    def run(*launcher: str) -> tuple[Ended, dict[str, bytes]]:
        ended = lab.run([*launcher, *command], env=env)
        files = {path.name: path.read_bytes() for path in sorted(lab.root.iterdir()) if path not in before}
        for name in files:
            (lab.root / name).unlink()
        return ended, files

    plain, cached = lab.by_both(run, command, env=env)
    assert cached[0].err.decode() == plain[0].err.decode()
    assert cached == plain
    compiles: dict[str, int] = lab.stats()["compiles"]  # type: ignore[assignment]
    return Both(*cached, {outcome: count for outcome, count in compiles.items() if count})


@pytest.fixture
def sources(lab: Lab) -> Lab:
    """One that warns in each pass, and another one with a header of its own."""
    lab.write("k.hip", kernel("1", "#warning first"))
    lab.write("l.hip", kernel("VALUE", '#include "value.hpp"\n#warning second'))
    lab.write("value.hpp", "#define VALUE 3\n")
    return lab


def reason(lab: Lab) -> str:
    return next(iter(lab.stats()["passed_through"]), "")  # type: ignore[call-overload]


def test_each_source_is_a_compile_of_its_own(sources: Lab) -> None:
    first = both(sources, "-c", "k.hip", "-MD", "l.hip")
    assert set(first.files) == {"k.o", "k.d", "l.o", "l.d"}
    assert first.counted == {MISS: 2}
    assert first.ended.err.index(b"first") < first.ended.err.index(b"second")
    again = both(sources, "-c", "k.hip", "-MD", "l.hip")
    assert (again.files, again.counted) == (first.files, {HIT: 2})
    alone = both(sources, "-c", "-MD", "l.hip")
    assert (alone.files["l.o"], alone.counted) == (first.files["l.o"], {HIT: 1})


@only_19
@pytest.mark.parametrize("end", ["-S --offload-device-only", "-c -fgpu-rdc -MMD -MF all.d", "-c --offload-host-only"])
def test_other_outputs_are_plain_clangs_too(sources: Lab, end: str) -> None:
    assert both(sources, *end.split(), "-x", "hip", "k.hip", "l.hip").counted == {MISS: 2}
    assert both(sources, *end.split(), "-x", "hip", "k.hip", "l.hip").counted == {HIT: 2}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dots", ["./", ".//", "././/"])
@pytest.mark.parametrize("end", ["-c -MD -MP", "-c -MMD -MF all.d", "-c -MD --offload-host-only"])
def test_the_rule_names_a_source_as_clang_does(sources: Lab, dots: str, end: str) -> None:
    """Once, without a dot in front."""
    for named in (f"{dots}l.hip",), (f"{dots}k.hip", f"{dots}l.hip"):
        made = [both(sources, *end.split(), *named) for _ in range(3)]
        rules = {text for one in made for name, text in one.files.items() if name.endswith(".d")}
        assert b"./" not in b"".join(rules)
        assert made[2].counted == {HIT: len(named)}


def test_what_changed_is_compiled_alone(sources: Lab) -> None:
    first = both(sources, "-c", "k.hip", "l.hip")
    sources.write("value.hpp", "#define VALUE 4\n")
    after = both(sources, "-c", "k.hip", "l.hip")
    assert after.files["l.o"] != first.files["l.o"]
    assert after.counted == {HIT: 1, MISS: 1}
    other = both(sources, "-c", "k.hip", "l.hip", "-O0")
    assert HIT not in other.counted
    assert other.files != after.files


@pytest.mark.parametrize("order", [["k.hip", "bad.hip", "l.hip"], ["bad.hip", "k.hip"], ["k.hip", "bad.hip"]])
def test_one_that_fails_ends_as_plain_clang_ends_it(sources: Lab, order: list[str]) -> None:
    both(sources, "-c", "k.hip", "l.hip")
    sources.write("bad.hip", kernel("nothing"))
    failed = both(sources, "-c", *order)
    assert (failed.ended.status, failed.counted) == (1, {"failed": 1})


def test_an_object_that_plain_clang_does_not_get_to_is_left_alone(sources: Lab) -> None:
    sources.write("bad.hip", kernel("nothing"))
    (sources.root / "l.o").write_text("old")
    both(sources, "-c", "k.hip", "bad.hip", "l.hip")
    plain = sources.run(words(sources, "-c", "bad.hip", "l.hip"))
    assert plain.status == 1
    left = (sources.root / "l.o").read_bytes()
    (sources.root / "l.o").write_text("old")
    assert sources.hipcache(*words(sources, "-c", "bad.hip", "l.hip")).status == 1
    assert (sources.root / "l.o").read_bytes() == left


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (["k.hip", "l.hip", "-o", "out.o"], 1),
        (["k.hip", "nowhere.hip"], 1),
        (["k.hip", "plain.cpp"], 0),
        (["k.hip", "@response"], 0),
        (["k.hip", "l.hip", "-lm"], 0),
        (["k.hip", "l.hip", "-Wno-such-warning", "-x", "hip"], 0),
    ],
)
def test_what_is_odd_is_left_to_the_compiler(sources: Lab, more: list[str], status: int) -> None:
    sources.write("plain.cpp", "int f() { return 1; }\n")
    sources.write("response", "l.hip -DA\n")
    found = both(sources, "-c", *more)
    assert found.ended.status == status
    assert found.counted == ({PASSED_THROUGH: 1} if status == 0 else {"failed": 1})
    if status == 0:
        assert reason(sources) == "several_sources"


def test_a_language_named_for_each_source_is_no_warning(sources: Lab) -> None:
    for name in "kl":
        sources.write(f"{name}.cpp", (sources.root / f"{name}.hip").read_bytes())
    for line in ("-x hip k.cpp -x hip l.cpp -c", "--language hip k.cpp -xhip l.cpp -c"):
        assert PASSED_THROUGH not in both(sources, *line.split()).counted
    assert both(sources, *line.split()).counted == {HIT: 2}


@only_15
@pytest.mark.skipif(not Path("/usr/bin/hipcc").exists(), reason="no hipcc here")
def test_hipcc_compiles_several_sources_too(sources: Lab) -> None:
    for name in "kl":
        sources.write(f"{name}.cpp", (sources.root / f"{name}.hip").read_bytes())
    sources.compiler = "/usr/bin/hipcc"
    first = both(sources, "-c", "k.cpp", "l.cpp")
    assert first.counted == {MISS: 2}
    again = both(sources, "-c", "k.cpp", "l.cpp")
    assert (again.files, again.counted) == (first.files, {HIT: 2})
    sources.write("value.hpp", "#define VALUE 4\n")
    assert both(sources, "-c", "k.cpp", "l.cpp").counted == {HIT: 1, MISS: 1}
    # Not a word of it is taken for the record of another one.
    assert both(sources, "-c", "l.cpp", "k.cpp").counted == {HIT: 2}


@only_19
def test_a_script_in_place_of_the_compiler_gets_all_sources_at_once(sources: Lab) -> None:
    sources.compiler = str(script(sources.root / "compiler", f'echo "$@" >>seen\nexec {sources.compiler} "$@"\n'))
    assert both(sources, "-c", "k.hip", "l.hip").counted == {PASSED_THROUGH: 1}
    assert reason(sources) == "several_sources"


@only_19
def test_an_output_that_a_variable_names_is_the_drivers_affair(sources: Lab) -> None:
    found = both(sources, "-c", "k.hip", "l.hip", env={"CCC_OVERRIDE_OPTIONS": "+-oout.o"})
    assert found.ended.status == 1
