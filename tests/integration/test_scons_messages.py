"""What a run of SCons prints: commands, warnings, and errors with what to do."""

from __future__ import annotations

import pytest
from hip import DEVICE_LIBRARIES, in_terminal
from scons_project import Project, newest, project

__all__ = ["newest", "project"]
pytestmark = pytest.mark.takes_turns("project")


def test_silent_runs_print_nothing_and_comstr_is_used(newest: Project) -> None:
    newest.construct('env["HIPCOMSTR"] = "HIP $TARGET"\nenv.HipObject("one.hip")')
    assert newest.build().out == "HIP one.o\n"
    newest.build("-c")
    assert newest.build("-s").out == ""


def test_shared_objects_have_a_text_of_their_own(newest: Project) -> None:
    newest.construct('env["SHHIPCOMSTR"] = "SHARED $TARGET"\nenv.SharedHipObject("one.hip")')
    assert newest.build().out == "SHARED one.os\n"


def test_warnings_are_clangs_and_come_again_with_a_hit(project: Project) -> None:
    project.write({"one.hip": '#include "hip_in_short.hpp"\n#warning "mind the step"\n'})
    project.construct('env.HipObject("one.hip")')
    first = project.build()
    assert first.err.count("mind the step") == 3 * 2  # two archs and the host, each with the line of the source
    project.build("-c")
    assert project.build().err == first.err
    assert project.outcomes == {"hit": 1, "miss": 1}


@pytest.mark.parametrize("term", ["dumb", "xterm-256color", ""])
def test_in_a_terminal_warnings_look_as_clangs(newest: Project, term: str) -> None:
    """A dumb one has no colours, but may have a width."""
    newest.write({"one.hip": f'#include "hip_in_short.hpp"\n#warning "{"mind the step " * 5}"\n'})
    seen = set()
    for cache in (True, False):
        variables = f'env["ENV"] |= {{"TERM": "{term}", "COLUMNS": "70"}}\nenv["HIPCACHE"] = {cache}\n'
        newest.construct(variables + 'env.HipObject("one.hip")')
        status, text = in_terminal(newest.command(), newest.root, newest.variables(), 70)
        assert status == 0
        assert text.count(b"mind") >= 6
        seen.add(text)
        newest.build("-c")
    assert seen == {text}
    assert newest.outcomes == {"miss": 1}


def test_a_failed_compile_fails_its_target_and_keep_going_goes_on(project: Project) -> None:
    project.write({"bad.hip": "int f() { return undeclared; }\n"})
    project.construct('env.HipObject("bad.hip")\nenv.HipObject("one.hip")')
    built = project.try_build("-k")
    assert built.status == 2
    assert "use of undeclared identifier 'undeclared'" in built.err
    assert "[bad.o] Error 1" in built.err
    assert (project.root / "one.o").exists()
    assert not (project.root / "bad.o").exists()
    assert project.outcomes == {"failed": 1, "miss": 1}
    project.write({"bad.hip": "int f() { return 1; }\n"})
    assert project.build("-k").compiled == ["bad.o"]
    assert project.build("-k").up_to_date


FAILURES = """
import atexit
def tell():
    for failure in GetBuildFailures():
        print("failed:", type(failure.action).__name__, failure.status, failure.command)
atexit.register(tell)
"""


@pytest.mark.parametrize(
    "line",
    [
        'env.HipObject("bad.hip")',
        'env["HIPCOM"] = ["true", env["HIPCOM"]]\nenv.HipObject("bad.hip")',
        'env["HIPCXX"] = "no-such-clang"\nenv.HipObject("bad.hip")',
        'env.Append(HIPFLAGS=["-fgpu-rdc"], HIPLINKFLAGS=["-no-hip-rt"])\nenv.Program("no_main", "one.hip")',
    ],
    ids=["compile", "of several commands", "no compiler", "link"],
)
def test_a_failure_has_the_action_and_the_command_of_scons_own(newest: Project, line: str) -> None:
    newest.write({"bad.hip": "int f() { return undeclared; }\n"})
    told = []
    for cache in (True, False):
        newest.construct(f'env["HIPCACHE"] = {cache}\n{FAILURES}{line}\n')
        built = newest.try_build()
        assert built.status == 2
        told.append([said for said in built.out.splitlines() if said.startswith("failed:")])
    assert len(told[0]) == 1
    assert "None" not in told[0][0]
    assert told[0] == told[1]


def test_a_missing_compiler_is_named_with_what_to_do(project: Project) -> None:
    project.construct('env["HIPCXX"] = "no-such-clang"\nenv.HipObject("one.hip")')
    built = project.try_build()
    assert built.status == 2
    assert "no compiler 'no-such-clang' on the PATH" in built.err
    assert "set HIPCXX" in built.err


def test_a_wrong_arch_is_named_with_the_target_and_a_right_one(newest: Project) -> None:
    newest.construct('env["HIP_ARCHS"] = ["90a"]\nenv.HipObject("one.hip")')
    built = newest.try_build()
    assert built.status == 2
    assert "target 'one.o': HIP_ARCHS: '90a' is no offload arch" in built.err
    assert "HIP_ARCHS=['gfx90a']" in built.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            'env["HIP_ARCHS"].append("gfx1100")\n'
            'env["HIPFLAGS"] = "-nogpuinc --rocm-path=/usr --rocm-device-lib-path=' + str(DEVICE_LIBRARIES) + '"',
            "cannot find ROCm device library for gfx1100",
        ),
        ('env["HIP_ARCHS"].append("gfx90f")', "invalid target ID 'gfx90f'"),
        ('env.Append(HIPFLAGS=["--no-such-option"])', "no-such-option"),
        ('env["HIP_ARCHS"] = ["gfx90a:xnack"]', "target 'one.o': HIP_ARCHS: 'gfx90a:xnack' is no offload arch"),
    ],
    ids=["not covered by the device libraries", "not known to the compiler", "an unknown option", "half a target ID"],
)
def test_what_the_compiler_cannot_do_is_said_once(newest: Project, change: str, said: str) -> None:
    newest.construct(f'{change}\nenv.HipObject("one.hip")')
    built = newest.try_build()
    assert built.status == 2
    assert built.err.count(said) == 1, built.err
    assert "Traceback" not in built.err
    assert not (newest.root / "one.o").exists()


def test_settings_that_cannot_be_read_are_told_and_the_build_goes_on(newest: Project) -> None:
    newest.environ["HIPCACHE_MAX_SIZE"] = "much"
    newest.construct('env.HipObject("one.hip")')
    built = newest.build()
    assert built.err.count("HIPCACHE_MAX_SIZE") == 1
    assert built.compiled == ["one.o"]


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("HIPCACHE_MAXSIZE", "1G", "did you mean 'HIPCACHE_MAX_SIZE'?"),
        ("HIPCACHE_DIR", "/dev/null/x", "not a directory"),
    ],
)
def test_what_keeps_from_caching_is_said_once_as_the_sconstruct_is_read(
    newest: Project, variable: str, value: str, said: str
) -> None:
    newest.environ[variable] = value
    newest.construct('env.HipObject("one.hip")\nenv.Clone().HipObject("two.o", "one.hip")\nprint("is read")')
    built = newest.build()
    assert built.err.count(said) == 1
    assert newest.try_build("-n").err.count(said) == 1


@pytest.mark.archs(1)
def test_a_text_says_whether_to_cache_as_an_environment_variable_does(project: Project) -> None:
    """As `HIPCACHE=no` on the command line becomes one, without a BoolVariable."""
    lines = [
        f'env.Clone(HIPCACHE="{text}", WORD="Off").HipObject("{number}.o", "one.hip")'
        for number, text in enumerate(("no", "0", "False", "$WORD", " off "))
    ]
    lines += [f'env.Clone(HIPCACHE="{text}").HipObject("{text}-.o", "one.hip")' for text in ("Yes", "1", "")]
    project.construct("\n".join(lines))
    project.build()
    assert sum(project.outcomes.values()) == 3


@pytest.mark.parametrize(
    "text",
    [
        'env["HIPCACHE"] = "maybe"\nenv.HipObject("one.hip")',
        'env.HipObject("one.hip")\nenv["HIPCACHE"] = "maybe"',
        'env.Tool("hipcache", HIPCACHE="maybe")',
        'env["HIPCACHE"] = "maybe"\nenv.IreeModule("m", "m.mlir", DEVICES=["local"])',
    ],
)
def test_a_text_that_is_neither_yes_nor_no_is_an_error(newest: Project, text: str) -> None:
    newest.construct(text)
    built = newest.try_build("-j2")
    assert built.status == 2
    assert "HIPCACHE: 'maybe' is neither yes nor no\n  write it as in HIPCACHE=False" in built.err
    assert "Traceback" not in built.err and not (newest.root / "one.o").exists()
