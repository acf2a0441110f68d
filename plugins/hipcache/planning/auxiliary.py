"""Auxiliary outputs: what a pass writes beside its output, where an option of its own names the file.

    -split-dwarf-output          debug information (-gsplit-dwarf), a file for each pass
    -opt-record-file             remarks as YAML (-fsave-optimization-record)
    -serialize-diagnostic-file   messages (--serialize-diagnostics)
    -stack-usage-file            sizes of stack frames (-fstack-usage)
    -coverage-notes-file         what the counters of an object stand for (--coverage), of the host's pass

All passes write remarks, messages and sizes into one file, each of them whole, one after the other: what is there in
the end is that of the last one that wrote any. A pass without functions writes no sizes, one to bitcode no debug
information. What is in the files has no name of theirs (but the object has that of its debug information, by another
option): so a pass may write them elsewhere, and the user gets a copy.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from hipcache.disk.paths import is_stream
from hipcache.errors import PassThrough
from hipcache.planning.cc1 import Option, Role
from hipcache.planning.jobs import Cc1Job
from hipcache.planning.plan import Plan


def of(job: Cc1Job) -> list[Option]:
    return [option for option in job.options if option.role is Role.AUXILIARY]


def check(plan: Plan, path: Callable[[str], str]) -> None:
    """Raises PassThrough if what the user would get is not known. `path` makes a name absolute."""
    jobs = [*(device.compile for device in plan.devices), *([plan.host] if plan.host else [])]
    for job in jobs:
        _check_job(job)
    found = {(option.name, option.value) for job in jobs for option in of(job)}
    if not found:
        return
    if plan.messages and any(name == "-serialize-diagnostic-file" for name, _ in found):
        raise PassThrough("side_output", "messages of the driver and of the passes in one file")
    others = [*plan.outputs, plan.dependency_file, plan.first.value(Role.INPUT)]
    places = [os.path.realpath(path(name)) for name in others if name]
    for _, name in sorted(found):
        place = os.path.realpath(path(name))
        if name in ("", "-") or is_stream(path(name)) or place in places:
            raise PassThrough("side_output", f"into '{name}'")
        places.append(place)


def _check_job(job: Cc1Job) -> None:
    if len({option.name for option in of(job)}) < len(of(job)):
        raise PassThrough("side_output", "two options that name one file")
    names = {option.name.rstrip("=") for option in job.options}
    if "-split-dwarf-file" in names and "-split-dwarf-output" not in names:
        raise PassThrough("temporary_names", "-gsplit-dwarf=single")
    covers = any(name.startswith("-coverage-") for name in names)
    if covers and (job.emits not in ("-emit-obj", "-S") or "-ffat-lto-objects" in names):
        raise PassThrough("coverage", "the bitcode names the coverage notes file")
    formats = {option.value for option in job.options if option.name == "-opt-record-format"}
    if formats - {"yaml"}:
        raise PassThrough(
            "side_output", f"remarks in the format {' '.join(sorted(formats))}, and the object names their file"
        )
