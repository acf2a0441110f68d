"""The host unit: its object, with a placeholder where the fat binary goes, or its output with the fat binary in it."""

from __future__ import annotations

from hipcache.errors import PassThrough
from hipcache.making import auxiliary, elsewhere, passes, splice
from hipcache.making.device import Missing, Product
from hipcache.making.records import FrontEntry
from hipcache.planning.frontend import FrontEnd
from hipcache.session import Session


def find(session: Session, unit: FrontEnd) -> Product | Missing:
    found = passes.find(session, unit)
    if found.entry is None:
        return Missing(found.why, False)
    if not session.engine.store.has_blob(found.entry.output):
        return Missing("the store no longer has its object", False)
    entry = found.entry
    beside = auxiliary.kept(session, unit.job, entry)
    if beside is None:
        return Missing(auxiliary.LOST, False)
    seconds, reads = entry.seconds, entry.reads
    return Product(entry.output, None, entry.text, found.dependencies, True, None, seconds, reads=reads, beside=beside)


def make(session: Session, unit: FrontEnd, missing: Missing, fat_binary: bytes = splice.PLACEHOLDER) -> Product:
    """Raises JobFailed, PassThrough, StoreError."""
    with session.alone(unit.key.digest) as waited:
        if waited:
            found = find(session, unit)
            if isinstance(found, Product):
                return found
        embedded = session.write(session.workdir / "embedded.hipfb", fat_binary)
        ran = passes.run(session, unit, "host", bitcode=False, gpubinary=embedded)
        content = ran.output.read_bytes()
        if unit.has_gap:
            _check_layout(content)
        beside = auxiliary.keep(session, unit.job, ran.beside)
        digests = tuple(one.digest for one in beside)
        entry = FrontEntry("", session.keep(content), ran.text, "", False, False, ran.seconds, auxiliary=digests)
        entry = passes.remember(session, unit, ran, entry, content)
        elsewhere.keep(session, unit, ran.reads, entry, content)
        return Product(
            entry.output,
            content,
            ran.text,
            ran.dependencies,
            False,
            None,
            ran.seconds,
            missing.why,
            entry.reads,
            beside=beside,
        )


def _check_layout(content: bytes) -> None:
    try:
        if splice.splice(content, splice.PLACEHOLDER) != content:
            raise splice.UnknownObject("laid out again, it is not the same")
    except splice.UnknownObject as error:
        raise PassThrough("object_layout", str(error)) from error
