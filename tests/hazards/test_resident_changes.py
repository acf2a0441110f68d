"""What happens to the system's files while the resident watches them: it never says what is not so."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hip import FULL, LAUNCHER, apart, replace, rewrite, same_times
from resident_lab import HOLDS, System, home, residents, system

__all__ = ["home", "system"]

# After an event it learns nothing for a moment (`QUIET` in resident.c).
QUIET = 2.1


Change = Callable[[System], object]


def _in_place(system: System) -> None:
    with system.header.open("r+b") as file:
        file.write(system.header.read_bytes().replace(b"1", b"2"))


def _mapped(system: System) -> None:
    import mmap

    with system.header.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        content[:] = content[:].replace(b"1", b"7")


def _directory_for_a_link(system: System) -> None:
    shutil.copytree(system.tree / "include", system.tree / "other")
    _text(system.tree / "other/value.hpp", "9")
    (system.tree / "include").rename(system.tree / "old")
    (system.tree / "include").symlink_to("other")


def _text(path: Path, value: str) -> None:
    path.write_text(path.read_text().replace("VALUE 1", f"VALUE {value}"))


def _link_in_its_place(system: System) -> None:
    system.header.rename(system.tree / "include/other.hpp")
    system.header.symlink_to("other.hpp")


CHANGES: dict[str, Change] = {
    "other text": lambda system: _text(system.header, "12"),
    "same size and time": lambda system: rewrite(system.header, system.header.read_text().replace("1", "3")),
    "another file of the same size and time": lambda system: replace(
        system.header, system.header.read_bytes().replace(b"1", b"4")
    ),
    "written in place": _in_place,
    "written through memory": _mapped,
    "a header of that name earlier on the path": lambda system: shutil.copy(system.header, system.tree / "first"),
    "a header that is gone": lambda system: system.header.unlink(),
    "a link to another text": lambda system: (
        _link_in_its_place(system),
        _text(system.tree / "include/other.hpp", "7"),
    ),
    "a directory became a link": _directory_for_a_link,
    "a directory moved away": lambda system: (system.tree / "include").rename(system.tree / "old"),
    "a directory moved away and back": lambda system: (
        (system.tree / "include").rename(system.tree / "old"),
        _text(system.tree / "old/value.hpp", "2"),
        (system.tree / "old").rename(system.tree / "include"),
    ),
    "the tree moved away": lambda system: system.tree.rename(system.home / "old"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("change", CHANGES)
def test_it_says_nothing_old_after(system: System, change: str) -> None:
    question = system.warm()
    CHANGES[change](system)
    assert not system.served()
    assert system.ask(question) != HOLDS
    if system.header.exists():
        system.lab.compile(*system.flags, env={"HIPCACHE_RESIDENT": "1"})


def test_a_link_to_the_same_text_is_served_by_its_content(system: System) -> None:
    question = system.warm()
    before = (system.lab.root / "out.o").read_bytes()
    _link_in_its_place(system)
    assert system.ask(question) != HOLDS
    assert system.served()
    assert (system.lab.root / "out.o").read_bytes() == before
    system.lab.run(system.lab.words(*system.flags))
    assert (system.lab.root / "out.o").read_bytes() == before


def test_edits_without_a_pause_are_all_seen(system: System) -> None:
    """Each in the file that is there, with its size and time."""
    system.warm()
    lab, text = system.lab, system.header.read_text()
    for value in "1234512":
        rewrite(system.header, text.replace("VALUE 1", f"VALUE {value}"))
        ended = lab.run([*LAUNCHER, *lab.words(*system.flags)], env={"HIPCACHE_RESIDENT": "1"})
        made = (lab.root / "out.o").read_bytes()
        lab.run(lab.words(*system.flags))
        assert (ended.status, made) == (0, (lab.root / "out.o").read_bytes())


def test_a_file_written_by_another_of_its_names_is_seen(system: System) -> None:
    other = system.home / "other.hpp"
    os.link(system.header, other)
    question = system.warm()
    status = other.stat()
    with other.open("r+b") as file:
        file.write(other.read_bytes().replace(b"1", b"5"))
    same_times(other, status)
    assert not system.served()
    assert system.ask(question) != HOLDS


def test_links_on_the_way_are_watched_too(system: System) -> None:
    """`tree/include` is a link to a link in another directory, which then points elsewhere."""
    for name, value in (("one", "1"), ("two", "2")):
        shutil.copytree(system.tree / "include", system.home / name / "include")
        _text(system.home / name / "include/value.hpp", value)
    (system.home / "links").mkdir()
    (system.home / "links/current").symlink_to("../one")
    shutil.rmtree(system.tree / "include")
    (system.tree / "include").symlink_to("../links/current/include")
    question = system.warm()
    (system.home / "links/next").symlink_to("../two")
    (system.home / "links/next").rename(system.home / "links/current")
    assert not system.served()
    assert system.ask(question) != HOLDS
    system.lab.compile(*system.flags, env={"HIPCACHE_RESIDENT": "1"})


def test_what_happens_elsewhere_costs_nothing(system: System) -> None:
    question = system.warm()
    system.lab.write("new.hpp", "")
    (system.home / "unrelated").mkdir()
    (system.home / "unrelated/file").write_text("")
    system.header.read_bytes()
    # The home of the tree is on the way, so what is made there counts; what is made deeper does not.
    system.ask(question)
    time.sleep(QUIET)
    assert system.served()
    system.wait_for(lambda: system.served() and system.ask(question) == HOLDS)
    (system.home / "unrelated/more").write_text("")
    system.lab.write("newer.hpp", "")
    assert system.ask(question) == HOLDS


def test_a_change_and_back_is_known_again(system: System) -> None:
    question = system.warm()
    before, text = system.header.stat(), system.header.read_bytes()
    system.header.write_bytes(text)
    same_times(system.header, before)
    assert system.ask(question) != HOLDS
    # Its change time is another one: the engine compares the text, and the record is made anew.
    time.sleep(QUIET)
    assert system.warm() != question


def test_more_events_than_the_kernel_keeps(system: System) -> None:
    """An event of which the kernel kept nothing but that it was lost. Those before it do not matter by themselves."""
    question = system.warm()
    (system.tree / "unrelated").touch()
    assert system.ask(question) == HOLDS
    (process,) = residents(system.home) or [0]
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    os.kill(process, signal.SIGSTOP)
    try:
        for number in range(most // 2 + 64):
            path = system.tree / f"{number}"
            path.touch()
            path.unlink()
        _in_place(system)
        assert not system.served()
    finally:
        os.kill(process, signal.SIGCONT)
    assert system.ask(question) != HOLDS


def test_a_file_system_mounted_over_a_directory_is_seen(system: System) -> None:
    shutil.copytree(system.tree / "include", system.home / "other")
    _text(system.home / "other/value.hpp", "2")
    question = system.warm()
    argv, env = [system.direct.program, *system.lab.words(*system.flags)], {"HIPCACHE_RESIDENT": "1"}
    mount = f"mount --bind {system.home}/other {system.tree}/include || exit 1"
    # Another process may see other files than the resident does: it is not asked.
    assert apart(system.lab, "", argv, env).status == 0
    system.lab.counted()
    assert apart(system.lab, mount, argv, env).status == 99
    assert system.ask(question) == HOLDS
    assert system.served()


def test_a_mount_where_it_lives_itself_makes_it_forget(system: System) -> None:
    """A resident in a namespace of its own, in which a mount is made after it has learned."""
    shutil.copytree(system.tree / "include", system.home / "other")
    _text(system.home / "other/value.hpp", "2")
    system.lab.warm(*system.flags)
    serve = "env PWD='" + system.lab.environ.get("PWD", "") + "' "
    serve += " ".join([str(system.direct.program), *system.lab.words(*system.flags)])
    steps = f"""
        env -i XDG_RUNTIME_DIR={system.home} {LAUNCHER[0]} --resident </dev/null >/dev/null 2>&1 &
        for i in 1 2 3 4 5; do {serve} || exit 90; sleep 0.2; done
        mount --bind {system.home}/other {system.tree}/include || exit 91
        {serve}; test $? = 99 || exit 92
        umount {system.tree}/include || exit 93
        {serve} || exit 94
        kill %1
    """
    system.lab.environ.setdefault("PWD", "")
    assert apart(system.lab, steps, ["true"], {"HIPCACHE_RESIDENT": "1"}).status == 0


@pytest.mark.parametrize("seed", range(60 if FULL else 3))
def test_whatever_happens_it_says_so_only_of_what_is_so(system: System, seed: int) -> None:
    """Random changes, some of which do not matter: where the resident says that all is as it was, a look agrees."""
    random_ = random.Random(seed)
    question = system.warm()
    include, first = system.tree / "include", system.tree / "first"

    def fresh() -> Path:
        return system.tree / f"away{random_.random()}"

    changes: list[Callable[[], object]] = [
        lambda: (system.tree / "unrelated").write_text("text"),
        lambda: (include / "unrelated.hpp").write_text("text"),
        lambda: (include / "unrelated.hpp").unlink(missing_ok=True),
        lambda: (system.tree / "unrelated").chmod(0o600) if (system.tree / "unrelated").exists() else None,
        lambda: (system.tree / "deep/er").mkdir(parents=True, exist_ok=True),
        system.header.read_bytes,
        lambda: list(include.iterdir()),
        lambda: (first / "value.hpp").write_text("#define VALUE 3\n"),
        lambda: (first / "value.h").write_text("#define VALUE 3\n"),
        lambda: system.header.chmod(random_.choice([0o600, 0o644])),
        lambda: os.utime(system.header),
        lambda: os.link(system.header, system.home / f"link{random_.random()}"),
        lambda: os.truncate(system.header, random_.randrange(40)),
        lambda: (include.rename(away := fresh()), away.rename(include)),
        lambda: (include.rename(away := fresh()), shutil.copytree(away, include)),
        lambda: (first.rmdir(), first.symlink_to("include")) if not any(first.iterdir()) else None,
        lambda: first.chmod(random_.choice([0o700, 0o755])),
    ]
    said = []
    for _ in range(12):
        random_.choice(changes)()
        said.append(system.ask(question))
        if said[-1] == HOLDS:
            assert system.served(resident=False)
        elif random_.random() < 0.3:
            break
    assert said
