"""The config files: system-wide, the user's, the store's and a project's; which wins, and what each may set."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from direct_lab import VALUE, Direct
from hip import HIT, LAUNCHER, Lab
from hipcache import config
from hipcache.base.errors import ConfigError
from hipcache.cli import run as run_cli
from hipcache.config import files, resolved
from hipcache.config.files import PROJECT, STORE
from hipcache.config.settings import VARIABLES
from hipcache.store.local import LocalStore

pytestmark = pytest.mark.archs(1)


class Place:
    """Four files, as yet not there, and a directory in the project, in which this process works."""

    def __init__(self, root: Path) -> None:
        self.work = root / "project/build"
        self.work.mkdir(parents=True)
        self.system, self.user = root / "etc.yaml", root / "own.yaml"
        self.store, self.project = root / "store/hipcache.yaml", root / "project/.hipcache.yaml"
        self.store.parent.mkdir()
        self.environ = {
            "HOME": str(root),
            "HIPCACHE_DIR": str(self.store.parent),
            "HIPCACHE_SYSTEM_CONFIG": str(self.system),
        }

    def load(self, **more: str) -> config.Config:
        own = {"HIPCACHE_CONFIG": str(self.user)} if self.user.exists() else {}
        return config.load({**self.environ, **own, **more})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place(tmp_path)
    monkeypatch.chdir(found.work)
    return found


def test_a_later_file_wins_and_the_environment_over_all(place: Place) -> None:
    assert (place.load().readonly, place.load().files) == (False, ())
    files = (place.system, place.user, place.store, place.project)
    for number, file in enumerate(files, 1):
        file.write_text(f"# of {file.name}\nreadonly: {'yes' if number % 2 else 'no'}\n")
        settings = place.load()
        assert (settings.readonly, settings.origins["readonly"]) == (bool(number % 2), f"{file}:2")
        assert tuple(file for file, _ in settings.files) == files[:number]
    assert place.load(HIPCACHE_READONLY="1").origins["readonly"] == "environment"


def test_each_key_keeps_the_value_of_the_last_file_that_has_it(place: Place) -> None:
    place.system.write_text("jobs: 3\nmax_size: 1G\nremote: http://a/b\n")
    place.user.write_text("max_size: 2G\n")
    place.store.write_text("max_size: 3G\n")
    settings = place.load()
    assert (settings.jobs, settings.max_size, settings.remote) == (3, 3 * 10**9, ("http://a/b",))


def test_the_system_wide_file_may_say_where_the_store_is(place: Place, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/hipcache.yaml").write_text("max_size: 3G\n")
    place.system.write_text(f"dir: {tmp_path}/other\n")
    settings = place.load(HIPCACHE_DIR="")
    assert (settings.dir, settings.max_size) == (tmp_path / "other", 3 * 10**9)


def test_a_relative_place_of_the_system_wide_file_is_refused(place: Place) -> None:
    with pytest.raises(ConfigError, match="not an absolute path"):
        place.load(HIPCACHE_SYSTEM_CONFIG="etc.yaml")


@pytest.mark.parametrize("scope", [STORE, PROJECT], ids=lambda scope: scope.name)
def test_a_store_and_a_project_may_set_nothing_that_reaches_out(place: Place, scope: files.Scope) -> None:
    file = place.store if scope is STORE else place.project
    dangerous = {"dir", "key", "log", "stats_log", "remote", "executor", "verify", "system_paths", "iree_checks"}
    assert not dangerous & set(scope.allowed)
    for setting in VARIABLES.values():
        if setting.key in scope.allowed:
            continue
        file.write_text(f"{setting.key if setting.key != 'config_file' else 'config'}: x\n")
        with pytest.raises(ConfigError) as caught:
            place.load()
        assert f"{file}:1" in caught.value.message
        assert "cannot be set in a" in caught.value.message
    file.write_text("remotes: http://a/b\n")
    with pytest.raises(ConfigError, match="unknown key 'remotes'") as caught:
        place.load()
    listed = caught.value.hint.removeprefix("known are ").split(", ")
    assert sorted(listed) == sorted(scope.allowed)


def test_a_projects_base_directory_is_the_files_or_one_below(place: Place) -> None:
    root = place.project.parent
    for text, expected in ((".", root), ("sub/..", root), ("sub", root / "sub"), (str(root), root)):
        place.project.write_text(f"basedir: {text}\n")
        assert place.load().basedir == expected
    assert place.load(HIPCACHE_BASEDIR="/mine").basedir == Path("/mine")
    for text in ("..", "/", "/etc", f"{root}2"):
        place.project.write_text(f"basedir: {text}\n")
        with pytest.raises(ConfigError, match="not in the project"):
            place.load()


def test_the_nearest_project_counts(place: Place) -> None:
    place.project.write_text("disable: yes\n")
    assert place.load().disable
    (place.work / ".hipcache.yaml").write_text("")
    assert not place.load().disable


@pytest.mark.skipif(os.getuid() != 0, reason="gives files to others")
def test_a_file_that_another_user_has_put_into_the_directory_does_not_count(place: Place) -> None:
    other, owner = 12345, 23456
    for file in (place.store, place.project):
        file.write_text("readonly: yes\n")
        os.chown(file, other, other)
        assert not place.load().readonly
        os.chown(file.parent, other, other)  # now it is the directory's owner who says so
        assert place.load().readonly
        os.chown(file.parent, owner, owner)
        file.unlink()
        file.symlink_to(place.environ["HOME"])
        assert not place.load().files
        file.unlink()
        os.mkfifo(file)
        assert not place.load().files


def test_config_set_writes_into_the_file_that_is_named(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    def told(*words: str) -> str:
        status = run_cli(["config", *words], place.environ, sys.stdout, sys.stderr)
        return f"{status} {' '.join(capsys.readouterr())}"

    assert "0 " in told("--system", "set", "jobs", "3")
    assert "0 " in told("--store", "set", "max_size", "1G")
    assert place.system.read_text() == "jobs: 3\n"
    assert place.store.read_text() == "max_size: 1G\n"
    assert f"'{place.work}/.hipcache.yaml'" in told("--project", "set", "basedir", ".")
    assert place.load().basedir == place.work
    (place.work / ".hipcache.yaml").unlink()
    place.project.write_text("# ours\n")
    told("--project", "set", "basedir", ".")
    assert place.project.read_text() == "# ours\nbasedir: .\n"
    assert "cannot be set in a project's config file" in told("--project", "set", "remote", "http://a/b")
    assert "known are disable, readonly, basedir" in told("--project", "set", "zzzz", "1")
    assert f"'{place.store}:1' sets it, too" in told("set", "max_size", "2G")
    assert "0 " in told("--store", "unset", "max_size")
    assert place.store.read_text() == ""


def test_a_helper_takes_the_base_directory_of_the_project_that_asks(place: Place, tmp_path: Path) -> None:
    place.project.write_text("basedir: .\n")
    settings = config.Config(dir=tmp_path / "s", basedir=Path("/mine"))
    fetching = pytest.importorskip(
        "hipcache.remote.helper.fetches", reason="the extra 'remote' is not installed", exc_type=ImportError
    )
    fetches = fetching.Fetches(settings, LocalStore(tmp_path / "s", max_bytes=0), [])
    assert fetches._adoption({}, str(place.work)).base == str(place.project.parent)
    assert fetches._adoption({}, "/").base == "/mine"
    assert fetches._adoption({"HIPCACHE_BASEDIR": "/b"}, str(place.work)).base == "/b"


@pytest.fixture
def direct(lab: Lab, tmp_path: Path) -> Direct:
    lab.write("value.hpp", '#include "hip_in_short.hpp"\n#define VALUE 1\n')
    lab.write("k.hip", VALUE)
    return Direct(lab, tmp_path / "alone")


@pytest.mark.archs(1)
def test_a_direct_hit_sees_every_file_that_comes_changes_and_goes(direct: Direct, tmp_path: Path) -> None:
    lab = direct.lab
    system = {"HIPCACHE_SYSTEM_CONFIG": str(tmp_path / "etc.yaml")}
    lab.warm(env=system)
    assert direct.ask(env=system)
    for file in (tmp_path / "etc.yaml", lab.store / "hipcache.yaml", lab.root / ".hipcache.yaml"):
        file.write_text("# nothing\n")
        assert not direct.ask(env=system), file
        lab.warm(env=system)
        assert direct.ask(env=system), file
        file.write_text("readonly: no\n")
        assert not direct.ask(env=system), file
        file.unlink()
        lab.warm(env=system)
        assert direct.ask(env=system), file


def test_what_is_left_for_the_native_program_is_of_one_content_and_home(place: Place, tmp_path: Path) -> None:
    """Any YAML; and nothing of a file with an error, of which the engine tells."""
    environ = {**place.environ, "XDG_RUNTIME_DIR": str(tmp_path), "HIPCACHE_CONFIG": str(place.user)}
    left = tmp_path / "hipcache"
    for number, (text, home) in enumerate(
        [("dir: ~/s", "/a"), ("dir: ~/s", "/b"), ('"dir": !!str >-\n  /s\n', "/b")], 1
    ):
        place.user.write_text(f"{text}\nverify: '1 / 7'\nremote: [unix:/x]\nresident: No\n")
        resolved.leave(config.load(environ | {"HOME": home}), environ | {"HOME": home})
        assert len(list(left.iterdir())) == number
        new = max(left.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        assert new.read_bytes() == f"{home if '~' in text else ''}/s\0\0\0\0\0\0000\0\0001/7\0001\0\0".encode()
    place.store.write_text("readonly: on\n")
    resolved.leave(config.load(environ), environ)
    assert len(list(left.iterdir())) == 5
    place.user.write_text("verify: 2\n")
    with pytest.raises(ConfigError):
        resolved.leave(config.load(environ), environ)
    resolved.leave(config.load(environ | {"HIPCACHE_VERIFY": "0"}), environ)
    assert len(list(left.iterdir())) == 5


def test_what_is_left_is_for_each_scope_repaired_and_gone_when_it_is_old(place: Place, tmp_path: Path) -> None:
    """Settings that the launcher does not need may be wrong there, where the environment has others."""
    environ = {**place.environ, "XDG_RUNTIME_DIR": str(tmp_path), "HIPCACHE_CONFIG": str(place.user)}
    environ |= {"HIPCACHE_SYSTEM_CONFIG": str(place.user), "HIPCACHE_JOBS": "1"}
    place.user.write_text("remote: []\njobs: many\ndisable: yes\n")
    for _ in range(2):
        resolved.leave(config.load(environ), environ)
        left = list((tmp_path / "hipcache").iterdir())
        assert [path.read_bytes() for path in left] == [b"\0" * 9 + b"0\0001\0"] * 2
        left[0].write_bytes(b"cut")
    place.user.write_text("# another\n")
    os.utime(left[1], (0, 0))
    resolved.leave(config.load(environ), environ)
    assert (left[0].exists(), left[1].exists()) == (True, False)


@pytest.mark.parametrize("text", ["", "readonly: yes\n"])
def test_settings_in_a_pipe_reach_the_engine(direct: Direct, text: str) -> None:
    """An empty one is told, and the compiler runs."""
    lab = direct.lab
    lab.warm()
    lab.write("k.hip", f"{VALUE}int another;\n")
    before = {path: path.stat().st_mtime_ns for path in lab.store.rglob("*")}
    read, write = os.pipe()
    os.write(write, text.encode())
    if text:
        os.close(write)
    ended = lab.run(["env", f"HIPCACHE_SYSTEM_CONFIG=/proc/{os.getpid()}/fd/{read}", *LAUNCHER, *lab.words()])
    assert (ended.status, b"Resource temporarily unavailable" in ended.err) == (0, not text)
    assert {path: path.stat().st_mtime_ns for path in lab.store.rglob("*")} == before


@pytest.mark.parametrize("lost", ["the directory", "the values"])
def test_where_nothing_is_left_the_engine_reads_the_files(direct: Direct, lost: str) -> None:
    lab = direct.lab
    lab.write(".hipcache.yaml", "basedir: .\n")
    before = lab.warm()
    assert direct.ask()
    directory = Path(lab.environ["XDG_RUNTIME_DIR"], "hipcache")
    if lost == "the directory":
        shutil.rmtree(directory)
        directory.touch()
    else:
        (left,) = directory.glob("settings-*")
        left.write_bytes(b"")
    for _ in range(2):
        assert not direct.ask()
    after = lab.compile()
    assert (after.outcome, after.object) == (HIT, before.object)
    assert direct.ask() == (lost == "the values")


@pytest.mark.archs(1)
def test_the_native_program_leaves_what_a_project_may_not_set_to_the_engine(direct: Direct) -> None:
    lab = direct.lab
    lab.write(".hipcache.yaml", "basedir: .\n")
    lab.warm()
    assert direct.ask()
    log = lab.root / "log"
    lab.write(".hipcache.yaml", f"basedir: .\nlog: {log}\n")
    assert not direct.ask()
    ended = lab.run([*LAUNCHER, *lab.words()])
    assert (ended.status, log.exists()) == (0, False)
    assert b"key 'log' cannot be set in a project's config file" in ended.err
