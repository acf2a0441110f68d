"""A lab beside a launcher whose engine only says that it was started: whatever it compiles is a direct hit."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hip import LAUNCHER, Lab
from hipcache.app.front import Compiled
from hipcache.build.context import Context
from hipcache.config import Config, watched_paths
from hipcache.direct.provenance import Provenance
from hipcache.direct.record import key
from hipcache.direct.remember import remember
from hipcache.report.history import History
from hipcache.store.local import LocalStore

VALUE = (
    '#include "value.hpp"\nextern "C" __global__ void kernel(int* p) { p[0] = VALUE; }\nint host() { return VALUE; }\n'
)


@pytest.fixture
def direct(lab: Lab, tmp_path: Path) -> Direct:
    lab.write("value.hpp", '#include "hip_in_short.hpp"\n#define VALUE 1\n')
    lab.write("k.hip", VALUE + '#if __has_include("value.h")\n#endif\n')
    return Direct(lab, tmp_path / "alone")


class Direct:
    """A lab, and the launcher with an engine that only says that it was started."""

    def __init__(self, lab: Lab, place: Path) -> None:
        self.lab = lab
        place.mkdir()
        shutil.copy(LAUNCHER[0], place)
        self.program = place / "hipcache"
        (place / "hipcache-engine").write_text("#!/bin/sh\nexit 99\n")
        (place / "hipcache-engine").chmod(0o755)

    def ask(self, *flags: str, env: dict[str, str] | None = None) -> bool:
        """Is the compile a direct hit? Nothing is compiled where it is none."""
        (self.lab.root / "out.o").unlink(missing_ok=True)
        ended = self.lab.run([str(self.program), *self.lab.words(*flags)], env=env)
        assert ended.status in (0, 99), ended.err
        assert (self.lab.root / "out.o").exists() == (ended.status == 0)
        self.lab.counted()
        return ended.status == 0

    def ask_with_wrong_records(self, seed: int) -> None:
        """Each has a few other bytes than the record of the compile, and a right digest."""
        lab, dice = self.lab, random.Random(seed)
        store = LocalStore(lab.store, max_bytes=0)
        name = key(lab.words(), str(lab.root))
        payload = store.get_action(name) or b""
        for _ in range(150):
            raw = bytearray(payload)
            while bytes(raw) == payload:
                for _ in range(dice.randrange(1, 4)):
                    raw[dice.randrange(len(raw))] = dice.choice([0, 1, 0x7F, 0xFF, dice.randrange(256)])
            store.put_action(name, bytes(raw))
            ended = lab.run([str(self.program), *lab.words()])
            assert ended.status in (0, 99), (ended.status, bytes(raw))

    def record(self, *flags: str) -> Path:
        """The file of the record of a compile."""
        name = key(self.lab.words(*flags), str(self.lab.root))
        return self.lab.store / "v2/actions" / name


def remembered(
    direct: Direct, context: Context, done: Compiled, system: Sequence[str] = (), flags: Sequence[str] = ()
) -> str:
    """Why no record of the lab's compile could be kept just now, in place of one that may be there. `system`:
    directories of what is not worked on."""
    lab, provenance = direct.lab, done.provenance
    assert isinstance(provenance, Provenance), provenance
    return remember(
        context,
        lab.words(*flags),
        str(lab.root),
        lab.environ,
        provenance,
        messages=b"",
        terminal=False,
        ended=[done.outcome],
        history=[History.name(done.record)],
        settings=watched_paths(Config(dir=lab.store), lab.environ),
        system=system,
    )


def anew(lab: Lab) -> None:
    """All files of the lab again, in their places: other files and directories with the same names and contents."""
    old, copy = lab.root.with_name("old"), lab.root.with_name("copy")
    shutil.copytree(lab.root, copy, symlinks=True, copy_function=shutil.copy)
    lab.root.rename(old)
    copy.rename(lab.root)
    shutil.rmtree(old)


def served_twice(direct: Direct, *flags: str) -> None:
    """By content, and then by the state that was noted: nothing is noted again."""
    assert direct.ask(*flags)
    noted = direct.record(*flags).stat().st_ino
    assert direct.ask(*flags)
    assert direct.record(*flags).stat().st_ino == noted


def at_once(number: int, task: Callable[[], None]) -> None:
    threads = [threading.Thread(target=task) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
