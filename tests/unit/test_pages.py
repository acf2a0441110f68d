"""Pages name settings, subcommands and files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hipcache import cli
from hipcache.config.settings import VARIABLES

CHECKOUT = Path(__file__).parents[2]
PAGES = [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md")]
MOST_WORDS = 1500
MOST_WORDS_OF_MANUAL = 14_000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_leads_to_a_file(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_each_subcommand_of_the_page_for_users_of_ccache_exists() -> None:
    text = (CHECKOUT / "docs/from-ccache.md").read_text()
    for verb in re.findall(r"`hipcache ([a-z-]+)", text):
        assert verb in cli.VERBS, verb
    for variable in re.findall(r"`?(HIPCACHE_[A-Z_]+)", text):
        assert variable in VARIABLES, variable


def test_each_setting_has_its_row_in_the_manual() -> None:
    text = (CHECKOUT / "docs/settings.md").read_text()
    for variable in VARIABLES:
        assert re.search(rf"^\| `{variable}\b", text, re.MULTILINE), variable


def test_the_architecture_is_read_in_a_few_minutes() -> None:
    assert len((CHECKOUT / "ARCHITECTURE.md").read_text().split()) <= MOST_WORDS, "see docs/design"


def test_the_manual_is_short() -> None:
    words = {page.name: len(page.read_text().split()) for page in CHECKOUT.glob("docs/*.md")}
    assert sum(words.values()) <= MOST_WORDS_OF_MANUAL, words
