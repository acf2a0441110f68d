"""The subcommands, as people and scripts meet them."""

from __future__ import annotations

import errno
import importlib.metadata
import io
import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hipcache import __version__, cli
from hipcache.cli import Session, arches, directories, dispatch, screen
from hipcache.errors import HipcacheError
from hipcache.report import statistics, stats_log
from hipcache.report.outcome import CompileOutcome, UnitOutcome
from hipcache.store.local import LocalStore

MISS = CompileOutcome(
    "miss",
    units=(
        UnitOutcome("gfx1030", False, False, False),
        UnitOutcome("gfx906", False, False, False),
        UnitOutcome("host", False, False),
    ),
)
PARTIAL = CompileOutcome(
    "partial",
    units=(
        UnitOutcome("gfx1030", True, True, None),
        UnitOutcome("gfx906", False, True, False),
        UnitOutcome("host", True, True),
    ),
    seconds_saved=125,
)
PASSED = CompileOutcome("passed_through", reason="linking")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Shell:
    """Runs subcommands on a store of its own."""

    def __init__(self, root: Path) -> None:
        self.dir = root / "cache"
        self.environ = {"HOME": str(root), "HIPCACHE_DIR": str(self.dir), "PATH": os.environ["PATH"]}
        self.out = ""
        self.err = ""

    def __call__(self, *argv: str, terminal: bool = False, **environ: str) -> int:
        out, err = (Terminal() if terminal else io.StringIO()), io.StringIO()
        status = dispatch(argv, Session({**self.environ, **environ}, out, err))
        self.out, self.err = out.getvalue(), err.getvalue()
        return status


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_stats_of_a_fresh_store_say_what_to_do_and_create_nothing(shell: Shell) -> None:
    assert shell("stats") == 0
    assert "Nothing has been compiled yet" in shell.out
    assert "0 entries" in shell.out
    assert not shell.dir.exists()


def test_stats_show_outcomes_architectures_jobs_reasons_and_time(shell: Shell) -> None:
    for outcome in (MISS, PARTIAL, PARTIAL, PASSED):
        statistics.record(shell.dir, outcome)
    LocalStore(shell.dir, max_bytes=0).put_blob(b"x" * 5000)
    assert shell("stats") == 0
    lines = words(shell.out)
    for line in (
        "cacheable 3",
        "hits 0 0.0 %",
        "partial hits 2 66.7 %",
        "misses 1 33.3 %",
        "unit hits 4 44.4 %",
        "passed through 1",
        "architecture hits misses hit %",
        "gfx906 0 3 0.0 %",
        "gfx1030 2 1 66.7 %",
        "host 2 1 66.7 %",
        "front ends 4 2 66.7 %",
        "back ends 0 4 0.0 %",
        "linking 1",
        "compile time saved 4 min 10 s",
    ):
        assert line.split() in lines, line
    assert lines.index(["gfx906", "0", "3", "0.0", "%"]) < lines.index(["gfx1030", "2", "1", "66.7", "%"])
    assert "link" not in [line[0] for line in lines if line], "no row for what never happened"
    assert "KiB of 10.0 GiB, 1 entry" in shell.out
    assert str(shell.dir) in shell.out
    assert "\x1b" not in shell.out


def test_a_store_without_a_limit_is_called_so(shell: Shell) -> None:
    assert shell("config", HIPCACHE_MAX_SIZE="0") == 0
    assert re.search(r"HIPCACHE_MAX_SIZE +no limit\b", shell.out), shell.out


def test_stats_json_holds_the_public_keys(shell: Shell) -> None:
    statistics.record(shell.dir, PARTIAL)
    assert shell("stats", "--json", HIPCACHE_MAX_SIZE="5G") == 0
    document = json.loads(shell.out)
    assert document["compiles"]["partial"] == 1
    assert document["units"]["gfx1030"] == {"hits": 1, "misses": 0}
    assert document["jobs"]["backend"] == {"hits": 0, "misses": 1}
    assert document["store"] == {"bytes": 0, "max_bytes": 5 * 10**9, "entries": 0}
    assert document["seconds_saved"] == 125
    assert document["version"] == 2


def test_links_plain_cxx_and_failures_are_apart_from_the_hit_rate(shell: Shell) -> None:
    left = [CompileOutcome("passed_through", reason=reason) for reason in ("link", "not_hip", "link_or_not_hip")]
    for outcome in (PARTIAL, PARTIAL.as_hit(), *left, CompileOutcome("failed")):
        statistics.record(shell.dir, outcome)
    assert shell("stats") == 0
    for line in ("cacheable 2", "hits 1 50.0 %", "passed through 3", "failed 1"):
        assert line.split() in words(shell.out), line
    assert shell("stats", "--markdown") == 0
    assert "| hit rate | 50.0 % |" in shell.out


def test_configure_checks_in_a_log_are_apart_from_the_hit_rate(shell: Shell, tmp_path: Path) -> None:
    log, check = tmp_path / "log", "CMakeFiles/CMakeScratch/TryCompile-x/CMakeFiles/cmTC_1.dir/src.hip.o"
    ends = ((PARTIAL.as_hit(), "k.o"), (MISS, "l.o"), (MISS, check), (PARTIAL.as_hit(), check))
    lines = [
        stats_log.line(end, began=10.0 + number, now=10.25 + number * 1.5, cwd="/b", path=path)
        for number, (end, path) in enumerate(ends)
    ]
    log.write_text("\n".join(lines) + "\n")
    assert shell("stats", "--stats-log", str(log), "--json") == 0
    document = json.loads(shell.out)
    assert document["checks"] == {"miss": 1, "hit": 1}
    assert document["compiles"] == {"hit": 1, "partial": 0, "miss": 1, "passed_through": 0, "failed": 0}
    assert document["units"]["gfx1030"] == {"hits": 1, "misses": 1}
    assert document["average_seconds"] == {"hit": 0.25, "miss": 0.75}
    assert shell("stats", "--stats-log", str(log)) == 0
    for line in ("configure checks 2", "hits 1 50.0 %"):
        assert line.split() in words(shell.out), line
    assert "hits 0.25 s, misses 0.75 s" in shell.out


def test_stats_zero_shows_the_counts_once_more_and_clears_them(shell: Shell) -> None:
    statistics.record(shell.dir, PARTIAL)
    assert shell("stats", "--json", "--zero") == 0
    assert json.loads(shell.out)["compiles"]["partial"] == 1
    assert shell("stats", "--json") == 0
    assert json.loads(shell.out)["compiles"]["partial"] == 0


def test_stats_since_a_mark_are_those_of_one_build(shell: Shell, tmp_path: Path) -> None:
    statistics.record(shell.dir, MISS)
    statistics.record(shell.dir, PASSED)
    assert shell("stats", "--json") == 0
    mark = tmp_path / "mark.json"
    mark.write_text(shell.out)
    for outcome in (PARTIAL, MISS, PASSED):
        statistics.record(shell.dir, outcome)
    assert shell("stats", "--since", str(mark), "--json") == 0
    numbers = json.loads(shell.out)
    assert numbers["compiles"] == {"hit": 0, "partial": 1, "miss": 1, "passed_through": 1, "failed": 0}
    assert numbers["units"]["gfx1030"] == {"hits": 1, "misses": 1}
    assert numbers["units"]["gfx906"] == {"hits": 0, "misses": 2}
    assert numbers["jobs"]["frontend"] == {"hits": 2, "misses": 2}
    assert numbers["passed_through"] == {"linking": 1}
    assert numbers["seconds_saved"] == 125
    assert numbers["since"] == mark.stat().st_mtime
    assert numbers["store"] == json.loads(mark.read_text())["store"]


def test_a_mark_that_is_none_or_of_other_counts_is_refused(shell: Shell, tmp_path: Path) -> None:
    mark = tmp_path / "mark.json"
    newer = '{"version": 3, "compiles": {}, "units": {}, "jobs": {}}'
    for text in ("", "{", "[]", "{}", "x" * 100, newer):
        mark.write_text(text)
        assert shell("stats", "--since", str(mark)) == 1
        assert str(mark) in shell.err and "hipcache stats --json" in shell.err
    statistics.record(shell.dir, MISS)
    assert shell("stats", "--json") == 0
    mark.write_text(shell.out)
    statistics.zero(shell.dir, clock=lambda: 5.0)
    assert shell("stats", "--since", str(mark)) == 1
    assert "set to zero" in shell.err
    assert shell("stats", "--since", str(tmp_path / "none")) == 1


def test_stats_as_markdown_are_tables(shell: Shell) -> None:
    for outcome in (MISS, PARTIAL, PASSED):
        statistics.record(shell.dir, outcome)
    assert shell("stats", "--markdown") == 0
    lines = shell.out.splitlines()
    assert "| cacheable | 2 |" in lines
    assert "| hit rate | 0.0 % |" in lines
    assert "| unit hit rate | 33.3 % |" in lines
    assert "| gfx1030 | 1 | 1 | 50.0 % |" in lines
    assert "| `linking` | 1 |" in lines
    assert (
        lines.index("| gfx906 | 0 | 2 | 0.0 % |")
        < lines.index("| gfx1030 | 1 | 1 | 50.0 % |")
        < lines.index("| host | 1 | 1 | 50.0 % |")
    )
    for table in shell.out.split("\n\n")[1:]:
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_colours_appear_on_a_terminal_only_and_no_color_forbids_them(shell: Shell) -> None:
    statistics.record(shell.dir, PARTIAL)
    shell("stats")
    plain = shell.out
    shell("stats", terminal=True)
    assert "\x1b[" in shell.out
    shell("stats", terminal=True, NO_COLOR="1")
    assert shell.out == plain
    shell("stats", terminal=True, TERM="dumb")
    assert shell.out == plain


def test_config_shows_each_value_and_its_origin(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / ".config/hipcache/hipcache.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("# mine\nmax_size: 20GiB\n")
    assert shell("config", HIPCACHE_JOBS="3") == 0
    lines = words(shell.out)
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
        (("set", "config_file", "/x"), "unknown setting 'config_file'"),
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
    monkeypatch.setattr("hipcache.store.access.why_not_writable", lambda store: refused)
    for words in (["gc"], ["clear"], ["import", "a.tar.gz"]):
        assert shell(*words) == 1
        assert shell.err.splitlines()[0] == f"hipcache: store '{shell.dir}' cannot be written: Permission denied"
        assert "READONLY" not in shell.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_told_in_two_whole_lines(shell: Shell, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(stats_log.line(MISS, began=1.0, now=2.0, cwd="/", path="a.o") + "\n")
    assert shell("report", "--stats-log", str(log), "--html", "/dev/full") == 1
    assert shell.err == "hipcache: No space left on device\n  free some space on that disk, or write to another one\n"


def test_a_file_that_is_not_there_is_no_fault_of_permissions(shell: Shell) -> None:
    LocalStore(shell.dir, max_bytes=0).put_blob(b"x")
    assert shell("import", "none.tar.gz") == 1
    assert shell.err.splitlines() == ["hipcache: No such file or directory: 'none.tar.gz'", "  check its name"]


def test_config_set_writes_through_a_link(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.yaml").write_text("jobs: 1\n")
    (tmp_path / "own.yaml").symlink_to(tmp_path / "dotfiles.yaml")
    assert shell("config", "set", "jobs", "5", HIPCACHE_CONFIG=str(tmp_path / "own.yaml")) == 0
    assert (tmp_path / "dotfiles.yaml").read_text() == "jobs: 5\n"
    assert (tmp_path / "own.yaml").is_symlink()


def test_gc_removes_entries_down_to_the_size_that_was_asked_for(shell: Shell) -> None:
    store = LocalStore(shell.dir, max_bytes=0)
    for number in range(4):
        store.put_blob(bytes([number]) * 100_000)
    assert shell("gc") == 0
    assert "freed 0 bytes" in shell.out
    assert shell("gc", "--max-size", "250K") == 0
    assert "freed 0" not in shell.out
    assert store.size().bytes <= 250_000
    assert store.size().entries == 2
    assert "2 entries" in shell.out


@pytest.mark.parametrize("words", [["gc"], ["gc", "--older-than", "7d"], ["gc", "--dry-run"], ["clear"]], ids=" ".join)
def test_a_store_that_is_not_there_has_nothing_to_remove_and_is_not_made(shell: Shell, words: list[str]) -> None:
    assert shell(*words) == 0
    assert shell.out == f"nothing to remove: there is no store in '{shell.dir}' yet\n"
    assert not shell.dir.exists()


def test_an_empty_store_holds_no_entries_whatever_is_beside_them(shell: Shell) -> None:
    LocalStore(shell.dir, max_bytes=0).put_blob(b"x" * 10_000)
    statistics.record(shell.dir, MISS)
    assert shell("clear") == 0
    assert shell("gc") == 0
    assert shell.out.endswith("; the store holds no entries\n")


def test_gc_refuses_a_size_that_is_none_and_one_of_zero(shell: Shell) -> None:
    for size, word in (("much", "'much'"), ("0", "clear")):
        assert shell("gc", "--max-size", size) == 2
        assert word in shell.err
        assert len(shell.err.splitlines()) == 2


def test_gc_removes_what_was_long_unused_and_refuses_an_age_that_is_none(shell: Shell) -> None:
    store = LocalStore(shell.dir, max_bytes=0)
    digests = [store.put_blob(bytes([number]) * 1000) for number in range(4)]
    days = {path: number for number, path in enumerate(sorted((shell.dir / "v1/blobs").rglob("*/*")))}
    assert len(days) == len(digests)
    for path, number in days.items():
        used = time.time() - number * 86400 - 60
        os.utime(path, (used, used))
    assert shell("gc", "--older-than", "3d") == 0
    assert [number for path, number in days.items() if path.exists()] == [0, 1, 2]
    assert shell("gc", "--older-than", "25h", "--max-size", "1GiB") == 0
    assert [number for path, number in days.items() if path.exists()] == [0, 1]
    for age, word in (("7", "'7'"), ("d", "'d'"), ("-1d", "--older-than"), ("0d", "clear"), ("7y", "4w")):
        assert shell("gc", "--older-than", age) == 2
        assert word in shell.err


def test_clear_empties_the_store_and_keeps_the_statistics(shell: Shell) -> None:
    store = LocalStore(shell.dir, max_bytes=0)
    store.put_blob(b"x" * 100_000)
    statistics.record(shell.dir, MISS)
    assert shell("clear") == 0
    assert "KiB" in shell.out
    assert store.size().entries == 0
    assert statistics.read(shell.dir).compiles["miss"] == 1


def test_gc_and_clear_leave_a_read_only_store_alone(shell: Shell) -> None:
    store = LocalStore(shell.dir, max_bytes=0)
    store.put_blob(b"x" * 100_000)
    for verb in ("gc", "clear"):
        assert shell(verb, HIPCACHE_READONLY="1") == 1
        assert "HIPCACHE_READONLY" in shell.err
    assert store.size().entries == 1


def test_a_mark_or_setting_that_is_not_there_is_told_with_what_to_do(shell: Shell, tmp_path: Path) -> None:
    assert shell("stats", "--since", str(tmp_path / "none.json")) == 1
    assert f"cannot read '{tmp_path}/none.json'" in shell.err
    assert "hipcache stats --json > FILE" in shell.err
    for word, known in (("max_sise", "max_size"), ("HIPCACHE_MAXSIZE", "max_size"), ("names", "namespace")):
        assert shell("config", "get", word) == 1
        assert shell.err.splitlines() == [f"hipcache: unknown setting '{word}'", f"  did you mean '{known}'?"]


def test_a_setting_without_a_value_is_shown_as_none(shell: Shell) -> None:
    for name in ("namespace", "executor", "remote", "key"):
        assert shell("config", "get", name) == 0
        assert shell.out == "none\n", name


def test_unknown_words_and_options_name_the_nearest_known_one(shell: Shell) -> None:
    for argv, nearest in (
        (["--jsn"], ""),
        (["--versoin"], "--version"),
        (["--cmake-dir"], "--cmakedir"),
        (["stats", "--jsn"], "--json"),
        (["gc", "--maxsize", "3G"], "--max-size"),
        (["config", "max_size"], ""),
        (["--version", "please"], ""),
    ):
        assert shell(*argv) == 2
        assert shell.out == ""
        fault, advice = shell.err.splitlines()
        assert fault.startswith("hipcache: ")
        assert f"did you mean '{nearest}'?" in advice if nearest else "--help" in advice or "did you mean" in advice


def test_options_may_not_be_abbreviated(shell: Shell) -> None:
    assert shell("stats", "--js") == 2


def test_help_names_every_subcommand_and_every_subcommand_has_help(shell: Shell) -> None:
    assert shell("--help") == 0
    listed = [line[0] for line in words(shell.out) if line]
    for verb in cli.VERBS:
        if (Path(cli.__file__).parent / f"{verb}.py").exists():
            assert verb in listed
            assert shell(verb, "--help") == 0
            assert shell.out.startswith(f"usage: hipcache {verb}")
            shell("--help")


def test_version_prints_name_and_version(shell: Shell) -> None:
    assert shell("--version") == 0
    assert shell.out == f"hipcache {__version__}\n"


def test_no_words_at_all_print_the_usage_on_standard_error(shell: Shell) -> None:
    assert shell() == 2
    assert shell.out == ""
    assert shell.err.startswith("usage: hipcache COMPILER")


def test_a_store_that_cannot_be_written_is_a_fault_and_no_traceback(shell: Shell) -> None:
    shell.dir.write_text("a file")
    for verb in ("gc", "clear"):
        assert shell(verb) == 1
        assert shell.err.startswith("hipcache: ")
    assert shell("stats", "--zero") == 1


# The program as a process


def hipcache(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hipcache", *argv],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_a_mistyped_subcommand_is_not_taken_for_a_compiler(tmp_path: Path) -> None:
    # `stat` exists as a program, `doctr` does not.
    for word, nearest in (("stat", "stats"), ("doctr", "doctor"), ("confg", "config")):
        answer = hipcache(word, HIPCACHE_DIR=str(tmp_path))
        assert answer.returncode == 2
        assert answer.stdout == ""
        assert answer.stderr.splitlines() == [
            f"hipcache: '{word}' is neither a subcommand nor a compiler on PATH",
            f"  did you mean 'hipcache {nearest}'?",
        ]


def test_mistyped_words_of_config_and_help_are_told_in_few_words(shell: Shell) -> None:
    for words, told in (
        (("config", "get"), "write 'get KEY', not 'get', in 'hipcache config'"),
        (("config", "set", "max_size"), "write 'set KEY VALUE', not 'set max_size', in 'hipcache config'"),
        (
            ("config", "set", "max_size", "20", "GB"),
            "write 'set KEY VALUE', not 'set max_size 20 GB', in 'hipcache config'",
        ),
        (("config", "ste", "max_size", "20G"), "unknown command 'ste'; did you mean 'set'?, in 'hipcache config'"),
        (("help", "statz"), "there is no subcommand 'statz'"),
    ):
        assert shell(*words) == 2
        assert shell.err.splitlines()[0] == f"hipcache: {told}"
    assert shell.err.splitlines()[1] == "  did you mean 'stats'?"


@pytest.mark.parametrize("text", ["x", "nan", "inf", "-1", "10s"])
def test_a_timeout_is_a_number_of_seconds_with_an_end(shell: Shell, text: str) -> None:
    for verb in ("sync", "prefetch"):
        assert shell(verb, f"--timeout={text}") == 2
        assert f"'{text}' is not a number of seconds, such as 30" in shell.err


def test_a_mistyped_device_of_iree_gets_the_nearest_one(shell: Shell) -> None:
    for typed, hint in (("hpi", "did you mean 'hip'?"), ("cuda", "known are hip, amdgpu, local")):
        assert shell("iree-check", "a.vmfb", f"--device={typed}") == 1
        assert shell.err.startswith(f"hipcache: unknown device '{typed}'\n  {hint}")


def test_a_mistyped_compiler_is_told_the_nearest_on_path(tmp_path: Path) -> None:
    for name in ("clang++-15", "amdclang++", "hipcc"):
        (tmp_path / name).touch(mode=0o755)
    for word, told in (
        ("clagn++-15", "did you mean the compiler 'clang++-15'?"),
        ("amdclag++", "did you mean the compiler 'amdclang++'?"),
        ("iree-complie", "did you mean the compiler 'iree-compile'?"),
        ("fortran", "correct the name or PATH; 'hipcache doctor' lists the compilers it finds"),
        ("./clang++-15", "correct the path; 'hipcache doctor' lists the compilers it finds"),
    ):
        answer = hipcache(word, "-c", "one.hip", HIPCACHE_DIR=str(tmp_path / "store"), PATH=str(tmp_path))
        assert answer.returncode == 127
        assert answer.stderr.splitlines()[-1].startswith(f"  {told}")


def test_without_iree_its_package_and_the_extra_are_named(tmp_path: Path) -> None:
    """An index may not have hipcache, so the package comes first; both are those of pyproject.toml."""
    assert re.search(r"iree-base-compiler\b.*extra == .iree.", "\n".join(importlib.metadata.requires("hipcache") or []))
    for word in ("iree-compile", str(tmp_path / "iree-compile")):
        answer = hipcache(word, "a.mlir", "-o", "a.vmfb", HIPCACHE_DIR=str(tmp_path / "store"), PATH=str(tmp_path))
        assert answer.returncode == 127
        assert "install IREE: pip install iree-base-compiler " in answer.stderr
        assert "pip install '.[iree]'" in answer.stderr


def test_a_reader_that_goes_away_causes_no_traceback(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    answer = subprocess.run(
        [sys.executable, "-m", "hipcache", "stats"],
        env={**os.environ, "HIPCACHE_DIR": str(tmp_path)},
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert answer.returncode == 1
    assert answer.stderr == b""


def test_a_path_that_is_not_text_is_printed_as_its_bytes(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "hipcache", "config"],
        env={**os.environb, b"HIPCACHE_DIR": bytes(tmp_path) + b"/\xff"},
        capture_output=True,
        check=True,
    )
    assert bytes(tmp_path) + b"/\xff" in answer.stdout


def test_on_a_real_terminal_stats_are_coloured(tmp_path: Path) -> None:
    statistics.record(tmp_path, PARTIAL)
    leader, follower = pty.openpty()
    environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run(
        [sys.executable, "-m", "hipcache", "stats"],
        env={**environ, "HIPCACHE_DIR": str(tmp_path), "TERM": "xterm"},
        stdout=follower,
        check=True,
    )
    os.close(follower)
    assert b"\x1b[32m2 min 5 s\x1b[0m" in os.read(leader, 65536)
    os.close(leader)


def test_starting_for_a_compile_imports_no_part_of_the_subcommands() -> None:
    code = (
        "import sys, hipcache.__main__; print([m for m in sys.modules if m.startswith('hipcache.') or m == 'argparse'])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "['hipcache.__main__']\n"


def test_settings_without_a_file_need_no_yaml() -> None:
    code = (
        "import sys; from hipcache import config; from hipcache.report import statistics;"
        "config.load({'HOME': '/nowhere'});"
        "print({'yaml', 'json', 'difflib', 'shutil', 'argparse', 'tempfile'} & set(sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-S", "-c", code], env=python_path(), capture_output=True, text=True, check=True
    )
    assert answer.stdout == "set()\n"


def python_path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


# The directories of the build tools' files


def test_cmakedir_of_a_checkout_is_its_cmake_directory(shell: Shell) -> None:
    assert shell("--cmakedir") == 0
    assert shell.out == f"{Path(cli.__file__).resolve().parents[3] / 'cmake'}\n"


@pytest.mark.parametrize("tool", sorted(directories.PLACES))
def test_a_checkout_comes_before_an_installation_and_neither_is_an_error(tmp_path: Path, tool: str) -> None:
    package, prefix = tmp_path / "src/plugins/hipcache", tmp_path / "usr"
    package.mkdir(parents=True)
    installed, in_checkout = directories.PLACES[tool]
    with pytest.raises(HipcacheError, match=f"'{tool}'"):
        directories.find(tool, package, prefix)

    (prefix / installed).mkdir(parents=True)
    assert directories.find(tool, package, prefix) == prefix / installed

    (tmp_path / "src" / in_checkout).mkdir()
    assert directories.find(tool, package, prefix) == prefix / installed, "a bare neighbour is no checkout"
    (tmp_path / "src/pyproject.toml").touch()
    assert directories.find(tool, package, prefix) == tmp_path / "src" / in_checkout


def test_the_installers_record_leads_to_another_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "opt/lib/python/site-packages"
    info = site / "hipcache-9.dist-info"
    info.mkdir(parents=True)
    (site / "hipcache").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hipcache\nVersion: 9\n")
    (info / "RECORD").write_text("hipcache/__init__.py,,\n../../../share/cmake/HipCache/HipCache.cmake,,\n")
    cmake = tmp_path / "opt/share/cmake/HipCache"
    cmake.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(site))
    assert directories.find("cmake", site / "hipcache", tmp_path / "else") == cmake
    with pytest.raises(HipcacheError):  # the record of that distribution says nothing about another copy
        directories.find("cmake", tmp_path / "copy/hipcache", tmp_path / "else")


# Sizes, times, names


def test_arches_are_ordered_by_number_with_hexadecimal_steppings() -> None:
    names = [
        "gfx803",
        "gfx906",
        "gfx90a",
        "gfx90a:sramecc+",
        "gfx90a:xnack+",
        "gfx942",
        "gfx10-3-generic",
        "gfx1030",
        "gfx1100",
        "gfx1201",
    ]
    assert sorted(set(names), key=arches.order) == names
    assert sorted(["gfx942", "gfx9-generic", "gfx803"], key=arches.order) == ["gfx803", "gfx9-generic", "gfx942"]
    assert sorted(["spirv", "gfx906"], key=arches.order) == ["spirv", "gfx906"]


def test_sizes_and_times_read_well() -> None:
    sizes = {
        0: "0 bytes",
        1: "1 byte",
        1023: "1023 bytes",
        1024: "1.0 KiB",
        2**20 - 1: "1.0 MiB",
        10 * 2**30: "10.0 GiB",
    }
    assert {size: screen.human_size(size) for size in sizes} == sizes
    assert screen.human_size(5000 * 2**40) == "5000.0 TiB"
    times = {0: "0.0 s", 4.25: "4.2 s", 59.97: "1 min 0 s", 125: "2 min 5 s", 7260: "2 h 1 min", 90000: "1 d 1 h"}
    assert {time: screen.human_time(time) for time in times} == times
    assert screen.percent(9999, 10000) == "99.9 %"
    assert screen.percent(0, 0) == "-"
