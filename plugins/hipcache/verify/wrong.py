"""A wrong object that the store has served: it is told, kept for a report, and replaced."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hipcache.config import Config
from hipcache.direct import record
from hipcache.engine import Engine
from hipcache.errors import HipcacheError
from hipcache.loop import several
from hipcache.planning.command import Command
from hipcache.report import telling
from hipcache.values import replace
from hipcache.verify import reports
from hipcache.verify.difference import Difference


def tell(found: Difference, engine: Engine, config: Config) -> None:
    kept = None if config.readonly else reports.keep(config.dir, found, engine.clock())
    where = f"; both are in '{kept}'" if kept else ""
    telling.say(
        "hipcache: THE STORE SERVED A WRONG OBJECT, which the compiler's has replaced\n"
        f"  {found.summary()}\n"
        f"  what led to it is removed from the store{where}: please report it\n"
    )
    telling.log(config, f"wrong object: {found.summary()}: {' '.join(found.command)}")


def make_anew(engine: Engine, command: Command, argv: Sequence[str], cwd: str) -> None:
    """Replace what the store has for the command."""
    try:
        for terminal in (False, True):
            engine.store.remove_action(record.key(argv, cwd, terminal=terminal))
        several.make_each(replace(engine, recache=True, preambles=0), [command], None)
    except HipcacheError as error:
        print(f"hipcache: cannot replace it in the store: {error}", file=sys.stderr)
