"""After a compile that is done: it is remembered for a direct hit, or compared with what the compiler makes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hipcache import config as settings
from hipcache.config import Config
from hipcache.launcher.ending import Interrupted, become, die, take_signals
from hipcache.planning.command import Command
from hipcache.report import telling

if TYPE_CHECKING:
    from hipcache.direct.whole import Whole
    from hipcache.engine import Engine
    from hipcache.loop.account import Compiled


def verify(engine: Engine, commands: tuple[Command, ...], argv: list[str], config: Config, cwd: str) -> int:
    """Compare what was served with what the compiler makes. The outputs are there, whatever happens here."""
    from hipcache.verify import delivered

    try:
        take_signals()
        delivered.compare(engine, commands, argv, cwd, config)
    except Interrupted as interrupted:
        engine.runner.kill()
        die(interrupted.number)
    except delivered.CompilerFails:
        print("hipcache: the compiler fails, and the store has an object for it; it says why:", file=sys.stderr)
        become(argv)
    except Exception as error:
        telling.log_fault(config, error)
    return 0


def remember_whole(
    engine: Engine,
    whole: Whole,
    done: Sequence[Compiled],
    argv: Sequence[str],
    config: Config,
    environ: Mapping[str, str],
    cwd: str,
    *,
    terminal: bool,
) -> None:
    """All is written and counted: remember the whole for a direct hit."""
    try:
        from hipcache.direct.remember import remember
        from hipcache.report.history import History

        remember(
            engine,
            argv,
            cwd,
            environ,
            whole,
            messages=os.fsencode("".join(one.messages for one in done)),
            terminal=terminal,
            ended=[one.outcome for one in done],
            history=[History.name(one.record) for one in done],
            settings=settings.watched_paths(config, environ),
            system=config.system_paths,
        )
    except Exception as error:  # the compile is done, whatever happens here
        telling.log_fault(config, error)
