"""Auxiliary outputs of passes: kept with a pass's entry as further blobs, and written for the user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hipcache import atomic
from hipcache.errors import PassThrough
from hipcache.making.records import FrontEntry
from hipcache.planning import auxiliary
from hipcache.planning.plan import Cc1Job
from hipcache.session import Damaged, Session
from hipcache.values import dataclass

LOST = "the store no longer has what was written beside its output"


@dataclass(frozen=True)
class Written:
    """A file that a pass wrote at `path` (as clang names it). `content` is None where the store holds it under
    `digest`."""

    path: str
    digest: str
    content: bytes | None


def keep(session: Session, job: Cc1Job, contents: Sequence[bytes | None]) -> tuple[Written, ...]:
    """`contents`: of the files of all auxiliary options, None where the pass wrote none."""
    named = zip(auxiliary.of(job), contents, strict=True)
    return tuple(
        Written(option.value, "" if content is None else session.keep(content), content) for option, content in named
    )


def kept(session: Session, job: Cc1Job, entry: FrontEntry) -> tuple[Written, ...] | None:
    """Those of an entry; None where the store no longer has one."""
    if not all(session.engine.store.has_blob(digest) for digest in entry.auxiliary if digest):
        return None
    named = zip(auxiliary.of(job), entry.auxiliary, strict=True)
    return tuple(Written(option.value, digest, None) for option, digest in named)


def deliver(session: Session, written: Iterable[Written]) -> dict[str, str]:
    """Write the files, each whole or not at all; gives the digest of each by its absolute path. `written`: in the order
    of the passes: of two in one place the later one stays. Raises Damaged, PassThrough."""
    last = {session.command.path(one.path): one for one in written if one.digest}
    contents: dict[Path, bytes] = {}
    for path, one in last.items():
        content = one.content if one.content is not None else session.engine.store.get_blob(one.digest)
        if content is None:
            raise Damaged
        contents[Path(path)] = content
    for place, content in contents.items():
        try:
            atomic.write_whole(place, content, through_links=True)
        except OSError as error:
            raise PassThrough("store", f"'{place}': {error.strerror}") from error
    return {path: one.digest for path, one in last.items()}
