"""`hipcache verify`: check every entry of the store, or recompile some objects and compare."""

from __future__ import annotations

import argparse
import json
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from random import sample
from typing import NamedTuple

from hipcache import config
from hipcache.base.errors import HipcacheError
from hipcache.base.keys import is_digest
from hipcache.base.values import dataclass, field, replace
from hipcache.build.context import open_context
from hipcache.build.loop import Pool
from hipcache.cache import records
from hipcache.cli import Console, build_directory
from hipcache.cli.screen import ProgressLine, plural
from hipcache.config import Config
from hipcache.report.outcome import DIFFERENT
from hipcache.store.confined import Confined
from hipcache.store.faults import as_store_error
from hipcache.store.local import LocalStore, is_there, open_store
from hipcache.verify import comparison
from hipcache.verify.comparison import ENDS, NOT_COMPARED, NOT_STORED, Compared

SUMMARY = "check every entry of the store, or recompile some objects and compare"
DAMAGED = 1
SAMPLE = 20
_PATIENCE = 5.0  # seconds for compilers that are to end


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--compile",
        action="store_true",
        help="compile stored objects anew, and compare them; not links and programs: compile_commands.json does not"
        " list them, and the driver runs their last step each time",
    )
    parser.add_argument(
        "--sample",
        type=_count,
        metavar="N",
        help=f"how many objects to recompile, chosen at random (default: {SAMPLE})",
    )
    parser.add_argument(
        "-p",
        dest="build",
        type=Path,
        metavar="DIR",
        help=f"the build directory, which has a {build_directory.LIST} (default: .)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a count; write 1, 2 ...")
    return int(text)


def run(options: argparse.Namespace, console: Console) -> int:
    for option, value in (("--sample", options.sample), ("-p", options.build)):
        if value and not options.compile:
            raise HipcacheError(f"{option} goes with --compile", f"add --compile, or leave out {option}")
    settings = config.load(console.environ, strict=True)
    if options.compile:
        return _compile(settings, options, console)
    if not options.json and not is_there(settings):
        print(f"nothing to check: there is no store in '{settings.dir}' yet", file=console.out)
        return 0
    return _check(open_store(settings), options, console)


def _check(store: LocalStore, options: argparse.Namespace, console: Console) -> int:
    with ProgressLine(console.err, "entries checked") as progress:
        checked = check(store, progress.at)
    if options.json:
        print(json.dumps(_as_json(checked), indent=2), file=console.out)
    else:
        _show(checked, store, console)
    return DAMAGED if checked.damaged else 0


def _show(checked: Checked, store: LocalStore, console: Console) -> None:
    for entry in checked.damaged:
        print(f"{entry.kind} '{entry.name}': {entry.why}{'; removed' if entry.removed else ''}", file=console.out)
    total = f"{plural(checked.blobs, 'blob')} and {plural(checked.records, 'record')} checked"
    removed = sum(entry.removed for entry in checked.damaged)
    left = len(checked.damaged) - removed
    words = [total, f"{removed} removed" if removed else "", f"{plural(left, 'damaged entry')} kept" if left else ""]
    print(", ".join(filter(None, words)) + ("" if checked.damaged else ", none damaged"), file=console.out)
    if checked.evicted:
        done = "would be removed" if store.read_only else "removed"
        print(f"{plural(checked.evicted, 'record')} whose contents were evicted: {done}.", file=console.out)
    if left and store.read_only:
        print(
            "The store may only be read: unset HIPCACHE_READONLY, or run this as its owner, to remove them.",
            file=console.out,
        )


def _as_json(checked: Checked) -> dict[str, object]:
    damaged = [entry._asdict() for entry in checked.damaged]
    return {"blobs": checked.blobs, "records": checked.records, "damaged": damaged, "evicted": checked.evicted}


def _compile(settings: Config, options: argparse.Namespace, console: Console) -> int:
    # Looked at, not used: nothing is stored, and what is used least stays so.
    context = open_context(replace(settings, readonly=True, recache=False), console.environ)
    listed = build_directory.commands(options.build or Path(), console.environ)
    done: list[Compared] = []
    rest = sample(listed, len(listed))
    with (
        ProgressLine(console.err, "compiles looked at") as progress,
        tempfile.TemporaryDirectory(prefix="hipcache-") as top,
    ):
        while rest and (wanted := (options.sample or SAMPLE) - _compared(done)) > 0:
            together, rest = rest[: min(wanted, settings.job_slots)], rest[min(wanted, settings.job_slots) :]
            ended: dict[int, Compared] = {}
            with Pool[int, Compared](stop=context.runner.kill, patience=_PATIENCE) as pool:
                for number, command in enumerate(together, len(done)):
                    scratch = Path(top) / str(number)
                    scratch.mkdir()
                    pool.submit(number, partial(comparison.compare_stored, context, command, scratch))
                while pool.busy:
                    number, result = pool.next_done()
                    if isinstance(result, Exception):
                        raise result
                    ended[number] = result
            done += [ended[number] for number in sorted(ended)]
            progress.at(len(done))
    kept = {
        compared.output: str(path)
        for compared in done
        if compared.difference and not settings.readonly
        if (path := comparison.keep(settings.dir, compared.difference, context.clock()))
    }
    if options.json:
        print(json.dumps(_compared_json(done, kept), indent=2), file=console.out)
    else:
        _show_compared(done, kept, console)
    return DAMAGED if any(compared.end == DIFFERENT for compared in done) else 0


def _compared(done: list[Compared]) -> int:
    return sum(compared.end not in (NOT_STORED, NOT_COMPARED) for compared in done)


def _show_compared(done: list[Compared], kept: dict[str, str], console: Console) -> None:
    for result in done:
        if result.difference:
            where = f"; both are in '{kept[result.output]}'" if result.output in kept else ""
            print(f"different: {result.difference.summary()}{where}", file=console.out)
        elif result.why:
            print(f"{result.end}: '{result.output}': {result.why}", file=console.out)
    counts = Counter(result.end for result in done)
    ends = ", ".join(f"{counts[end]} {end}" for end in ENDS if counts[end])
    compared = f"{plural(_compared(done), 'object')} recompiled"
    print(f"{compared}: {ends}" if done else "the build lists no HIP compile", file=console.out)


def _compared_json(done: list[Compared], kept: dict[str, str]) -> dict[str, object]:
    counts = Counter(compared.end for compared in done)
    return {
        "compiles": {end.replace(" ", "_"): counts[end] for end in ENDS},
        "different": [
            {**compared.difference.as_json(), "report": kept.get(compared.output)}
            for compared in done
            if compared.difference is not None
        ],
    }


# Every entry of a local store checked: digests, records that read, and that what they name is there.
#
# Nothing outside of the store is read or written (`confined`), and whatever lies in the place of an entry, a shard or a
# record is removed as what it is. An entry is removed only after it was looked at a second time: another process may
# have put a good one there meanwhile. A record whose blobs were evicted goes, too, and is no damage.

ACTIONS, BLOBS = "actions", "blobs"
_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISREG, "a file"),
)
_NOUNS = {ACTIONS: "record", BLOBS: "blob"}
_WRONG_DIGEST = "its content does not have its digest"


class Damage(NamedTuple):
    """`kind`: "blob", "record" or "other"; `name`: its path below `v2/`; `why` in words."""

    kind: str
    name: str
    why: str
    removed: bool


class Fault(NamedTuple):
    """`why` in words; `gone`: the digests of the blobs that a record names and that are not there."""

    why: str
    gone: frozenset[str] = frozenset()


@dataclass
class Checked:
    """The number of entries, and those that were damaged. `evicted`: records of which blobs were evicted, all removed
    if the store may be written."""

    blobs: int = 0
    records: int = 0
    damaged: list[Damage] = field(default_factory=list)
    evicted: int = 0

    def count(self, tree: str, place: _Place) -> None:
        self.blobs += tree == BLOBS and not place.why
        self.records += tree == ACTIONS and not place.why


def check(store: LocalStore, progress: Callable[[int], object] = lambda number: None) -> Checked:
    """Check all entries of `store`, and remove what is damaged unless it is read-only. `progress` is called with the
    number of entries that have been checked so far. Raises OSError, and StoreError if the store cannot be read."""
    checked = Checked()
    with as_store_error("read", store.confined.base), suppress(FileNotFoundError):
        os.close(store.confined.open_base())
    reader = store.whole()
    # The blobs first: a record that names a damaged one is then found to name one that is gone.
    bad: set[str] = set()
    for tree, check_one in ((BLOBS, _check_blob), (ACTIONS, _check_record)):
        for place in _places(reader, tree):
            fault = Fault(place.why) if place.why else check_one(reader, place) and check_one(reader, place)
            checked.count(tree, place)
            progress(checked.blobs + checked.records)
            # Of a pack, the others are good: such a record is no hit, and leaves with them.
            evicted = fault and fault.gone and fault.gone.isdisjoint(bad)
            if not fault or (evicted and place.is_packed):
                continue
            removed = not store.read_only and place.remove()
            if evicted:
                checked.evicted += 1
            else:
                kind = "other" if place.why else _NOUNS[tree]
                checked.damaged.append(Damage(kind, place.name, fault.why, removed))
                bad.add(place.digest)
    if not store.read_only and (checked.evicted or any(entry.removed for entry in checked.damaged)):
        store.collect()  # which counts what is left
    return checked


# Where entries lie


class _Place:
    """The place of an entry, or what is there instead. `why`: what is wrong with it by its name or kind; `pack`: the
    name of its pack, if it has no file of its own."""

    def __init__(self, confined: Confined, tree: str, digest: str, why: str = "", pack: str = "") -> None:
        self._confined = confined
        self._file = pack or f"{tree}/{digest}"
        self.name = f"{tree}/{digest}"
        self.digest = digest
        self.why = why
        self.is_packed = bool(pack)

    def is_there(self) -> bool:
        try:
            self._confined.status(self._file)
        except OSError:
            return False
        return True

    def remove(self) -> bool:
        """Remove it, whatever it is, and all of its pack; False if that is not possible."""
        try:
            self._confined.discard(self._file)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def _places(store: LocalStore, tree: str) -> Iterator[_Place]:
    """All that lies in one of the two trees, or belongs there."""
    for name, status in sorted(store.confined.listing(tree), key=lambda found: found[0]):
        why = "" if stat.S_ISREG(status.st_mode) else f"{_what(status.st_mode)} is in the place of an entry"
        yield _Place(store.confined, tree, name, why if is_digest(name) else "it is no entry's name")
    for digest, pack in sorted(store.packed(tree).items()):
        yield _Place(store.confined, tree, digest, pack=pack)


def _what(mode: int) -> str:
    """The kind of a file, in words."""
    return next((word for is_kind, word in _KINDS if is_kind(mode)), "a device")


# The faults of entries; None: there is none


def _check_blob(reader: LocalStore, place: _Place) -> Fault | None:
    return Fault(_WRONG_DIGEST) if reader.get_blob(place.digest) is None and place.is_there() else None


def _check_record(reader: LocalStore, place: _Place) -> Fault | None:
    payload = reader.get_record(place.digest)
    if payload is None and reader.seal.secret:
        payload = LocalStore(reader.root, max_bytes=0, read_only=True).get_record(place.digest)
    if payload is None:
        return Fault(_WRONG_DIGEST) if place.is_there() and not reader.has_sealed(place.digest) else None
    try:
        if records.kind_of(payload) == records.PASS:
            missed = [_missed(reader, records.blobs_of(entry)) for entry in records.entries_of(payload)]
            usable = not all(missed) or not missed
            return None if usable else Fault("no entry of it has all blobs that it names", frozenset(chain(*missed)))
        gone = _missed(reader, records.blobs(payload))
    except ValueError as error:
        return Fault(f"it does not read: {error}")
    return Fault(f"it names a blob that is not there: {gone[0]}", frozenset(gone)) if gone else None


def _missed(reader: LocalStore, digests: Iterable[str]) -> list[str]:
    return [digest for digest in digests if not reader.has_blob(digest)]
