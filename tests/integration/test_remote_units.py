"""What `hipcache stats` says of remotes for each architecture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hip import LAUNCHER, Lab
from remote_lab import HIT, SERVERS, Team, remote_counts, running, uploaded

OTHER = "gfx90a"
ARCHES = ("gfx906", "gfx1030")


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with running(SERVERS["nginx"](tmp_path / "server")) as server:
        found = Team(tmp_path, f"{server.url}?timeout=10")
        yield found
        found.end()


def units(lab: Lab) -> dict[str, dict[str, int]]:
    found = lab.stats()["remote_units"]
    assert isinstance(found, dict)
    return found


def words(*arches: str) -> list[str]:
    return [f"--offload-arch={arch}" for arch in arches]


def test_a_whole_compile_that_came_counts_for_each_of_its_units(team: Team) -> None:
    first, second = team.machine(), team.machine()
    first.compile(*words(*ARCHES))
    uploaded(first)
    assert second.compile(*words(*ARCHES)).outcome == HIT
    found = units(second)
    assert sorted(found) == sorted([*ARCHES, "host"])
    assert all(counts["hits"] >= 1 for counts in found.values())
    assert all(counts["bytes"] > 0 and counts["errors"] == 0 for counts in found.values())
    assert sum(counts["bytes"] for counts in found.values()) <= remote_counts(second)["received"]


def test_results_for_other_values_of_macros_come_from_a_remote(team: Team) -> None:
    first, second = team.machine(), team.machine()
    first.compile(*words(*ARCHES), "-DCOMMIT=1")
    uploaded(first)
    assert second.compile(*words(*ARCHES), "-DCOMMIT=2").outcome == HIT


def test_of_more_architectures_those_that_are_not_there_are_misses_of_theirs(team: Team) -> None:
    first, second = team.machine(), team.machine()
    first.compile(*words(ARCHES[0]))
    uploaded(first)
    second.compile(*words(ARCHES[0], OTHER))
    found = units(second)
    assert found[ARCHES[0]]["hits"] > 0
    assert found[ARCHES[0]]["misses"] == 0
    assert found[ARCHES[0]]["bytes"] > 0
    assert found[OTHER]["hits"] == 0
    assert found[OTHER]["misses"] > 0
    assert found[OTHER]["bytes"] == 0


def test_a_remote_that_is_away_is_a_fault_of_all_units(team: Team) -> None:
    lab = team.machine("http://127.0.0.1:9/team")
    assert lab.run([*LAUNCHER, *lab.words(*words(ARCHES[0]))]).status == 0
    found = units(lab)
    # One question was asked, and all behind it saw that there is no use.
    assert remote_counts(lab)["errors"] >= 1
    assert 0 < sum(counts["errors"] for counts in found.values()) <= len(found)
    assert all(counts["hits"] == 0 for counts in found.values())


def test_text_and_page_and_interval_have_them_too(team: Team, tmp_path: Path) -> None:
    first, second = team.machine(), team.machine()
    first.compile(*words(ARCHES[0]))
    uploaded(first)
    second.compile(*words(ARCHES[0]))
    told = second.hipcache("stats").out.decode()
    assert "of remotes" in told
    page = second.hipcache("stats", "--markdown").out.decode()
    assert f"| {ARCHES[0]} | " in page.partition("| of remotes")[2]
    mark = tmp_path / "mark"
    mark.write_bytes(second.hipcache("stats", "--json").out)
    left = json.loads(second.hipcache("stats", "--json", "--since", str(mark)).out)
    assert not any(left["remote_units"][ARCHES[0]].values())
