"""The device link of one offload arch: its code object, found by the content of all that goes in, or linked (LTO).

Which job that is, and its key, the plan says (`bundled_link`, `wrapped_link`). What the job makes depends on the
content of its inputs, its options and its tools: that is the key. Names of the user's files are in it as far as
`explain` shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from hipcache.inputs.keys import Key
from hipcache.making import records
from hipcache.making.records import LinkRecord
from hipcache.session import Session, decode
from hipcache.values import dataclass


@dataclass(frozen=True)
class Unit:
    """One arch's device link: `argv`, run in `directory` with `environ`, writes `code`."""

    arch: str
    key: Key
    argv: tuple[str, ...]
    directory: Path
    environ: Mapping[str, str]
    code: Path


@dataclass(frozen=True)
class Linked:
    """The code object of `unit`, which the store holds where `content` is None. `why` it had to be linked; empty for a
    hit."""

    unit: Unit
    digest: str
    content: bytes | None
    text: str
    seconds: float
    why: str = ""

    @property
    def hit(self) -> bool:
        return not self.why


def said(session: Session, output: bytes) -> str:
    """What a linker printed. Where it names a temporary file, that is one of the driver's: with a name that is another
    one each time, in the user's directory for such."""
    return decode(output).replace(str(session.workdir), session.engine.environ.get("TMPDIR") or "/tmp")


def link(session: Session, units: Sequence[Unit]) -> list[Linked]:
    """What each unit comes to: looked up, and what is missing linked, side by side. Raises as `_make`."""
    codes = {number: found for number, unit in enumerate(units) if (found := _find(session, unit))}
    tasks = {number: partial(_make, session, unit) for number, unit in enumerate(units) if number not in codes}
    codes |= session.side_by_side(tasks)
    return [codes[number] for number in range(len(units))]


def _find(session: Session, unit: Unit) -> Linked | None:
    record = records.unpack_link(session.action(unit.key.digest))
    if record is None or not session.engine.store.has_blob(record.code):
        return None
    return Linked(unit, record.code, None, record.text, record.seconds)


def _make(session: Session, unit: Unit) -> Linked:
    """Raises JobFailed, PassThrough, StoreError."""
    with session.alone(unit.key.digest) as waited:
        found = _find(session, unit) if waited else None
        if found:
            return found
        name = f"device link of {unit.arch}"
        done = session.run(name, list(unit.argv), directory=unit.directory, environ=unit.environ)
        content = unit.code.read_bytes()
        text = said(session, done.stderr)
        digest = session.keep(content)
        session.keep_action(unit.key.digest, records.pack_link(LinkRecord(digest, text, done.seconds)))
        return Linked(unit, digest, content, text, done.seconds, "nothing is stored for this device code")


def restore(session: Session, codes: Sequence[Linked]) -> bool:
    """Put the code objects that were found where the jobs would have written them; False where one is damaged."""
    # All of them before one that is damaged ends this try: the next one makes all that are.
    copied = [session.engine.store.copy_blob(one.digest, one.unit.code) for one in codes if one.content is None]
    return all(copied)
