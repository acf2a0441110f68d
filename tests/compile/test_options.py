"""The tables of docs/design/options.md say what happens: each line is run beside plain clang, and once more."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hip import ARCHS, BARE, CUID, FULL, HIT, LAUNCHER, LLVM, Lab, kernel, settle, skip_if_bitcode_is_covered

PAGE = Path(__file__).parents[2] / "docs/design/options.md"
CACHED, LEFT, _ = re.split("## (?:Passed through|Who feels it)", PAGE.read_text())
_ROW = re.compile(r"^\| (`-.*?) \|(?: ([a-z_]+) \|)?", re.MULTILINE)

# What the other version of clang does not have.
ONLY_19 = {"--offload-compress"}
# These write what is different each time.
CHANGING = re.compile(r".*\.json$|stat$")
# With these all files are different each time.
RANDOM = re.compile(r"random|-gsplit-dwarf(=single| -g -foffload-lto)")


def rows(table: str) -> list[tuple[str, str]]:
    """(options, reason), one for each piece of code in the first column."""
    found = [(option, row[1]) for row in _ROW.findall(table) for option in re.findall(r"`([^`]+)`", row[0])]
    return [(option, reason) for option, reason in found if ".hip" not in option]


def profile(lab: Lab) -> None:
    (lab.root / "text").write_text("host\n24\n1\n3\n")
    words = [LLVM[lab.version] / "bin/llvm-profdata", "merge", "text", "-o", "runs.profdata"]
    assert lab.run(words).status == 0


def left_behind(lab: Lab, launcher: tuple[str, ...], option: str) -> tuple[object, ...]:
    """Exit status, messages (not those of a measurement), and new files."""
    before = set(lab.root.iterdir())
    end = () if {"-S", "-M"} & set(option.split()) else ("-c",)
    words = [*launcher, lab.compiler, *ARCHS, *BARE, CUID, "-O1", *end, "k.hip", *shlex.split(option)]
    ended = lab.run(words)
    new = sorted(set(lab.root.iterdir()) - before)
    files = {path.name: b"" if CHANGING.match(path.name) else path.read_bytes() for path in new}
    for path in new:
        path.unlink()
    measures = re.search(r"report|stats|^-v$|random|assembler|-as$", option)
    if RANDOM.search(option):
        files = dict.fromkeys(files, b"")
    return ended.status, b"" if measures else ended.err, b"" if measures else ended.out, files


@pytest.fixture
def options(lab: Lab) -> Lab:
    lab.write("k.hip", kernel("1", "#warning said"))
    profile(lab)
    return lab


def _skip(lab: Lab, number: int, option: str) -> None:
    if option in ONLY_19 and lab.version != "19":
        pytest.skip("not in clang 15")
    if not FULL and option not in ONLY_19 and number % 2 != int(lab.version) // 4 % 2:
        pytest.skip("the other version of clang: make test-full")


@pytest.mark.sampled(4)
@pytest.mark.every_compiler
@pytest.mark.parametrize(("number", "option"), list(enumerate(option for option, _ in rows(CACHED))))
def test_an_option_of_the_first_table_is_cached(options: Lab, number: int, option: str) -> None:
    _skip(options, number, option)
    skip_if_bitcode_is_covered(options, option)
    settle()
    plain = left_behind(options, (), option)
    if plain[0] and options.version not in ("15", "19"):
        pytest.skip("plain clang fails")
    assert plain[0] == 0
    for _ in range(2):
        assert left_behind(options, LAUNCHER, option)[3].keys() == plain[3].keys()  # type: ignore[attr-defined]
    assert options.stats()["compiles"][HIT] == 1  # type: ignore[index]
    cached = left_behind(options, LAUNCHER, option)
    assert cached[:3] == plain[:3]
    objects = [{name: text for name, text in found[3].items() if name[-2:] != ".d"} for found in (cached, plain)]  # type: ignore[attr-defined]
    assert objects[0] == objects[1]


@pytest.mark.sampled(3)
@pytest.mark.every_compiler
@pytest.mark.parametrize(("number", "option", "reason"), [(number, *row) for number, row in enumerate(rows(LEFT))])
def test_an_option_of_the_second_table_passes_through(options: Lab, number: int, option: str, reason: str) -> None:
    _skip(options, number, option)
    plain = left_behind(options, (), option)
    if plain[0] and options.version not in ("15", "19"):
        pytest.skip("plain clang fails")
    assert left_behind(options, LAUNCHER, option) == plain
    assert options.counted().reason == reason
    assert b": passed through to the compiler" in options.hipcache("explain").out


def test_both_tables_are_read() -> None:
    assert len(rows(CACHED)) > 30
    assert len(rows(LEFT)) > 25
