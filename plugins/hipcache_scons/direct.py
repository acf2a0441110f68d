"""Direct hits of compiles through SCons: the record of a whole compile, looked for and kept.

In place of a dependency file the record has the list of all files that the compile read: SCons keeps no such file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress

from hipcache import config as settings
from hipcache.app.front import Compiled
from hipcache.base import native
from hipcache.base.errors import LibraryError
from hipcache.base.values import replace
from hipcache.build.context import Context
from hipcache.config import Config
from hipcache.direct import remember as records
from hipcache.direct.provenance import Indirect, Provenance
from hipcache.direct.record import Rule
from hipcache.report.history import History, Record

from hipcache_scons import shadows

# Before the command in the key of a whole compile.
_KIND = "scons"


def kept_as(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command as the key of a whole compile has it."""
    return (_KIND, *argv)


def may_be(config: Config) -> bool:
    """Not for who wants nothing of the store, or leaves it as it is."""
    return not (config.readonly or config.recache)


def find(
    config: Config, context: Context, variables: Mapping[str, str], argv: tuple[str, ...], cwd: str
) -> native.DirectHit | None:
    """The compile, served, if nothing has changed for it and what may shadow is noted for it. `variables`: those of the
    compile, and the user's settings."""
    if "-o" not in argv[:-1] or not may_be(config):
        return None
    output = os.path.join(cwd, argv[argv.index("-o") + 1])
    if not shadows.is_of(context, output, argv):
        return None
    with suppress(LibraryError):  # the engine counts it
        return native.hit(
            str(config.dir),
            cwd,
            kept_as(argv),
            variables,
            terminal=os.isatty(2),
            resident=config.resident,
            secret=context.seal.secret,
        )
    return None


def files_of(found: native.DirectHit) -> tuple[str, ...]:
    """The absolute paths of what the compile read."""
    return tuple(name for name in os.fsdecode(found.rule).split("\n") if name)


def remember(
    config: Config,
    context: Context,
    variables: Mapping[str, str],
    done: Compiled,
    record: Record,
    cwd: str,
    whole: Provenance | Indirect | None,
    files: Iterable[str],
    *,
    terminal: bool,
) -> str:
    """Keep the record of the compile that `record` tells of; gives in words why there is none. `files`: as `files_of`
    gives them."""
    if not isinstance(whole, Provenance):
        return whole.why if whole else ""
    read = os.fsencode("".join(f"{name}\n" for name in files))
    return records.remember(
        context,
        kept_as(record.command),
        cwd,
        variables,
        replace(whole, outputs=replace(whole.outputs, rules=(Rule("", read),))),
        messages=os.fsencode(done.messages),
        terminal=terminal,
        ended=[done.outcome],
        history=[History.name(record)],
        settings=settings.watched_paths(config, variables),
        system=config.system_paths,
    )
