"""The seal of a record: a digest that anybody can compute, or with a secret a message authentication code.

Whoever can write into a shared store can write a record that says anything, with a right digest. Where its members hold
a secret (HIPCACHE_KEY), records of nobody else count:

    key      BLAKE3's derive_key of the file's content, for CONTEXT
    name     BLAKE3's keyed hash of NAME_DOMAIN and the record's key in hexadecimal: the name of its file. So records
             with and without a seal, and of two secrets, lie in one store without getting into each other's way
    digest   of a record (layout.py): BLAKE3's keyed hash, over the name in the place of the key
    magic    "hcK1" in place of "hcA1", so that who has no secret does not take the record for damaged

A namespace (HIPCACHE_NAMESPACE) is a seal, too: its secret is BLAKE3's derive_key, for NAMESPACE_CONTEXT, of the secret
(if there is one) and its name. So it is part of every record's name, in the store and in remotes, and who knows it can
tell which records are its own. It keeps nobody out.

Blobs need none: records name them by their digests. `native/direct/seal.c` does the same.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hipcache.base import shared
from hipcache.base.errors import StoreError
from hipcache.base.files import Descriptor
from hipcache.base.hashing import blake3
from hipcache.base.values import dataclass, replace

CONTEXT = shared.SEAL_CONTEXT
NAME_DOMAIN = shared.terminated(shared.SEALED_NAME_DOMAIN)
LEAST, MOST = 16, 4096  # bytes of a secret

_HINT = "make one with: (umask 077; head -c 32 /dev/urandom > FILE), and give it to the members of the store"


@dataclass(frozen=True)
class Seal:
    """`secret`: empty if records carry none. `namespace`: its name; `key`: a name for the key file's secret, which does
    not give it away."""

    secret: bytes = b""
    namespace: str = ""
    key: str = ""

    def name(self, key: str) -> str:
        """The name of the file of `key`'s record."""
        return blake3(NAME_DOMAIN + key.encode("ascii"), key=self.secret).hexdigest() if self.secret else key

    def within(self, namespace: str) -> Seal:
        """The seal of the records of that namespace; this one if it is empty."""
        if not namespace:
            return self
        material = self.secret + namespace.encode("ascii")
        return Seal(blake3(material, derive_key_context=shared.NAMESPACE_CONTEXT).digest(), namespace, self.key)

    def digest(self, content: bytes) -> bytes:
        return blake3(content, key=self.secret).digest() if self.secret else blake3(content).digest()


NO_SEAL = Seal()


def read(path: Path | None) -> Seal:
    """The seal with the secret in that file, or none. Raises StoreError."""
    if path is None:
        return NO_SEAL
    try:
        with Descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)) as fd:
            why = _why_not(os.fstat(fd))
            secret = b"" if why else os.read(fd, MOST + 1)
    except OSError as error:
        raise StoreError(f"cannot read the key of the store, '{path}': {error.strerror}", _HINT) from error
    if not why and not LEAST <= len(secret) <= MOST:
        why = f"has {len(secret)} bytes; it must have {LEAST} to {MOST}"
    if why:
        raise StoreError(f"the key of the store, '{path}', {why}", _HINT)
    seal = Seal(blake3(secret, derive_key_context=CONTEXT).digest())
    return replace(seal, key=seal.name(""))


def _why_not(found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    if found.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user (uid {found.st_uid})"
    if found.st_mode & 0o077:
        return f"can be read or written by others (mode {stat.S_IMODE(found.st_mode):o}); chmod 600 it"
    return "has more bytes than it may" if found.st_size > MOST else ""
