"""Command variables that hold more than one command: a list, lines, functions."""

from __future__ import annotations

from pathlib import Path

import pytest
from scons_project import CLANG, HEADERLIGHT, Project, newest, project

__all__ = ["newest", "project"]
pytestmark = [pytest.mark.takes_turns("project"), pytest.mark.archs(1)]

SECOND = 'env["HIPCOM"] = [env["HIPCOM"], "echo second $TARGET"]\n'
ONE = 'env.HipObject("one.hip")\n'


def lines(text: str) -> list[str]:
    """Each printed line, a compile by its first words."""
    return [line.partition(" -c ")[0] for line in text.splitlines()]


def test_the_compile_of_several_commands_is_cached_and_all_of_them_run(project: Project) -> None:
    project.construct(SECOND + ONE)
    first = project.build()
    assert first.compiled == ["one.o"]
    assert lines(first.out)[1:] == ["echo second one.o", "second one.o"]
    made = (project.root / "one.o").read_bytes()
    assert project.build().up_to_date
    (project.root / "one.o").unlink()
    again = project.build()
    assert again.out == first.out
    assert (project.root / "one.o").read_bytes() == made
    assert project.outcomes == {"hit": 1, "miss": 1}


def test_a_changed_header_or_command_of_several_rebuilds(project: Project) -> None:
    """Also a header that SCons' scanner does not find, and the command that is none of the cache's."""
    project.write({"one.hip": '#define NAME "seen.hpp"\n#include NAME\n', "seen.hpp": "int seen;\n"})
    for cache in (True, False):
        project.construct(f'env["HIPCACHE"] = {cache}\n{SECOND}{ONE}')
        project.build()
        project.write({"seen.hpp": f"int seen, {cache};\n"})
        assert project.build().compiled == ["one.o"]
        assert project.build().up_to_date
    project.construct(f'env["HIPCACHE"] = False\n{SECOND.replace("second", "another")}{ONE}')
    assert "another one.o" in project.build().out


def test_without_the_cache_all_commands_run(newest: Project) -> None:
    newest.construct('env["HIPCACHE"] = False\n' + SECOND + ONE)
    built = newest.build()
    assert built.compiled == ["one.o"]
    assert lines(built.out)[1:] == ["echo second one.o", "second one.o"]
    assert newest.outcomes == {}


@pytest.mark.parametrize(
    "value",
    [
        '["echo before", "@$OLD", "-false", act]',
        '"echo before\\n$OLD\\ntouch one.acted"',
        '["echo before", act, ["$HIPCXX", "-o", "$TARGET", "-c", "$HIPFLAGS", "-x", "hip", "$SOURCES"]]',
    ],
    ids=["a list", "lines", "lists of words"],
)
def test_everything_that_scons_takes_for_an_action(newest: Project, value: str) -> None:
    newest.construct(f"""
def act(target, source, env):
    open("one.acted", "w").close()
env["OLD"] = env["HIPCOM"]
env["HIPCOM"] = {value}
{ONE}""")
    built = newest.build()
    assert "before" in built.out.splitlines()
    assert (newest.root / "one.acted").exists()
    assert newest.outcomes == {"miss": 1}
    assert newest.build().up_to_date


def test_a_command_that_fails_ends_the_others(newest: Project) -> None:
    newest.construct(SECOND.replace("[env", '["false", env') + ONE)
    built = newest.try_build()
    assert built.status == 2
    assert "[one.o] Error 1" in built.err
    assert not built.compiled
    assert newest.outcomes == {}


def test_a_dry_run_and_the_text_of_a_compile(newest: Project) -> None:
    newest.construct(SECOND + ONE)
    assert lines(newest.build("-n").out)[1:] == ["echo second one.o"]
    newest.construct('env["HIPCOMSTR"] = "HIP $TARGET"\n' + SECOND + ONE)
    assert newest.build().out == "HIP one.o\nHIP one.o\nsecond one.o\n"


def test_commands_without_the_compiler_are_left_to_scons(newest: Project) -> None:
    script = newest.root / "compile.sh"
    script.write_text(f'#!/bin/sh\nexec {CLANG} {HEADERLIGHT} -x hip --offload-arch=gfx906 -c "$2" -o "$1"\n')
    script.chmod(0o755)
    newest.construct('env["SHHIPCOM"] = ["./compile.sh $TARGET $SOURCE", "touch two"]\nenv.SharedHipObject("one.hip")')
    newest.build()
    assert (newest.root / "one.os").exists() and Path(newest.root / "two").exists()
    assert newest.outcomes == {}
    assert newest.build().up_to_date


# -- the project's own way to run commands

VALUE = '#include "hip_in_short.hpp"\n#include "value.h"\nint value = VALUE;\n'


@pytest.mark.parametrize(
    "way",
    [
        """extra, own = Dir("extra").abspath, env["SPAWN"]
env["SPAWN"] = lambda sh, escape, name, words, ENV: own(sh, escape, name, words, {**ENV, "CPATH": extra})
""",
        'env["SHELL"] = File("shell.sh").abspath\n',
        'env["SHELL_ENV_GENERATORS"] = [lambda env, target, source, ENV: {**ENV, "CPATH": Dir("extra").abspath}]\n',
    ],
    ids=["SPAWN", "SHELL", "SHELL_ENV_GENERATORS"],
)
def test_a_project_that_runs_commands_in_its_own_way_runs_the_compile(project: Project, way: str) -> None:
    project.write({"extra/value.h": "#define VALUE 1\n", "one.hip": VALUE})
    project.write({"shell.sh": f'#!/bin/sh\nCPATH={project.root}/extra exec sh "$@"\n'})
    (project.root / "shell.sh").chmod(0o755)
    project.construct(way + ONE)
    assert project.build().compiled == ["one.o"]
    assert project.outcomes == {"passed_through": 1}
    assert project.build().up_to_date


@pytest.mark.parametrize("names", ["abspath", "file"])
def test_a_command_in_another_directory_runs_there(project: Project, names: str) -> None:
    project.write({"w.h": "#define W 1\n", "sub/w.h": "#define W 2\n", "w.hip": "int at_the_top;\n"})
    project.write({"sub/w.hip": "#include <w.h>\nint at[W] = {W};\n"})
    command = f'env["HIPCOM"] = env["HIPCOM"].replace("$TARGET", "${{TARGET.{names}}}")\n'
    command += f'env["HIPCOM"] = env["HIPCOM"].replace("$SOURCES", "${{SOURCE.{names}}}")\n'
    made = []
    for cache in (False, True):
        how = f'env["HIPCACHE"] = {cache}\nenv.Append(HIPFLAGS=["-I."])\n'
        project.construct(how + command + 'env.HipObject("sub/w.o", "sub/w.hip", chdir="sub")\n')
        project.build()
        made.append((project.root / "sub/w.o").read_bytes())
        assert project.build().up_to_date
        (project.root / "sub/w.o").unlink()
    assert made[0] == made[1]
    assert not (project.root / "w.o").exists()
    assert project.outcomes == {"passed_through": 1}
    project.build()
    project.write({"sub/w.h": "#define W 3\n"})
    assert project.build().compiled


@pytest.mark.parametrize("flag", ["-DALL=~0", "-DEACH=[3]"])
def test_a_compile_that_only_a_shell_can_run_is_counted(newest: Project, flag: str) -> None:
    newest.construct(f'env.Append(HIPFLAGS=["{flag}"])\n' + ONE)
    newest.build()
    assert newest.outcomes == {"passed_through": 1}


@pytest.mark.parametrize("word", ["~/clang++", '\\"{}\\"'])
@pytest.mark.parametrize("cache", [False, True])
def test_a_compiler_that_the_shell_finds(newest: Project, word: str, cache: bool) -> None:
    newest.construct(
        f'''
env["ENV"]["HOME"], env["HIPCACHE"] = Dir(".").abspath, {cache}
import os
os.symlink(env.WhereIs(env["HIPCXX"]), "clang++")
env["HIPCXX"] = "{word}".format(env.WhereIs(env["HIPCXX"]))
'''
        + ONE
    )
    assert newest.build().compiled == ["one.o"]


def test_a_root_that_is_none_is_no_root(newest: Project) -> None:
    """As `os.environ.get("ROCM_PATH")` gives it."""
    newest.construct('env["HIPPATH"] = None\n' + ONE)
    assert "None" not in newest.build().out


def test_a_compiler_that_only_the_projects_spawn_finds(newest: Project) -> None:
    """As in a container."""
    newest.construct(
        """
own = env["SPAWN"]
env["SPAWN"] = lambda sh, escape, name, words, ENV: own(sh, escape, name, [cxx, *words[1:]], ENV)
cxx, env["HIPCXX"] = env["HIPCXX"], "clang-of-the-container"
"""
        + ONE
    )
    newest.build()
    assert (newest.root / "one.o").exists()


@pytest.mark.parametrize("shell", ["/bin/bash", "sh"])
def test_a_usual_shell_is_no_way_of_its_own(newest: Project, shell: str) -> None:
    newest.construct(f'env["SHELL"] = "{shell}"\n' + ONE)
    newest.build()
    assert newest.outcomes == {"miss": 1}
