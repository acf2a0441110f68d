"""Corruptions: something happens to one file or directory of a warm store, and the build goes on."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from campaigns.misfortune import Campaign
from campaigns.place import BY_ENGINE, Finding, Place

VERBS = (["verify"], ["stats"], ["stats", "--json"], ["gc"], ["clear"], ["explain"], ["explain", "k0.o"])
HUGE = (1 << 40, 20 << 30)


def cut(path: Path, dice: Random, place: Place) -> None:
    os.truncate(path, dice.randrange(max(1, path.stat().st_size)))


def flip(path: Path, dice: Random, place: Place) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(dice.choice([1, 1, 1, 8])):
        if content:
            content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    _in_place(path, bytes(content))


def zero(path: Path, dice: Random, place: Place) -> None:
    content = bytearray(path.read_bytes())
    first = dice.choice([0, dice.randrange(len(content) + 1)])
    content[first:] = bytes(len(content) - first)
    _in_place(path, bytes(content))


def grow(path: Path, dice: Random, place: Place) -> None:
    with path.open("ab") as file:
        file.write(dice.randbytes(dice.choice([1, 100, 100_000])))


def noise(path: Path, dice: Random, place: Place) -> None:
    _in_place(path, dice.randbytes(dice.choice([0, 7, 64, path.stat().st_size])))


def huge(path: Path, dice: Random, place: Place) -> None:
    os.truncate(path, dice.choice(HUGE))


def gone(path: Path, dice: Random, place: Place) -> None:
    path.unlink()


def link(path: Path, dice: Random, place: Place) -> None:
    target: Path | str
    target = dice.choice(
        [place.outside / "file", place.outside / "directory", Path("nowhere"), path, Path("/dev/zero"), place.store]
    )
    if dice.random() < 0.3:
        target = path.with_name(path.name + ".copy")  # the same content, by a link
        shutil.copy2(path, target)
    path.unlink()
    path.symlink_to(target)


def fifo(path: Path, dice: Random, place: Place) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path, dice: Random, place: Place) -> None:
    path.unlink()
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, dice.choice([3, 5, 7])))  # null, zero, full
    except OSError:
        os.mkfifo(path)


def bound_socket(path: Path, dice: Random, place: Place) -> None:
    path.unlink()
    here = os.getcwd()
    try:
        os.chdir(path.parent)  # the name of a socket is short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def directory(path: Path, dice: Random, place: Place) -> None:
    path.unlink()
    path.mkdir()
    if dice.random() < 0.5:
        (path / "file").write_bytes(b"x")
        (path / "link").symlink_to(place.outside / "directory")


def swapped(path: Path, dice: Random, place: Place) -> None:
    """With another file, often one of its kind."""
    files = [one for one in _files(place.store) if one != path]
    same = [one for one in files if kind_of(one, place) == kind_of(path, place)]
    other = dice.choice(same if same and dice.random() < 0.7 else files)
    between = path.with_name("between")
    path.rename(between)
    other.rename(path)
    between.rename(other)


def copied(path: Path, dice: Random, place: Place) -> None:
    """The content of another file, in this one."""
    _in_place(path, dice.choice(_files(place.store)).read_bytes())


OF_FILES: tuple[Callable[[Path, Random, Place], None], ...] = (
    *(cut, flip, zero, grow, noise, huge, gone, link, fifo, device, bound_socket, directory, swapped, copied),
)


def directory_is_file(path: Path, dice: Random, place: Place) -> None:
    shutil.rmtree(path)
    path.write_bytes(b"")


def directory_is_link(path: Path, dice: Random, place: Place) -> None:
    shutil.rmtree(path)
    path.symlink_to(dice.choice([place.outside / "directory", place.outside, Path("nowhere"), path]))


def directory_is_fifo(path: Path, dice: Random, place: Place) -> None:
    shutil.rmtree(path)
    os.mkfifo(path)


def directory_is_gone(path: Path, dice: Random, place: Place) -> None:
    shutil.rmtree(path)


def shard_beside(path: Path, dice: Random, place: Place) -> None:
    """A link or a FIFO among the entries, under a name that an entry or shard could have."""
    name = dice.choice([f"{dice.randrange(256):02x}", "zz", "0" * 62, "strange"])
    new = path / name
    with suppress(FileExistsError):
        if dice.random() < 0.7:
            new.symlink_to(place.outside / "directory")
        else:
            os.mkfifo(new)


OF_DIRECTORIES: tuple[Callable[[Path, Random, Place], None], ...] = (
    directory_is_file,
    directory_is_link,
    directory_is_fifo,
    directory_is_gone,
    shard_beside,
    shard_beside,
)


class Corruptions(Campaign):
    """Files of a store cut, flipped, zeroed, grown, swapped; links, FIFOs, devices and huge files in their place."""

    name = "corruptions"
    trials = 5000
    sources = 2

    def begin(self) -> None:
        super().begin()
        self.place.compile(resident=True)
        self.verb(["gc"])
        self.place.template = self.place.copy("template")

    def trial(self, number: int, dice: Random) -> None:
        place = self.place
        place.restore(place.template)
        what = self._corrupt(dice)
        try:
            self._go_on(dice)
        except Finding as finding:
            raise Finding(f"{what}: {finding}") from None

    def _corrupt(self, dice: Random) -> str:
        place = self.place
        kinds: dict[str, list[Path]] = {}
        for file in _files(place.store):
            kinds.setdefault(kind_of(file, place), []).append(file)
        directories = [Path(one) for one, _, _ in os.walk(place.store)][1:]
        if dice.random() < 0.2:
            path, change = dice.choice(directories), dice.choice(OF_DIRECTORIES)
            kind = "directory"
        else:
            kind = dice.choice(sorted(kinds))
            path, change = dice.choice(kinds[kind]), dice.choice(OF_FILES)
        change(path, dice, place)
        self.tally[f"of {kind}"] += 1
        return f"{change.__name__} of {path.relative_to(place.root)}"

    def _go_on(self, dice: Random) -> None:
        place, resident = self.place, dice.random() < 0.3
        if dice.random() < 0.15:
            self.verb(dice.choice(VERBS))
        env = BY_ENGINE if dice.random() < 0.4 else {}
        place.compile(resident=resident, env=env)
        place.check_untouched()
        place.compile(resident=resident)
        if dice.random() < 0.15:
            self.verb(dice.choice(VERBS))
        place.check_untouched()


def kind_of(path: Path, place: Place) -> str:
    """ "actions", "blobs", "ledger", "statistics/log" ..."""
    parts = path.relative_to(place.store).parts[1:]
    return "/".join(parts) if parts and parts[0] == "statistics" else parts[0] if parts else path.name


def _files(store: Path) -> list[Path]:
    """In an order that does not depend on the file system."""
    found = [Path(directory, name) for directory, _, names in os.walk(store) for name in names]
    return sorted(one for one in found if one.is_file() and not one.is_symlink())


def _in_place(path: Path, content: bytes) -> None:
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()
