"""The page for users in trouble says of each cause whether hits are served; they are, or are not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hip import HIT, PASSED_THROUGH, Lab, only_15

PAGE = (Path(__file__).parents[2] / "docs/troubleshooting.md").read_text()
# A cause in the page's words, its effect there, variables and a project's config file with it, and the outcome.
CAUSES = (
    ("a variable or a key in a config file has a wrong value", "Nothing", {"HIPCACHE_JOBS": "x"}, "", "nothing"),
    ("a variable or a key in a config file has a wrong value", "Nothing", {}, "disable: perhaps", "nothing"),
    ("a config file has an unknown key", "Nothing", {}, "basdir: .", "nothing"),
    ("one that it may not have", "Nothing", {}, "jobs: 1", "nothing"),
    ("is not YAML", "Nothing", {}, "a: [", "nothing"),
    ("`HIPCACHE_CONFIG` names no file", "Nothing", {"HIPCACHE_CONFIG": "/none"}, "", "nothing"),
    ("the file of `HIPCACHE_KEY` cannot be used", "Nothing", {"HIPCACHE_KEY": "/none"}, "", PASSED_THROUGH),
    ("a `HIPCACHE_*` variable is unknown", "Everything", {"HIPCACHE_MAXSIZE": "1G"}, "", HIT),
)


@only_15
@pytest.mark.archs(1)
def test_each_cause_has_the_effect_that_the_page_says(lab: Lab) -> None:
    effects = dict(re.findall(r"^- (Nothing|Hits|Everything) .*\n((?:    .*\n)+)", PAGE, re.MULTILINE))
    lab.warm()
    for cause, effect, variables, text, outcome in CAUSES:
        assert cause in effects[effect]
        lab.write(".hipcache.yaml", text)
        ended = lab.hipcache(*lab.words(), env=variables)
        assert ended.status == 0
        assert (lab.counted().outcome, outcome == HIT or b"nothing is cached" in ended.err) == (outcome, True), cause
