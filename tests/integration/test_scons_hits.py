"""Objects that SCons takes out of the store: when, by whom they are served, and how they are compared."""

from __future__ import annotations

import re
import subprocess
import sys

import cmake_project
import direct_records
import pytest
from cmake_project import ARCHES, MODULE_PATH, PROGRAMS
from hip import COMPILERS, settle
from hipcache.report import stats_log
from poison import poison
from scons_project import CLANG, HEADERLIGHT, QUICK, Project, newest, project
from told import explained

__all__ = ["newest", "project"]
pytestmark = pytest.mark.takes_turns("project")


def test_objects_that_are_built_again_are_hits(project: Project) -> None:
    project.construct('env.HipObject("one.hip")')
    project.build()
    first = (project.root / "one.o").read_bytes()
    project.build("-c")
    assert not (project.root / "one.o").exists()
    project.build()
    assert (project.root / "one.o").read_bytes() == first
    assert project.outcomes == {"hit": 1, "miss": 1}


def test_a_store_that_was_cleared_rebuilds_nothing(newest: Project) -> None:
    newest.construct('env.HipObject("one.hip")')
    newest.build()
    subprocess.run([sys.executable, "-m", "hipcache", "clear"], env=newest.variables(), check=True)
    assert newest.build().up_to_date


def test_a_store_that_must_not_be_written_compiles_once(newest: Project) -> None:
    newest.environ["HIPCACHE_READONLY"] = "1"
    newest.construct('env.Append(HIPFLAGS=["-MD"])\nenv.HipObject("one.hip")')
    assert newest.build().compiled == ["one.o"]
    assert newest.build().up_to_date


def test_a_run_with_nothing_to_do_starts_no_process(newest: Project) -> None:
    newest.construct(
        QUICK
        + """
env.HipObject("one.hip")
env.Clone(CPPDEFINES=["MORE"]).HipObject("more.o", "one.hip")
import sys
starts = ("subprocess.Popen", "os.fork", "os.posix_spawn")
sys.addaudithook(lambda event, what: print(event, *what[:2]) if event in starts else None)
"""
    )
    assert re.search(r"^(subprocess.Popen .*clang|os.fork)", newest.build().out, re.MULTILINE)
    settle()
    newest.build()
    again = newest.build()
    assert again.up_to_date
    newest.build("-c")
    served = newest.build()
    assert served.compiled == ["more.o", "one.o"]
    assert newest.outcomes == {"hit": 2, "miss": 1, "partial": 1}
    for out in (again.out, served.out):  # SCons itself asks for the versions of gcc
        assert not re.search("^(os|subprocess).*(fork|clang|lld|spawn)", out, re.MULTILINE)


def test_a_compile_for_which_nothing_has_changed_is_served_without_the_engine(newest: Project) -> None:
    newest.write({"value.hpp": "#define VALUE 4\n"})
    newest.write({"one.hip": '#include "hip_in_short.hpp"\n#include "value.hpp"\nint one() { return VALUE; }\n'})
    newest.construct(QUICK + 'env.HipObject("one.hip")')
    newest.build()
    settle()
    for _ in range(2):
        newest.build("-c")
        made = newest.build().compiled
    content = (newest.root / "one.o").read_bytes()
    without = QUICK + 'env.HipObject("one.hip")\nimport hipcache_scons.cached\nhipcache_scons.cached.several = None'
    before = direct_records.states(newest.root / "store")
    newest.construct(without)
    newest.build("-c")
    last = newest.build()
    assert last.compiled == made == ["one.o"]
    after = direct_records.states(newest.root / "store")
    assert newest.outcomes == {"miss": 1, "hit": 3}, (direct_records.changes(before, after), last)
    assert (newest.root / "one.o").read_bytes() == content
    assert newest.build().up_to_date
    newest.write({"value.hpp": "#define VALUE 5\n"})
    newest.construct('env.HipObject("one.hip")')
    assert newest.build().compiled == ["one.o"]
    assert (newest.root / "one.o").read_bytes() != content


def test_explain_says_why_a_compile_has_no_direct_hit(newest: Project) -> None:
    """The driver asks the processor what it is."""
    newest.write({"own.cfg": "-march=native\n"})
    newest.construct(QUICK + 'env.Append(HIPFLAGS=["--config", "./own.cfg"])\nenv.HipObject("one.hip")')
    newest.build()
    told = explained(newest.variables(), str(newest.root / "one.o"))
    assert "no direct hit: hipcache does not know all that the driver looked at" in told


@pytest.mark.parametrize("served_by", ["direct", "engine"])
def test_hits_are_compared_where_that_is_asked_for(newest: Project, served_by: str) -> None:
    newest.construct(QUICK + 'env.HipObject("one.hip")')
    for _ in range(2):
        newest.build()
        settle()
        newest.build("-c")
    log = newest.root / "stats.jsonl"
    newest.environ |= {"HIPCACHE_VERIFY": "1", "HIPCACHE_STATS_LOG": str(log)}

    def other_variables() -> None:
        """Those of a direct record are others then."""
        if served_by == "engine":
            newest.environ |= {"HIPCACHE_JOBS": str(int(newest.environ.get("HIPCACHE_JOBS", "1")) + 1)}

    other_variables()
    newest.build()
    right = (newest.root / "one.o").read_bytes()
    (told,) = stats_log.read(log)
    assert (told.outcome, told.object, told.direct) == ("hit", str(newest.root / "one.o"), served_by == "direct")
    assert newest.stats()["verified"] == {"same": 1, "different": 0, "varying": 0}
    poison(newest.root / "store", right)
    newest.build("-c")
    other_variables()
    assert "THE STORE SERVED A WRONG OBJECT" in newest.build().err
    assert (newest.root / "one.o").read_bytes() == right
    assert newest.stats()["verified"] == {"same": 1, "different": 1, "varying": 0}
    newest.build("-c")
    assert newest.build().err == ""
    assert (newest.root / "one.o").read_bytes() == right


def test_a_hit_that_the_compiler_does_not_confirm_fails_in_its_words(newest: Project) -> None:
    newest.construct('env.HipObject("one.hip")')
    newest.build()
    newest.build("-c")
    newest.environ |= {"HIPCACHE_VERIFY": "1"}
    newest.construct(
        "from hipcache.base import errors\n"
        "from hipcache.verify import comparison\n"
        "def compare(*_): raise errors.CompilerFails\n"
        "comparison.compare = compare\n"
        'env.HipObject("one.hip")'
    )
    newest.build()
    assert newest.outcomes == {"hit": 1, "miss": 1, "passed_through": 1}
    assert (newest.root / "one.o").exists()


@pytest.mark.parametrize("clang", COMPILERS)
def test_a_unit_that_cmake_compiled_is_a_hit(newest: Project, clang: str) -> None:
    """CMake names the source from the root, and the object otherwise. With clang 19 that name is in the host's object,
    as the CUID; in the device code it is replaced."""
    cmake = cmake_project.Project(newest.root)
    cmake.write({"CMakeLists.txt": cmake_project.simple_project()["CMakeLists.txt"]})
    compiler = f"/usr/bin/clang++-{clang}"
    cmake.configure(MODULE_PATH, ARCHES, "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_HIP_COMPILER={compiler}")
    cmake.build()
    assert newest.outcomes == {"miss": 1}
    done = cmake.run(PROGRAMS / "ninja", "-C", cmake.build_dir, "-t", "commands")
    (line,) = (line for line in done.stdout.splitlines() if " -c " in line)
    words = line.partition(compiler)[2].split()
    flags = " ".join(word for word in words[: words.index("-MD")] if "--offload-arch" not in word)
    flags = flags.replace("-x hip", "")
    newest.construct(f'env["HIPCXX"], env["HIPFLAGS"] = "{compiler}", "{flags}"\nenv.HipObject("one.hip")')
    assert newest.build().compiled == ["one.o"]
    stats = newest.stats()
    assert stats["jobs"]["frontend"] == stats["jobs"]["backend"] == {"hits": 2, "misses": 2}  # type: ignore[comparison-overlap]
    host = {"hits": 1, "misses": 1} if int(clang) < 18 else {"hits": 0, "misses": 2}
    assert stats["units"]["host"] == host  # type: ignore[comparison-overlap]


def test_the_same_command_from_another_front_is_a_hit(project: Project) -> None:
    # In a working copy the CUID of an object is made from its path in it, whatever builds it.
    (project.root / ".git").mkdir()
    command = [CLANG, *["--offload-arch=gfx906", "--offload-arch=gfx90a"], *HEADERLIGHT.split(), "-c", "one.hip"]
    launcher = [sys.executable, "-m", "hipcache", *command, "-o", "one.o", "-MD", "-MF", "one.d"]
    subprocess.run(launcher, cwd=project.root, env=project.variables(), check=True)
    project.construct('env.HipObject("one.hip")')
    project.build()
    assert project.outcomes == {"hit": 1, "miss": 1}
