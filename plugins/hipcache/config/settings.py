"""The table of the settings: names, kinds, defaults, and a sentence about each. The manual is made from it, too."""

from __future__ import annotations

from hipcache.base import errors
from hipcache.base.values import dataclass

PREFIX = "HIPCACHE_"
# The value of `executor` with which nothing runs elsewhere.
NO_EXECUTOR = "none"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


@dataclass(frozen=True)
class Setting:
    """One row of the table. `key` is the name in the config file and of the `Config` field."""

    key: str
    kind: str
    default: str
    sentence: str

    @property
    def variable(self) -> str:
        return PREFIX + self.key.upper()


SETTINGS = (
    Setting(
        "dir",
        "directory",
        "~/.cache/hipcache",
        "The store's directory; with XDG_CACHE_HOME set, the default is $XDG_CACHE_HOME/hipcache.",
    ),
    Setting("config_file", "file", "~/.config/hipcache/hipcache.yaml", "The user's config file; environment only."),
    Setting("system_config", "file", "/etc/hipcache.yaml", "The system-wide config file; environment only."),
    Setting("disable", "flag", "0", "Only run the compiler: no lookup, no store, no statistics."),
    Setting("readonly", "flag", "0", "Serve hits, but never write to the store."),
    Setting("recache", "flag", "0", "Serve no hits: compile everything, and replace the stored results."),
    Setting("max_size", "size", "10GiB", "The store's size limit; 0 means no limit."),
    Setting(
        "packs",
        "flag",
        "1",
        "Keep the entries of a compile together in one compressed file; 0: as separate files, which can share blocks"
        " with objects on btrfs and xfs.",
    ),
    Setting(
        "basedir",
        "directory",
        "",
        "Make paths below it relative in keys, so that checkouts share; found by itself in package builders.",
    ),
    Setting(
        "namespace",
        "name",
        "",
        "Keep results separate: one namespace never serves another's; 'hipcache gc --namespace' removes one.",
    ),
    Setting(
        "key",
        "file",
        "",
        "Share the store only with users who have this key file: records without its seal are ignored.",
    ),
    Setting(
        "umask", "mask", "", "Share the store: the umask for its files, such as 002 (group) or 007; empty: private."
    ),
    Setting("log", "file", "", "Append one line per compile to this file."),
    Setting("log_format", "format", "text", "The format of these lines: text or json."),
    Setting(
        "stats_log", "file", "", "Append the statistics of each compile to this file; see 'hipcache stats --stats-log'."
    ),
    Setting(
        "jobs",
        "count",
        "0",
        "How many compilers run at once; 0: one per core, but no more than one per 2 GiB of memory.",
    ),
    Setting(
        "remote",
        "addresses",
        "",
        "Share results through a server: grpc[s]://, unix:, http[s]://, s3://, gs:// or az://; see docs/share.md.",
    ),
    Setting(
        "executor",
        "addresses",
        "",
        "Also run back ends on a server's workers: grpc[s]://, unix: or none; if not set, those of a gRPC remote.",
    ),
    Setting("prefetch", "flag", "1", "Let build tools prefetch a build's results from the remote."),
    Setting(
        "verify", "share", "0", "Recompile this fraction of hits and compare, such as 1/100; see 'hipcache verify'."
    ),
    Setting(
        "preambles", "flag", "1", "Precompile the header that the driver puts before each source (clang 16 and later)."
    ),
    Setting(
        "preamble_checks",
        "positive",
        "64",
        "Repeat one in this many passes that used a precompiled header, and compare.",
    ),
    Setting("cxx_cache", "program", "", "Hand compiles without HIP sources to this cache, such as ccache or sccache."),
    Setting(
        "iree_checks",
        "flag",
        "1",
        "Refuse iree-compile commands that would silently make another module than requested.",
    ),
    Setting(
        "resident", "flag", "1", "Run a small process that watches system files, so that hits need not check each one."
    ),
    Setting(
        "system_paths",
        "directories",
        "/usr:/opt:/etc:/bin:/sbin:/lib:/lib32:/lib64:/libx32:/nix/store:/gnu/store",
        "The directories that this process watches (they rarely change), separated by colons.",
    ),
)

# Those of older versions, which say nothing any more.
RETIRED = {PREFIX + "SHARED_FRONT_ENDS": "shared_front_ends"}
NO_EFFECT = "has no effect any more; remove it"
# HIPCACHE_CONFIG is the one variable whose field has another name: `Config.config` would read oddly.
VARIABLES = {PREFIX + "CONFIG" if s.key == "config_file" else s.variable: s for s in SETTINGS}


def nearest_hint(word: str, known: list[str]) -> str:
    """A hint with the name that may have been meant, in whatever case, or with all of them. The prefix, which all
    share, would make everything look near."""

    def bare(name: str) -> str:
        return name.upper().removeprefix(PREFIX)

    names = {bare(name): name for name in known}
    close = errors.nearest(bare(word), names, 0.5)
    return f"did you mean '{names[close]}'?" if close else "known are " + ", ".join(known)


def parse_size(text: str) -> int | None:
    """Bytes from "500M", "10 GiB", "1.5T" or "1000"; None if it is no size.

    As in ccache, K, M, G and T (with or without a B) count in thousands, Ki, Mi, Gi and Ti in 1024s.
    Not as in ccache, a plain number is bytes, not gigabytes.
    """
    number = text.strip().upper().removesuffix("B").rstrip()
    if len(number) > 30:  # no disk is that large, and Python refuses to convert thousands of digits
        return None
    digits = number.rstrip("KMGTI")
    unit = number[len(digits) :]
    whole, point, fraction = digits.rstrip().partition(".")
    if unit not in _UNITS or not (whole.isascii() and whole.isdigit()):
        return None
    if not point:
        return int(whole) * _UNITS[unit]
    if not (fraction.isascii() and fraction.isdigit()):
        return None
    divisor: int = 10 ** len(fraction)
    return int(whole + fraction) * _UNITS[unit] // divisor
