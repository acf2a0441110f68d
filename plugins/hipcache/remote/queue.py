"""What is to be uploaded: a queue on disk, in the store, so that a build that ends at once loses nothing.

`v1/remote/` has a file for each compile that has stored something, `item-NANOSECONDS-RANDOM`, put there by rename: JSON
{"keys": [key, ...], "next": [key, ...]}. `keys` are those of the records that it has stored, `next` all that it has
asked for. The records and contents themselves are in the store, as long as they are not evicted. An item leaves when
all remotes that may be written have it. The queue has at most MOST items: from then on nothing is added.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Collection, Sequence
from contextlib import suppress

from hipcache.disk.confined import Confined
from hipcache.values import dataclass

DIRECTORY = "remote"
MOST = 10_000
# What a helper is told of something new.
TOLD = b'{"op": "upload"}\n'
_ITEM = "item-"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Item:
    """`name`: of its file."""

    name: str
    keys: tuple[str, ...]
    next: tuple[str, ...]


def add(store: Confined, keys: Sequence[str], following: Sequence[str]) -> bool:
    """False where it could not be written, or there are too many."""
    name = f"{DIRECTORY}/{_ITEM}{time.time_ns():020d}-{os.urandom(6).hex()}"
    new = f"{DIRECTORY}/new-{os.urandom(12).hex()}"
    content = json.dumps({"keys": list(keys), "next": list(following)}).encode()
    try:
        if len(content) > _MOST_BYTES or (os.urandom(1)[0] < 8 and len(names(store)) >= MOST):
            return False
        try:
            store.write(new, content)
        except (FileNotFoundError, NotADirectoryError):
            store.make((DIRECTORY,))
            store.write(new, content)
        store.rename(new, name)
    except OSError:
        store.remove(new)
        return False
    return True


def names(store: Confined) -> list[str]:
    """Of the files, the oldest first. Raises OSError."""
    found = store.listing(DIRECTORY)
    return sorted(last for last, status in found if last.startswith(_ITEM) and stat.S_ISREG(status.st_mode))


def read(store: Confined, most: int, but: Collection[str] = ()) -> list[Item]:
    """The oldest items, but those; what does not read is removed. Raises OSError."""
    found = []
    for name in [name for name in names(store) if name not in but][:most]:
        try:
            data = json.loads(store.read(f"{DIRECTORY}/{name}", _MOST_BYTES))
            keys, following = tuple(data["keys"]), tuple(data["next"])
            if not all(_is_key(one) for one in (*keys, *following)):
                raise ValueError("no keys")
            found.append(Item(name, keys, following))
        except (ValueError, TypeError, KeyError, RecursionError):
            remove(store, name)
        except OSError:
            continue
    return found


def remove(store: Confined, name: str) -> None:
    with suppress(OSError):
        store.unlink(f"{DIRECTORY}/{name}")


def _is_key(text: object) -> bool:
    return isinstance(text, str) and len(text) == 64 and not text.strip("0123456789abcdef")
