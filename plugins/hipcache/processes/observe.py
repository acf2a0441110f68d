"""Observations: the paths that a process looked at, each with all that the process saw of it.

The driver's plan depends on what it finds: GCC's and ROCm's directories, configuration files, headers' roots. Which, is
the driver's own affair and changes between releases, so nothing is guessed: the driver runs once under the native
observer (`native/observer/observer.c`), and what comes out is a list of observations that can be checked again with
some two hundred `stat` calls (0.5 ms) instead of running the driver (15 to 30 ms; the observer adds 4).

`until` follows a program with all the processes that it starts (hipcc), up to the moment when one of them becomes the
program that is looked for, and ends them all there.

Where a sandbox forbids that (`native/observer/observer.c` needs seccomp's notifications, `until` needs ptrace), and
where a process does what a list of paths cannot stand for, there is no answer, and whoever asks does without.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from hipcache.base import native
from hipcache.base.hashing import blake3
from hipcache.base.paths import HARMLESS, absolute, is_of_kernel
from hipcache.base.times import change_limit, keeps_change_time, latest, moved
from hipcache.base.values import dataclass
from hipcache.processes import GPUS, LINK, LIST, PROCESSOR, READ, STAT

#: How a path was looked at, by the letter in the observer's list (but for files that were opened to be written).
HOWS = {b"r": READ, b"x": READ, b"d": LIST, b"s": STAT, b"l": LINK}
# As in Linux (fs/exec.c, linux/binfmts.h).
_MOST_INTERPRETERS, _MOST_LINE = 5, 256


@dataclass(frozen=True)
class Observation:
    """`how` a path was looked at, and its signature then: what of it the process could see."""

    how: str
    path: str
    sign: str


@dataclass(frozen=True)
class Reached:
    """A process was about to begin as `program` with `argv` and `environ`. `waiting`: the commands of the other
    processes, which would have gone on after it."""

    program: str
    argv: tuple[str, ...]
    environ: dict[str, str]
    waiting: tuple[tuple[str, ...], ...]
    observations: tuple[Observation, ...]


def sign(how: str, path: str) -> str:
    """All that a process sees that looks at `path` in this way; empty if it is absent."""
    if how == PROCESSOR:
        return native.processor().hex()
    try:
        if how == LIST:
            return blake3("\0".join(sorted(os.listdir(path))).encode("utf-8", "surrogateescape")).hexdigest()
        if how == LINK:
            found = os.lstat(path)
            return os.readlink(path) if stat.S_ISLNK(found.st_mode) else oct(found.st_mode)
        found = os.stat(path)
    except OSError:
        return ""
    if path.startswith(GPUS) and stat.S_ISREG(found.st_mode):
        return _content(path)
    if how == READ and not stat.S_ISDIR(found.st_mode):
        return f"{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
    return oct(found.st_mode)


def processor() -> Observation | None:
    """The processor, on which `-march=native` depends; None where it is not known."""
    found = sign(PROCESSOR, "/")
    return Observation(PROCESSOR, "/", found) if found else None


def _content(path: str) -> str:
    """The digest of a file of the kernel, whose times say nothing."""
    try:
        with open(path, "rb") as file:
            return blake3(file.read()).hexdigest()
    except OSError:
        return "not readable"


def young(observations: Sequence[Observation], now: float, racy: float) -> bool:
    """Did a file that was read change less than `racy` seconds ago, or has it no change time? Its signature may not
    tell the next change."""
    lately = (now - racy) * 1e9
    read = (look.sign.split() for look in observations if look.how == READ and look.sign.count(" ") == 4)
    statuses = (tuple(map(int, numbers)) for numbers in read)
    return any(status[4] >= lately or not keeps_change_time(status[0], *status[3:]) for status in statuses)


def changed(observations: Sequence[Observation], started: float) -> bool:
    """Did anything of it change since a process `started` (wall clock, seconds)? Then the signatures, which are taken
    after the process has ended, may be of something else than it saw."""
    began = change_limit(started)
    for look in observations:
        if look.how == READ and look.sign.count(" ") == 4 and latest(int(look.sign.rpartition(" ")[2])) >= began:
            return True
        if look.how == LIST and look.sign and not _is_older(look.path, began):
            return True
    return bool(moved((look.path for look in observations if look.sign and not is_of_kernel(look.path)), began))


def _is_older(path: str, began: float) -> bool:
    try:
        return latest(os.stat(path).st_ctime_ns) < began
    except OSError:
        return False


def observations(listed: bytes | None, cwd: str, *, ignore: str, started: float) -> tuple[Observation, ...]:
    """Those of a process that `started` (wall clock, seconds) in `cwd`, from the native observer's list; none if a list
    of paths cannot stand for what it did: another process, a socket, a question about the machine, a path that changed.
    Nothing below directory `ignore` counts (the process's own scratch files)."""
    seen: dict[tuple[str, str], bool] = {}
    harmless = {*HARMLESS, native.load()._name} if listed else set()  # the library is there for us (`for_plans`)
    for row in dict.fromkeys((listed or b"").split(b"\0")[:-1]):
        kind, found, path = row[:1], row[1:2], absolute(os.fsdecode(row[2:]), cwd)
        if kind in (b"n", b"p"):
            return ()
        how = HOWS.get(kind)
        if how is None or path.startswith(ignore + "/") or path == ignore or path in harmless:
            continue
        if is_of_kernel(path) and not path.startswith(GPUS):
            return ()
        if seen.setdefault((how, path), found in b"fdl") != (found in b"fdl"):
            return ()
        if kind == b"x" and found == b"f":
            seen.update({(READ, program): True for program in _interpreters(path)})
    return _signed(seen, started)


def _interpreters(program: str) -> Iterator[str]:
    """Of a script, and of an interpreter that is one: the kernel itself opens them."""
    for _ in range(_MOST_INTERPRETERS):
        try:
            with open(program, "rb") as file:
                line = file.readline(_MOST_LINE)
        except OSError:
            return
        if not line.startswith(b"#!") or not line[2:].split():
            return
        program = os.fsdecode(line[2:].split()[0])
        yield program


def until(
    wanted: Callable[[tuple[str, ...]], bool],
    program: str,
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    ignore: str,
) -> Reached | str:
    """Run `program` until it, or a process that it starts, becomes a program with an argv that is `wanted`; in words
    why that was not reached, or cannot stand for the whole. None of the processes is left then, and none of
    them has printed or written anything."""
    from hipcache.processes import ptrace

    started = time.time()
    end = ptrace.watch(program, argv, cwd=cwd, env=env, ignore=ignore, wanted=wanted)
    if isinstance(end, str):
        return end
    if end.reached is None:
        return f"it ended with status {end.status} without a compile"
    if end.stdout or end.stderr:
        return "it prints its own output"
    observations = _signed(end.seen, started)
    return Reached(*end.reached, observations) if observations else "a file that it used changed meanwhile"


def _signed(seen: Mapping[tuple[str, str], bool], started: float) -> tuple[Observation, ...]:
    found = []
    for (how, path), there in seen.items():
        signature = sign(how, path)
        if bool(signature) != there:
            return ()  # it changed under our eyes
        found.append(Observation(how, path, signature))
    return () if changed(found, started) else tuple(found)
