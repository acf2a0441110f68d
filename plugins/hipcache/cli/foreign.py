"""Options of ccache and sccache that fingers type by themselves, and the words for the same here. docs/from-ccache.md
has all of them."""

from __future__ import annotations

STATS, ZERO, CLEAR, GC = "hipcache stats", "hipcache stats --zero", "hipcache clear", "hipcache gc"
SHOW, GET, SET = "hipcache config", "hipcache config get KEY", "hipcache config set KEY VALUE"
SIZE, JSON, NONE = "hipcache config set max_size SIZE", "hipcache stats --json", ""

# Empty: there is none, and none is needed.
OPTIONS = {
    **dict.fromkeys(("-s", "-ss", "-v", "--show-stats", "--show-adv-stats", "-svv", "-sv"), STATS),
    **dict.fromkeys(("-z", "--zero-stats"), ZERO),
    **dict.fromkeys(("-C", "--clear"), CLEAR),
    **dict.fromkeys(("-c", "--cleanup"), GC),
    **dict.fromkeys(("-M", "--max-size"), SIZE),
    **dict.fromkeys(("-p", "--show-config"), SHOW),
    **dict.fromkeys(("-k", "--get-config"), GET),
    **dict.fromkeys(("-o", "--set-config"), SET),
    **dict.fromkeys(("--print-stats", "--format", "--stats-format"), JSON),
    "--show-log-stats": "hipcache stats --stats-log FILE",
    "--evict-older-than": "hipcache gc --older-than AGE",
    "--inspect": "hipcache inspect OBJECT",
    "-V": "hipcache --version",
    **dict.fromkeys(("--start-server", "--stop-server"), NONE),
}


def hint(option: str) -> str | None:
    """The advice for an option of theirs; None for one that neither has."""
    name = option.partition("=")[0]
    if name not in OPTIONS:
        return None
    return f"here it is '{OPTIONS[name]}'" if OPTIONS[name] else "hipcache needs no server: leave this out"
