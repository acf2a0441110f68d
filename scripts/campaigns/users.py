"""Users: two members of a group share a store, and one of them means harm to the other.

The store may be made to serve a wrong object: members trust each other for that, as SECURITY.md says. But no file of
the other one's outside of the store may be written, no program of the attacker's run, and no compile or verb hang.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import struct
import traceback
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from hipcache.store.local import LocalStore

from campaigns.limits import others_may_enter, place_of
from campaigns.place import Campaign, Finding, Place

GROUP, ATTACKER, VICTIM = 50_400, 50_418, 50_419
VERBS = (["stats"], ["gc"], ["clear"], ["explain", "k0.o"], ["verify"], ["doctor"])
# The same length as `work/k0.o` and `work/k0.d`, so that a path in any format can be exchanged.
INSTEAD = {"work/k0.o": "home/.b_l", "work/k0.d": "home/.p_f"}
HUGE = 1 << 40
_FLOCK = struct.Struct("hhqqi4x")


def links(place: Place, dice: Random) -> str:
    """Something of the store becomes a link to something of the victim's."""
    path = dice.choice([one for one in place.store.rglob("*") if not one.is_symlink()])
    home = place.root / "home"
    target = dice.choice([home / ".profile", home / "precious", home / ".bash_login", home / "new"])
    _remove(path)
    path.symlink_to(target)
    return f"link in the place of {path.relative_to(place.store)} to {target.name}"


def shards(place: Place, dice: Random) -> str:
    """A directory of entries that is one of the victim's: what lies in it looks like entries."""
    top = place.store / "v1" / dice.choice(["actions", "blobs", "history", "reports"])
    top.mkdir(exist_ok=True)
    name = dice.choice(["zz", "0a", *sorted(os.listdir(top))])
    _remove(top / name)
    (top / name).symlink_to(place.root / "home" / "precious")
    return f"link {top.name}/{name} to a directory of the victim's"


def leftovers(place: Place, dice: Random) -> str:
    """What upkeep sweeps: old files and directories in tmp/ that are links."""
    for name in ("put-0", "work-0", "new.0"):
        _remove(place.store / "v1" / "tmp" / name)
        (place.store / "v1" / "tmp" / name).symlink_to(place.root / "home" / "precious")
        os.utime(place.store / "v1" / "tmp" / name, (1, 1), follow_symlinks=False)
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
    canary.write_text(f'#!/bin/sh\necho ran >>{place.root}/shared/ran\nexec /usr/bin/clang-19 "$@"\n')
    canary.chmod(0o755)

    def changed(payload: bytes) -> bytes:
        try:
            text = zlib.decompress(payload)
        except zlib.error:
            return payload
        for program in (b"/usr/lib/llvm-19/bin/clang", b"/usr/lib/llvm-19/bin/lld"):
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
    locks,  # seldom: each wait lasts up to ten seconds (disk/locks.py)
)


class Users(Campaign):
    """Two users in a shared store: links, other outputs, other programs, FIFOs, huge files and locks of one of them."""

    name = "users"
    trials = 400

    def begin(self) -> None:
        place = self.place
        if os.geteuid() != 0:
            raise SystemExit("only root can become others")
        place.make(sources=1)
        place.root.chmod(0o755)
        if not all(map(others_may_enter, (place_of(place.launcher[0]), place.root))):
            raise SystemExit(f"'{place.launcher[0]}' or '{place.root}' lies where other users cannot enter")
        (place.root / "home" / "precious").mkdir()
        for name in ("file", "0" * 62, "f" * 64, "work-0"):
            (place.root / "home" / "precious" / name).write_text("of the victim's\n")
        (place.root / "shared").mkdir()
        place.store.mkdir()
        for top in (place.work, place.root / "home", place.root / "run", place.store, place.root / "shared"):
            _give(top, VICTIM)
        place.store.chmod(0o2770)
        (place.root / "shared").chmod(0o2777)
        known = place.run([*place.launcher, "config"], env={"HIPCACHE_UMASK": "002"}).status == 0
        self.env = {"HIPCACHE_UMASK": "002"} if known else {}
        for _ in range(3):
            place.compile(before=_victim, env=self.env)
        self.template = place.copy("template")

    def trial(self, number: int, dice: Random) -> None:
        place = self.place
        place.restore(self.template)
        self._tidy()
        _same_owners(self.template, place.store)
        attack = dice.choice(ATTACKS)
        self.tally[attack.__name__] += 1
        told, child = self._as_attacker(attack, dice)
        try:
            self._work(dice)
        except Finding as finding:
            raise Finding(f"{attack.__name__} ({told}): {finding}") from None
        finally:
            if child:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

    def _work(self, dice: Random) -> None:
        """The victim's: compiles and verbs. A wrong object is what members of a group trust each other for."""
        place = self.place
        for step in range(3):
            engine = {"HIPCACHE_LOG": "~/../shared/log"} if dice.random() < 0.4 else {}
            for path in (place.object_of(), place.object_of().with_suffix(".d")):
                path.unlink(missing_ok=True)
            ended = place.run(place.words(), before=_victim, env={**self.env, **engine})
            self._check()
            if ended.status != 0 or "Traceback" in ended.err:
                raise Finding(f"lost build: status {ended.status}: {ended.err.strip()[-300:]}")
            if not place.object_of().exists():
                raise Finding("lost build: no object")
            if step == 1:
                verb = dice.choice(VERBS)
                done = place.run([*place.launcher, *verb], before=_victim, env=self.env)
                if "Traceback" in done.err:
                    raise Finding(f"'hipcache {verb[0]}': {done.err[-300:]}")
            self._check()

    def _tidy(self) -> None:
        """What an earlier trial did to the victim's files."""
        home = self.place.root / "home"
        for path in home.iterdir():
            if path.name not in (".profile", "precious"):
                _remove(path)
        (home / ".profile").write_text("# the user's\n")
        _give(home, VICTIM)
        self.place.note_untouched()

    def _check(self) -> None:
        ran = self.place.root / "shared" / "ran"
        if ran.exists():
            ran.unlink()
            raise Finding("a program of the attacker's has run")
        self.place.check_untouched()

    def _as_attacker(self, attack: Callable[[Place, Random], str], dice: Random) -> tuple[str, int]:
        """What the attack did, and the process that holds locks (0: none)."""
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(told)
                _become(ATTACKER)
                os.write(tell, attack(self.place, dice).encode())
                os.close(tell)
                if attack is locks:
                    signal.pause()
                os._exit(0)
            except PermissionError as refused:
                os.write(tell, f"refused: {refused}".encode())
            except BaseException:
                os.write(tell, b"FAILED " + traceback.format_exc().encode()[-500:])
            finally:
                os._exit(1)
        os.close(tell)
        with open(told, "rb") as said:
            text = said.read().decode()
        if text.startswith("FAILED"):
            os.waitpid(child, 0)
            raise Finding(f"the attack itself fails: {text}")
        if attack is locks and text == HELD:
            return text, child
        os.waitpid(child, 0)
        return text, 0


def _victim() -> None:
    _become(VICTIM)


def _become(user: int) -> None:
    os.setgroups([GROUP])
    os.setgid(GROUP)
    os.setuid(user)
    os.umask(0o002)


def _edit(place: Place, change: Callable[[bytes], bytes]) -> int:
    """Rewrite records so that every digest is right; how many there were."""
    store = LocalStore(place.store, max_bytes=0)
    edited = 0
    for path in (place.store / "v1" / "actions").glob("*/*"):
        key = path.parent.name + path.name
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
    for path in (place.store / "v1" / "actions").glob("*/*"):
        if os.fsencode(place.object_of()) in path.read_bytes():
            path.unlink()
    return ""


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _give(top: Path, user: int) -> None:
    os.chown(top, user, GROUP)
    for path in top.rglob("*"):
        os.lchown(path, user, GROUP)


def _same_owners(model: Path, copy: Path) -> None:
    for one in (model, *model.rglob("*")):
        other = copy / one.relative_to(model)
        found = os.lstat(one)
        os.lchown(other, VICTIM, GROUP)
        os.chmod(other, found.st_mode & 0o7777)
