"""What is kept of one precompiled header.

It lies in a store of its own in the directory for temporary files, of this user and machine, for all stores of the
results: a PCH has 7 MB, zstd makes 3.9 of them, and the results of an ordinary source with four architectures take 0.1.
So neither a store nor what a CI job saves of it is larger for that. It can be made again at any time.

A record is JSON {"wanted": passes that have missed it, "seconds": their processor time, "outputs": [hash of the PCH
file, of `Made`, of the read set, of the words], "why": why it could not be made, "compared": [has a pass come out the
same with it and without, of the architecture that it was made with, of another one?]}; without outputs it only counts.
It is in no key.
The words are zlib-compressed: all identifiers of the header's files and of its expanded text, between newlines.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from hipcache.base.compression import pack_json, unpack_json
from hipcache.base.paths import places_for_files
from hipcache.base.values import dataclass, field, replace
from hipcache.clang.frontend import FrontEnd
from hipcache.driver_header import header
from hipcache.inputs.file_manager import FileManager
from hipcache.inputs.observing import Observed, plain
from hipcache.inputs.readset import ReadSet
from hipcache.store.local import LocalStore

# Three sets of options with 22 architectures and the host. It may be memory.
_MOST = 512 << 20
_LISTS = ("opened", "there", "directories", "links")
_TO_BLANKS = bytes(byte if byte >= 0x80 or chr(byte).isalnum() or byte in b"_$" else ord(" ") for byte in range(0x100))
# So many passes miss it before a compile that makes it: one costs what two passes save, and three are compared, each of
# which costs a plain pass.
PAYS = 8
# Sources of which a pass is compared before it is trusted (`trust`).
ENOUGH = 3
# Seconds that it saves of each pass. Where passes are long, more of them miss it, until this pays for those compared.
_SAVED = 0.35
# After it could not be made it is not tried again for so many passes that miss it.
_REFUSED_FOR = 64


def open_files(environ: Mapping[str, str]) -> LocalStore | None:
    """None where there is no directory for it."""
    place = next(places_for_files(environ), None)
    return LocalStore(Path(place, "headers"), max_bytes=_MOST, umask=0o077, packs=False) if place else None


@dataclass(frozen=True)
class HeaderRecord:
    wanted: int = 0
    seconds: float = 0.0
    outputs: tuple[str, ...] = ()
    why: str = ""
    compared: tuple[bool, bool] = (False, False)

    @property
    def is_due(self) -> bool:
        if self.wanted < (_REFUSED_FOR if self.why else PAYS):
            return False
        return self.wanted * _SAVED >= ENOUGH * self.seconds / self.wanted

    def missed(self, seconds: float) -> HeaderRecord:
        return replace(self, wanted=self.wanted + 1, seconds=self.seconds + seconds, outputs=())

    def pack(self) -> bytes:
        return json.dumps(vars(self)).encode()

    @classmethod
    def unpack(cls, record: bytes | None) -> HeaderRecord:
        """A damaged record counts for none."""
        try:
            found = json.loads(record) if record else {}
            outputs = tuple(map(str, found["outputs"]))
            own, other = found["compared"]
            counted = int(found["wanted"]), float(found["seconds"])
            return cls(*counted, outputs, str(found["why"]), (own is True, other is True))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return cls()


@dataclass(frozen=True)
class Made:
    """A precompiled header. `pch`: the file; `read`: the headers, in clang's order; `observed`: all paths that were
    looked at; `names`: by which headers are looked for in directories; `reads`: what was read, as a read set; `macros`:
    those that the compiler defines, as it lists them (a device's); `corrections`: of those, for a pass; `behind`: the
    macros of the header (`header.behind`); `left`: macros of which it leaves a definition to be taken back; `words`:
    packed; `since`: all of this holds since then (seconds of the epoch)."""

    read: tuple[str, ...]
    observed: Observed
    names: tuple[str, ...]
    macros: bytes = b""
    behind: bytes = b""
    left: tuple[str, ...] = ()
    corrections: tuple[str, ...] = ()
    pch: Path = field(default=Path())
    reads: ReadSet = field(default=ReadSet((), (), ()))
    words: bytes = b""
    since: float = 0.0

    def pack(self) -> bytes:
        lists = {name: sorted(getattr(self.observed, name)) for name in _LISTS}
        missed = {place: sorted(names) for place, names in self.observed.missed.items()}
        more = {"missed": missed, "read": self.read, "names": self.names, "macros": self.macros.decode()}
        more |= {"behind": self.behind.decode("latin-1"), "left": self.left}
        return pack_json({**lists, **more}, level=1)

    @classmethod
    def unpack(cls, packed: bytes) -> Made:
        """Raises ValueError for anything that `pack` did not write."""
        try:
            found = unpack_json(packed)
            opened, there, directories, links = (set(map(str, found[name])) for name in _LISTS)
            missed = {place: frozenset(names) for place, names in found["missed"].items()}
            observed = Observed(opened, there, directories, missed, links)
            read, names, left = (tuple(map(str, found[name])) for name in ("read", "names", "left"))
            macros, behind = str(found["macros"]).encode(), str(found["behind"]).encode("latin-1")
            return cls(read, observed, names, macros, behind, left)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not a precompiled header: {error}") from error

    def shadows(self, front: FrontEnd, files: FileManager) -> set[str] | None:
        """The paths below the user's directories at which a plain pass looks for the headers in vain; None if one is
        there, or a name stands for no directory."""
        found = set()
        for place in dict.fromkeys(header.directories(front)):
            if files.is_there(place) and not files.is_directory(place):
                return None
            found |= {plain(os.path.join(place, name)) for name in self.names} if files.is_there(place) else {place}
        return None if any(files.is_there(path) for path in found) else found


def names_of(observed: Observed, places: Iterable[str]) -> tuple[str, ...]:
    """The names by which headers were looked for. Clang looks for each in the first of `places`, the directories that
    are there, before or after those of the user (for what is below a directory that is not there, for that directory).
    Empty if it did not look for the driver's header there."""
    first = next(iter(places), "").rstrip("/") + "/"
    paths = observed.opened | observed.there | observed.absent
    names = tuple(sorted(path[len(first) :] for path in paths if path.startswith(first) and path != first))
    return names if header.NAME in names else ()


def words_of(texts: Iterable[bytes]) -> set[bytes]:
    """All identifiers in the texts."""
    words = set[bytes]()
    for text in texts:
        words.update(text.translate(_TO_BLANKS).split())
    return {word for word in words if not word[:1].isdigit()}


def pack_words(words: set[bytes]) -> bytes:
    return zlib.compress(b"\n" + b"\n".join(sorted(words)) + b"\n", 1)


def asks_for(packed: bytes, macros: Iterable[str]) -> bool:
    """May the header ask for one of these macros? (True if its words are lost or damaged.)"""
    words = _unpacked(packed)
    return not words or any(b"\n%b\n" % os.fsencode(macro) in words for macro in macros)


@lru_cache(maxsize=2)  # those of devices and of the host
def _unpacked(packed: bytes) -> bytes:
    try:
        return zlib.decompress(packed)
    except zlib.error:
        return b""
