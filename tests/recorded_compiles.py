"""Records of compiles that never ran, and what `hipcache explain` tells of them."""

from __future__ import annotations

import io
from pathlib import Path

from hipcache import cli
from hipcache.report.history import History, Record, UnitRecord
from hipcache.store.local import LocalStore


def record(end: str, *units: UnitRecord, reason: str = "", detail: str = "", notes: tuple[str, ...] = ()) -> Record:
    return Record("/b/k.o", 0.0, ("clang++", "-c", "k.hip"), "/b", end, reason, detail, notes, {}, units)


def unit(name: str, *why: str, hit: bool = False, back: bool | None = None) -> UnitRecord:
    return UnitRecord(name, hit, not why, back, why, (), "")


def shown(
    tmp_path: Path, records: list[Record], *words: str, asked: str = "explain", status: int = 0, **environ: str
) -> str:
    """What the subcommand `asked` prints, with those records in the store besides what is there."""
    history = History(LocalStore(tmp_path / "store", max_bytes=0).notes())
    assert all(history.save(one) for one in records)
    out, err = io.StringIO(), io.StringIO()
    known = {"HOME": str(tmp_path), "HIPCACHE_DIR": str(tmp_path / "store"), **environ}
    assert cli.run([asked, *words], known, out, err) == status, err.getvalue()
    return out.getvalue() + err.getvalue()


def checkouts() -> list[Record]:
    """Two, of the same 5 objects in 2 targets each."""
    made = []
    for when, top in enumerate(("/a", "/b")):
        for number in range(5):
            path = f"{top}/build/CMakeFiles/kernels{number % 2}.dir/k{number}.o"
            why = "file '/a/x.hip' changed" if number < 3 else "first compile of this object with this store"
            command = ("clang++", "-c", f"{top}/src/k{number}.hip")
            units = (unit("gfx906", why), unit("host", hit=True))
            made.append(Record(path, 1.0 + when, command, f"{top}/build", "miss", "", "", (), {}, units))
    return made
