"""Packages of HIP libraries through hipcache: another directory, entry or architecture compiles only what is new, and
the packages are those that are built without it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hip import LAUNCHER
from packaging_rooms import FIRST, NEXT, SMALL, Builder, Dpkg, Makepkg, Rpmbuild, Source

ARCHES = ("gfx906", "gfx90a", "gfx1010", "gfx1030")
NEW = "gfx908"


@pytest.fixture
def place() -> Iterator[Path]:
    found = Path(tempfile.mkdtemp(prefix="hipcache-packages-"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found, ignore_errors=True)


def counted(builder: Builder) -> tuple[dict[str, int], set[str]]:
    """(compiles by outcome, the units that were not there) since the last call."""
    said = builder.run([LAUNCHER[0], "stats", "--json", "--zero"], builder.place, {})
    found = json.loads(said)
    compiles = {name: number for name, number in found["compiles"].items() if number}
    return compiles, {name for name, unit in found["units"].items() if unit["misses"]}


def check(builder: Builder, source: Source, sources: int, env: dict[str, str] | None = None) -> None:
    four = {**(env or {}), "ARCHES": " ".join(ARCHES)}
    five = {**(env or {}), "ARCHES": " ".join((*ARCHES, NEW))}
    plain = builder.build("plain", source, FIRST, four)
    assert builder.cached("cold-x1", source, FIRST, four) == plain
    assert counted(builder) == ({"miss": sources}, {*ARCHES, "host"})
    assert builder.cached("warm-another-place", source, FIRST, four) == plain
    assert counted(builder) == ({"hit": sources}, set())
    assert builder.cached("new-entry-y2", source, NEXT, four) == plain
    assert counted(builder) == ({"hit": sources}, set())
    assert builder.cached("more-zz3", source, NEXT, five) == builder.build("plain-more", source, NEXT, five)
    assert counted(builder) == ({"partial": sources}, {NEW})


@pytest.mark.parametrize("builder", [Dpkg, Rpmbuild, Makepkg])
def test_a_small_library(place: Path, builder: type[Builder]) -> None:
    check(builder(place), SMALL, 2)
