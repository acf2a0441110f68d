"""The conditions that keep hipcache from caching, or make a setting go for nothing: one list, which a compile,
`hipcache stats`, `hipcache doctor` and the build tools' configure steps ask.

A compile that is served says nothing, whatever the conditions are.
"""

from __future__ import annotations

import binascii
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from hipcache import processes
from hipcache.base import features, native
from hipcache.base.errors import ConfigError, LibraryError, PassThrough, StoreError
from hipcache.base.paths import places_for_marks
from hipcache.base.values import dataclass
from hipcache.config import Config
from hipcache.config.settings import NO_EXECUTOR
from hipcache.report import statistics, telling
from hipcache.store import faults, seal
from hipcache.store.confined import Confined
from hipcache.store.faults import HINTS
from hipcache.store.layout import ACTIONS, BLOBS, PACKS, TMP

if TYPE_CHECKING:
    from hipcache.store.local import LocalStore

# kind -> its consequence.
KINDS = {
    "settings": "nothing is cached",
    "unknown_variable": "a setting has no effect",
    "store_not_writable": "nothing new is cached, and compiles are not counted",
    "store_full": "nothing new is cached, and compiles may not be counted",
    "store_divided": "nothing new is cached",
    "native": "nothing is cached",
    "plan": "compiles pass through",
    "remote": "results are not shared",
    "executor": "everything is compiled on this machine",
    "locked": "compiles wait, and some units are compiled twice",
}
_WRITABLE = "correct its owner and permissions, or set HIPCACHE_DIR to a directory that you can write to"
_REMOUNT = "hits go on; set HIPCACHE_DIR to a directory that you can write to, or HIPCACHE_READONLY=1 to silence this"
_TARGET = "create it, or set HIPCACHE_DIR to another directory"
_NO_LINK = "remove the link, or set HIPCACHE_DIR to another directory"
_ELSEWHERE = "set HIPCACHE_DIR to a directory that can be created, and that you can write to"
_NO_MOUNT = "mount the whole store instead, or set HIPCACHE_DIR to another directory"
_PLAN = (
    "they work, and are not cached: update hipcache ('hipcache --version', docs/versions.md), or try"
    " --no-offload-new-driver with clang 20 to 23"
)
# The directories that every compile writes to.
_WRITTEN = (TMP, BLOBS, ACTIONS)
_LOCKED = "a stopped process, or one of another user or container, holds it ('lslocks' shows which)"


@dataclass(frozen=True)
class Condition:
    """One of KINDS: what is wrong, with which thing, and why; and what to do about it. `about`: the thing by which it
    is known again, where the message has figures that change."""

    kind: str
    message: str
    hint: str
    about: str = ""

    @property
    def identity(self) -> str:
        return f"{self.kind} {self.about or self.message}"

    def describe(self) -> str:
        return f"{KINDS[self.kind]}: {self.message}"

    def __str__(self) -> str:
        return f"{self.describe()}\n  {self.hint}"


def under(settings: Config) -> tuple[Condition, ...]:
    """All conditions; none if the user has switched hipcache off."""
    if settings.disable:
        return ()
    unknown = [Condition("unknown_variable", *warning.split("; ", 1)) for warning in settings.warnings]
    return (*unknown, *of_key(settings), *of_store(settings), *of_native())


def of_settings(settings: Config) -> tuple[Condition, ...]:
    """Those of `under`, and addresses that are none, which no compile reads before it needs them."""
    return (*under(settings), *(() if settings.disable else of_addresses(settings)))


def of_addresses(settings: Config) -> Iterator[Condition]:
    for kind, texts in (("remote", settings.remote), ("executor", settings.executor)):
        named = [text for text in texts if (kind, text) != ("executor", NO_EXECUTOR)]
        parsers = [*features.modules_for("ADDRESSES", kind)] if named else []
        if named and not parsers:
            yield Condition(kind, f"setting '{kind}' has no effect: this hipcache has none", "remove the setting")
        for text in named:
            try:
                for addresses in parsers:
                    addresses.parse(text)
            except ConfigError as error:
                yield Condition(kind, error.message, error.hint)


def of_wrong_settings(error: ConfigError) -> Condition:
    return Condition("settings", error.message, error.hint)


def of_plan(compiler: str, why: str) -> Condition:
    """Of a compiler whose plans are not understood."""
    return Condition("plan", f"'{compiler}' is not understood ({why})", _PLAN, compiler)


def of_key(settings: Config) -> Iterator[Condition]:
    """Without its key no store is opened."""
    try:
        seal.read(settings.key)
    except StoreError as error:
        yield Condition("settings", error.message, error.hint)


def of_store(settings: Config) -> Iterator[Condition]:
    """One at most: the first is the cause of others."""
    if settings.readonly:
        return
    place = os.fspath(settings.dir)
    denied = _denied(place)
    if denied:
        why, hint = denied
        yield Condition("store_not_writable", f"store '{place}' cannot be written: {why}", hint, place)
        return
    confined = Confined(settings.dir)
    for path in map(confined.path, _WRITTEN):  # each may be on another disk
        lacking = faults.lacking(path)
        if lacking:
            yield full(settings, f"the disk of store '{place}' is full: {lacking} in '{path}'")
            return
    divided = faults.divided(confined)
    if divided:
        message = f"in store '{place}' nothing can be moved from 'v2/tmp' to 'v2/{divided}': one of them is a mount"
        yield Condition("store_divided", message, _NO_MOUNT, place)


def of_left(settings: Config, left: PassThrough) -> Iterator[Condition]:
    """What the end of a compile tells of the store that could not be seen before."""
    place = os.fspath(settings.dir)
    if left.reason == "store_full":  # it has room by now for all but that compile
        yield full(settings, left.detail)
    # `of_key` and `of_store` were told.
    elif (
        left.reason == "store"
        and not os.path.isdir(Confined(settings.dir).path(TMP))
        and not any((*of_key(settings), *of_store(settings)))
    ):
        yield Condition("store_not_writable", f"store '{place}': {left.detail}", _ELSEWHERE, place)


def of_new_store(settings: Config) -> Iterator[Condition]:
    """The same before any compile, but a directory is made for it, and removed: for the doctor."""
    error, place = faults.why_not_created(Confined(settings.dir)), os.fspath(settings.dir)
    if error:
        yield Condition("store_not_writable", f"store '{place}' cannot be created: {error.strerror}", _ELSEWHERE, place)


def full(settings: Config, message: str) -> Condition:
    return Condition("store_full", message, HINTS[faults.ERRORS[0]], os.fspath(settings.dir))


def locked(settings: Config, seconds: float) -> Condition:
    """A lock that did not come free."""
    place = os.fspath(settings.dir)
    message = f"could not get a lock of store '{place}' within {seconds:.0f} s"
    return Condition("locked", message, _LOCKED, place)


def owned_by_others(settings: Config) -> str:
    """The part of the store that belongs to another user, and so may become closed to one of the two at any time; empty
    if all is this user's."""
    confined = Confined(settings.dir)
    found = {path: _owner(path) for path in (confined.root, confined.base, *map(confined.path, _WRITTEN))}
    for directory in (BLOBS, ACTIONS, PACKS):
        with suppress(OSError):
            for name, status in sorted(confined.listing(directory)):
                found[confined.path(f"{directory}/{name}")] = status.st_uid
    owners = {path: owner for path, owner in found.items() if owner not in (None, os.geteuid())}
    if not owners:
        return ""
    path, owner = next(iter(owners.items()))
    more = f" (and {len(owners) - 1} more)" if len(owners) > 1 else ""
    return f"'{path}'{more} in the store belongs to {_user(owner or 0)}"


def of_native() -> Iterator[Condition]:
    try:
        native.load()
    except LibraryError as error:
        yield Condition("native", error.message, error.hint)


def _denied(place: str) -> tuple[str, str] | None:
    """Why nothing can be stored there, and what to do; None if it can. Nothing is created."""
    confined = Confined(place)
    if os.path.islink(confined.base):  # no link is followed below STORE
        return f"'{confined.base}' is a symbolic link: let '{place}' be one instead", _NO_LINK
    tmp, *others = map(confined.path, _WRITTEN)
    parts = [place, confined.base, tmp, *others]
    if os.path.islink(tmp):  # the next compile replaces it
        parts.remove(tmp)
    there = [path for path in parts if os.path.lexists(path)]
    nearest = place
    while not os.path.lexists(nearest):
        nearest = os.path.dirname(nearest)
    for path in there or [nearest]:
        if os.path.islink(path) and not os.path.exists(path):
            return f"the target of link '{path}', '{os.readlink(path)}', does not exist", _TARGET
        if not os.path.isdir(path):
            return f"'{path}' is not a directory", _WRITABLE
        if not os.access(path, os.W_OK | os.X_OK):
            return f"'{path}' {_owned(path)}", _REMOUNT if _is_read_only(path) else _WRITABLE
    return None


def _is_read_only(path: str) -> bool:
    with suppress(OSError):
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    return False


def _owned(path: str) -> str:
    if _is_read_only(path):
        return "is on a file system that is mounted read-only"
    try:
        status = os.stat(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    owner = "you" if status.st_uid == os.geteuid() else f"{_user(status.st_uid)}, and you are {_user(os.geteuid())}"
    return f"may not be written (mode {status.st_mode & 0o7777:04o}, owned by {owner})"


def _owner(path: str) -> int | None:
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None


def _user(number: int) -> str:
    import pwd

    try:
        return f"'{pwd.getpwuid(number).pw_name}'"
    except KeyError:
        return f"user {number}"


# Prints each condition once per build, however many compiles run at the same time.
#
# A build is the topmost build tool (ninja, make ...) among the ancestors of this process, within its session; else the
# topmost of all of them. Who makes the mark of a build and a condition says it: an empty file `said-BUILD-CONDITION` in
# the user's runtime directory, or wherever one can be made. It is not in the store, which may be what is broken.
#
# Rejected: process groups (ninja gives each compile its own), the parent (a shell of its own for each compile), the
# session alone (one terminal runs many builds).

_TOOLS = frozenset(["ninja", "ninja-build", "samu", "n2", "make", "gmake", "cmake", "ctest", "meson", "scons", "bazel"])
_GENERATIONS = 100
_HOUR = 3600
_OLD = 24 * _HOUR


def tell(those: Iterable[Condition], environ: Mapping[str, str]) -> None:
    """Say those that nobody has said yet in this build; they count as said now."""
    found = tuple(those)
    if found:
        build = build_of_this_process()
        text = "".join(
            f"hipcache: {condition}\n" for condition in found if is_first(condition.identity, environ, build)
        )
        with suppress(OSError):
            telling.say(text)


def follow_upkeep(config: Config, store: LocalStore) -> None:
    """Count what the store evicts, and note what it holds when it has been counted."""

    def note(size: int, entries: int) -> None:
        from hipcache.report import store_history  # once a day
        from hipcache.store import StoreSize

        store_history.record(config.dir, config.umask, StoreSize(size, entries, store.max_bytes), time.time)

    def evicted(entries: int, size: int) -> None:
        statistics.count(config.dir, statistics.EVICTED, {"entries": entries, "bytes": size}, config.umask)

    store.tell(evicted, note)


def tell_of_lock(config: Config, environ: Mapping[str, str], seconds: float) -> None:
    """Count a lock that did not come free within so many seconds, and say it, once in a build."""
    statistics.record_locked(config.dir, config.umask)
    tell([locked(config, seconds)], environ)


def is_first(identity: str, environ: Mapping[str, str], build: str = "") -> bool:
    """Has nobody in this build (or that of the name) asked that of this identity? Also true if no mark can be made:
    rather too often than never."""
    name = f"said-{build or build_of_this_process()}-{binascii.crc32(os.fsencode(identity)):08x}"
    for directory in places_for_marks(environ):
        try:
            os.close(os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
        except OSError:
            continue
        _sweep(directory)
        return True
    return True


def _sweep(directory: str) -> None:
    now = time.time()
    with suppress(OSError), os.scandir(directory) as found:
        for entry in found:
            if entry.name.startswith("said-"):
                with suppress(OSError):
                    if now - entry.stat(follow_symlinks=False).st_mtime > _OLD:
                        os.unlink(entry.path)


def build_of_this_process() -> str:
    """A name for the build that it is part of."""
    own = processes.find_process(os.getpid())
    if own is None:
        return f"session-{os.getsid(0)}-{int(time.time()) // _HOUR}"
    tool, top, process = None, own, processes.find_process(own.parent)
    for _ in range(_GENERATIONS):
        if process is None or process.session != own.session:
            break
        if process.name in _TOOLS:
            tool = process
        # The leader of a session with a terminal is the shell at which somebody types one command after the other.
        if process.number != process.session or not process.terminal:
            top = process
        process = processes.find_process(process.parent)
    if tool:
        return f"{tool.number}-{tool.started}"
    # It may live for weeks, and be no build at all.
    return f"{top.number}-{top.started}-{int(time.time()) // _HOUR}"
