"""What names programs that are run is taken from this user's own records only, whoever else writes to the store."""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hip import HIT, LAUNCHER, Lab, only_19, script, settle
from hipcache.store.local import LocalStore

pytestmark = pytest.mark.archs(1)

KEY = "cd" * 32


def record(store: LocalStore, key: str = KEY) -> Path:
    return store.root / "v2/actions" / key


@pytest.fixture
def store() -> Iterator[LocalStore]:
    """Where every user can get to."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        made = LocalStore(Path(place) / "store", max_bytes=0, umask=0o002)
        made.put_action(KEY, b"mine", own=True)
        yield made


def test_ones_own_can_be_written_by_nobody_else_in_a_store_of_a_group(store: LocalStore) -> None:
    assert record(store).stat().st_mode & 0o022 == 0
    assert store.get_action(KEY, own=True) == store.get_action(KEY) == b"mine"


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_one_that_others_can_write_is_absent(store: LocalStore, mode: int) -> None:
    record(store).chmod(mode)
    assert store.get_action(KEY, own=True) is None
    assert store.get_action(KEY) == b"mine"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(("reader", "owner", "taken"), [(0, 4711, False), (4711, 4712, False), (4711, 0, True)])
def test_one_of_another_user_is_absent_but_for_roots(store: LocalStore, reader: int, owner: int, taken: bool) -> None:
    os.chown(record(store), owner, owner)
    reading = os.fork()
    if reading == 0:
        os.setuid(reader)
        os._exit(store.get_action(KEY, own=True) == b"mine")
    assert os.waitstatus_to_exitcode(os.waitpid(reading, 0)[1]) == taken


def edit_plans(lab: Lab, program: Path) -> list[Path]:
    """A co-writer's `program` in the place of clang in each remembered plan, with a right digest."""
    store, edited = LocalStore(lab.store, max_bytes=0), []
    for path in (lab.store / "v2/actions").glob("*"):
        key = path.name
        try:
            data = json.loads(zlib.decompress(store.get_action(key) or b""))
        except (zlib.error, ValueError):
            continue
        if isinstance(data.get("text"), str) and "-cc1" in data["text"]:
            clang = data["text"].split(' "', 1)[1].split('"', 1)[0]
            data["text"] = data["text"].replace(f'"{clang}" "-cc1"', f'"{program}" "-cc1"')
            store.put_action(key, zlib.compress(json.dumps(data).encode()))
            edited.append(path)
    return edited


@pytest.mark.files
@only_19
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_program_in_a_plan_that_a_co_writer_edited_is_not_run(lab: Lab) -> None:
    lab.warm()
    owned = lab.root / "owned"
    evil = script(lab.root / "evil", f'touch {owned}\nexec {lab.compiler} "$@"\n')
    plans = edit_plans(lab, evil)
    assert plans
    for path in plans:
        os.chown(path, 4711, 4711)
    lab.write("k.hip", (lab.root / "k.hip").read_text() + "// edited\nint more() { return 1; }\n")
    settle()
    assert lab.run([*LAUNCHER, *lab.words()]).status == 0
    assert not owned.exists()
    lab._seen = lab.stats()
    assert lab.compile().outcome == HIT
