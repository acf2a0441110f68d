"""`hipcache stats`, as people and scripts meet it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from cli_shell import MISS, PARTIAL, PASSED, Shell, rows, shell
from hipcache.report import statistics, stats_log
from hipcache.report.outcome import CompileOutcome
from hipcache.store.local import LocalStore

__all__ = ["shell"]
CODE = ((b"gfx906", 20_000), (b"gfx90a:xnack+", 60_000))


def test_stats_of_a_fresh_store_say_what_to_do_and_create_nothing(shell: Shell) -> None:
    assert shell("stats") == 0
    assert "Nothing has been compiled yet" in shell.out
    assert "0 entries" in shell.out
    assert not shell.dir.exists()


def test_stats_without_a_compile_since_a_mark_or_zero_say_since_when(shell: Shell, tmp_path: Path) -> None:
    statistics.record(shell.dir, MISS)
    assert shell("stats", "--json") == 0
    mark = tmp_path / "before.json"
    mark.write_text(shell.out)
    assert shell("stats", "--since", str(mark)) == 0
    nothing = r"Nothing has been compiled since 2\d\d\d-\d\d-\d\d \d\d:\d\d\.\n"
    assert re.match(nothing, shell.out), shell.out
    assert shell("stats", "--zero") == 0
    assert shell("stats") == 0
    assert re.match(nothing, shell.out), shell.out


def test_stats_show_outcomes_architectures_jobs_reasons_and_time(shell: Shell) -> None:
    for outcome in (MISS, PARTIAL, PARTIAL, PASSED):
        statistics.record(shell.dir, outcome)
    LocalStore(shell.dir, max_bytes=0).put_blob(b"x" * 5000)
    assert shell("stats") == 0
    lines = rows(shell.out)
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
        assert line.split() in rows(shell.out), line
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
        assert line.split() in rows(shell.out), line
    assert "hits 0.25 s, misses 0.75 s" in shell.out


def test_stats_zero_shows_the_counts_once_more_and_clears_them(shell: Shell) -> None:
    statistics.record(shell.dir, PARTIAL)
    assert shell("stats", "--json", "--zero") == 0
    assert json.loads(shell.out)["compiles"]["partial"] == 1
    assert shell("stats", "--json") == 0
    assert json.loads(shell.out)["compiles"]["partial"] == 0


def test_stats_since_a_mark_have_no_row_for_a_reason_that_did_not_come_up(shell: Shell, tmp_path: Path) -> None:
    statistics.record(shell.dir, PASSED)
    assert shell("stats", "--json") == 0
    mark = tmp_path / "before.json"
    mark.write_text(shell.out)
    statistics.record(shell.dir, MISS)
    assert shell("stats") == 0
    assert "linking" in shell.out
    assert shell("stats", "--since", str(mark)) == 0
    assert "linking" not in shell.out


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
    for text in ("", "{", "[]", "{}", "x" * 100, "[" * 10_000, newer):
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


def test_a_mark_with_numbers_that_are_none_counts_as_zero_there(shell: Shell, tmp_path: Path) -> None:
    assert shell("stats", "--json") == 0
    document = json.loads(shell.out)
    statistics.record(shell.dir, MISS)
    mark = tmp_path / "mark.json"
    for number in (float("inf"), float("-inf"), float("nan"), "1"):
        mark.write_text(json.dumps({**document, "lock_timeouts": number, "compiles": {"miss": number}}))
        assert shell("stats", "--since", str(mark), "--json") == 0
        assert json.loads(shell.out)["compiles"]["miss"] == 1


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


def test_kinds_show_what_takes_the_bytes_and_how_many_each_architecture(shell: Shell) -> None:
    elf = b"\x7fELF\x02" + bytes(13)
    device = [elf + b"\xe0\x00 amdgcn-amd-amdhsa--%s\0" % arch + os.urandom(size) for arch, size in CODE]
    objects = [elf + b"\x3e\x00 hipv4-amdgcn-amd-amdhsa--gfx90a" + b"".join(device)]
    for packs in (True, False):
        store = LocalStore(shell.dir, max_bytes=0, packs=packs)
        store.put_blobs([*objects, *device])
        store.put_action("a" * 64, os.urandom(6000))
        store.pack()
        assert shell("stats", "--kinds") == 0
        (code,) = re.findall(r"objects and device code +(\S+) KiB", shell.out)
        (first,) = re.findall(r"gfx906 +(\S+) KiB", shell.out)
        (second,) = re.findall(r"gfx90a:xnack\+ +(\S+) KiB", shell.out)
        assert 2 * float(first) < float(second) < float(code)
        (records,) = re.findall(r"records +(\S+) KiB", shell.out)
        assert 5 < float(records) < 10
        store.clear()
