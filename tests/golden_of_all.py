"""Plain clang's results that all tests of one run share: most tests begin with the same compile of the same source.

`golden` knows a result by the status of all files of a test; here it is known by their content, with the test's own
directory left out of every path. So a result is kept, and taken, only where nothing but that can be in it:

- neither the command, the environment nor a file names another directory of the run's, or one above the test's own;
- no file is large (a linker of a test's own has 6 MB), and nothing asks for the time (see `golden`) or for the
  age of a file (`#pragma GCC dependency`), since a file's times are not in the key;
- clang has written nothing but what the result holds;
- the directory's name is nowhere in the result, as it would be with debug information or in a dependency file.

One use in twenty is an audit, as in `golden`. A full run shares nothing (`session.SHORT`).

Digests of such results are kept beside the tests (`golden_digests.txt`, of Debian 12's compilers; `make golden` writes
them), with the directory's name left out of the result: if what hipcache made has the digest, plain clang need not make
it again. If it has another one, clang decides.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from golden import Tree

Result = TypeVar("Result")

_LARGE = 8 << 20
_ASKS_FOR_AGE = b"dependency"
_OWN = b"\0own\0/"
_PATH, _INHERITED_PATH = os.environb.get(b"PATH", b"/bin"), b"\0path\0"
# The disks of tests, which are in no tree.
_NOT_LISTED = _OWN + b"disk"
_DIGESTS = Path(__file__).with_name("golden_digests.txt")
# Where a run writes digests; it takes none then.
_WRITTEN = os.environ.get("TEST_GOLDEN")
#: Beginnings of the names of variables that no compile of a test gets from outside.
NOT_INHERITED = ("HIPCACHE_", "XDG_", "MAKEFLAGS", "MFLAGS", "COLUMNS", "PYTEST_", "TEST_")
# What labs set themselves says the same wherever they are run: `make` has set some of it, too.
_SET_BY_LABS = ("HOME", "LC_ALL", "HIP_PLATFORM")
# What all tests begin with says nothing of a test.
_INHERITED = {item for item in os.environ.items() if not item[0].startswith((*NOT_INHERITED, *_SET_BY_LABS))}


@cache
def known_digests() -> Mapping[str, Collection[str]]:
    """By the beginning of a key. One key has several where a directory's name is in the result: clang wraps the lines
    of a dependency file by its length."""
    known: dict[str, list[str]] = {}
    for line in [] if _WRITTEN or not _DIGESTS.exists() else _DIGESTS.read_text().splitlines():
        key, digest = line.split()
        known.setdefault(key, []).append(digest)
    return known


def digest_of(result: object, top: Path) -> str:
    """The same in each `top` whose name is as long."""
    text, own = repr(result), f"{top}/"
    if own in text:
        text = f"{len(own)} {text.replace(own, _OWN.decode())}"
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


@dataclass(frozen=True)
class Question:
    """What plain clang is asked: a command in a directory and an environment. `look`: what files there are.
    `everywhere`: is the result surely the same in each directory? (That of a program by the new driver is not.)"""

    command: Sequence[str]
    cwd: Path
    environ: Mapping[str, str]
    look: Callable[[], Tree]
    everywhere: bool = True

    def key(self, top: Path, others: Path) -> str:
        """The same in each directory; empty where it cannot be. `top`: that of the test; `others`: where those of all
        tests are."""
        own = os.fsencode(top) + b"/"
        gone = (f"{name}=" for name, _ in _INHERITED if name not in self.environ)
        set_here = (f"{name}={value}" for name, value in set(self.environ.items()) - _INHERITED)
        told = [*self.command, f"{self.cwd}/", *sorted(set_here), *sorted(gone)]
        parts = [os.fsencode(word).replace(own, _OWN).replace(_PATH, _INHERITED_PATH) for word in told]
        if any(b"../.." in part or _NOT_LISTED in part for part in parts):
            return ""
        for path, mode, _, _, *more in self.look().entries:
            content = b""
            if stat.S_ISREG(mode):
                content = Path(path).read_bytes()
                if len(content) > _LARGE:
                    return ""
            elif stat.S_ISLNK(mode):
                content = os.fsencode(more[0])
            elif not stat.S_ISDIR(mode):
                return ""
            parts += [os.fsencode(os.path.relpath(path, top)), b"%o" % mode, content.replace(own, _OWN)]
        digest = hashlib.blake2b(digest_size=16)
        for part in parts:
            if os.fsencode(others) in part or _ASKS_FOR_AGE in part:
                return ""
            digest.update(b"%d:%b" % (len(part), part))
        return digest.hexdigest()


@dataclass
class GoldenOfAll:
    """`session`: the directory of this run of tests; `top`: of one test; `reused`: how often a result was used
    again."""

    session: Path
    top: Path
    reused: int = 0
    audited_one_in: int = 20

    def get(self, run: Callable[[], Result], asked: Question, guess: Callable[[], Result] | None = None) -> Result:
        """What `run` gives, or gave another test for the same; or what `guess` gives, if that is known to be the
        same."""
        key = asked.key(self.top, self.session)
        path = self.session / "golden" / key
        if not key:
            return run()
        is_audit = zlib.crc32(f"{key} {self.top}".encode()) % self.audited_one_in == 0
        if asked.everywhere and path.exists():
            known: Result = pickle.loads(path.read_bytes())
            self.reused += 1
            if is_audit:
                assert run() == known, "plain clang differs from itself, or sees what the shared key does not hold"
            return known
        if guess and not is_audit and (digests := known_digests().get(key[:12])):
            guessed = guess()
            if digest_of(guessed, self.top) in digests:
                return guessed
        before = asked.look().entries
        made = run()
        if asked.look().entries != before:
            return made
        if _WRITTEN:
            with open(_WRITTEN, "a") as file:
                file.write(f"{key[:12]} {digest_of(made, self.top)}\n")
        packed = pickle.dumps(made)
        if asked.everywhere and os.fsencode(self.top) not in packed:
            path.parent.mkdir(exist_ok=True)
            part = path.with_name(f"{path.name}.{os.getpid()}")
            part.write_bytes(packed)
            part.replace(path)
        return made
