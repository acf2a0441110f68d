"""The object: code objects bundled into a fat binary, and that put into the host's object, or the host's into it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hipcache.errors import PassThrough
from hipcache.making import records, splice
from hipcache.making.device import Product
from hipcache.planning.units import ObjectUnit, Units
from hipcache.session import Damaged, Session, decode
from hipcache.values import dataclass


@dataclass(frozen=True)
class Object:
    """`content` is None where the store holds it under `digest`."""

    digest: str
    content: bytes | None


def assemble(session: Session, cut: Units, products: Sequence[Product]) -> list[Object]:
    """What the user gets: one object, or one for each pass. `products` are those of the device units, then the host's.

    Raises Damaged where a product turns out to be damaged in the store, JobFailed, PassThrough."""
    if cut.object is None:
        # (A host's pass that embeds the others' code has taken it by now.)
        apart = products[-1:] if cut.host and cut.host.embeds else products
        return [Object(product.digest, product.content) for product in apart]
    host = products[-1] if cut.host else None
    return [_one(session, cut.object, products[: len(cut.devices)], host)]


def _one(session: Session, unit: ObjectUnit, devices: Sequence[Product], host: Product | None) -> Object:
    key = unit.key([one.digest for one in devices], host.digest if host else "").digest
    stored = records.unpack_object(session.action(key))
    if stored and session.engine.store.has_blob(stored):
        return Object(stored, None)
    content = _together(session, unit, devices, host)
    digest = session.keep(content)
    session.keep_action(key, records.pack_object(digest))
    return Object(digest, content)


def fat_binary(session: Session, unit: ObjectUnit, devices: Sequence[Product]) -> bytes:
    """For a host's pass that takes it. Raises as `assemble`."""
    contents = [_content(session, one) for one in devices]
    codes = [content for content in contents if content is not None]
    if len(codes) < len(contents):
        raise Damaged
    return _bundle(session, unit, codes, None)


def _together(session: Session, unit: ObjectUnit, devices: Sequence[Product], host: Product | None) -> bytes:
    # All of them before the first one is missed: what is damaged goes when it is read, and is made anew in one go.
    contents = [_content(session, one) for one in (*devices, *([host] if host else []))]
    codes = [content if content is not None else b"" for content in contents]
    if None in contents:
        raise Damaged
    template = codes.pop() if host else None
    if template is None or unit.host:
        return _bundle(session, unit, codes, template)
    if not splice.has_fat_binary(template):
        return template
    return splice.splice(template, _bundle(session, unit, codes, None))


def _bundle(session: Session, unit: ObjectUnit, contents: Sequence[bytes], host: bytes | None) -> bytes:
    codes = [session.write(session.workdir / f"{number}.code", content) for number, content in enumerate(contents)]
    part = session.write(session.workdir / "host.part", host) if host is not None else None
    bundled = session.workdir / "bundle.hipfb"
    # Without a slot: it copies files. And it runs in the main thread, where a signal could lose a slot.
    done = session.run_now("bundler", unit.bundle_argv(codes, part, bundled))
    if done.stderr:
        raise PassThrough("job_output", f"the bundler said: {decode(done.stderr)[:200]}")
    return Path(bundled).read_bytes()


def _content(session: Session, product: Product) -> bytes | None:
    return product.content if product.content is not None else session.engine.store.get_blob(product.digest)
