"""The device link of one offload arch: its code object, found by the content of all that goes in, or linked (LTO).

lld gets the files that the driver's plan names, in the directory of this link. What it makes of them depends on their
content, its options and itself: that is the key. Names of the user's files are in it as far as `explain` shows them.
"""

from __future__ import annotations

import os
from pathlib import Path

from hipcache.errors import PassThrough
from hipcache.inputs.keys import Key, digest_file, make_key
from hipcache.making import records
from hipcache.making.records import LinkRecord
from hipcache.planning.link_plan import DeviceLink, LinkPlan
from hipcache.session import Session, decode
from hipcache.values import dataclass


@dataclass(frozen=True)
class Linked:
    """A code object, which the store holds where `content` is None. `why` it had to be linked; empty for a hit."""

    digest: str
    content: bytes | None
    text: str
    seconds: float
    why: str = ""

    @property
    def hit(self) -> bool:
        return not self.why


def key(session: Session, plan: LinkPlan, link: DeviceLink) -> Key:
    """Raises PassThrough where something that goes in cannot be read."""
    try:
        inputs = [("linker", session.identities.digest(session.files.resolve(link.job.program)))]
    except OSError as error:
        raise PassThrough("tool", f"'{link.job.program}': {error}") from error
    for word in link.job.arguments:
        if word in link.inputs:
            inputs.append(_input(session, plan, word))
        else:
            inputs.append(("linker option", "code object" if word == link.code else word))
    return make_key("device link", inputs)


def said(session: Session, output: bytes) -> str:
    """What a linker printed. Where it names a temporary file, that is one of the driver's: with a name that is another
    one each time, in the user's directory for such."""
    return decode(output).replace(str(session.workdir), session.engine.environ.get("TMPDIR") or "/tmp")


def _input(session: Session, plan: LinkPlan, name: str) -> tuple[str, str]:
    origin = plan.origin(name)
    try:
        if origin:
            return f"device code of '{os.path.basename(origin)}'", digest_file(session.files.resolve(name))
        return f"content of {os.path.basename(name)}", session.files.named(name)
    except OSError as error:
        raise PassThrough("named_file", f"'{name}': {error.strerror}") from error


def find(session: Session, unit: Key) -> Linked | None:
    record = records.unpack_link(session.action(unit.digest))
    if record is None or not session.engine.store.has_blob(record.code):
        return None
    return Linked(record.code, None, record.text, record.seconds)


def make(session: Session, link: DeviceLink, unit: Key) -> Linked:
    """Raises JobFailed, PassThrough, StoreError."""
    with session.alone(unit.digest) as waited:
        found = find(session, unit) if waited else None
        if found:
            return found
        done = session.run(f"device link of {link.arch}", [link.job.program, *link.job.arguments])
        content = Path(session.command.path(link.code)).read_bytes()
        text = said(session, done.stderr)
        digest = session.keep(content)
        session.keep_action(unit.digest, records.pack_link(LinkRecord(digest, text, done.seconds)))
        return Linked(digest, content, text, done.seconds, "nothing is stored for this device code")
