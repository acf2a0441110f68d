"""The check of precompiled headers for `hipcache doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from hipcache.cli.screen import plural
from hipcache.cli.toolchain import FAULT, OK, Check
from hipcache.config import Config
from hipcache.report import statistics


def check(settings: Config) -> Iterator[Check]:
    if not settings.preambles:
        return
    counts = statistics.read(settings.dir).counted["preambles"]
    if counts["different"]:
        hint = "set HIPCACHE_PREAMBLES=0, and report the compiler and the source ('hipcache explain')"
        times = plural(counts["different"], "time")
        yield Check(FAULT, f"precompiled headers changed an output {times}: off for that compiler", hint)
    else:
        yield Check(OK, f"front ends may use the driver's header precompiled ({settings.origins['preambles']})")
