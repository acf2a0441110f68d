"""Direct hits under settings, and commands that are no HIP."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from direct_lab import Direct, direct
from hip import ENGINE_ALONE, HIT, LAUNCHER, Lab, only_19, settle
from hipcache import config
from hipcache.base.errors import ConfigError
from hipcache.config.settings import VARIABLES

__all__ = ["direct"]
pytestmark = pytest.mark.archs(1)


@only_19
def test_who_wants_no_hits_is_the_engines_affair(direct: Direct) -> None:
    env = {"HIPCACHE_RECACHE": "1"}
    direct.lab.warm()
    for _ in range(2):
        direct.lab.compile(env=env)
        assert not direct.ask(env=env)


@only_19
@pytest.mark.parametrize("changed", ["nothing", "status", "config", "use"])
def test_who_leaves_the_store_as_it_is_is_served_and_writes_nothing_there(direct: Direct, changed: str) -> None:
    """By content, too, and where a config file says so."""
    lab = direct.lab
    config = lab.root.parent / "home/.config/hipcache/hipcache.yaml"
    lab.write(config, "readonly: true\n")
    lab.environ["HIPCACHE_READONLY"] = "no"
    lab.warm()
    if changed == "status":
        lab.write("value.hpp", (lab.root / "value.hpp").read_text())
    settle()
    if changed == "use":  # that of a week ago
        for path in (lab.store / "v2/blobs").rglob("*"):
            os.utime(path, (time.time() - 7 * 86400,) * 2)
    before = {path: path.stat().st_mtime_ns for path in lab.store.rglob("*")}
    for _ in range(2):
        assert direct.ask(env={"HIPCACHE_READONLY": "" if changed == "config" else "1"})
    assert {path: path.stat().st_mtime_ns for path in lab.store.rglob("*")} == before
    assert direct.ask()
    assert lab.stats()["direct_hits"] == 2


def is_right(variable: str, text: str) -> bool:
    try:
        config.check(VARIABLES[variable], text, {})
    except ConfigError:
        return False
    return True


@only_19
def test_a_wrong_value_is_told_and_no_hit_is_served(direct: Direct) -> None:
    """As the engine reads it. Of these variables a record says nothing."""
    lab = direct.lab
    before = lab.warm()
    for variable, texts in {
        "HIPCACHE_VERIFY": (
            *("0", " 0 ", "0/5", "\t0 /\n000000005 ", "1/999999999", "0.01", "abc", "1 in 100", "10%", "2", "5/1"),
            *("-1", "+0", "1/0", "0/0", "/1", "0/", "0//1", "0/1/1", "0000000000", "0/1x", "\u0660", " "),
        ),
        "HIPCACHE_PREFETCH": ("0", "No", "on", "TRUE", "x", "2", "yess"),
        "HIPCACHE_READONLY": ("0", "Yes", "x", "2"),
        "HIPCACHE_RESIDENT": ("0", "oFF", "false", "x", "2", "maybe"),
        "HIPCACHE_LOG": ("/dev/null", "log"),
        "HIPCACHE_STATS_LOG": ("/dev/null", "log"),
        "HIPCACHE_LOG_FORMAT": ("text", "json", "xml", "Text"),
        "HIPCACHE_NAMESPACE": ("a b",),
    }.items():
        for text in texts:
            assert direct.ask(env={variable: text}) == is_right(variable, text), (variable, text)
    for variable, text in ("HIPCACHE_VERIFY", "10%"), ("HIPCACHE_PREFETCH", "x"):
        said = [lab.run([*LAUNCHER, *lab.words()], env={variable: text}).err for _ in range(2)]
        assert (len(said[0].splitlines()), said[1]) == (2, b"")
        assert f"nothing is cached: environment variable '{variable}': '{text}' is n" in said[0].decode()
    late = lab.run([*ENGINE_ALONE, "--served", *lab.words()], env={"HIPCACHE_VERIFY": "10 %"})
    assert (late.status, len(late.err.splitlines())) == (0, 2)
    assert b"'10 %' is not a fraction" in late.err
    assert lab.compile().object == before.object


@only_19
@pytest.mark.parametrize(
    "text", ["dir: {}\n", "# mine\n\nHIPCACHE_DIR: &store '{}'\nnamespace: ''\n", "max_size: 1G\n"]
)
def test_a_store_that_a_config_file_names(direct: Direct, text: str) -> None:
    lab = direct.lab
    lab.write(lab.root.parent / "home/.config/hipcache/hipcache.yaml", text.format(lab.store))
    env = {"HIPCACHE_DIR": "", "XDG_CACHE_HOME": str(lab.root / "cache" if "max_size" in text else "/nowhere")}
    for _ in range(2):
        settle()
        assert lab.run([*LAUNCHER, *lab.words()], env=env).status == 0
        lab._seen = lab.stats()
    assert direct.ask(env=env)


@only_19
def test_plain_cpp_goes_to_the_compiler_without_the_engine(direct: Direct) -> None:
    lab = direct.lab
    lab.warm()
    lab.write("k.cpp", "int f() { return 1; }\n")
    ended = lab.run([str(direct.program), lab.compiler, "-c", "k.cpp", "-o", "k.o"])
    assert (ended.status, ended.err) == (0, b"")
    assert lab.counted().reason == "not_hip"
    assert lab.run([str(direct.program), lab.compiler, "-x", "hip", "-c", "k.cpp"]).status == 99
    assert lab.run([str(direct.program), "no-such-compiler", "-c", "k.cpp"]).status == 99


def test_without_its_engine_the_build_goes_on(lab: Lab, tmp_path: Path) -> None:
    shutil.copy(LAUNCHER[0], tmp_path / "hipcache")
    ended = lab.run([str(tmp_path / "hipcache"), *lab.words()])
    assert ended.status == 0
    assert b"reinstall hipcache" not in ended.err
    assert b"hipcache-engine" in ended.err
    assert (lab.root / "out.o").exists()
    assert lab.run([str(tmp_path / "hipcache"), "stats"]).status == 127


def test_pythons_own_variables_do_not_reach_the_engine(lab: Lab) -> None:
    env = {"PYTHONHOME": "/nowhere", "PYTHONINSPECT": "1", "PYTHONIOENCODING": "no-such", "PYTHONPATH": "/nowhere"}
    lab.compile(env=env)
    assert lab.compile(env=env).outcome == HIT
