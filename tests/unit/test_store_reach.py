"""A store that another user has written into: nothing outside is read, written or removed, and nothing waits for ever.

Each attack puts something into the place of one file or directory of the store; then all that a store is used for is
done, and must come to its end."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hipcache.base.errors import StoreError
from hipcache.report import statistics
from hipcache.report.history import History, Record
from hipcache.report.outcome import CompileOutcome
from hipcache.store.layout import action_name
from hipcache.store.local import LocalStore
from hipcache.verify import verb

PATIENCE = 60  # seconds for all uses of a store; a tenth of a second is enough
KEY = "0123456789abcdef" * 4
CONTENT = b"content of a blob"
RECORD = Record("/b/k.o", 1.5, ("clang++", "-c"), "/b", "miss", "", "", (), {}, ())


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Also where the kernel waits."""

    def end(*_: object) -> None:
        raise TimeoutError(f"this takes longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def filled(root: Path) -> Path:
    """A store with something of each kind; its base."""
    store = LocalStore(root, max_bytes=0)
    store.put_action(KEY, b"record")
    store.put_blob(CONTENT)
    with store.lock(KEY):
        pass
    History(store.notes()).save(RECORD)
    statistics.zero(root)
    statistics.record(root, CompileOutcome("hit"))
    (root / "v2/tools").mkdir(exist_ok=True)
    (root / "v2/tools/of-an-earlier-version").write_bytes(b"{}")
    for path in [*root.rglob("*"), root]:
        os.utime(path, (10**9, 10**9), follow_symlinks=False)
    return root / "v2"


def use(root: Path, out: Path) -> None:
    """Everything, one after the other. An error that says what is wrong is an answer, too."""
    store = LocalStore(root, max_bytes=0)
    history = History(store.notes())

    def work() -> None:
        with store.lock(KEY), store.workdir() as directory:
            (directory / "a.o").write_bytes(CONTENT)

    def copy() -> None:
        store.copy_blob(store.put_blob(CONTENT), out)

    uses: list[Callable[[], object]] = [
        lambda: store.get_action(KEY),
        lambda: store.put_action(KEY, b"record"),
        copy,
        work,
        lambda: statistics.record(root, CompileOutcome("hit")),
        lambda: statistics.read(root),
        lambda: history.save(RECORD),
        lambda: history.load(RECORD.object),
        history.last,
        lambda: store.size(beside=True),
        lambda: verb.check(store),
        store.collect,
        lambda: LocalStore(root, max_bytes=1, clock=lambda: 4e9).put_action("f" * 64, b""),
        lambda: store.collect(0),
        lambda: statistics.zero(root),
        store.clear,
        lambda: store.remove_action(KEY),
    ]
    for one in uses:
        with suppress(StoreError, OSError):
            one()


def places(base: Path) -> dict[str, Path]:
    """Each kind of file and directory that a store has."""
    (history,) = (base / "history").glob("*/*")
    action = base / action_name(KEY)
    (blob,) = (base / "blobs").glob("*")
    top = ["actions", "blobs", "tmp", "history", "statistics", "tools", "ledger", "locks", "CACHEDIR.TAG"]
    below = ["statistics/log", "statistics/lock", "statistics/totals", "tools/of-an-earlier-version"]
    found = {name: base / name for name in (*top, *below)}
    return {
        **found,
        "an action": action,
        "a blob": blob,
        "a directory of actions": action.parent,
        "a directory of blobs": blob.parent,
        "a record of the history": history,
        "the history of an object": history.parent,
        "v2": base,
    }


NAMES = [
    *("actions", "blobs", "tmp", "history", "statistics", "tools", "ledger", "locks", "CACHEDIR.TAG"),
    *("statistics/log", "statistics/lock", "statistics/totals", "tools/of-an-earlier-version", "an action", "a blob"),
    *("a directory of actions", "a directory of blobs", "a record of the history", "the history of an object", "v2"),
]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    made = filled(tmp_path / "store")
    assert sorted(places(made)) == sorted(NAMES)
    return made


def seen(top: Path) -> dict[str, tuple[object, ...]]:
    """All that can be told of a tree."""
    found = {}
    for path in [top, *top.rglob("*")]:
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path.relative_to(top))] = (status.st_mode, status.st_uid, status.st_mtime_ns, content)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_nothing_beyond_a_link_is_touched(name: str, base: Path, tmp_path: Path) -> None:
    """The victim's files lie where the store's were, under the same names."""
    place = places(base)[name]
    victim = tmp_path / "victim"
    victim.mkdir()
    place.rename(victim / "precious")
    if (victim / "precious").is_dir():
        for shard in ("aa", "new.1", "log.1", "work-0", "put-0"):
            (victim / "precious" / shard).mkdir()
            (victim / "precious" / shard / "precious").write_bytes(b"precious")
    place.symlink_to(victim / "precious")
    before = seen(victim)
    with within(PATIENCE):
        use(base.parent, tmp_path / "out.o")
        use(base.parent, tmp_path / "out.o")
    assert seen(victim) == before


@pytest.mark.parametrize("top", ["actions", "blobs", "history", "statistics", "tmp"])
def test_links_that_are_added_are_removed_and_not_followed(top: str, base: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (victim / "deep").mkdir(parents=True)
    (victim / "deep" / "precious").write_bytes(b"precious")
    os.utime(victim / "deep" / "precious", (10**9, 10**9))
    for link in ("zz", "work-0", "put-0", "new.1", "log.1"):
        (base / top / link).symlink_to(victim)
    (base / top / "aa").mkdir()
    (base / top / "aa" / "inside").symlink_to(victim)
    before = seen(victim)
    with within(PATIENCE):
        use(base.parent, tmp_path / "out.o")
    assert seen(victim) == before


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 20 << 30)


def _deep(path: Path) -> None:
    """Deeper than a recursion, or open files, can go. (Path names are too short for it.)"""
    path.mkdir()
    at = os.open(path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)


STRANGE: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "directory": Path.mkdir,
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "loop of links": lambda path: path.symlink_to(path.name),
    "huge file": _huge,
}


@pytest.mark.parametrize("kind", STRANGE)
def test_nothing_waits_for_what_is_no_file(kind: str, base: Path, tmp_path: Path) -> None:
    """In the place of each file and directory in turn. Afterwards the store is one again."""
    for name, place in places(base).items():
        with within(PATIENCE):
            if place.is_dir() and not place.is_symlink():
                place.rename(tmp_path / f"old {name}")
            else:
                place.unlink()
            STRANGE[kind](place)
            use(base.parent, tmp_path / "out.o")
        if os.path.lexists(base) and not (base.is_dir() and not base.is_symlink()):
            base.unlink()  # v1 is never removed
        for part in ("actions", "blobs", "tmp", "history", "statistics"):
            if (base / part).is_file():
                (base / part).unlink()  # nor is a file in the place of a directory
        base = filled(tmp_path / "store")


def test_a_directory_of_any_depth_is_removed(base: Path, tmp_path: Path) -> None:
    _deep(base / "blobs" / "zz")
    with within(PATIENCE):
        LocalStore(base.parent, max_bytes=0).clear()
    assert os.listdir(base / "blobs") == []
    assert os.listdir(base / "tmp") == []


def test_what_can_be_read_of_a_store_with_devices_is_read(base: Path, tmp_path: Path) -> None:
    """Root may make them."""
    if os.geteuid() != 0:
        pytest.skip("only root makes devices")
    for name in ("statistics/log", "statistics/totals", "ledger", "locks"):
        (base / name).unlink()
        os.mknod(base / name, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
    with within(PATIENCE):
        assert sum(statistics.read(base.parent).compiles.values()) == 0
        assert LocalStore(base.parent, max_bytes=0).size().entries == 4
        use(base.parent, tmp_path / "out.o")
    assert (base / "ledger").is_file()


def test_a_file_with_a_second_name_is_not_written_in_place(base: Path, tmp_path: Path) -> None:
    for name in ("ledger", "locks", "statistics/log", "statistics/lock"):
        (precious := tmp_path / name.replace("/", "-")).write_bytes(b"precious")
        (base / name).unlink()
        os.link(precious, base / name)
    use(base.parent, tmp_path / "out.o")
    for name in ("ledger", "locks", "statistics/log", "statistics/lock"):
        assert (tmp_path / name.replace("/", "-")).read_bytes() == b"precious"
