"""Every error that hipcache itself raises.

    HipcacheError
    |-- ConfigError        a setting that is unknown or has a bad value
    |-- StoreError         the store cannot be read or written
    |   `-- StoreFull      its disk has no room, or a quota is used up
    |-- LibraryError       the native library cannot be used
    |-- Refused            a command that would silently make something other than requested
    |-- PassThrough        not an error: hipcache does not handle this command, run it unchanged
    `-- JobFailed          a compiler job ended with a status other than 0
        |-- FailedInTurn   because of an error in the source
        `-- CommandFailed  with the exact text that the compiler would have printed
            `-- HostLinkFailed    the last job of a link

A message says what is wrong, with which 'thing', and why; `hint` says what to do about it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class HipcacheError(Exception):
    """An error in two lines: the error itself, then what to do (`hint`, may be empty)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """The one of `known` that may have been meant by `word`; nothing if none is like it. For a hint."""
    import difflib  # so late, since a compile needs none of it

    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=likeness)), "")


class ConfigError(HipcacheError):
    """An unknown key or a bad value; names the file or variable, the key, and the nearest valid one."""


class StoreError(HipcacheError):
    """The store cannot do what was asked: disk full, no permission, a path that is not a store."""


class StoreFull(StoreError):
    """No space, no inodes, or a quota that is used up."""


class LibraryError(HipcacheError):
    """The native library is missing, or was built from other sources."""


class Refused(HipcacheError):
    """A command that would silently make something other than requested; `hint`: what to write instead."""


class PassThrough(HipcacheError):
    """Control flow: the command passes through to the compiler. `reason` is a key of `reasons.REASONS`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


@contextmanager
def passing_through(reason: str, name: str) -> Iterator[None]:
    """An OSError within it becomes a PassThrough: the file of that name cannot be read, written or run."""
    try:
        yield
    except OSError as error:
        raise PassThrough(reason, f"'{name}': {error.strerror}") from error


class JobFailed(HipcacheError):
    """A job of the plan ended with `status` (as from `subprocess.Popen.returncode`). `said`: its standard error, if it
    printed nothing elsewhere."""

    def __init__(self, job: str, status: int, said: bytes = b"") -> None:
        super().__init__(f"{job} ended with status {status}")
        self.job = job
        self.status = status
        self.said = said


class FailedInTurn(JobFailed):
    """A job failed as it would have for the compiler: later jobs of the plan would not have run, and earlier ones would
    have ended."""


class CommandFailed(JobFailed):
    """A job ended with `status`, which is the status of the whole command. The command would have printed `text`."""

    def __init__(self, job: str, status: int, text: str) -> None:
        super().__init__(job, status)
        self.text = text


class HostLinkFailed(CommandFailed):
    """The host link failed."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__("host link", status, text)


# The kernel's errors when a limit of the process or the machine is reached: open files, processes, memory.
_LIMITS = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def in_words(error: Exception) -> str:
    """What an error of the system says, without its number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"'{os.fsdecode(error.filename)}': {error.strerror}" if error.filename else error.strerror


def pass_through_after(error: Exception) -> PassThrough:
    """The reason why the command passes through after `error`."""
    cause = error.__cause__ if isinstance(error, PassThrough) else error
    if isinstance(cause, OSError) and cause.errno in _LIMITS:
        return PassThrough("limits", cause.strerror or str(cause))
    if isinstance(error, PassThrough):
        return error
    if isinstance(error, StoreFull):
        return PassThrough("store_full", error.message)
    if isinstance(error, StoreError):
        return PassThrough("store", error.message)
    if isinstance(error, LibraryError):
        return PassThrough("native", error.message)
    if isinstance(error, OSError) and error.errno in _FULL:
        return PassThrough("store_full", in_words(error))
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return PassThrough("limits", str(error) or "out of memory")
    return PassThrough("internal", f"{type(error).__name__}: {error}")


class CompilerFails(Exception):
    """The compiler fails, but the store has an output: the user's own command says why."""
