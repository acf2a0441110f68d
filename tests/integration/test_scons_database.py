"""HIP sources in SCons' compilation database."""

from __future__ import annotations

import json
import shlex

import pytest
from scons_project import CLANG, HEADERLIGHT, TOOLS, Project, newest, project

__all__ = ["newest", "project"]
pytestmark = [pytest.mark.takes_turns("project"), pytest.mark.archs(1)]


def environment(*tools: str) -> str:
    return f"""\
env = Environment(
    tools={tools},
    toolpath=["{TOOLS}"],
    HIPCXX="{CLANG}",
    HIP_ARCHS=["gfx906"],
    HIPFLAGS="{HEADERLIGHT}".split(),
)
"""


def entries(project: Project) -> dict[str, dict[str, str]]:
    """By output."""
    listed = json.loads((project.root / "compile_commands.json").read_text())
    return {entry["output"]: entry for entry in listed}


@pytest.mark.parametrize(
    "tools",
    [
        ("default", "hipcache", "compilation_db"),
        ("default", "compilation_db", "hipcache"),
        ("compilation_db", "hipcache", "default"),
    ],
    ids=["after", "before", "first"],
)
def test_the_database_has_each_hip_object_with_its_own_command(project: Project, tools: tuple[str, ...]) -> None:
    project.write({"main.cpp": "int main() {}\n"})
    project.construct(
        """
env["HIPCOMSTR"] = env["SHHIPCOMSTR"] = "HIP $TARGET"
from hipcache_scons import CheckHip
conf = env.Configure(custom_tests={"CheckHip": CheckHip})
conf.CheckHip()
env = conf.Finish()
VariantDir("build", ".")
env.Object("one.hip"), env.SharedObject("one.hip"), env.HipObject("main.hip.o", "main.cpp"), env.Object("main.cpp")
env.Clone(HIP_ARCHS=["gfx90a"]).SharedHipObject("build/one.hip")
env.CompilationDatabase()
""",
        environment(*tools),
    )
    project.build()
    found = entries(project)
    assert sorted(found.keys() - {"main.o"}) == ["build/one.os", "main.hip.o", "one.o", "one.os"]
    one = found["one.o"]
    assert (one["file"], one["directory"]) == ("one.hip", str(project.root))
    words = shlex.split(one["command"])
    assert words == [CLANG, "-o", "one.o", "-c", "--offload-arch=gfx906", *HEADERLIGHT.split(), "-x", "hip", "one.hip"]
    assert "-fPIC" in found["one.os"]["command"] and "-fPIC" not in one["command"]
    assert "--offload-arch=gfx90a" in found["build/one.os"]["command"]


def test_variables_count_that_are_set_later_and_of_several_commands_the_compile(newest: Project) -> None:
    newest.construct(
        """
env["HIPCOM"] = ["echo before", env["HIPCOM"]]
env.Object("one.hip"), env.SharedObject("one.hip")
env.Append(HIPFLAGS=["-DLATER"])
env.CompilationDatabase("commands.json")
""",
        environment("default", "compilation_db", "hipcache"),
    )
    newest.build("commands.json")
    listed = json.loads((newest.root / "commands.json").read_text())
    assert [entry["output"] for entry in listed] == ["one.o", "one.os"]
    for entry in listed:
        assert shlex.split(entry["command"])[0] == CLANG and "-DLATER" in entry["command"]
