"""`hipcache inspect`: the key of each unit in words; and what hipcache says to options of other caches."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hip import Lab, only_19
from hipcache import cli
from hipcache.cli.foreign import OPTIONS, OTHERS, hint
from hipcache.settings import VARIABLES

PAGE = (Path(__file__).parent.parent / "docs/from-ccache.md").read_text()
COMMANDS = PAGE.partition("## Commands")[2].partition("\n## ")[0]


@only_19
def test_a_units_key_and_what_it_read_are_shown(lab: Lab) -> None:
    lab.compile("-DSIZE=3")
    shown = lab.hipcache("inspect", "out.o").out.decode()
    assert shown.startswith(f"'{lab.root}/out.o'\n  command    ")
    assert "-DSIZE=3" in shown
    assert re.search(
        rf"^    [0-9a-f]{{16}}  {lab.root}/hip_in_short.hpp$|^    [0-9a-f]{{16}}  hip_in_short.hpp$", shown, re.M
    )
    assert len(re.findall(r"^  read 2 files; looked for \d+ more that did not exist:$", shown, re.MULTILINE)) >= 2

    one = json.loads(lab.hipcache("inspect", "--json", "--unit", "host").out)
    assert one["directory"] == str(lab.root)
    (host,) = one["units"].values()
    assert dict(host["key"])["compiler"]
    assert {Path(path).name for path in host["reads"]["files"]} >= {"k.hip", "hip_in_short.hpp"}
    # That is the key: another macro, another list.
    lab.compile("-DSIZE=4")
    (other,) = json.loads(lab.hipcache("inspect", "--json", "--unit", "host").out)["units"].values()
    assert other["key"] != host["key"]

    wrong = lab.hipcache("inspect", "--unit", "gfx9999")
    assert wrong.status == 1
    assert "host" in wrong.err.decode().splitlines()[1]


def test_without_a_compile_there_is_nothing_to_show(lab: Lab) -> None:
    ended = lab.hipcache("inspect", "other.o")
    assert ended.status == 1
    assert ended.err.decode().startswith("hipcache: the store has no record of a compile of 'other.o'\n")


@pytest.mark.parametrize(
    ("option", "told"), [("-s", "hipcache stats"), ("--max-size=5G", "hipcache config set max_size SIZE")]
)
def test_an_option_of_ccache_is_answered_with_the_word_for_it(lab: Lab, option: str, told: str) -> None:
    ended = lab.hipcache(option)
    assert ended.status == 2
    assert ended.err.decode() == f"hipcache: unknown option '{option}'\n  here it is '{told}'\n"


def test_no_server_is_to_be_started(lab: Lab) -> None:
    assert b"needs no server" in lab.hipcache("--start-server").err


@pytest.mark.parametrize("option", OPTIONS)
def test_the_word_for_it_exists(option: str) -> None:
    words = OPTIONS[option].split()
    assert words[1] in (*cli.VERBS, *cli.OPTIONS)


@pytest.mark.parametrize("option", OTHERS)
def test_an_option_without_an_equal_says_what_to_do_and_names_what_exists(option: str) -> None:
    told = hint(f"{option}=7") or ""
    assert told and "here it is" not in told
    assert set(re.findall(r"HIPCACHE_[A-Z]+", told)) <= {*VARIABLES}
    assert all(verb in cli.VERBS for verb in re.findall(r"'hipcache (\w+)", told))


def test_the_page_has_the_same_words() -> None:
    rows = [row.split("|")[1:3] for row in COMMANDS.splitlines() if row.startswith("| ")]
    for option in re.findall(r"(?<=[` ])-[\w-]+", "\n".join(map("\n".join, rows))):
        assert option in OPTIONS or option in OTHERS, option
