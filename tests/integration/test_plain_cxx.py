"""Plain C++ goes to the compiler: how it is told, and how it is counted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cmake_project import COMPILER, HIPCACHE, MODULE_PATH, Project, simple_project
from hip import LAUNCHER, script
from hip import statistics as statistics_of
from hipcache.clang import assembler
from hipcache.remote.helper import commands
from hipcache.report import statistics
from hipcache.report.outcome import PASSED_THROUGH, CompileOutcome
from hipcache.report.targets import is_check as is_a_check


def count_of(project: Project) -> dict[str, int]:
    stats: Any = statistics_of(project.clean_environ())
    return {**stats["compiles"], **stats["passed_through"]}


def test_plain_cxx_is_counted_whichever_way_it_passes(tmp_path: Path) -> None:
    project = Project(tmp_path).write({"x.cpp": "int x() { return 1; }\n"})
    assert statistics.log_texts(CompileOutcome(PASSED_THROUGH, reason="not_hip")) == ["passed_through\tnot_hip\t0"]
    for _ in range(3):  # the first one makes the log
        done = project.run(HIPCACHE, COMPILER, "-c", tmp_path / "x.cpp", "-o", tmp_path / "x.o")
        assert (done.returncode, done.stdout) == (0, "")
    assert count_of(project)["not_hip"] == 3
    assert (tmp_path / "x.o").read_bytes()


CHECKS = [
    ("CMakeFiles/CMakeScratch/TryCompile-x", "CMakeFiles/cmTC_1.dir/x.cpp.o", True),
    ("CMakeFiles/CMakeTmp", "x.o", True),
    ("meson-private/tmpa_b", "output.obj", True),
    ("", "meson-private/tmpa_b/output.obj", True),
    ("", "meson-private/tmp.o", False),
    ("", "meson-private/sanitycheck.o", False),
    ("", ".sconf_temp/conftest.o", True),
    ("CMakeFiles/a.dir", "x.o", False),
]


@pytest.mark.parametrize("engine", [False, True])
def test_checks_of_plain_cxx_are_apart_whichever_way_they_pass(tmp_path: Path, engine: bool) -> None:
    project = Project(tmp_path).write({"x.cpp": "int x() { return 1; }\n"})
    program = [sys.executable, "-m", "hipcache"] if engine else [HIPCACHE]
    checks, others = 0, 0
    for directory, output, check in CHECKS:
        place = tmp_path / "build" / directory
        (place / output).parent.mkdir(parents=True, exist_ok=True)
        assert is_a_check(str(place / output)) == check
        for path in (place / output, Path(output)):
            done = project.run("env", "-C", place, *program, COMPILER, "-c", tmp_path / "x.cpp", "-o", path)
            assert (done.returncode, done.stdout) == (0, "")
            checks, others = checks + check, others + (not check)
    stats: Any = statistics_of(project.clean_environ())
    assert stats["checks"] == {"passed_through": checks}
    assert stats["passed_through"] == {"not_hip": others}
    assert statistics.log_texts(CompileOutcome(PASSED_THROUGH, reason="not_hip", check=True)) == [
        "passed_through\tnot_hip\t0\tconfigure check ..."
    ]


def test_cmakes_own_checks_of_cxx_are_no_compiles(tmp_path: Path) -> None:
    """The launcher of C++ reaches them, as recipes set it for all compilers."""
    files = {
        "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.21)
project(one LANGUAGES CXX)
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("int main() { return 0; }" WORKS)
check_cxx_source_compiles("int main() { return nothing; }" FAILS)
add_library(one STATIC x.cpp)
""",
        "x.cpp": "int x() { return 1; }\n",
    }
    project = Project(tmp_path, environ={"CMAKE_CXX_COMPILER_LAUNCHER": str(HIPCACHE)}).write(files)
    project.configure(f"-DCMAKE_CXX_COMPILER={COMPILER}")
    project.build()
    stats: Any = statistics_of(project.clean_environ())
    assert stats["passed_through"] == {"not_hip": 1}
    assert stats["checks"]["passed_through"] >= 3


def write_assembler_sources(place: Path) -> None:
    for name in ("large", "large.s"):
        (place / name).write_bytes(bytes(assembler.WORTH))
    (place / "small.s").write_bytes(bytes(assembler.WORTH - 1))


PLAIN = [
    (["clang++", "-c", "x.cpp"], True),
    (["/usr/bin/clang++-15", "-I/opt/rocm/include/hip", "-c", "hip.cpp"], True),
    (["clang++", "-c", "-x", "hip", "x.cpp"], False),
    (["clang++", "-c", "-xhip", "x.cpp"], False),
    (["clang++", "-c", "--language=hip", "x.cpp"], False),
    (["clang++", "-c", "x.hip"], False),
    (["clang++", "-c", "@words"], False),
    (["clang++", "x.cpp"], False),
    (["hipcc", "-c", "x.cpp"], False),
    (["hipcc.bin", "-c", "x.cpp"], False),
    (["clang++", "-c", "x.cpp", "-o", "hip.o"], True),
    (["clang++", "-o", "-c", "x.cpp"], True),
    (["clang", "-c", "x.s"], True),
    (["clang", "-x", "assembler", "-target", "x86_64-linux-gnu", "-c", "x.s"], True),
    (["clang", "-target", "amdgcn-amd-amdhsa", "-c", "x.c"], True),
    (["clang++", "-target", "amdgcn--amdhsa", "-c", "small.s"], True),
    (["clang", "-x", "assembler", "-target", "amdgcn-amd-amdhsa", "-c", "large"], False),
    (["clang", "-xassembler", "--target=amdgcn-amd-amdhsa", "-c", "large"], False),
    (["clang", "--language=assembler", "--target=amdgcn-amd-amdhsa", "-c", "large"], False),
    (["clang++", "--target=amdgcn-amd-amdhsa", "-c", "large.s"], False),
    (["clang++", "-target", "amdgcn--amdhsa", "-c", "large.s"], False),
    (["ccache", "clang++", "-c", "x.cpp"], True),
    (["ccache", "max_size=1G", "clang++", "-c", "x.cpp"], True),
    (["ccache", "distcc", "hipcc", "-c", "x.cpp"], False),
    (["ccache", "hipcc", "-c", "x.cpp"], False),
]


@pytest.mark.parametrize(("words", "expected"), PLAIN)
def test_only_what_is_certainly_no_hip_is_plain(
    words: list[str], expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_assembler_sources(tmp_path)
    assert commands.is_plain(words) == expected


@pytest.mark.parametrize(("words", "expected"), PLAIN)
def test_the_native_launcher_means_the_same_by_plain(tmp_path: Path, words: list[str], expected: bool) -> None:
    shutil.copy(LAUNCHER[0], tmp_path / "hipcache")
    script(tmp_path / "hipcache-engine", "exit 99\n")
    compiler = script(tmp_path / Path(words[0]).name, "exit 7\n")
    (tmp_path / "store/v2/statistics").mkdir(parents=True)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HIPCACHE_DIR": str(tmp_path / "store")}
    write_assembler_sources(tmp_path)
    ended = subprocess.run([tmp_path / "hipcache", compiler, *words[1:]], env=environ, cwd=tmp_path, check=False)
    assert ended.returncode == (7 if expected else 99)


@pytest.mark.parametrize(("name", "value"), [("HIPCACHE_DISABLE", "1"), ("HIPCACHE_READONLY", "1")])
def test_settings_hold_for_plain_cxx_too(tmp_path: Path, name: str, value: str) -> None:
    project = Project(tmp_path).write({"x.cpp": "int x() { return 1; }\n"})
    project.run(HIPCACHE, COMPILER, "-c", tmp_path / "x.cpp", "-o", tmp_path / "x.o")
    project.environ[name] = value
    project.run(HIPCACHE, COMPILER, "-c", tmp_path / "x.cpp", "-o", tmp_path / "x.o")
    del project.environ[name]
    assert count_of(project)["not_hip"] == 1


def test_a_config_file_holds_for_plain_cxx_too(tmp_path: Path) -> None:
    project = Project(tmp_path, environ={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    project.write({"x.cpp": "int x() { return 1; }\n", "config/hipcache/hipcache.yaml": f"log: {tmp_path}/log\n"})
    for _ in range(2):
        project.run(HIPCACHE, COMPILER, "-c", tmp_path / "x.cpp", "-o", tmp_path / "x.o")
    assert (tmp_path / "log").read_text().count("passed_through not_hip") == 2


# HIPCACHE_CXX_CACHE


def with_cache(tmp_path: Path) -> Project:
    """A project whose cache of C++ notes its commands, and whether the variable is set."""
    cache = script(tmp_path / "other", f'echo "$@${{HIPCACHE_CXX_CACHE+again}}" >> {tmp_path}/taken\nexec "$@"\n')
    project = Project(tmp_path, environ={"HIPCACHE_CXX_CACHE": str(cache)})
    return project.write({"x.cpp": "int x() { return 1; }\n"})


@pytest.mark.parametrize("by", ["launcher", "engine", "config file"])
def test_another_cache_gets_what_is_not_hip_and_it_is_counted(tmp_path: Path, by: str) -> None:
    project = with_cache(tmp_path)
    if by == "config file":
        project.environ["XDG_CONFIG_HOME"] = str(tmp_path / "config")
        setting = f"cxx_cache: {project.environ.pop('HIPCACHE_CXX_CACHE')}\n"
        project.write({"config/hipcache/hipcache.yaml": setting})
    words = [COMPILER, "-c", str(tmp_path / "x.cpp"), "-o", str(tmp_path / "x.o")]
    program = [sys.executable, "-m", "hipcache"] if by == "engine" else [HIPCACHE]
    for _ in range(2):
        assert project.run(*program, *words).returncode == 0
    assert [line.removesuffix("again") for line in (tmp_path / "taken").read_text().splitlines()] == [
        " ".join(words)
    ] * 2
    assert {name: count for name, count in count_of(project).items() if count} == {"passed_through": 2, "cxx_cache": 2}


def test_what_another_cache_has_already_and_links_go_to_no_second_one(tmp_path: Path) -> None:
    project = with_cache(tmp_path)
    script(tmp_path / "ccache", 'exec "$@"\n')
    made = ["-c", tmp_path / "x.cpp", "-o", tmp_path / "x.o"]
    assert project.run(HIPCACHE, tmp_path / "ccache", COMPILER, *made).returncode == 0
    assert project.run(HIPCACHE, COMPILER, "-shared", tmp_path / "x.o", "-o", tmp_path / "x.so").returncode == 0
    assert not (tmp_path / "taken").exists()


@pytest.mark.parametrize("cache", ["not-installed", "hipcache", "/usr/bin/hipcache", "two words"])
def test_without_that_cache_the_compiler_runs(tmp_path: Path, cache: str) -> None:
    project = with_cache(tmp_path)
    project.environ["HIPCACHE_CXX_CACHE"] = cache
    done = project.run(HIPCACHE, COMPILER, "-c", tmp_path / "x.cpp", "-o", tmp_path / "x.o")
    assert (done.returncode, (tmp_path / "x.o").exists()) == (0, True)


def test_a_cache_that_leads_back_to_hipcache_is_asked_once(tmp_path: Path) -> None:
    project = with_cache(tmp_path)
    back = script(tmp_path / "back", f'exec {HIPCACHE} "$@"\n')
    project.environ["HIPCACHE_CXX_CACHE"] = str(back)
    done = project.run(HIPCACHE, COMPILER, "-c", tmp_path / "x.cpp", "-o", tmp_path / "x.o")
    assert (done.returncode, count_of(project)["cxx_cache"]) == (0, 1)


def test_cmakes_module_sends_cxx_to_the_other_cache_through_hipcache(tmp_path: Path) -> None:
    project = with_cache(tmp_path)
    lists = """\
cmake_minimum_required(VERSION 3.21)
project(both LANGUAGES CXX HIP)
include(HipCache)
add_library(both STATIC x.cpp one.hip)
"""
    project.write({**simple_project(), "CMakeLists.txt": lists})
    project.configure(MODULE_PATH, "-DCMAKE_HIP_ARCHITECTURES=gfx906", f"-DCMAKE_CXX_COMPILER={COMPILER}")
    project.build()
    counts = count_of(project)
    assert (counts["miss"], counts["cxx_cache"]) == (1, 1)
