"""The benchmark's own arithmetic, its edits, and the rule that chooses programs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import collection
import pytest
import rows
import table
from build import ninja_file
from rows import ROWS, chosen, titled
from run import architectures
from series import Sample
from tool import Ccache, Hipcache, Sccache, Size, Tool, base_environment, difference, flatten
from trouble import BenchError
from workload import COMMENT, DEBIAN_ARCHS, DEVICE_IF, HOST, SHARED_HEADER, Compile, edited

BY_NAME = {row.name: row for row in ROWS}
SIZE = Size(3_560_000, 275, 2_660_000)


def sample(row: str, tool: str, cpu: float, *, turn: int = 0, differing: Mapping[str, str] | None = None) -> Sample:
    outcome = {"hit": 20, "miss": 4} if tool != "plain" else {}
    return Sample(row, tool, turn, cpu / 2, cpu, 0.0, outcome, SIZE, 24, dict(differing or {}))


def page_of(*samples: Sample) -> list[list[str]]:
    """The cells of the page's tables."""
    known = [BY_NAME[name] for name in dict.fromkeys(one.row for one in samples)]
    versions = dict.fromkeys((one.tool for one in samples), "1.0")
    text = table.render(known, samples, {}, versions, {"programs": ["a.cu"]}, architectures(""))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_a_row_names_as_its_equal_one_in_which_plain_clang_does_the_same() -> None:
    for row in ROWS:
        other = BY_NAME.get(row.same_as)
        if other is not None:
            assert (row.archs, row.sources, row.workload) == (other.archs, other.sources, other.workload), row.name


def test_the_first_row_of_each_group_fills_its_store() -> None:
    """Rows that need a store bring it along."""
    assert [row.name for row in chosen(["host", "few", "edit-2"])] == ["cold", "host", "few", "edit-0", "edit-2"]
    assert all(row.empty for name in rows.NAMES for row in chosen([name])[:1])


def test_titles_have_the_numbers_of_architectures() -> None:
    names = {row.name: row.title for row in titled(ROWS, architectures(""))}
    assert names["cold"] == "cold, 4 architectures"
    assert names["many"] == "cold, 12 architectures"
    few = {row.name: row.title for row in titled(ROWS, architectures("gfx906"))}
    assert (few["cold"], few["many"]) == ("cold, 1 architectures", "cold, 2 architectures")


def test_the_added_architecture_is_not_among_the_usual() -> None:
    """The chosen programs compile for all of them."""
    sets = architectures("")
    assert sets.of("more") == (*DEBIAN_ARCHS.base, DEBIAN_ARCHS.added)
    assert sets.added not in sets.base
    assert {*sets.of("more"), *sets.of("few")} <= set(sets.many)


def test_a_host_edit_stands_in_main_or_else_at_the_end() -> None:
    main = "int main(int argc, char *argv[])\n{ return 0; }\n"
    assert edited(main, HOST).startswith("int main(int argc, char *argv[])\n{\n  const char *volatile edited_by_bench")
    assert edited("int x;", HOST) == 'int x;\nconst char *edited_by_bench() { return "host"; }\n'
    assert edited(main, f"{HOST} 1") != edited(main, f"{HOST} 2")


def test_a_comment_moves_all_lines_and_another_edit_concerns_one_architecture() -> None:
    assert edited("int x;\n", COMMENT).splitlines()[1:] == ["int x;"]
    assert "#ifdef __gfx90a__\n__attribute__((device" in edited("int x;\n", DEVICE_IF)
    assert edited("int x;\n", "") == "int x;\n"


# Compiles for real what says CODE; leaves a dependency file, as clang does.
COMPILER = """#!/bin/sh
for word; do case $previous in -o) out=$word;; -c) source=$word;; esac; previous=$word; done
echo "$@" >> "$LOG"
grep -q ERROR "$source" && exit 1
{ grep -q CODE "$source" && echo .hip_fatbin; cat "$source"; } > "$out"
echo "$out: $source $(dirname "$(dirname "$source")")/other-cuda/shared.h" > "$out.d"
"""


def choice(tmp_path: Path, files: Mapping[str, str]) -> collection.Choice:
    """The rule at work on a collection of these files, fetched from a repository."""
    repository = tmp_path / "repository"
    for name, text in files.items():
        (repository / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / "src" / name).write_text(text)
    me = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for words in (["init", "-q"], ["add", "."], [*me, "commit", "-q", "-m", "sources"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    commit = collection.fetch(str(repository), tmp_path / "project")
    assert len(commit) == 40
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "LOG": str(tmp_path / "log")}
    return collection.Choice(tmp_path / "project", (str(compiler),), ("-O3",), ("gfx906",), tmp_path / "objects", env)


def test_the_rule_takes_the_first_source_with_device_code_that_compiles(tmp_path: Path) -> None:
    """The next directory stands in for one without."""
    files = {"a-hip/host.cpp": "int x;", "b-hip/a.cu": "ERROR", "b-hip/b.cu": "CODE", "c-hip/a.cu": "CODE"}
    files |= {"other-cuda/shared.h": "", "unread-cuda/x.h": "", "b-hip/picture.png": "CODE"}
    rule = choice(tmp_path, files)
    assert not (rule.root / "src/b-hip/picture.png").exists()
    workload = rule.workload(0, 24, 2)
    assert workload.sources == ("src/b-hip/b.cu",)
    assert sorted(path.name for path in (rule.root / "src").iterdir()) == ["b-hip", "other-cuda"]
    assert f'CODE\n#include "../../{SHARED_HEADER}"\n'.encode() in rule.made(workload.sources)["src_b-hip_b.cu.o"]
    assert (rule.root / "src/b-hip/a.cu").read_text() == "ERROR"


def test_every_twentieth_directory_is_taken_from_the_first_of_the_slice_on(tmp_path: Path) -> None:
    files = {f"p{number:02}-hip/main.cu": "CODE" for number in range(45)} | {"p00-cuda/main.cu": "CODE"}
    rule = choice(tmp_path, files)
    assert [name[4:7] for name in rule.workload(2, 2, 1).sources] == ["p02", "p22"]


def test_options_are_those_of_the_makefile_outside_conditionals(tmp_path: Path) -> None:
    makefile = (
        "CFLAGS := -std=c++17 -I../other-cuda -I/usr/include -I $(X)/y -DN=4 # -DNO\nifeq (a,a)\nCFLAGS += -DDEBUG\n"
    )
    rule = choice(tmp_path, {"a-hip/a.cu": "CODE", "a-hip/Makefile": f"{makefile}endif\n", "other-cuda/shared.h": ""})
    workload = rule.workload(0, 1, 1)
    assert workload.own == {"src/a-hip/a.cu": ("-Isrc/other-cuda", "-DN=4")}
    command = (tmp_path / "log").read_text()
    assert f"-I{rule.root}/src/other-cuda -DN=4 -cuid=" in command


def test_a_collection_that_cannot_be_fetched_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"'/nowhere' cannot be fetched\nname another clone of it with --collection"):
        collection.fetch("/nowhere", tmp_path / "project")


def test_only_counters_that_moved_are_kept() -> None:
    """Those that are new count from nothing."""
    assert difference({"a": 1, "b": 5}, {"a": 4, "b": 5, "c": 2}) == {"a": 3, "c": 2}


def test_whole_numbers_of_a_json_value_get_dotted_names() -> None:
    """Fractions, truth values and texts are no counters."""
    told = {"units": {"gfx90a": {"hits": 3}}, "seconds_saved": 1.5, "on": True, "name": "x"}
    assert flatten(told) == {"units.gfx90a.hits": 3}


def test_what_became_of_compiles_is_read_from_each_tools_counters() -> None:
    """Without a call of the tool."""
    assert Ccache.outcome(Tool, {"direct_cache_hit": 3, "cache_miss": 1, "x": 2}) == {"direct": 3, "miss": 1}  # type: ignore[arg-type]
    counted = {"cache_hits.counts.HIP": 2, "cache_hits.counts.C++": 1, "requests": 9}
    assert Sccache.outcome(Tool, counted) == {"hit": 3}  # type: ignore[arg-type]
    counted = {"compiles.passed_through": 1, "jobs.frontend.misses": 20, "units.host.hits": 4, "passed_through.plan": 1}
    assert Hipcache.outcome(Tool, counted) == {"passed_through": 1, "front ends": 20, "plan": 1}  # type: ignore[arg-type]


def test_ratios_are_made_between_builds_of_one_round() -> None:
    """Not between medians: a slow minute hits both partners. A lone partner serves all takes of its round."""
    ours = [sample("cold", "hipcache", 2, turn=0), sample("cold", "hipcache", 32, turn=1)]
    plain = [sample("cold", "plain", 4, turn=0), sample("cold", "plain", 40, turn=1)]
    assert table.share(ours, plain, table.cpu) == 0.65
    assert table.share(ours[:1] * 3, plain, table.cpu) == 0.5
    assert table.share(ours, [], table.cpu) is None


def test_the_page_shows_shares_verdicts_outcomes_and_stores() -> None:
    """Plain clang's cold build stands for its warm one; an object that is not its is named."""
    differing = {"a.o": "differs"}
    cells = page_of(
        sample("cold", "plain", 10),
        sample("cold", "hipcache", 7),
        sample("warm", "hipcache", 0.05),
        sample("host", "plain", 9),
        sample("host", "hipcache", 9, differing=differing),
    )
    cold = BY_NAME["cold"].title
    assert [cold, "10.00 (5.00)", "0.70 (0.70)", "0.72", "ok", "same"] in cells
    assert ["nothing changed", "10.00 (5.00)", "0.005 (0.005)", "1.12", "ok", "same"] in cells
    assert ["host-only edit of all", "9.00 (4.50)", "1.00 (1.00)", "0.55", "MISSED", "1 differ"] in cells
    assert [cold, "20 hit, 4 miss"] in cells
    assert [cold, "3.56, 275, 2.66"] in cells
    assert ["- host, hipcache: a.o differs"] in cells


def test_the_page_shows_what_a_store_is_of_ccaches() -> None:
    cells = page_of(sample("cold", "plain", 10), sample("cold", "ccache", 10), sample("cold", "hipcache", 7))
    assert [BY_NAME["cold"].title, "3.56, 275, 2.66", "3.56, 275, 2.66 (1.00, 1.00, 1.00)"] in cells


def test_a_store_is_measured_as_the_disk_and_tar_count_it(tmp_path: Path) -> None:
    tool = Tool(tmp_path, {})
    tool.reset()
    (tool.store / "a").write_bytes(b"x" * 5000)
    (tool.store / "b").mkdir()
    (tool.temporary / "c").write_bytes(b"x" * 2000)
    size = tool.size()
    archive = subprocess.run(["tar", "-C", tool.store, "-cf", "-", "."], capture_output=True, check=True).stdout
    assert (size.files, size.tar) == (1, len(archive))
    assert size.disk % 512 == 0
    assert size.disk >= 5000
    assert size.beside >= 2000


def test_a_store_goes_through_an_archive_to_another_place(tmp_path: Path) -> None:
    tool = Tool(tmp_path, {})
    tool.reset()
    before = tool.store
    (before / "a").write_text("x")
    tool.unpack()
    assert (tool.store / "a").read_text() == "x"
    assert not before.exists()


def test_settings_of_the_user_do_not_reach_the_builds() -> None:
    """Nor does the job server of `make bench`."""
    env = base_environment({"PATH": "/bin", "CCACHE_DISABLE": "1", "HIPCACHE_DIR": "/x", "MAKEFLAGS": "-j --jobserver"})
    assert env == {"PATH": "/bin", "HIP_PLATFORM": "amd", "LC_ALL": "C"}


def test_ninja_gets_paths_and_commands_escaped() -> None:
    """A dollar sign reaches the compiler as one, a space does not split a path."""
    text = ninja_file([Compile("a b.hip", "a b.hip.o", "a b.hip.o.d", ("clang++", "-DX=$1", "/s/a b.hip"))])
    assert "build a$ b.hip.o: hip /s/a$ b.hip" in text
    assert "argv = clang++ '-DX=$$1' '/s/a b.hip'" in text
