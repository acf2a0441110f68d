"""Every error that hipcache itself raises.

    HipcacheError
    |-- ConfigError        a setting that is unknown or has a bad value
    |-- StoreError         the store cannot be read or written
    |   `-- StoreFull      its disk has no room, or a quota is used up
    |-- Refused            a command that would make something else than it says
    |-- PassThrough        not an error: this compile is not ours, run the user's command
    `-- JobFailed          a compiler job ended with a status other than 0
        |-- FailedInTurn   for a fault of the source
        `-- CommandFailed  and what is told is what the compiler would have told
            `-- HostLinkFailed    the last job of a link

An error says what is wrong, which thing ('quoted'), and why; `hint` says what to do about it.
"""

from __future__ import annotations

import errno


class HipcacheError(Exception):
    """A fault in two lines: the fault itself, then what to do (`hint`, may be empty)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class ConfigError(HipcacheError):
    """An unknown key or a bad value; names the file or variable, the key, and the nearest valid one."""


class StoreError(HipcacheError):
    """The store cannot do what was asked: disk full, no permission, a path that is not a store."""


class StoreFull(StoreError):
    """No space, no inodes, or a quota that is used up."""


class Refused(HipcacheError):
    """A command that runs, and makes something else than it says; `hint` is what to write instead."""


class PassThrough(HipcacheError):
    """Control flow: hipcache leaves this compile to the compiler. `reason` is a member of `outcome.Reason`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class JobFailed(HipcacheError):
    """A job of the plan ended with `status` (as from `subprocess.Popen.returncode`). `said`: on standard error, if
    nothing was said elsewhere."""

    def __init__(self, job: str, status: int, said: bytes = b"") -> None:
        super().__init__(f"{job} ended with status {status}")
        self.job = job
        self.status = status
        self.said = said


class FailedInTurn(JobFailed):
    """A job has failed as it would have for the compiler: what comes behind it in the plan would not have run, what
    comes before it would have come to its end."""


class CommandFailed(JobFailed):
    """A job ended with `status`: that of the whole command, which would have printed `text`."""

    def __init__(self, job: str, status: int, text: str) -> None:
        super().__init__(job, status)
        self.text = text


class HostLinkFailed(CommandFailed):
    """The host's link did."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__("host link", status, text)


# What the kernel answers where a limit of the process or the machine is reached: open files, processes, memory.
_LIMITS = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def left_by(error: Exception) -> PassThrough:
    """Why a compile is left to the compiler after `error`."""
    cause = error.__cause__ if isinstance(error, PassThrough) else error
    if isinstance(cause, OSError) and cause.errno in _LIMITS:
        return PassThrough("limits", cause.strerror or str(cause))
    if isinstance(error, PassThrough):
        return error
    if isinstance(error, StoreFull):
        return PassThrough("store_full", error.message)
    if isinstance(error, StoreError):
        return PassThrough("store", error.message)
    if isinstance(error, OSError) and error.errno in _FULL:
        return PassThrough("store_full", str(error))
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return PassThrough("limits", str(error) or "out of memory")
    return PassThrough("internal", f"{type(error).__name__}: {error}")
