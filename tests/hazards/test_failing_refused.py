"""Commands that the driver or cc1 refuses: they fail in its words."""

from __future__ import annotations

import pytest
from failing_lab import Trial, trial
from hip import BARE, HIT, MISS, Lab, only_15

__all__ = ["trial"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--typo"],
        ["--typo", "-Wall", "--and-another"],
        ["nowhere.hip"],
        ["-Wno-such-warning", "--typo"],
        ["--offload-arch=bogus"],
        ["-std=c++99"],
        ["-std=c+17"],
        ["-std="],
        ["-fno-such", "--offlod-arch=gfx906", "-Wall"],
        ["-fno-exceptions", "-no"],
        ["-march=nothing"],
        ["-fsplit-machine-functions"],
        ["-Xarch_device", "-o", "x"],
        ["-x", "nothing"],
        ["-cuid=a", "-fuse-cuid=wrong"],
        ["@nowhere.rsp"],
        ["--target=bogus"],
        ["-fcolor-diagnostics", "--typo"],
        ["--rocm-path=/nowhere", "--rocm-device-lib-path=/nowhere", "-UBARE"],
    ],
    ids=" ".join,
)
def test_a_command_that_the_driver_refuses_fails_in_its_words(trial: Trial, flags: list[str]) -> None:
    lab = trial.lab
    words = [word for word in lab.words(*flags) if word not in (BARE if "-UBARE" in flags else ())]
    plain, *cached = trial.by_both(words, 2)
    assert cached == [plain] * 2


@pytest.mark.archs(1)
@pytest.mark.parametrize(
    "flags", ["-std=c++17", "-std=gnu++20", "-std=c++2a", "-std=c++71 -std=c++14", "-std=c++14 -std=c++71"]
)
def test_a_standard_that_there_is_is_cached(trial: Trial, flags: str) -> None:
    lab = trial.lab
    for end in (MISS, HIT):
        done = lab.compile(*flags.split())
        assert done.status or done.outcome == end


@pytest.mark.archs(1)
@pytest.mark.every_compiler
@pytest.mark.parametrize("flags", ["--std=c++17", "--std c++17", "-Xarch_host --std=c++17"])
def test_a_standard_with_two_dashes_is_cached(lab: Lab, flags: str) -> None:
    for end in (MISS, HIT, HIT):
        assert lab.compile(*flags.split()).outcome == end


@pytest.mark.archs(1)
@pytest.mark.every_compiler
@pytest.mark.parametrize("flags", ["--std=c++71", "--std=c++14 --std=c++71", "-Xarch_device --std=c++71"])
def test_a_misspelt_standard_fails_in_the_words_of_clang(trial: Trial, flags: str) -> None:
    words = trial.lab.words(*flags.split())
    plain, *cached = trial.by_both(words, 2)
    assert plain[0] == 1
    assert cached == [plain] * 2


@pytest.mark.sampled(4)
@pytest.mark.archs(1)
@pytest.mark.parametrize(
    "flags",
    [
        *(
            ["--typo", word]
            for word in ("-v", "--verbose", "--version", "--help", "-###", "-L", "-o", "-x", "--", "@words")
        ),
        *(["--typo", word] for word in ("-print-resource-dir", "-dumpversion", "-fdriver-only", "-Werror", "-c")),
        *(
            ["--typo", word]
            for word in ("--config=own.cfg", "--driver-mode=cl", "--driver-mode=gcc", "-Xclang", "-mllvm")
        ),
        *(
            ["--typo", word]
            for word in ("-fdiagnostics-format=msvc", "-fcolor-diagnostics", "-save-temps", "-M", "-###")
        ),
        ["--typo", "--target=bogus"],
        ["--typo", "--rocm-path=/nowhere", "-UBARE"],
        ["--typo'", "-Dclang version "],
        ["--typo", "nowhere.o"],
    ],
    ids=" ".join,
)
def test_an_unknown_option_beside_any_other_fails_in_the_words_of_clang(trial: Trial, flags: list[str]) -> None:
    lab = trial.lab
    lab.compile()
    lab.write("own.cfg", "--more-typos\n")
    lab.write("words", "-v --and-more\n")
    words = [word for word in lab.words(*flags) if word not in (BARE if "-UBARE" in flags else ())]
    plain, cached = trial.by_both(words)
    assert cached == plain


@pytest.mark.archs(1)
@only_15
@pytest.mark.parametrize("name", ["CCC_OVERRIDE_OPTIONS", "TMPDIR", "COMPILER_PATH", "CPATH"])
def test_an_unknown_option_with_variables_of_the_driver_fails_in_the_words_of_clang(trial: Trial, name: str) -> None:
    lab = trial.lab
    lab.compile()
    lab.environ[name] = "+--more-typos" if name.startswith("CCC") else "/nowhere"
    plain, cached = trial.by_both(lab.words("--typo"))
    assert cached == plain


@pytest.mark.parametrize("source", ["nowhere.hip", "k.hip"])
@pytest.mark.parametrize("flags", [[], ["--no-such-option"], ["--serialize-diagnostics", "said", "--no-such-option"]])
def test_without_its_source_or_with_messages_in_a_file_it_fails_as_clang_does(
    trial: Trial, flags: list[str], source: str
) -> None:
    words = [source if word == "k.hip" else word for word in trial.lab.words(*flags)]
    plain, cached = trial.by_both(words)
    assert cached == plain
