"""Another process at a store, for tests: `store_worker.py ROOT MAX_BYTES VERB [SEED]`. It says "ready" and begins.

fill     put entries until it is killed
mix      put and get 150 entries; a wrong byte ends it with an error
hold     hold the lock of KEY until standard input ends
take     take the lock of KEY, say whether it had to wait
work     stay in a work directory until standard input ends; says its path
big      put 100 KB while no file may exceed 10 KB
"""

from __future__ import annotations

import random
import resource
import sys
from pathlib import Path

from hipcache.base.errors import StoreError
from hipcache.store import ledger
from hipcache.store.local import LocalStore

KEY = "0123456789abcdef" * 4
NAMES = 30


def say(*words: object) -> None:
    print(*words, flush=True)


def content(name: int, version: int) -> bytes:
    """Every byte follows from the first two, so that a mixture of two contents is seen."""
    return bytes([name, version]) + bytes([name ^ version]) * (name * version * 20)


def is_content(found: bytes) -> bool:
    return found == content(found[0], found[1])


def put_one(store: LocalStore, dice: random.Random) -> None:
    name, version = dice.randrange(NAMES), dice.randrange(256)
    blob = store.put_blob(content(name, version))
    store.put_action(f"{name:064x}", content(name, version))
    copied = store.get_blob(blob)
    assert copied is None or copied == content(name, version)


def get_one(store: LocalStore, dice: random.Random) -> None:
    found = store.get_action(f"{dice.randrange(NAMES):064x}")
    assert found is None or is_content(found)


def main(root: str, max_bytes: str, verb: str, seed: str = "0") -> None:
    # Without its lock counts get lost, and on a busy machine whoever holds it may stand still for seconds.
    ledger._PATIENCE = 60
    store = LocalStore(Path(root), max_bytes=int(max_bytes))
    dice = random.Random(int(seed))
    say("ready")
    if verb == "fill":
        while True:
            put_one(store, dice)
    elif verb == "mix":
        for _ in range(150):
            put_one(store, dice)
            get_one(store, dice)
    elif verb == "hold":
        with store.lock(KEY):
            say("held")
            sys.stdin.read()
    elif verb == "take":
        with store.lock(KEY) as waited:
            say(waited)
    elif verb == "work":
        with store.workdir() as directory:
            (directory / "a.o").write_bytes(b"x" * 10_000)
            say(directory)
            sys.stdin.read()
    elif verb == "big":
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        try:
            store.put_blob(b"x" * 100_000)
        except StoreError as error:
            say(error.message)
            say(error.hint)


if __name__ == "__main__":
    main(*sys.argv[1:])
