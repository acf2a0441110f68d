"""The resident, a process that watches the system's files: what it is asked, what it answers, and what it believes."""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hip import rewrite
from hipcache.direct.record import is_of_system
from resident_lab import CANNOT_SAY, HOLDS, TELL, Fake, System, home, residents, system

__all__ = ["home", "system"]

# What is asked and answered


def test_a_hit_starts_it_and_it_answers_from_then_on(system: System) -> None:
    system.lab.warm(*system.flags)
    assert residents(system.home) == []
    assert system.served()
    system.wait_for(system.answers)
    (process,) = residents(system.home)
    assert (system.address.stat().st_mode & 0o777, system.address.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    # It holds nothing of the build's: neither its pipes nor its directory nor its group of processes.
    for number in (0, 1, 2):
        assert os.readlink(f"/proc/{process}/fd/{number}") == "/dev/null"
    assert os.readlink(f"/proc/{process}/cwd") == "/"
    assert os.getsid(process) == process
    question = system.warm()
    assert system.ask(question) == HOLDS
    assert residents(system.home) == [process]


def test_its_word_is_taken(system: System) -> None:
    """So the tests below show something: a resident that lies brings a stale object."""
    system.lab.warm(*system.flags)
    rewrite(system.header, system.header.read_text().replace("1", "3"))
    assert not system.served()
    with Fake(system.home, HOLDS):
        system.wait_for(system.served)  # nobody waits for long for an answer


def test_where_it_cannot_say_the_files_are_looked_at(system: System) -> None:
    system.lab.warm(*system.flags)
    text = system.header.read_text()
    for says in (b"", CANNOT_SAY, TELL, b"?", b"\0"):
        with Fake(system.home, says) as fake:
            assert system.served(), says
            rewrite(system.header, text.replace("1", "3"))
            assert not system.served(), says
        assert len(fake.heard) == 2
        rewrite(system.header, text)


# Blobs are hashed each time: nobody's word is taken for them


def _flip(blob: Path) -> None:
    times = blob.stat()
    rewrite(blob, blob.read_bytes()[:-1] + b"?")
    os.utime(blob, ns=(times.st_atime_ns, times.st_mtime_ns))


def _swap(blob: Path) -> None:
    copy = blob.with_name("copy")
    shutil.copy2(blob, copy)
    _flip(copy)
    copy.replace(blob)


def _link(blob: Path) -> None:
    other = blob.with_name("other")
    blob.rename(other)
    _flip(other)
    blob.symlink_to("other")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a byte, and its time set back": _flip,
    "another file in its place": _swap,
    "cut off": lambda blob: os.truncate(blob, blob.stat().st_size - 1),
    "empty": lambda blob: os.truncate(blob, 0),
    "a link to another": _link,
    "gone": Path.unlink,
}


@pytest.mark.files
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_blob_that_changed_is_hashed(system: System, damage: str) -> None:
    system.warm()
    assert system.served()
    DAMAGES[damage](system.blob())
    assert not system.served()


@pytest.mark.files
def test_a_blob_that_changes_through_a_mapping_without_another_time_is_hashed(system: System) -> None:
    """A page that was written before is written again: the file system learns of the first time alone."""
    system.warm()
    blob = system.blob()
    content = blob.read_bytes()
    with blob.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[-1] = content[-1]
        assert system.served()
        before = blob.stat()
        mapped[-1] = content[-1] ^ 1
        after = blob.stat()
        assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns), "it shows nothing"
        assert not system.served()


# What is the system's


ROOTS = ("/usr", "/opt")


@pytest.mark.parametrize(
    ("path", "working", "expected"),
    [
        ("/usr/include/hip/hip_runtime.h", "/home/me/build", True),
        ("/usr", "/home/me/build", True),
        ("/usrlocal/x", "/home/me/build", False),
        ("/home/me/include/x.h", "/home/me/build", False),
        ("/opt/project/include/x.h", "/opt/project/build/deep", False),
        ("/opt/rocm/include/x.h", "/opt/project/build", True),
        ("/usr/src/packages/BUILD/x/x.h", "/usr/src/packages/BUILD/x", False),
        ("/usr/include/x.h", "/usr/src/packages/BUILD/x", True),
    ],
)
def test_what_somebody_works_on_is_not_the_systems(path: str, working: str, expected: bool) -> None:
    assert is_of_system(ROOTS, [working])(path) is expected
