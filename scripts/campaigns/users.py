"""Users: two members of a group share a store, and one of them means harm to the other.

The store may be made to serve a wrong object: members trust each other for that, as SECURITY.md says. But no file of
the other one's outside of the store may be written, no program of the attacker's run, and no compile or verb hang.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

from campaigns.attacks import ATTACKS, HELD, locks, remove
from campaigns.limits import others_may_enter, place_of
from campaigns.misfortune import Campaign
from campaigns.place import Finding, Place

GROUP, ATTACKER, VICTIM = 50_400, 50_418, 50_419
VERBS = (["stats"], ["gc"], ["clear"], ["explain", "k0.o"], ["verify"], ["doctor"])


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
                remove(path)
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
