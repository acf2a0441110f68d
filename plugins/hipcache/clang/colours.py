"""The format that messages have on the user's terminal.

The driver checks whether its standard error is a terminal; under hipcache it is a file. On a terminal, it depends on
its version and its build whether it prints colours: on TERM, by a list of names or by the terminfo database, and on
NO_COLOR. By COLUMNS it breaks messages into lines, and from clang 20 on else by the width of the terminal that its
standard output is. So the driver itself is asked, on a terminal that nobody sees, what it would hand on to a compiler.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import termios
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from hipcache.base.errors import PassThrough
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass, replace
from hipcache.build.context import Context
from hipcache.clang import tool_answers
from hipcache.clang.command import Command
from hipcache.clang.tool_answers import Answer
from hipcache.clang.tools import find
from hipcache.processes import observe
from hipcache.processes.observe import Observation
from hipcache.processes.runner import Runner, Traced

_AT_ONCE = 1 << 16
# Of the terminal that nobody sees.
_COLUMNS = 61
_TICK = 0.02  # seconds
# Seconds for which a process that was left behind, with the terminal open, is listened to.
_SILENCE = 0.5


def on_terminal(run: Callable[[int], Traced]) -> Traced:
    """The trace of what `run` runs with the descriptor of a terminal as its standard error. Raises OSError, also if
    there is no such terminal."""
    here, there = os.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 0, _COLUMNS, 0, 0))
    said: list[bytes] = []
    ended = threading.Event()
    # A terminal holds 4 KiB: a process that says more waits for its reader.
    reader = threading.Thread(target=_listen, args=(here, said, ended), daemon=True)
    reader.start()
    try:
        traced = run(there)
    finally:
        os.close(there)
        ended.set()
        reader.join()
        os.close(here)
    return replace(traced, ended=replace(traced.ended, stderr=b"".join(said)))


def _listen(terminal: int, said: list[bytes], ended: threading.Event) -> None:
    until = 0.0
    with suppress(OSError):  # nobody has the terminal open any more
        while not until or time.monotonic() < until:
            if ended.is_set():
                until = until or time.monotonic() + _SILENCE
            if select.select([terminal], [], [], _TICK)[0]:
                said.append(os.read(terminal, _AT_ONCE))


# lld colours what kind of message it is (lld/Common/ErrorHandler.cpp), and asks its terminal whether to.
_OF_LINKER = pattern(r"^(\S*lld: )(warning: )", re.MULTILINE)


def of_linker(text: str) -> str:
    """Messages of lld, as on a terminal with colours."""
    return _OF_LINKER.sub("\\1\x1b[0;35m\\2\x1b[0m", text)


_QUESTION = ("-###", "-x", "c++", "-c", "/dev/null")
# Standard output is that terminal, too: clang asks it for the width (llvm/lib/Support/Unix/Process.inc).
_BOTH = ("/bin/sh", "-c", 'exec "$0" "$@" >&2')


@dataclass(frozen=True)
class Format:
    """`options`: those that give messages the format that they have without hipcache; `observations`: every path that
    the driver looked at for that, None if unknown; `of_terminal`: is the width that of this terminal, or none because
    standard output is not it?"""

    options: tuple[str, ...]
    observations: tuple[Observation, ...] | None
    of_terminal: bool = False

    def beside(self, observations: tuple[Observation, ...]) -> tuple[Observation, ...]:
        """Those of a plan with these options; empty if unknown."""
        return () if self.observations is None or not observations else (*observations, *self.observations)


def ask(
    command: Command, context: Context, runner: Runner, *, columns: int | None, scratch: Callable[[], Path]
) -> Format:
    """`columns`, `scratch`: as of `dry_run.ask`. Raises PassThrough."""
    if columns is None:
        return Format((), ())
    program = find(command.compiler, command.cwd, context.environ)
    argv = [command.compiler, *_QUESTION]
    question = tool_answers.question("colours", program, argv, command.cwd, context.environ)
    found = tool_answers.recall(context, question)
    if found is None:
        found = _asked(program, argv, command.cwd, context, runner, scratch())
        tool_answers.remember(context, question, found)
    colours = ("-fcolor-diagnostics",) if '"-fcolor-diagnostics"' in found.text else ()
    of_terminal = not columns and f"-fmessage-length={_COLUMNS}" in found.text
    width = os.get_terminal_size(1).columns if of_terminal and os.isatty(1) else columns
    return Format((*colours, f"-fmessage-length={width}"), found.observations or None, of_terminal)


def _asked(program: str, argv: Sequence[str], cwd: str, context: Context, runner: Runner, scratch: Path) -> Answer:
    env = {name: value for name, value in context.environ.items() if name != "COLUMNS"} | {"TMPDIR": str(scratch)}
    started = context.clock()
    words = [*_BOTH, program, *argv[1:]]
    try:
        traced = on_terminal(lambda err: runner.trace(words, cwd=Path(cwd), env=env, stderr=err))
    except OSError as error:
        raise PassThrough("driver", f"it cannot be asked about colours: {error}") from error
    text = traced.ended.stderr.decode(errors="replace")
    if '"-cc1"' not in text:
        raise PassThrough("driver", "it does not tell how it would run a compiler on a terminal")
    return Answer(text, observe.observations(traced.observed, cwd, ignore=str(scratch), started=started))
