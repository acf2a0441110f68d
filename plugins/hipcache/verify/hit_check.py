"""One compile in so many that was a hit is done anew by the user's own compiler, in its place, and compared.

It comes after the delivery, so whatever served the hit is checked: the launcher by the record of a whole compile, or
the engine by the records of units. The compiler writes where it always does, so paths in its output are the same. Which
compiles are checked is a random draw of its own for each: a build that runs a hundred times does not check the same
objects each time, and processes need no counter that they share.

Where the outputs differ the compiler runs once more: some programs it makes differently each time. Else the store was
wrong. The compiler's output stays, the records that led to the other one are replaced by such of compiles anew, both
outputs are kept for a report, and standard error has it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from hipcache.app import front
from hipcache.base.errors import CompilerFails, HipcacheError, StoreError
from hipcache.base.values import replace
from hipcache.clang.command import Command
from hipcache.config import Config
from hipcache.direct import record
from hipcache.disk import atomic
from hipcache.engine import Engine
from hipcache.execution.session import Session
from hipcache.report import statistics, telling
from hipcache.report.outcome import DIFFERENT, SAME, VARYING
from hipcache.verify import comparison
from hipcache.verify.comparison import Difference, Fresh, archs_of, keep


def compare(engine: Engine, commands: Sequence[Command], argv: Sequence[str], cwd: str, config: Config) -> None:
    """Check all outputs of `commands`, which have been served; afterwards they are the compiler's, or as good.
    `argv` as the user typed it. Raises CompilerFails; and HipcacheError if the command cannot be compared, with
    nothing done."""
    for command in commands:
        if not (command.links or command.makes_program):
            _compare(engine, command, argv, cwd, config)


def _compare(engine: Engine, typed: Command, argv: Sequence[str], cwd: str, config: Config) -> None:
    how, inner, command = comparison.prepare(engine, typed)
    if not all(map(_is_file, how.outputs)):
        return
    served, rule = _contents(how.outputs), _contents([how.rule] if how.rule else [])
    with Session(inner, command) as session:
        made = _made(how, session)
        verdict = SAME if made == served else DIFFERENT
        if verdict == DIFFERENT and _made(how, session) != made:
            verdict = VARYING
    # The compiler's dependency file lacks what only a device's pass has read.
    _put_back(rule)
    if not config.readonly:
        statistics.record_verified(config.dir, verdict)
    if verdict == DIFFERENT:
        different = next(path for path in how.outputs if made[path] != served[path])
        told = Difference(
            different,
            (command.compiler, *how.words),
            cwd,
            archs_of(command.arguments),
            served[different],
            made[different],
        )
        _tell(told, engine, config)
        if not config.readonly:
            _make_anew(engine, typed, argv, cwd)
            _put_back({**made, **rule})


def _made(how: Fresh, session: Session) -> dict[str, bytes]:
    if how.run(session) != 0 or not all(map(_is_file, how.outputs)):
        raise CompilerFails
    return _contents(how.outputs)


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _contents(paths: Sequence[str]) -> dict[str, bytes]:
    return {path: Path(path).read_bytes() for path in paths if _is_file(path)}


def _put_back(contents: dict[str, bytes]) -> None:
    """Raises StoreError."""
    for path, content in contents.items():
        try:
            if Path(path).read_bytes() != content:
                atomic.write_whole(Path(path), content)
        except OSError as error:
            raise StoreError(f"cannot write '{path}': {error.strerror}") from error


def _tell(found: Difference, engine: Engine, config: Config) -> None:
    kept = None if config.readonly else keep(config.dir, found, engine.clock())
    where = f"; both are in '{kept}'" if kept else ""
    telling.say(
        "hipcache: THE STORE SERVED A WRONG OBJECT, which the compiler's has replaced\n"
        f"  {found.summary()}\n"
        f"  what led to it is removed from the store{where}: please report it\n"
    )
    telling.log(config, f"wrong object: {found.summary()}: {' '.join(found.command)}")


def _make_anew(engine: Engine, command: Command, argv: Sequence[str], cwd: str) -> None:
    """Replace what the store has for the command."""
    try:
        for terminal in (False, True):
            engine.store.remove_action(record.key(argv, cwd, terminal=terminal))
        front.make_each(replace(engine, recache=True, preambles=0), [command], None)
    except HipcacheError as error:
        print(f"hipcache: cannot replace it in the store: {error}", file=sys.stderr)
