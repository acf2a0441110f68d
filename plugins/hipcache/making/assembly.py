"""The object: code objects bundled into a fat binary, and that put into the host's object."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hipcache.errors import PassThrough
from hipcache.making import records, splice
from hipcache.making.device import Product
from hipcache.planning.units import ObjectUnit
from hipcache.session import Damaged, Session, decode
from hipcache.values import dataclass


@dataclass(frozen=True)
class Object:
    """`content` is None where the store holds it under `digest`."""

    digest: str
    content: bytes | None


def assemble(session: Session, unit: ObjectUnit, devices: Sequence[Product], host: Product) -> Object:
    """Raises Damaged where a product turns out to be damaged in the store, JobFailed, PassThrough."""
    key = unit.key([one.digest for one in devices], host.digest).digest
    stored = records.unpack_object(session.action(key))
    if stored and session.engine.store.has_blob(stored):
        return Object(stored, None)
    # All of them before the first one is missed: what is damaged goes when it is read, and is made anew in one go.
    contents = [_content(session, one) for one in (host, *devices)]
    template, *codes = [content if content is not None else b"" for content in contents]
    if None in contents:
        raise Damaged
    content = template
    if splice.has_fat_binary(template):
        content = splice.splice(template, _bundle(session, unit, codes))
    digest = session.keep(content)
    session.keep_action(key, records.pack_object(digest))
    return Object(digest, content)


def _bundle(session: Session, unit: ObjectUnit, contents: Sequence[bytes]) -> bytes:
    codes = [session.write(session.workdir / f"{number}.code", content) for number, content in enumerate(contents)]
    fat_binary = session.workdir / "bundle.hipfb"
    # Without a slot: it copies files. And it runs in the main thread, where a signal could lose a slot.
    done = session.run_now("bundler", unit.bundle_argv(codes, fat_binary))
    if done.stderr:
        raise PassThrough("job_output", f"the bundler said: {decode(done.stderr)[:200]}")
    return Path(fat_binary).read_bytes()


def _content(session: Session, product: Product) -> bytes | None:
    return product.content if product.content is not None else session.engine.store.get_blob(product.digest)
