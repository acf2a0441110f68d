"""Features can be deleted: each alone, and all of them together, in a copy of the program that then compiles."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import hipcache
import pytest
from hip import Lab, only_19
from hipcache.base import features
from hipcache.base.features import FEATURES

pytestmark = pytest.mark.archs(1)

PACKAGE = Path(hipcache.__file__).parent
DELETED = {**{name: (name,) for name in FEATURES}, "all": tuple(FEATURES)}
# Compiles twice, and runs the subcommands to which features may add something.
CORE = """
import os, sys
from importlib.util import find_spec
import hipcache
from hipcache import cli
from hipcache.app.launch import launch

assert hipcache.__file__.startswith(os.environ["PYTHONPATH"])
for _ in range(2):
    remote = {"HIPCACHE_REMOTE": "grpc://127.0.0.1:1"} if find_spec("hipcache.remote") is None else {}
    assert launch(sys.argv[1:], {**os.environ, **remote}) == 0
for verb in ("--help", "stats", "doctor --brief", "config", "explain out.o", "prefetch --step"):
    assert cli.run(verb.split(), os.environ, sys.stdout, sys.stderr) == 0, verb
"""


def test_each_feature_has_a_door() -> None:
    assert [door.__name__ for door in features.doors()] == [f"hipcache.{name}" for name in FEATURES]


def test_what_a_door_adds_is_asked_for() -> None:
    """With the names of the list in `features`."""
    listed = re.findall(r"^    (\w+)  ", str(features.__doc__), re.MULTILINE)
    names = {name for door in features.doors() for name, value in vars(door).items() if _is_own(door, name, value)}
    assert names == set(listed)


def _is_own(door: ModuleType, name: str, value: object) -> bool:
    if name.startswith("_") or name == "TYPE_CHECKING":
        return False
    return name.isupper() or (callable(value) and value.__module__ == door.__name__)


def test_the_modules_that_a_door_names_are_there() -> None:
    for door in features.doors():
        for name in re.findall(r'"(hipcache(?:\.\w+)+)"', Path(str(door.__file__)).read_text()):
            assert importlib.util.find_spec(name), name


@only_19
@pytest.mark.parametrize("deleted", DELETED)
def test_without_a_feature_the_core_compiles(lab: Lab, tmp_path: Path, deleted: str) -> None:
    copy = tmp_path / "copy/hipcache"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", *DELETED[deleted]))
    environ = {"PYTHONPATH": os.fspath(copy.parent), "PYTHONDONTWRITEBYTECODE": "1", "HIPCACHE_VERIFY": "1"}
    environ["HIPCACHE_PREAMBLES"] = "1"
    words = lab.words("--offload-arch=gfx906", "-O0")
    assert lab.run(words).status == 0
    plain = (lab.root / "out.o").read_bytes()
    done = lab.run([sys.executable, "-c", CORE, *words], env=environ)
    assert done.status == 0, done.err
    assert (lab.root / "out.o").read_bytes() == plain
    compiles = lab.stats()["compiles"]
    assert (compiles["hit"], compiles["miss"]) == (1, 1)  # type: ignore[index]


@only_19
def test_without_the_planners_of_links_these_and_programs_pass_through(lab: Lab, tmp_path: Path) -> None:
    copy = tmp_path / "copy/hipcache"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "link"))
    compile = lab.words("--offload-arch=gfx906", "-O0", "-fgpu-rdc")
    assert lab.run(compile).status == 0
    environ = {"PYTHONPATH": os.fspath(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    launched = [
        sys.executable,
        "-c",
        "import os, sys\nfrom hipcache.app.launch import launch\nlaunch(sys.argv[1:], os.environ)",
    ]
    link = [compile[0], "--hip-link", "-fgpu-rdc", "--offload-arch=gfx906", "-shared", "out.o", "-o", "linked.so"]
    program = [word if word != "out.o" else "compiled.so" for word in compile if word not in ("-c", "-fgpu-rdc")]
    for command, output in ((link, "linked.so"), ([*program, "-shared", "-fPIC"], "compiled.so")):
        done = lab.run([*launched, *command], env=environ)
        assert (done.status, (lab.root / output).exists()) == (0, True), done.err
    assert lab.stats()["passed_through"] == {"link": 2}
