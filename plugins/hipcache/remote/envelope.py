"""A record of the store as a remote holds it: a serialized ActionResult of the Remote Execution API.

    action          Action{command_digest and input_root_digest: of nothing; salt: SALT, the record's key}: a REAPI
                    action that nobody can execute. Its SHA-256 is the result's name
    output_files    the contents that the record names: path: the BLAKE3 digest that the record has for it; digest: the
                    SHA-256 that the server knows it by. A server that has lost one has lost the result
    stdout_raw      MAGIC, 32 bytes of check, JSON: {"key": key, "record": text, "next": [key, ...]}

`next`: keys that commands asked for later which asked for this one, so that they can be fetched together. The check is
BLAKE3 over DOMAIN, the JSON and the outputs; with HIPCACHE_KEY it is keyed (`store/seal`), and the key in the salt is
sealed, too: whoever can write to the remote and does not have the key file can make nothing that counts. Bytes of
other kinds, and a record under another key, are damage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from google.protobuf.message import DecodeError

from hipcache.base.keys import is_digest
from hipcache.base.values import dataclass
from hipcache.remote import reapi_pb2 as reapi
from hipcache.remote.backend import MOST_CONTENT, Blob, blob_of
from hipcache.store.seal import Seal

MAGIC = b"hipcache remote 1\n"
DOMAIN = b"hipcache remote result 1\0"
SALT = b"hipcache 1 "
_CHECK = 32
MOST_NEXT, MOST_CONTENTS = 256, 1024


class Damaged(Exception):
    """It is no result of ours, or not that of this key."""


@dataclass(frozen=True)
class Envelope:
    """`contents`: by the BLAKE3 digest that the record has for each."""

    key: str
    record: bytes
    contents: Mapping[str, Blob]
    next: tuple[str, ...] = ()


def action_of(key: str, seal: Seal) -> Blob:
    """The digest that the result of a key is found by."""
    nothing = blob_of(b"")
    empty = reapi.Digest(hash=nothing.hash, size_bytes=nothing.size)
    salt = SALT + seal.name(key).encode("ascii")
    return blob_of(reapi.Action(command_digest=empty, input_root_digest=empty, salt=salt).SerializeToString())


def pack(envelope: Envelope, seal: Seal) -> bytes:
    text = envelope.record.decode("utf-8", "surrogateescape")
    body = json.dumps({"key": envelope.key, "record": text, "next": envelope.next[:MOST_NEXT]}).encode("ascii")
    files = sorted(envelope.contents.items())
    result = reapi.ActionResult(stdout_raw=MAGIC + _check(body, files, seal) + body)
    for name, blob in files:
        digest = reapi.Digest(hash=blob.hash, size_bytes=blob.size)
        result.output_files.append(reapi.OutputFile(path=name, digest=digest))
    return bytes(result.SerializeToString())


def unpack(key: str, raw: bytes, seal: Seal) -> Envelope:
    """Raises Damaged."""
    try:
        result = reapi.ActionResult.FromString(raw)
        said = bytes(result.stdout_raw)
        files = [(file.path, Blob(file.digest.hash, file.digest.size_bytes)) for file in result.output_files]
        body = said[len(MAGIC) + _CHECK :]
        if said[: len(MAGIC) + _CHECK] != MAGIC + _check(body, sorted(files), seal):
            raise Damaged("its checksum is wrong")
        found = json.loads(body)
        record = found["record"].encode("utf-8", "surrogateescape")
        following = tuple(found["next"])
    except (DecodeError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged(str(error)) from error
    digests = [digest for name, blob in files for digest in (name, blob.hash)]
    sizes_are_good = all(0 <= blob.size <= MOST_CONTENT for _, blob in files)
    good = found["key"] == key and sizes_are_good and len(files) <= MOST_CONTENTS and len(following) <= MOST_NEXT
    if not good or not all(is_digest(digest) for digest in (*digests, *following)):
        raise Damaged("it belongs to another key, or has an unexpected form")
    return Envelope(key, record, dict(files), following)


def _check(body: bytes, files: Iterable[tuple[str, Blob]], seal: Seal) -> bytes:
    listed = "".join(f"{name} {blob.hash} {blob.size}\n" for name, blob in files).encode("utf-8", "surrogateescape")
    return seal.digest(b"".join([DOMAIN, b"%d:" % len(body), body, listed]))
