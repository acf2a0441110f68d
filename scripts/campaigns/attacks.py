"""What a member of a group does to the store that another one uses."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from hip_toolchain import chosen
from hipcache.store.local import LocalStore

from campaigns.place import Place

LLVM = chosen()[-1].root

# The same length as `work/k0.o` and `work/k0.d`, so that a path in any format can be exchanged.
INSTEAD = {"work/k0.o": "home/.b_l", "work/k0.d": "home/.p_f"}
HUGE = 1 << 40
_FLOCK = struct.Struct("hhqqi4x")


def links(place: Place, dice: Random) -> str:
    """Something of the store becomes a link to something of the victim's."""
    path = dice.choice([one for one in place.store.rglob("*") if not one.is_symlink()])
    home = place.root / "home"
    target = dice.choice([home / ".profile", home / "precious", home / ".bash_login", home / "new"])
    remove(path)
    path.symlink_to(target)
    return f"link in the place of {path.relative_to(place.store)} to {target.name}"


def shards(place: Place, dice: Random) -> str:
    """A directory of entries that is one of the victim's: what lies in it looks like entries."""
    top = place.store / "v2" / dice.choice(["actions", "blobs", "packs", "history", "reports"])
    top.mkdir(exist_ok=True)
    name = dice.choice(["zz", "0a", *sorted(os.listdir(top))])
    remove(top / name)
    (top / name).symlink_to(place.root / "home" / "precious")
    return f"link {top.name}/{name} to a directory of the victim's"


def leftovers(place: Place, dice: Random) -> str:
    """What upkeep sweeps: old files and directories in tmp/ that are links."""
    for name in ("put-0", "work-0", "new.0"):
        remove(place.store / "v2" / "tmp" / name)
        (place.store / "v2" / "tmp" / name).symlink_to(place.root / "home" / "precious")
        os.utime(place.store / "v2" / "tmp" / name, (1, 1), follow_symlinks=False)
    return "links among the leftovers"


def outputs(place: Place, dice: Random) -> str:
    """Records of whole compiles that name other files to be written."""
    edited = _edit(place, lambda payload: _other_paths(payload, place))
    return f"other outputs in {edited} records"


def names(place: Place, dice: Random) -> str:
    """Records of whole compiles that name other files to be touched: paths with `../` of the same length."""
    there = os.fsencode("../" * 8 + str(place.root / "home" / ".profile").lstrip("/"))

    def changed(payload: bytes) -> bytes:
        at = payload.find(b"history/")
        end = payload.find(b"\0", at)
        if at < 0 or end < 0 or len(there) > end - at:
            return payload
        return payload[:at] + there.rjust(end - at, b"/") + payload[end:]

    return f"other names in {_edit(place, changed)} records"


def plans(place: Place, dice: Random) -> str:
    """Remembered plans that name a program of the attacker's."""
    canary = place.root / "shared" / "canary"
    canary.write_text(f'#!/bin/sh\necho ran >>{place.root}/shared/ran\nexec {LLVM}/bin/clang "$@"\n')
    canary.chmod(0o755)

    def changed(payload: bytes) -> bytes:
        try:
            text = zlib.decompress(payload)
        except zlib.error:
            return payload
        for program in (os.fsencode(LLVM / "bin/clang"), os.fsencode(LLVM / "bin/lld")):
            text = text.replace(b'"' + program, b'"' + os.fsencode(canary))
        return zlib.compress(text, 1)

    return f"other programs in {_edit(place, changed)} records; the rest is gone{_forget_whole(place)}"


def fifos(place: Place, dice: Random) -> str:
    path = dice.choice([one for one in place.store.rglob("*") if one.is_file()])
    path.unlink()
    os.mkfifo(path)
    return f"FIFO in the place of {path.relative_to(place.store)}"


def huge(place: Place, dice: Random) -> str:
    path = dice.choice([one for one in place.store.rglob("*") if one.is_file()])
    os.truncate(path, HUGE)
    return f"{path.relative_to(place.store)} of a terabyte"


def everywhere(place: Place, dice: Random) -> str:
    """The same for all files of the store."""
    change = dice.choice(["fifo", "huge", "link"])
    for path in [one for one in place.store.rglob("*") if one.is_file() and not one.is_symlink()]:
        if change == "huge":
            os.truncate(path, HUGE)
            continue
        path.unlink()
        if change == "fifo":
            os.mkfifo(path)
        else:
            path.symlink_to(place.root / "home" / ".profile")
    return f"{change} for every file"


def locks(place: Place, dice: Random) -> str:
    """Read locks, and the locks of statistics, held for as long as the victim works."""
    for path in [one for one in place.store.rglob("*") if one.is_file() and "blobs" not in str(one)]:
        fd = os.open(path, os.O_RDONLY)
        with suppress(OSError):
            kind = fcntl.F_RDLCK if dice.random() < 0.7 else fcntl.F_WRLCK
            if kind == fcntl.F_WRLCK:
                fd = os.open(path, os.O_RDWR)
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return HELD


HELD = "locks held"
ATTACKS: tuple[Callable[[Place, Random], str], ...] = (
    *(links, links, shards, leftovers, outputs, names, plans, fifos, huge, everywhere) * 3,
    locks,  # seldom: each wait lasts up to ten seconds (base/locks.py)
)


def _edit(place: Place, change: Callable[[bytes], bytes]) -> int:
    """Rewrite records so that every digest is right; how many there were."""
    store = LocalStore(place.store, max_bytes=0)
    edited = 0
    for path in (place.store / "v2" / "actions").glob("*"):
        key = path.name
        payload = store.get_action(key)
        changed = change(payload) if payload else payload
        if changed and changed != payload:
            store.put_action(key, changed)
            edited += 1
    return edited


def _other_paths(payload: bytes, place: Place) -> bytes:
    for old, new in INSTEAD.items():
        payload = payload.replace(os.fsencode(place.root / old), os.fsencode(place.root / new))
    return payload


def _forget_whole(place: Place) -> str:
    """So that the plans are asked for."""
    for path in (place.store / "v2" / "actions").glob("*"):
        if os.fsencode(place.object_of()) in path.read_bytes():
            path.unlink()
    return ""


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
