"""The options of `clang -cc1`: each has a role, or the compile is left to the compiler."""

from __future__ import annotations

import pytest
import recordings
from hipcache.base.errors import PassThrough
from hipcache.clang import cc1
from hipcache.clang.cc1 import Option, Role
from hipcache.clang.jobs import Cc1Job
from recordings import recorded

INPUT = ("-x", "hip", "k.hip")


def parsed(*words: str) -> list[Option]:
    return [option for option in cc1.parse((*words, *INPUT)) if option.role not in (Role.LANGUAGE, Role.INPUT)]


def why_left(*words: str) -> str:
    with pytest.raises(PassThrough) as left:
        cc1.parse((*words, *INPUT))
    return left.value.reason


def jobs() -> list[Cc1Job]:
    plans = [recorded(name) for name in recordings.KNOWN]
    return [job for plan in plans for job in (plan.host, *(device.compile for device in plan.devices))]


def test_no_word_of_a_real_job_is_lost() -> None:
    for job in jobs():
        words = tuple(word for option in job.options for word in option.text)
        assert words[0] == "-cc1"
        assert cc1.parse(words) == job.options


@pytest.mark.parametrize(
    ("words", "role", "name", "value"),
    [
        (("-o", "k.o"), Role.OUTPUT, "-o", "k.o"),
        (("-MT", "k.o"), Role.DEPENDENCIES, "-MT", "k.o"),
        (("-MP",), Role.DEPENDENCIES, "-MP", ""),
        (("-sys-header-deps",), Role.DEPENDENCY_STYLE, "-sys-header-deps", ""),
        (("-fcolor-diagnostics",), Role.PRESENTATION, "-fcolor-diagnostics", ""),
        (("-fmessage-length=80",), Role.PRESENTATION, "-fmessage-length=", "80"),
        (("-fdebug-compilation-dir=/src",), Role.DIRECTORY, "-fdebug-compilation-dir=", "/src"),
        (("-mlink-builtin-bitcode", "a.bc"), Role.BITCODE, "-mlink-builtin-bitcode", "a.bc"),
        (("-cuid=1",), Role.CUID, "-cuid=", "1"),
        (("-fcuda-include-gpubinary", "f"), Role.GPUBINARY, "-fcuda-include-gpubinary", "f"),
        (("-I", "dir"), Role.SEARCH, "-I", "dir"),
        (("-Idir",), Role.SEARCH, "-I", "dir"),
        (("-internal-isystem", "dir"), Role.SEARCH, "-internal-isystem", "dir"),
        (("-include", "x.h"), Role.INCLUDE, "-include", "x.h"),
        (("-D", "A=1"), Role.MACRO, "-D", "A=1"),
        (("-DA=1",), Role.MACRO, "-D", "A=1"),
        (("-U", "A"), Role.MACRO, "-U", "A"),
        (("-O2",), Role.PLAIN, "-O2", ""),
        (("-std=c++17",), Role.PLAIN, "-std=", "c++17"),
        (("--std=c++17",), Role.PLAIN, "--std=", "c++17"),
        (("-mllvm", "-amdgpu-early-inline-all=true"), Role.PLAIN, "-mllvm", "-amdgpu-early-inline-all=true"),
    ],
)
def test_an_option_has_its_role_and_its_value(words: tuple[str, ...], role: Role, name: str, value: str) -> None:
    assert parsed(*words) == [Option(role, name, value, words)]


def test_a_dependency_file_needs_a_target() -> None:
    """As for clang itself, which fails without one."""
    words = ("-dependency-file", "k.d")
    rule = [Option(Role.DEPENDENCIES, *words, words), Option(Role.DEPENDENCIES, "-MT", "k.o", ("-MT", "k.o"))]
    assert parsed(*words, "-MT", "k.o") == rule
    assert why_left(*words) == "compiler_option"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("-ftime-trace=x.json", "side_output"),
        ("-stats-file=x", "side_output"),
        ("-header-include-file", "side_output"),
        ("-H", "side_output"),
        ("-fmodules", "modules"),
        ("-coverage-no-function-names-in-data", "coverage"),
        ("-flto", "lto"),
        ("-fthinlto-index=x", "lto"),
        ("-no-integrated-as", "assembler"),
        ("-fembed-bitcode=all", "command_line"),
        ("-load", "plugin"),
        ("-plugin", "plugin"),
        ("-fpass-plugin=x.so", "plugin"),
        ("-include-pch", "pch"),
        ("-emit-pch", "pch"),
        ("-ivfsoverlay", "compiler_option"),
        ("-frewrite-includes", "compiler_option"),
        ("-fsyntax-only", "compiler_option"),
        ("-verify", "compiler_option"),
        ("-working-directory", "compiler_option"),
        ("-fprofile-sample-use=x", "compiler_option"),
        ("-iframework", "compiler_option"),
    ],
)
def test_an_option_that_reads_or_writes_more_is_left(word: str, reason: str) -> None:
    assert why_left(word) == reason


def test_a_recorded_command_is_one_without_our_options() -> None:
    words = ("-record-command-line", "clang -c k.hip")
    assert parsed(*words) == [Option(Role.PLAIN, *words, words)]
    assert why_left("-record-command-line", "clang -### -c k.hip") == "command_line"
    assert why_left("-dwarf-debug-flags", "clang -### -c k.hip") == "command_line"


@pytest.mark.parametrize("word", ["-brand-new-option", "--brand-new", "-zzz", "-=", "-"])
def test_an_option_that_is_not_known_is_left(word: str) -> None:
    with pytest.raises(PassThrough):
        cc1.parse((word, *INPUT))


@pytest.mark.parametrize(
    "value",
    [
        "-print-after-all",
        "-debug-only=x",
        "-stats",
        "-time-passes",
        "-dot-cfg",
        "-info-output-file=x",
        "-view-cfg",
        "replay.txt",  # of the option before it
    ],
)
def test_an_option_of_llvms_own_that_prints_or_writes_is_left(value: str) -> None:
    assert why_left("-mllvm", value) == "compiler_option"


@pytest.mark.parametrize(
    "words",
    [
        ("-O2",),
        ("-x", "hip"),
        ("-x", "hip", "a.hip", "b.hip"),
        ("-x", "c++", "k.cpp"),
        ("-x", "hip", "-x", "hip", "k.hip"),
        ("k.hip",),
        ("-x", "hip", "-o"),
        ("-x",),
        (),
    ],
)
def test_a_job_that_has_not_one_hip_source_is_left(words: tuple[str, ...]) -> None:
    with pytest.raises(PassThrough):
        cc1.parse(words)


def test_the_last_value_counts() -> None:
    job = Cc1Job("clang", cc1.parse(("-o", "a.o", "-MT", "x", "-o", "b.o", "-dependency-file", "k.d", *INPUT)))
    assert job.value(Role.OUTPUT) == "b.o"
    assert job.value(Role.DEPENDENCIES, "-MT") == "x"
    assert job.value(Role.DEPENDENCIES, "-dependency-file") == "k.d"
    assert job.value(Role.CUID) == ""
