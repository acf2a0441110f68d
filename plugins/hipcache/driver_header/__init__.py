"""The header that the driver puts before each HIP source (from clang 16 on), precompiled: a way to run a front end.

`__clang_hip_runtime_wrapper.h` is the same text before every source, and most of an ordinary pass. Why a pass with
it precompiled comes to the same bytes: docs/design/driver_header.md.

    header   which passes may use it, its key, the commands that make and use it, what a pass may say
    entry    what is kept of it, where: the PCH file, what it was made of, how often it was wanted
    trust    which comparisons must come first, and when it is switched off
    use      a pass with it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hipcache.cli.toolchain import Check
    from hipcache.config import Config
    from hipcache.execution.passes import FrontEndWay
    from hipcache.execution.session import Session
    from hipcache.store.local import LocalStore

# As of `report.statistics.CounterGroup`.
COUNTERS = {
    "name": "preambles",
    "field": "preambles",
    # Passes that used one; headers that were made, compared with plain passes, and found to differ.
    "counters": ("used", "made", "checked", "different"),
    "text": "precompiled headers  {made} made, used by {used:front end}, {checked} checked, "
    "{different:red different}{different:?, and switched off}",
    "meaning": "the driver's header, precompiled, and why passes did not use one",
    "open": "without_preamble",
    "prefix": "without ",
}


def front_end(session: Session) -> FrontEndWay | None:
    from hipcache.driver_header.entry import open_files
    from hipcache.driver_header.use import DriverHeader

    files = open_files(session.context.environ)
    return DriverHeader(session, files) if files else None


def hints(environ: Mapping[str, str]) -> LocalStore | None:
    """None also where what is there cannot be read."""
    from hipcache.base.errors import StoreError
    from hipcache.driver_header.entry import open_files

    files = open_files(environ)
    with suppress(StoreError):
        if files:
            files.size()
            return files
    return None


def checks(settings: Config) -> Iterator[Check]:
    from hipcache.cli.screen import plural
    from hipcache.cli.toolchain import FAULT, OK, Check
    from hipcache.report import statistics

    if not settings.preambles:
        return
    counts = statistics.read(settings.dir).counted["preambles"]
    if counts["different"]:
        hint = "set HIPCACHE_PREAMBLES=0, and report the compiler and the source ('hipcache explain')"
        times = plural(counts["different"], "time")
        yield Check(FAULT, f"precompiled headers changed an output {times}: off for that compiler", hint)
    else:
        yield Check(OK, f"front ends may use the driver's header precompiled ({settings.origins['preambles']})")
