"""Full disks: a store on a small file system that runs out of blocks or of inodes."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from random import Random

from campaigns.misfortune import Campaign
from campaigns.place import Finding

SIZES = ("16k", "64k", "128k", "256k", "512k", "1m", "4m")
INODES = (2, 4, 8, 12, 16, 20, 24, 32, 48, 64)


class Disks(Campaign):
    """A store whose disk is full, or has no inodes left, from the beginning or from some moment on."""

    name = "disks"
    trials = 300
    sources = 2

    def begin(self) -> None:
        if os.geteuid() != 0:
            raise SystemExit("only root can mount a small file system")
        super().begin()

    def trial(self, number: int, dice: Random) -> None:
        place, store = self.place, self.place.store
        place.restore(None)
        store.mkdir()
        blocks = dice.random() < 0.5
        limit = f"size={dice.choice(SIZES)}" if blocks else f"nr_inodes={dice.choice(INODES)}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", limit, "tmpfs", store], check=True)
        try:
            if dice.random() < 0.8:
                self._know(store)
            full = self._fill(store, dice, blocks)
            self.tally[f"{'blocks' if blocks else 'inodes'}{' filled up' if full else ''}"] += 1
            for _ in range(3):
                source = dice.choice(sorted(place.golden))
                place.compile(source, resident=dice.random() < 0.3)
                if dice.random() < 0.3:
                    self._fill(store, dice, blocks)
            if dice.random() < 0.3:
                self.verb([dice.choice(["stats", "gc", "clear", "verify", "doctor"])])
            place.check_untouched()
        except Finding as finding:
            raise Finding(f"{limit}: {finding}") from None
        finally:
            subprocess.run(["umount", "-l", store], check=True)

    def _know(self, store: Path) -> None:
        """The compiler's digest, as far as there is room for it."""
        assert self.place.known
        with suppress(OSError, shutil.Error):
            shutil.copytree(self.place.known, store, dirs_exist_ok=True)

    def _fill(self, store: Path, dice: Random, blocks: bool) -> bool:
        """Something else takes what there is, or some of it."""
        if dice.random() < 0.3:
            return False
        number = len(os.listdir(store))
        with suppress(OSError):
            for one in range(dice.choice([1, 8, 100])):
                with (store / f"other-{number}-{one}").open("wb", buffering=0) as file:
                    file.write(bytes(dice.choice([100, 4096, 1 << 16, 1 << 22]) if blocks else 0))
        return True
