"""What is measured: the rows of the table, each something that happens to a project between two builds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workload import COMMENT, DEVICE_IF, HEADER, HOST, Architectures

ALL, SMALLEST, MIDDLE = "all", "smallest", "middle"
PROGRAMS, ROCPRIM = "programs", "rocprim"


@dataclass(frozen=True)
class Row:
    """One measured build of each tool, after the row before it, with the store that this one left.

    `empty`: the store is emptied before; `headers`: but precompiled headers of an earlier project are there. `before`:
    builds the project as it was, in its first place, unmeasured. `archs`: a set of `Architectures`. `sources`: all, the
    smallest, or that of the middle size. `same_as`: a row in which plain clang makes the same objects with the same
    work, so that it need not build again. `group`: rows that need the store of the group's first row. `renewed`: all
    files of the project are new. `unpacked`: the store comes from an archive, in another place. `limit`: at most this
    share of plain clang's CPU time, or by the clock (`wall`).
    """

    name: str
    title: str
    group: str = "project"
    workload: str = PROGRAMS
    sources: str = ALL
    archs: str = "base"
    edit: str = ""
    version: str = "1"
    empty: bool = False
    headers: bool = False
    before: bool = False
    place: str = "project"
    renewed: bool = False
    unpacked: bool = False
    base_dir: bool = False
    same_as: str = ""
    limit: float | None = 1.12
    wall: bool = False
    takes: int = 1
    on_request: bool = False


def _edits(count: int) -> tuple[Row, ...]:
    first = Row("edit-0", "one source, empty store", "edits", sources=MIDDLE, empty=True, wall=True)
    later = replace(first, empty=False, limit=0.45)
    return first, *(
        replace(later, name=f"edit-{number}", title=f"its host edit {number}", edit=f"{HOST} {number}")
        for number in range(1, count + 1)
    )


#: In the order in which they are measured.
ROWS = (
    Row("cold", "cold, {base} architectures", empty=True, limit=0.72),
    Row("cold-headers", "the same after another project", empty=True, headers=True, limit=0.72),
    Row("warm", "nothing changed", same_as="cold", takes=3),
    Row("again", "fresh clone in the same directory", renewed=True, same_as="cold"),
    Row("unpacked", "the same, with the store from an archive", renewed=True, unpacked=True, same_as="cold"),
    Row("added", "one architecture added to {base}", archs="more", limit=0.2),
    Row("host", "host-only edit of all", edit=HOST, limit=0.55),
    Row("clone", "fresh clone in another directory", place="clone", renewed=True),
    Row("few", "{few} of the architectures", archs="few"),
    Row("host-again", "second host-only edit of all", edit=f"{HOST} 2", limit=0.55),
    Row("comment", "comment line inserted in every source", edit=COMMENT, limit=0.25),
    Row("header", "comment line inserted in a header of all", edit=HEADER, same_as="cold", limit=0.25),
    Row("version", "another -DGIT_SHA= on each command line", version="2", same_as="cold", limit=0.25),
    Row("version-again", "yet another -DGIT_SHA=", version="3", same_as="cold", limit=0.25),
    Row("device-if", "edit in one architecture's #if", edit=DEVICE_IF, on_request=True),
    Row(
        "clone-base-dir",
        "fresh clone in another directory, base directory set",
        "base-dir",
        empty=True,
        before=True,
        place="clone",
        renewed=True,
        base_dir=True,
        same_as="clone",
    ),
    Row("many", "cold, {many} architectures", "many", archs="many", empty=True, same_as="chosen", limit=None),
    Row("small", "cold, the smallest source alone", "small", sources=SMALLEST, empty=True),
    *_edits(7),
    Row("rocprim", "cold, four sources of rocPRIM", "rocprim", workload=ROCPRIM, empty=True, limit=1.03),
)
NAMES = tuple(row.name for row in ROWS)
USUAL = tuple(row.name for row in ROWS if not row.on_request)


def titled(rows: Sequence[Row], archs: Architectures) -> list[Row]:
    """The rows with the numbers of architectures in their titles."""
    counts = {name: len(archs.of(name)) for name in ("base", "few", "many")}
    return [replace(row, title=row.title.format(**counts)) for row in rows]


def chosen(names: Sequence[str]) -> list[Row]:
    """These rows, and the first of each one's group: it fills the store."""
    groups = {row.group for row in ROWS if row.name in names}
    first = {group: next(row.name for row in ROWS if row.group == group) for group in groups}
    return [row for row in ROWS if row.name in names or row.name == first.get(row.group)]
