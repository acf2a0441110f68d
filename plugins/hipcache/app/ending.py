"""The end of the launcher's process: by a signal, by becoming the user's command (or with a hint, where that does not
exist), or with that command's status.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from hipcache.app import kinds
from hipcache.base.errors import nearest
from hipcache.base.patterns import pattern
from hipcache.processes import SIGNALS

if TYPE_CHECKING:
    from types import FrameType

_COMPILERS = pattern(r"((amd)?clang\+\+|hipcc|clang)(-[0-9.]+)?")
_SETTING = pattern(r"\w+=")
_DOCTOR = "'hipcache doctor' lists the compilers it finds"


def hint_for_missing(word: str, path: str = "") -> str:
    """The advice for `word`, a name or a path at which no program is found. `path`: the variable PATH."""
    name = os.path.basename(word)
    others = {kind.program: kind.install for kind in kinds.of_features()}
    if name in others:
        return f"{'put its directory on PATH' if name == word else 'correct the path'}, or {others[name]}"
    if _SETTING.match(word):
        return f"put it before hipcache: {word} hipcache COMPILER ..."
    if name != word:
        return f"correct the path; {_DOCTOR}"
    near = nearest(word, dict.fromkeys((*_compilers(path), *others)), 0.7)
    if near:
        return f"did you mean the compiler '{near}'?"
    return f"correct the name or PATH; {_DOCTOR}, and 'hipcache --help' the subcommands"


def _compilers(path: str) -> Iterator[str]:
    for directory in path.split(os.pathsep):
        try:
            yield from filter(_COMPILERS.fullmatch, sorted(os.listdir(directory or ".")))
        except OSError:
            continue


class Interrupted(BaseException):
    """A signal asked hipcache to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


# Seconds until an interrupt that was lost comes again.
_AGAIN = 0.001


def take_signals() -> None:
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    sys.unraisablehook = _come_again


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Once is enough: a second one (timeout(1) and terminals send two) must not break the cleaning up.
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise Interrupted(number)


def _come_again(lost: sys.UnraisableHookArgs) -> None:
    """An exception is lost that is raised in a finaliser or in the callback of a weak reference (the import system has
    them), which Python runs wherever it likes. An interrupt must not be: it comes again, at another place."""
    interrupted = lost.exc_value
    if not isinstance(interrupted, Interrupted):
        sys.__unraisablehook__(lost)
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(interrupted.number)

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN)


def die(number: int) -> NoReturn:
    """End like the compiler: by the signal itself, so that the shell and make see it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def end_by_signals() -> None:
    # A timer outlives an exec.
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in SIGNALS:
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_DFL)


def become(argv: list[str]) -> NoReturn:
    """Run the user's own command in place of this process."""
    sys.stdout.flush()
    sys.stderr.flush()
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        time.sleep(10 * _AGAIN)  # an interrupt is about to come again
    end_by_signals()
    # Python ignores these two signals, and an ignored signal stays ignored after exec.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            _become_script(argv)

        what = f"hipcache: cannot run the compiler '{argv[0]}': {error.strerror}"
        print(f"{what}\n  {hint_for_missing(argv[0])}", file=sys.stderr)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def become_again(argv: list[str], outputs: Iterable[str]) -> NoReturn:
    """The same after all was delivered. The command may fail and leave what is there, which make would take for a good
    object: so `outputs` go first, but for links, which may be the system's (/dev/stderr)."""
    for path in outputs:
        with suppress(OSError):
            if stat.S_ISREG(os.lstat(path).st_mode):
                os.unlink(path)
    become(argv)


def _become_script(argv: list[str]) -> None:
    """A script without a `#!` line: the kernel refuses it, and every shell runs it. Returns where /bin/sh cannot."""
    import shutil

    path = argv[0] if "/" in argv[0] else shutil.which(argv[0])
    with suppress(OSError):
        os.execv("/bin/sh", ["/bin/sh", str(path), *argv[1:]])


def run(argv: list[str]) -> int:
    """Run the user's command as a child process; return its status, as from `subprocess.Popen.returncode`."""
    from hipcache.processes.runner import signals_deferred

    process: subprocess.Popen[bytes] | None = None
    try:
        with signals_deferred():
            # It may name files that were opened for it (/dev/fd/3); ours are closed there by themselves (PEP 446).
            process = subprocess.Popen(argv, close_fds=False)
        return process.wait()
    except Interrupted as interrupted:
        if process is None:
            die(interrupted.number)
        for pid in [*_descendants(process.pid), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, interrupted.number)
        process.wait()
        die(interrupted.number)
    except OSError:  # no further process, or no further file
        become(argv)


def _descendants(pid: int) -> list[int]:
    """The descendants of `pid`: a driver that is killed leaves its running job behind."""
    found: list[int] = []
    with suppress(OSError):
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(child) for child in file.read().split()]
        for child in children:
            found += [*_descendants(child), child]
    return found
