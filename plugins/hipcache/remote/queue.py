"""What is to be uploaded: a queue on disk, in the store, so that a build that ends at once loses nothing.

`v2/remote/` has a file for each compile that has stored something, `item-NANOSECONDS-DESTINATION-RANDOM`, put there by
rename. Users of one store may name different remotes at the same time, or another one from now on, while a helper of
the one before still lives: a helper takes what is for its own destination (see `place`), and removes what is for
another and older than seven days. Files of earlier versions have no DESTINATION, and are anybody's. Each is JSON
{"keys": [key, ...], "next": [key, ...], "anew": bool}. `keys` are those of the records that it has stored, `next` all
that it has asked for; `anew`, if it is there: contents go out though the remote has them. The records and contents
themselves are in the store, as long as they are not evicted. An item leaves when all remotes that may be written have
it. A destination has at most MOST items: from then on nothing is added.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Collection, Sequence
from contextlib import suppress

from hipcache.base.keys import is_digest
from hipcache.base.values import dataclass
from hipcache.store.confined import Confined, Strange

DIRECTORY = "remote"
MOST = 10_000
# What a helper is told of something new.
TOLD = b'{"op": "upload"}\n'
_ITEM, _NEW = "item-", "new-"
_MOST_BYTES = 1 << 20
_DAYS = 7


@dataclass(frozen=True)
class Item:
    """`name`: of its file."""

    name: str
    keys: tuple[str, ...]
    next: tuple[str, ...]
    anew: bool = False


def add(store: Confined, keys: Sequence[str], following: Sequence[str], to: str = "", *, anew: bool = False) -> bool:
    """False where it could not be written, or there are too many. `to`: the destination; empty: any."""
    middle = f"{to}-" if to else ""
    name = f"{DIRECTORY}/{_ITEM}{time.time_ns():020d}-{middle}{os.urandom(6).hex()}"
    new = f"{DIRECTORY}/{_NEW}{os.urandom(12).hex()}"
    more = {"anew": True} if anew else {}
    content = json.dumps({"keys": list(keys), "next": list(following), **more}).encode()
    try:
        if len(content) > _MOST_BYTES or (os.urandom(1)[0] < 8 and len(names(store, to)) >= MOST):
            return False
        try:
            store.replace(name, content, new)
        except (FileNotFoundError, NotADirectoryError):
            store.make((DIRECTORY,))
            store.replace(name, content, new)
    except OSError:
        return False
    return True


def names(store: Confined, to: str = "") -> list[str]:
    """Of the files for that destination, the oldest first; without one, of all. Raises OSError."""
    found = sorted(last for last, status in store.listing(DIRECTORY) if _is_item(last, status))
    return [name for name in found if _is_for(name, to)] if to else found


def drop_old(store: Confined, to: str) -> None:
    """What nobody has fetched for days, and is for another destination; or was never finished. Raises OSError."""
    oldest = time.time_ns() - _DAYS * 86400 * 10**9
    before = f"{_ITEM}{oldest:020d}"
    for name in names(store):
        if name < before and not _is_for(name, to):
            remove(store, name)
    for name, status in store.listing(DIRECTORY):
        if name.startswith(_NEW) and status.st_mtime_ns < oldest:
            remove(store, name)


def empty(store: Confined) -> None:
    """Remove all: the records that they name are gone. Raises nothing."""
    with suppress(OSError):
        for name, _ in store.listing(DIRECTORY):
            if name.startswith((_ITEM, _NEW)):
                remove(store, name)


def _is_item(name: str, status: os.stat_result) -> bool:
    return name.startswith(_ITEM) and stat.S_ISREG(status.st_mode)


def _is_for(name: str, to: str) -> bool:
    parts = name.removeprefix(_ITEM).split("-")
    return len(parts) < 3 or parts[1] == to


def read(store: Confined, most: int, but: Collection[str] = (), to: str = "") -> tuple[list[Item], set[str]]:
    """The oldest items for that destination, but those; and the names of those that cannot be read (another user's, or
    the disk fails). An item that is none is removed. Raises OSError."""
    found: list[Item] = []
    unreadable = set()
    for name in names(store, to):
        if name in but or len(found) >= most:
            continue
        try:
            data = json.loads(store.read(f"{DIRECTORY}/{name}", _MOST_BYTES))
            keys, following = tuple(data["keys"]), tuple(data["next"])
            if not all(is_digest(digest) for digest in (*keys, *following)):
                raise ValueError("no keys")
            found.append(Item(name, keys, following, data.get("anew") is True))
        except (Strange, ValueError, TypeError, KeyError, RecursionError):
            remove(store, name)
        except FileNotFoundError:
            continue
        except OSError:
            unreadable.add(name)
    return found, unreadable


def remove(store: Confined, name: str) -> None:
    with suppress(OSError):
        store.unlink(f"{DIRECTORY}/{name}")
