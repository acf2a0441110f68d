"""A store with a file system of its own inside: nothing can be moved into place, and that is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import private_mounts
import pytest
from hip import Lab, only_19

pytestmark = only_19


@pytest.fixture(params=["tmp", "blobs", "actions"])
def divided(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Path]:
    """The directory that is a mount."""
    at = lab.store / "v2" / request.param
    for name in ("tmp", "blobs", "actions"):
        (lab.store / "v2" / name).mkdir(parents=True)
    if not private_mounts.bind(at, at):
        pytest.skip("only root can mount")
    yield at
    private_mounts.detach(at)


@pytest.mark.files
def test_a_mount_inside_a_store_is_a_condition(lab: Lab, divided: Path) -> None:
    assert lab.run(lab.words()).status == 0
    plain = (lab.root / "out.o").read_bytes()
    for said in (1, 0):
        ended = lab.hipcache(*lab.words())
        assert (ended.status, (lab.root / "out.o").read_bytes()) == (0, plain)
        assert ended.err.count(f"nothing new is cached: in store '{lab.store}' ".encode()) == said
    assert [one["kind"] for one in json.loads(lab.hipcache("stats", "--json").out)["conditions"]] == ["store_divided"]
    told = lab.hipcache("doctor", "--brief")
    assert told.status == 1
    assert b"mount" in told.out
    assert not [path.name for path in (lab.store / "v2").rglob("none-*")]


def test_a_whole_store_that_is_a_mount_is_none(lab: Lab) -> None:
    lab.compile()
    if not private_mounts.bind(lab.store, lab.store):
        pytest.skip("only root can mount")
    try:
        assert json.loads(lab.hipcache("stats", "--json").out)["conditions"] == []
    finally:
        private_mounts.detach(lab.store)
