"""Options of ccache and sccache that fingers type by themselves, and the words for the same here. docs/from-ccache.md
has all of them."""

from __future__ import annotations

from hipcache.base.patterns import pattern

STATS, ZERO, CLEAR, GC = "hipcache stats", "hipcache stats --zero", "hipcache clear", "hipcache gc"
SHOW, GET, SET = "hipcache config", "hipcache config get KEY", "hipcache config set KEY VALUE"
SIZE, JSON = "hipcache config set max_size SIZE", "hipcache stats --json"
NO_SERVER = "hipcache needs no server: leave this out"
NO_FILES = "hipcache limits the store's size ('hipcache config set max_size SIZE'), not its number of files"
UNCOMPRESSED = "hipcache stores nothing compressed: leave this out"
NO_FILE = "hipcache has no command for single files of its store; 'hipcache inspect OBJECT' lists an object's keys"
WORKERS = "set HIPCACHE_EXECUTOR to the address of the workers (docs/share.md)"

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
    **dict.fromkeys(("--show-log-stats", "--print-log-stats"), "hipcache stats --stats-log FILE"),
    "--trim-max-size": "hipcache gc --max-size SIZE",
    "--evict-older-than": "hipcache gc --older-than AGE",
    "--inspect": "hipcache inspect OBJECT",
    "--evict-namespace": "hipcache gc --namespace NAME",
    "-V": "hipcache --version",
}
# Those that have no command here, and what to do.
OTHERS = {
    **dict.fromkeys(("--start-server", "--stop-server"), NO_SERVER),
    **dict.fromkeys(("-F", "--max-files"), NO_FILES),
    **dict.fromkeys(("-X", "--recompress", "-x", "--show-compression", "--recompress-threads"), UNCOMPRESSED),
    **dict.fromkeys(("-d", "--dir", "--directory"), "set HIPCACHE_DIR"),
    **dict.fromkeys(("--checksum-file", "--hash-file", "--extract-result"), NO_FILE),
    "--verbose": "HIPCACHE_LOG=FILE logs one line per compile, and 'hipcache explain' says why one missed",
    "--json": "it goes behind a subcommand: 'hipcache stats --json'",
    "--": "leave it out: the compiler is the first word",
    "--config-path": "set HIPCACHE_CONFIG",
    "--trim-dir": "hipcache keeps its own store below its limit; 'hipcache gc --max-size SIZE' reduces it now",
    **dict.fromkeys(("--dist-status", "--dist-auth", "--package-toolchain"), WORKERS),
}


# Short options in one word: with a value, or several without one.
_WITH_VALUE = pattern(r"(-[MF])\d.*|(-k)\w+|(-o)\w+=.*")
_SEVERAL = pattern(r"(-[sczCpvV])[sczCpvV]+")


def hint(option: str) -> str | None:
    """The advice for an option of theirs; None for one that neither has."""
    name = option.partition("=")[0]
    together = _WITH_VALUE.fullmatch(option) or _SEVERAL.fullmatch(option)
    if name not in OPTIONS and together:
        name = option[:2]
    return f"here it is '{OPTIONS[name]}'" if name in OPTIONS else OTHERS.get(name)
