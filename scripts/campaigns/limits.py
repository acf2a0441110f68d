"""Limits of the process: whatever plain clang manages under a limit, hipcache manages, too."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from campaigns.misfortune import Campaign
from campaigns.place import Ended, Finding

K, M = 1 << 10, 1 << 20
# What is limited, and what it is limited to: from much too little to more than enough.
LIMITS: dict[str, tuple[int, tuple[int, ...]]] = {
    "open files": (resource.RLIMIT_NOFILE, (3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64)),
    "stack": (resource.RLIMIT_STACK, (16 * K, 64 * K, 96 * K, 128 * K, 192 * K, 256 * K, 512 * K, 1 * M, 8 * M)),
    "memory": (resource.RLIMIT_AS, (10 * M, 50 * M, 100 * M, 200 * M, 300 * M, 500 * M, 700 * M, 1000 * M, 4000 * M)),
    "file size": (resource.RLIMIT_FSIZE, (0, 1, 512, 1 * K, 4 * K, 8 * K, 16 * K, 64 * K, 1 * M)),
    "processes": (resource.RLIMIT_NPROC, (0, 1, 2, 3, 4, 5, 6, 8, 10, 16)),
    "processor time": (resource.RLIMIT_CPU, (1, 2)),
    "core": (resource.RLIMIT_CORE, (0,)),
    "locked memory": (resource.RLIMIT_MEMLOCK, (0,)),
}
# Nobody else's: the limit of processes counts those of a user, and root has none.
USER = 50_417


class Limits(Campaign):
    """ulimit -n, -s, -v, -f, -u and -t: where plain clang makes an object, so does hipcache; else it fails as that."""

    name = "limits"
    trials = 400

    def begin(self) -> None:
        super().begin()
        self.place.root.chmod(0o755)
        self.plain: dict[tuple[str, int], int] = {}
        programs = (place_of(self.place.launcher[0]), self.place.root)
        self.becomes_others = os.geteuid() == 0 and all(map(others_may_enter, programs))

    def trial(self, number: int, dice: Random) -> None:
        place = self.place
        what = dice.choice([name for name in LIMITS if self.becomes_others or name != "processes"])
        which, values = LIMITS[what]
        value = dice.choice(values)
        if dice.random() < 0.5:
            place.restore(place.template)
        else:
            place.restore_cold(dice)
        as_user = what == "processes"
        if as_user:
            place.store.mkdir(exist_ok=True)
            for top in (place.store, place.work, place.root / "home", place.root / "run"):
                _give(top, USER)
        try:
            self._compare(what, which, value, as_user)
        finally:
            if as_user:
                for top in (place.work, place.root / "home", place.root / "run"):
                    _give(top, 0)

    def _compare(self, what: str, which: int, value: int, as_user: bool) -> None:
        place, words = self.place, self.place.words()
        before = _limited(which, value, USER if as_user else 0)
        if (what, value) not in self.plain:
            self.plain[what, value] = self._run(words[len(place.launcher) :], before).status
        plain = self.plain[what, value]
        mine = self._run(words, before)
        self.tally[f"{what}: clang {'works' if plain == 0 else 'fails'}"] += 1
        if plain == 0 and mine.status != 0:
            raise Finding(f"{what} {value}: clang works, hipcache ends with {mine.status}: {mine.err.strip()[-300:]}")
        if mine.status == 0:
            place.check_object("k0.hip", must=True)
        if "Traceback" in mine.err:
            raise Finding(f"{what} {value}: {mine.err.strip()[-300:]}")

    def _run(self, words: list[str], before: Callable[[], None]) -> Ended:
        self.place.object_of().unlink(missing_ok=True)
        return self.place.run(words, before=before)


def place_of(program: str) -> Path:
    return Path(shutil.which(program) or program).resolve().parent


def others_may_enter(directory: Path) -> bool:
    """Other users, for whom the directories of a test are closed."""
    return all(one.stat().st_mode & 0o001 for one in (directory, *directory.parents))


def _limited(which: int, value: int, user: int) -> Callable[[], None]:
    def before() -> None:
        if user:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        resource.setrlimit(which, (value, value))

    return before


def _give(top: Path, user: int) -> None:
    for directory, _, names in os.walk(top):
        shutil.chown(directory, user, user)
        for name in names:
            os.lchown(f"{directory}/{name}", user, user)
