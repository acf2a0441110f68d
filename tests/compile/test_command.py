"""The user's command: one HIP source to one object, or left to the compiler with the reason."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hip import COMPILERS
from hipcache.base.errors import PassThrough
from hipcache.clang.command import Command, compiles_and_links, expand, is_hip, parse, tokenize
from hipcache.clang.driver_options import SEPARATE
from hipcache.report.reasons import REASONS


def read(*words: str, environ: Mapping[str, str] | None = None, cwd: str = "/src") -> Command:
    return parse(("clang++", *words), cwd, environ or {})


def reason(*words: str, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(PassThrough) as left:
        read(*words, environ=environ)
    assert left.value.reason in REASONS
    return left.value.reason


# One source to one object


def test_the_words_stay_as_they_were_given() -> None:
    command = read("-O2", "-c", "k.hip", "-o", "k.o")
    assert command.argv == ("clang++", "-O2", "-c", "k.hip", "-o", "k.o")
    assert (command.compiler, command.source, command.output) == ("clang++", "k.hip", "k.o")


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("-o", "k.o"), "k.o"),
        (("-ok.o",), "k.o"),
        (("--output", "k.o"), "k.o"),
        (("--output=k.o",), "k.o"),
        (("-o", "a.o", "-o", "k.o"), "k.o"),
        ((), ""),
        (("-objc-thing",), ""),
    ],
)
def test_every_spelling_of_the_output_is_known(words: tuple[str, ...], output: str) -> None:
    assert read("-c", "k.hip", *words).output == output


@pytest.mark.parametrize(
    "words",
    [
        ("k.hip",),
        ("-x", "hip", "k.cpp"),
        ("-xhip", "k.cpp"),
        ("--language", "hip", "k.cpp"),
        ("--language=hip", "k.cpp"),
        ("-x", "c++", "-x", "hip", "k.cpp"),
        ("-x", "hip", "-x", "none", "k.hip"),
        ("--", "k.hip"),
        ("-xhip", "--", "-k.cpp"),
    ],
)
@pytest.mark.parametrize("flag", ["-c", "--compile"])
def test_every_spelling_of_the_language_is_known(words: tuple[str, ...], flag: str) -> None:
    assert read(flag, *words).source == words[-1]


@pytest.mark.parametrize(
    "words",
    [
        ("k.cpp",),
        ("k.cu",),
        ("-x", "c++", "k.hip"),
        ("-x", "hip", "-x", "none", "k.cpp"),
        ("k.cpp", "-x", "hip"),
        ("-xcuda", "k.cu"),
        ("k.HIP",),
        (),
    ],
)
def test_another_language_is_not_ours(words: tuple[str, ...]) -> None:
    assert reason("-c", *words) == "not_hip"


@pytest.mark.parametrize("name", ["k.o", "libk.a", "libk.so"])
def test_an_object_is_no_source_whatever_the_language(name: str) -> None:
    assert not is_hip(name, "hip")


@pytest.mark.parametrize("word", sorted(SEPARATE - {"-x", "--language", "-o", "--output"}))
def test_the_value_of_an_option_is_no_source(word: str) -> None:
    try:
        assert read("-c", word, "other.hip", "k.hip").source == "k.hip"
    except PassThrough as left:
        assert left.reason not in ("several_sources", "not_hip")


@pytest.mark.parametrize("word", ["-cuid=1", "-fuse-cuid=none"])
def test_a_cuid_of_the_users_own_is_told(word: str) -> None:
    assert read("-c", word, "k.hip").own_cuid
    assert not read("-c", "k.hip").own_cuid


def test_a_path_begins_at_the_working_directory() -> None:
    assert read("-c", "k.hip").path("k.hip") == "/src/k.hip"
    assert read("-c", "k.hip").path("/k.hip") == "/k.hip"


def test_an_empty_word_is_no_source_as_clang_has_it() -> None:
    assert read("-c", "", "k.hip", "").source == "k.hip"


# Left to the compiler


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-E", "k.hip"), "preprocess"),
        (("-M", "k.hip"), "dependencies_only"),
        (("-MM", "k.hip"), "dependencies_only"),
        (("-fsyntax-only", "k.hip"), "no_object"),
        (("-###", "-c", "k.hip"), "asks_driver"),
        (("-v", "-c", "k.hip"), "asks_driver"),
        (("-save-temps=obj", "-c", "k.hip"), "save_temps"),
        (("-MJ", "db.json", "-c", "k.hip"), "temporary_names"),
        (("-MJdb.json", "-c", "k.hip"), "temporary_names"),
        (("-Xarch_device", "-MJdb.json", "-c", "k.hip"), "temporary_names"),
        (("-gsplit-dwarf=single", "-c", "k.hip"), "temporary_names"),
        (("-include-pch", "p.pch", "-c", "k.hip"), "pch"),
        (("-fmodules", "-c", "k.hip"), "modules"),
        (("-fplugin=p.so", "-c", "k.hip"), "plugin"),
        (("-fuse-cuid=random", "-c", "k.hip"), "random_cuid"),
        (("k.hip", "-o", "-"), "standard_streams"),
        (("k.hip", "-"), "standard_streams"),
        (("k.hip", "-v"), "asks_driver"),
        (("-c", "a.hip", "b.hip"), "several_sources"),
        (("-c", "a.hip", "b.cpp"), "several_sources"),
        (("-c", "-xhip", "-"), "standard_streams"),
        (("-c", "k.hip", "-o", "-"), "standard_streams"),
        (("k.o",), "link_or_not_hip"),
        ((), "not_hip"),
    ],
)
def test_what_is_not_one_source_to_one_object_is_left_with_its_reason(words: tuple[str, ...], why: str) -> None:
    assert reason(*words) == why


@pytest.mark.parametrize(
    "more",
    [(), ("--hip-link",), ("a.o", "-lm"), ("l.hip", "m.cpp"), ("-fgpu-rdc",), ("-fgpu-rdc", "--hip-link", "b.o")],
)
def test_a_source_that_is_not_only_compiled_becomes_a_program(more: tuple[str, ...]) -> None:
    command = read("k.hip", *more)
    assert (command.makes_program, command.source, command.output) == (True, "k.hip", "a.out")
    assert compiles_and_links(command.arguments)
    assert not read("-c", "k.hip").makes_program


@pytest.mark.parametrize("words", [("-c", "k.hip"), ("k.o",), ("--version",), ("-E", "k.hip"), ("-x", "c++", "k.hip")])
def test_what_makes_no_program_of_hip_sources_is_told(words: tuple[str, ...]) -> None:
    assert not compiles_and_links(words)


def test_the_first_reason_is_given() -> None:
    assert reason("-H", "-save-temps", "-c", "k.hip") == "side_output"


@pytest.mark.parametrize(
    "name", ["CC_PRINT_OPTIONS", "CC_LOG_DIAGNOSTICS", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES"]
)
def test_a_variable_that_makes_clang_write_more_is_left(name: str) -> None:
    assert reason("-c", "k.hip", environ={name: "1"}) == "side_output"


def test_an_option_for_one_side_is_none_of_the_drivers_own() -> None:
    assert read("-c", "-Xarch_device", "-S", "k.hip").source == "k.hip"


def test_no_command_of_any_words_raises_anything_else() -> None:
    words = ["-c", "k.hip", "-o", "-x", "hip", "--", "-", "", "-D", "-Xarch_device", "@", "@gone", "-E", "k.o"]
    for first in words:
        for second in words:
            for third in words:
                try:
                    read(first, second, third)
                except PassThrough as left:
                    assert left.reason in REASONS


# Response files

TEXTS = {
    "blanks": "-DA   -DB\n-DC\t-DD\r\n-DE",
    "quotes": '-DA="x y" -DB=\'x y\' "-DC=1"2',
    "quotes in quotes": '-DA="it\'s" -DB=\'say "x"\'',
    "backslashes": r"-DA=a\ b -DB=\"x\" -DC=a\\b -DD='a\'b' " + r'-DE="a\"b\c"',
    "empty words": "-DA \"\" '' -DB",
    "dollars": "-DA=$HOME -DB=`x` -DC=*",
    "a backslash at the end": "-DA -DB\\",
    "an open quote": "-DA '-DB C",
    "a line break after a backslash": "-DA=a\\\nb -DB",
    "a line break in quotes": '-DA="a\tb"',
    "nothing": "",
    "unicode": "-DA=ü",
}


def clangs_macros(version: str, cwd: Path, *words: str) -> list[str]:
    """What clang takes for macros: the values of -D in its own plan."""
    done = subprocess.run(
        [f"clang++-{version}", "-###", "-xc++", "-c", *words, "k.cpp"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.findall(r' "-D" "((?:[^"\\]|\\.)*)"', done.stderr, re.DOTALL)
    return [re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL) for word in found]


@pytest.mark.parametrize("version", COMPILERS)
@pytest.mark.parametrize("kind", TEXTS)
def test_a_response_file_is_read_as_clang_reads_it(kind: str, version: str, tmp_path: Path) -> None:
    (tmp_path / "k.cpp").touch()
    (tmp_path / "words").write_text(TEXTS[kind], newline="")
    ours = [word[2:] for word in expand(("@words",), str(tmp_path)) if word.startswith("-D")]
    assert ours == clangs_macros(version, tmp_path, "@words")


def test_response_files_may_name_others(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "one").write_text("-DA @sub/two -DD")
    (tmp_path / "sub/two").write_text("-DB @three")
    (tmp_path / "three").write_text("-DC")
    (tmp_path / "sub/three").write_text("-DWRONG")
    words = expand(("-DZ", "@one", "-DE"), str(tmp_path))
    assert words == ("-DZ", "-DA", "-DB", "-DC", "-DD", "-DE")
    assert clangs_macros(COMPILERS[0], tmp_path, "-DZ", "@one", "-DE") == [word[2:] for word in words]


def test_a_response_file_that_names_itself_is_left(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("-DA @one")
    with pytest.raises(PassThrough) as left:
        expand(("@one",), str(tmp_path))
    assert left.value.reason == "response_file"


@pytest.mark.parametrize("name", ["gone", ".", ""])
def test_a_response_file_that_cannot_be_read_is_left(name: str, tmp_path: Path) -> None:
    with pytest.raises(PassThrough) as left:
        expand((f"@{name}",), str(tmp_path))
    assert left.value.reason == "response_file"


def test_words_without_response_files_stay() -> None:
    assert expand(("-c", "a@b"), "/nowhere") == ("-c", "a@b")


def test_a_response_file_that_is_no_text_is_read(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"-DA=\xff")
    (word,) = expand(("@one",), str(tmp_path))
    assert word.encode("utf-8", "surrogateescape") == b"-DA=\xff"


def test_the_source_may_stand_in_a_response_file(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("-c k.hip -o k.o")
    command = read("@one", cwd=str(tmp_path))
    assert (command.source, command.output, command.argv) == ("k.hip", "k.o", ("clang++", "@one"))


def test_any_text_is_cut_into_words() -> None:
    for text in ("\\", "'", '"', "\0", "'\\", '"\\', " ' ", "\\\n"):
        assert all(isinstance(word, str) for word in tokenize(text))
