"""A store that lies: every digest on the way to a wrong object is right."""

from __future__ import annotations

from pathlib import Path

from blake3 import blake3
from hipcache.store.local import LocalStore


def record(digest: str) -> bytes:
    """Of an action whose one output that is."""
    return f'{{"outputs":["{digest}"],"passing":[],"text":"","seconds":0.0}}'.encode()


def poison(directory: Path, served: bytes) -> bytes:
    """What the store serves from now on in the place of `served`, by the engine and directly."""
    store = LocalStore(directory, max_bytes=0)
    wrong = served[:-9] + b"POISONED\0"
    old, new = blake3(served).hexdigest(), store.put_blob(wrong)
    found = 0
    for name in store.names("actions"):
        payload = store.get_action(name)
        if payload and payload.startswith(record(old)[:70]):
            store.put_action(name, record(new))
            found += 1
        elif payload and bytes.fromhex(old) in payload:
            store.put_action(name, payload.replace(bytes.fromhex(old), bytes.fromhex(new)))
            found += 1
    assert found == 2, "the object's record, and the whole compile's"
    return wrong
