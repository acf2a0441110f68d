"""The format that messages have on the user's terminal.

The driver checks whether its standard error is a terminal; under hipcache it is a file. On a terminal, it depends on
its version and its build whether it prints colours: on TERM, by a list of names or by the terminfo database, and on
NO_COLOR. So the driver itself is asked, on a terminal that nobody sees: it prints an error about an option that it does
not know, with colours or without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from hipcache.engine import Engine
from hipcache.errors import PassThrough
from hipcache.planning import answers
from hipcache.planning.answers import Answer
from hipcache.planning.command import Command
from hipcache.planning.tools import find
from hipcache.processes import observe, screen
from hipcache.processes.observe import Observation
from hipcache.processes.runner import Runner
from hipcache.values import dataclass

_UNKNOWN = "--no-such-option"
_ESCAPE = "\x1b"


@dataclass(frozen=True)
class Format:
    """`options`: those that give messages the format that they have without hipcache; `observations`: every path that
    the driver looked at for that, None if unknown."""

    options: tuple[str, ...]
    observations: tuple[Observation, ...] | None

    def beside(self, observations: tuple[Observation, ...]) -> tuple[Observation, ...]:
        """Those of a plan with these options; empty if unknown."""
        return () if self.observations is None or not observations else (*observations, *self.observations)


def ask(
    command: Command, engine: Engine, runner: Runner, *, columns: int | None, scratch: Callable[[], Path]
) -> Format:
    """`columns`, `scratch`: as of `asking.ask`. Raises PassThrough."""
    if columns is None:
        return Format((), ())
    program = find(command.compiler, command.cwd, engine.environ)
    argv = [command.compiler, "-###", _UNKNOWN]
    question = answers.question("colours", program, argv, command.cwd, engine.environ)
    found = answers.recall(engine, question)
    if found is None:
        found = _asked(program, argv, command.cwd, engine, runner, scratch())
        answers.remember(engine, question, found)
    colours = ("-fcolor-diagnostics",) if _ESCAPE in found.text else ()
    return Format((*colours, f"-fmessage-length={columns}"), found.observations or None)


def _asked(program: str, argv: Sequence[str], cwd: str, engine: Engine, runner: Runner, scratch: Path) -> Answer:
    env = {**engine.environ, "TMPDIR": str(scratch)}
    started = engine.clock()
    try:
        traced = screen.on_one(lambda err: runner.trace(argv, cwd=Path(cwd), env=env, program=program, stderr=err))
    except OSError as error:
        raise PassThrough("driver", f"it cannot be asked about colours: {error}") from error
    text = traced.ended.stderr.decode(errors="replace")
    if _UNKNOWN not in text:
        raise PassThrough("driver", f"it knows {_UNKNOWN}")
    return Answer(text, observe.observations(traced.observed, cwd, ignore=str(scratch), started=started))
