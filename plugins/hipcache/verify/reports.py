"""Reports: what the store served and what the compiler made instead, kept for who looks into it.

    <HIPCACHE_DIR>/v1/reports/<time>-<random>/report.json    the command, sizes, digests (`Difference.as_json`)
                                              served, fresh  the two outputs, where both are not too large

At most MOST reports of together MOST_BYTES are kept, the newest.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path

from hipcache import __version__
from hipcache.store.layout import random_name, remove_tree
from hipcache.verify.difference import Difference

MOST = 8
MOST_BYTES = 64 << 20


def keep(root: Path, difference: Difference, now: float) -> Path | None:
    """The directory of the report in the store at `root`; None where it cannot be written. `now`: seconds of the
    epoch."""
    top = root / "v1" / "reports"
    report = top / f"{int(now * 1e9):020d}-{random_name()}"
    told = {"version": __version__, "when": now, **difference.as_json()}
    small = len(difference.served) + len(difference.fresh) <= MOST_BYTES // 2
    outputs = {"served": difference.served, "fresh": difference.fresh} if small else {}
    try:
        with suppress(FileExistsError):
            top.mkdir(mode=0o700, parents=True)
        if not _is_own_directory(top):
            return None
        report.mkdir(mode=0o700)
        for name, content in {**outputs, "report.json": json.dumps(told, indent=2).encode()}.items():
            with open(report / name, "xb") as file:
                file.write(content)
        _bound(top)
    except OSError:
        remove_tree(os.fspath(report))
        return None
    return report


def _is_own_directory(path: Path) -> bool:
    """Not a link, which could lead anywhere."""
    return stat.S_ISDIR(os.lstat(path).st_mode)


def _bound(top: Path) -> None:
    """Remove the oldest reports until the others are few and small enough."""
    held = 0
    for number, report in enumerate(sorted(os.listdir(top), reverse=True)):
        held += _bytes_in(top / report)
        if number >= MOST or held > MOST_BYTES:
            remove_tree(os.fspath(top / report))


def _bytes_in(directory: Path) -> int:
    size = 0
    with suppress(OSError), os.scandir(directory) as found:
        size = sum(one.stat(follow_symlinks=False).st_size for one in found)
    return size
