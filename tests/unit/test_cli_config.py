"""`hipcache config`: it shows, sets and refuses."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from cli_shell import MISS, Shell, rows, shell
from hipcache.report import stats_log
from hipcache.store.local import LocalStore

__all__ = ["shell"]


def test_config_shows_each_value_and_its_origin(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / ".config/hipcache/hipcache.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("# mine\nmax_size: 20GiB\n")
    assert shell("config", HIPCACHE_JOBS="3") == 0
    lines = rows(shell.out)
    assert ["HIPCACHE_MAX_SIZE", "20.0", "GiB", f"{file}:2"] in lines
    assert ["HIPCACHE_JOBS", "3", "environment"] in lines
    assert ["HIPCACHE_DISABLE", "no", "default"] in lines
    assert ["HIPCACHE_CONFIG", str(file), "default"] in lines

    assert shell("config", "--json") == 0
    document = json.loads(shell.out)
    assert document["HIPCACHE_MAX_SIZE"] == {"value": 20 * 2**30, "origin": f"{file}:2"}
    assert document["HIPCACHE_DIR"] == {"value": str(shell.dir), "origin": "environment"}


@pytest.mark.parametrize("verb", ["stats", "config", "gc", "clear"])
def test_a_wrong_setting_is_two_lines_on_standard_error_and_status_1(shell: Shell, verb: str) -> None:
    for environ in ({"HIPCACHE_MAXSIZE": "1G"}, {"HIPCACHE_MAX_SIZE": "much"}):
        assert shell(verb, **environ) == 1
        assert shell.out == ""
        assert len(shell.err.splitlines()) == 2
        assert shell.err.startswith("hipcache: ")
        assert next(iter(environ)) in shell.err


@pytest.mark.parametrize(
    "text",
    [
        "remote:\n# comment\n  - grpc://a:1\n",
        "remote:\n\n  - grpc://a:1\nmax_size: 5G\n",
        "max_size: 1G\nremote:\n\n  grpc://a:1\n",
        'remote: "grpc://a:1\n  grpc://b:1"\n',
        "{max_size: 5G, remote: grpc://a:1}\n",
        "? remote\n: grpc://a:1\n",
        "x: &x 1G\nremote: *x\n",
    ],
)
@pytest.mark.parametrize("words", [("set", "remote", "grpc://c:1"), ("unset", "remote")], ids=["set", "unset"])
def test_a_config_file_of_another_form_is_left_alone(
    shell: Shell, tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    file = tmp_path / ".config/hipcache/hipcache.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert shell("config", *words) == 1
    assert file.read_text() == text
    assert "edit it by hand" in shell.err or "unknown key 'x'" in shell.err


def test_config_keeps_the_line_ends_of_the_file(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / ".config/hipcache/hipcache.yaml"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"# mine\r\nmax_size: 5G\r\n")
    assert shell("config", "set", "max_size", "7G") == 0
    assert shell("config", "set", "jobs", "3") == 0
    assert file.read_bytes() == b"# mine\r\nmax_size: 7G\r\njobs: 3\r\n"
    assert shell("config", "unset", "max_size") == 0
    assert file.read_bytes() == b"# mine\r\njobs: 3\r\n"


def test_config_set_and_unset_change_one_line_of_the_file(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / ".config/hipcache/hipcache.yaml"
    assert shell("config", "set", "max_size", "20GiB") == 0
    assert (shell.out, file.read_text()) == (f"max_size: 20GiB, in '{file}'\n", "max_size: 20GiB\n")
    text = "# mine\nHIPCACHE_UMASK: 002 # group\n\nremote:\n  - http://a/b\n  - http://c/d\nlog: ~/x: y"
    file.write_text(text.replace("~/x: y", "'~/x: y'"))
    assert shell("config", "set", "umask", "007") == 0
    assert shell("config", "set", "HIPCACHE_JOBS", "3") == 0
    assert shell("config", "set", "log", "/a: b #c") == 0
    assert file.read_text().splitlines()[:2] == ["# mine", "HIPCACHE_UMASK: 007"]
    for key, value in (("umask", "007"), ("jobs", "3"), ("log", "/a: b #c"), ("remote", "http://a/b http://c/d")):
        assert shell("config", "get", key) == 0
        assert shell.out == f"{value}\n"
    assert shell("config", "unset", "jobs") == 0
    assert shell("config", "unset", "jobs") == 0
    assert "jobs" not in file.read_text()
    assert shell("config", "set", "jobs", "4", HIPCACHE_JOBS="2") == 0
    assert "HIPCACHE_JOBS is set, and overrides" in shell.err


def test_config_set_leaves_the_file_as_it_is_where_the_words_are_wrong(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    own = {"HIPCACHE_CONFIG": str(file)}
    assert shell("config", "set", "jobs", "2", **own) == 0
    file.write_text(text := file.read_text() + "remote:\n- http://a/b\n")
    for words, told in (
        (("set", "max_size", "huge"), "'huge' is not a size"),
        (("set", "max_sise", "1G"), "did you mean 'max_size'?"),
        (("set", "config_file", "/x"), "set HIPCACHE_CONFIG in the environment"),
        (("unset", "HIPCACHE_CONFIG"), "set HIPCACHE_CONFIG in the environment"),
        (("set", "jobs", "99999999999999999"), "up to 999999999"),
        (("--system", "get", "jobs"), "go with set and unset"),
        (("--store",), "go with set and unset"),
        (("set", "remote", "http://c/d"), "several lines"),
        (("set", "jobs"), "set KEY VALUE"),
        (("put", "jobs", "1"), "set KEY VALUE"),
        (("get",), "get KEY"),
    ):
        assert shell("config", *words, **own) == (2 if "KEY" in told else 1), words
        assert told in shell.err, words
        assert file.read_text() == text
    file.write_text("{jobs: 1}\n")
    assert shell("config", "set", "max_size", "2G", **own) == 1
    assert "by hand" in shell.err
    assert file.read_text() == "{jobs: 1}\n"
    file.write_text("jobs: [\n")
    assert shell("config", "set", "jobs", "2", **own) == 1
    assert file.read_text() == "jobs: [\n"


@pytest.mark.parametrize("words", [["--store", "set"], ["set", "--store"]], ids=" ".join)
def test_options_go_before_and_behind_the_words_of_config(shell: Shell, words: list[str]) -> None:
    assert shell("config", *words, "max_size", "3GiB") == 0
    assert shell.out == f"max_size: 3GiB, in '{shell.dir}/hipcache.yaml'\n"
    assert shell("config", "get", "max_size", "--json") == 0
    assert shell.out == f"{3 << 30}\n"
    assert shell("config", "unset", "max_size", "--store") == 0
    assert (shell.dir / "hipcache.yaml").read_text() == ""


@pytest.mark.parametrize(
    ("directory", "before", "after"),
    [
        (0o2775, None, 0o644),
        (0o2775, 0o664, 0o664),
        (0o755, 0o664, 0o644),
        (0o711, None, 0o644),
        (0o2770, None, 0o640),
        (0o700, None, 0o600),
    ],
)
def test_whoever_reaches_a_store_can_read_its_settings(
    shell: Shell, directory: int, before: int | None, after: int
) -> None:
    """Or nothing is cached for them: whatever the umask of the one who sets them is."""
    file = shell.dir / "hipcache.yaml"
    shell.dir.mkdir()
    shell.dir.chmod(directory)
    if before is not None:
        file.touch()
        file.chmod(before)
    umask = os.umask(0o077)
    try:
        assert shell("config", "set", "--store", "max_size", "3GiB") == 0
    finally:
        os.umask(umask)
    assert f"{file.stat().st_mode & 0o777:o}" == f"{after:o}"


def test_the_settings_of_a_store_have_the_group_of_its_directory(shell: Shell) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root is in any group")
    shell.dir.mkdir()
    os.chown(shell.dir, -1, 12345)
    assert shell("config", "set", "--store", "max_size", "3GiB") == 0
    assert (shell.dir / "hipcache.yaml").stat().st_gid == 12345


def test_config_set_refuses_an_address_that_is_none(shell: Shell) -> None:
    assert shell("config", "set", "remote", "grpc://a:1/main ftp://x") == 1
    assert shell.err.startswith("hipcache: remote 'ftp://x' begins with none of grpc")
    assert shell("config", "set", "executor", "s3://bucket/x") == 1
    assert "is not a Remote Execution API server" in shell.err
    for name in ("remote", "executor"):
        assert shell("config", "get", name) == 0
        assert shell.out == "none\n"
    assert shell("config", "set", "executor", "none") == 0
    assert shell("config", "set", "remote", "grpc://a:1/main https://b/c?read-only") == 0


def test_a_mistyped_command_of_config_gets_the_nearest_one(shell: Shell) -> None:
    assert shell("config", "sett", "jobs", "3") == 2
    assert "did you mean 'set'?" in shell.err
    assert shell("config", "set", "jobs") == 2
    assert "did you mean" not in shell.err


def test_a_store_of_another_user_is_not_called_a_matter_of_settings(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    LocalStore(shell.dir, max_bytes=0).put_blob(b"x")
    refused = OSError(errno.EACCES, os.strerror(errno.EACCES), str(shell.dir))
    monkeypatch.setattr("hipcache.store.faults.why_not_writable", lambda store: refused)
    for words in (["gc"], ["clear"], ["import", "a.tar.gz"]):
        assert shell(*words) == 1
        assert shell.err.splitlines()[0] == f"hipcache: store '{shell.dir}' cannot be written: Permission denied"
        assert "READONLY" not in shell.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_told_in_two_whole_lines(shell: Shell, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(stats_log.line(MISS, began=1.0, now=2.0, cwd="/", path="a.o") + "\n")
    assert shell("report", "--stats-log", str(log), "--html", "/dev/full") == 1
    assert shell.err.splitlines() == [
        "hipcache: No space left on device: '/dev/full'",
        "  free some space on that disk, or write to another one",
    ]


def test_a_file_that_is_not_there_is_no_fault_of_permissions(shell: Shell) -> None:
    LocalStore(shell.dir, max_bytes=0).put_blob(b"x")
    assert shell("import", "none.tar.gz") == 1
    assert shell.err.splitlines() == ["hipcache: No such file or directory: 'none.tar.gz'", "  check its name"]


def test_the_settings_that_name_a_file_are_shown(shell: Shell, tmp_path: Path) -> None:
    own = {"HIPCACHE_CONFIG": str(tmp_path / "own.yaml")}
    (tmp_path / "own.yaml").touch()
    for name in ("HIPCACHE_CONFIG", "config_file"):
        assert shell("config", "get", name, **own) == 0
        assert shell.out == f"{tmp_path}/own.yaml\n"


def test_an_empty_value_is_told_as_none(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / ".config/hipcache/hipcache.yaml"
    assert shell("config", "set", "max_size", "5G") == 0
    assert shell("config", "set", "max_size", "") == 0
    assert (shell.out, shell.err) == (f"max_size is no longer set, in '{file}'\n", "")
    assert file.read_text() == ""


def test_config_set_writes_through_a_link(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.yaml").write_text("jobs: 1\n")
    (tmp_path / "own.yaml").symlink_to(tmp_path / "dotfiles.yaml")
    assert shell("config", "set", "jobs", "5", HIPCACHE_CONFIG=str(tmp_path / "own.yaml")) == 0
    assert (tmp_path / "dotfiles.yaml").read_text() == "jobs: 5\n"
    assert (tmp_path / "own.yaml").is_symlink()


def test_a_setting_without_a_value_is_shown_as_none(shell: Shell) -> None:
    for name in ("namespace", "executor", "remote", "key"):
        assert shell("config", "get", name) == 0
        assert shell.out == "none\n", name
