"""Libraries that the driver takes apart for the device link of each pass, though most of them are the host's alone.

    clang-offload-bundler -unbundle -type=a -input=LIBRARY -targets=...-gfx906  -> an archive of that arch's device code
    lld ... PASS.o ARCHIVE                                                      -> code object

Where the archive is empty the link is the same without it. What the bundler finds depends on the library's content and
on its own: that it found nothing is kept in the store, an action that holds `_NOTHING`. (Not of a thin archive, which
only names its members.)
"""

from __future__ import annotations

import os

from hipcache.errors import PassThrough
from hipcache.execution.session import Session
from hipcache.inputs import linked
from hipcache.inputs.keys import make_key
from hipcache.planning.link_plan import Unbundle

_NOTHING = b"no device code"
_EMPTY = b"!<arch>\n"


def check_without_device_code(session: Session, one: Unbundle) -> None:
    """Raises PassThrough if the library has device code for the arch, JobFailed if it is none."""
    key = _key(session, one)
    is_whole = linked.is_archive(one.source, session.files.resolve(one.source))
    if is_whole and session.shelves.shelf.records([key]).get(key) == _NOTHING:
        return
    archive = session.jobs.workdir / "device-code.a"
    words = [word if "output=" not in word else f"-output={archive}" for word in one.job.arguments]
    done = session.jobs.run_now(f"unbundling of '{one.source}'", [one.job.program, *words])
    if done.stderr:
        raise PassThrough("job_output", f"unbundling of '{one.source}' printed: {os.fsdecode(done.stderr)[:200]}")
    if archive.read_bytes() != _EMPTY:
        raise PassThrough("link", f"library '{one.source}' has device code, and the command compiles and links at once")
    if is_whole:
        session.shelves.shelf.put(key, _NOTHING)


def _key(session: Session, one: Unbundle) -> str:
    inputs = [("bundler", session.tool(one.job.program))]
    try:
        inputs.append(("library", session.files.named(one.source)))
    except OSError as error:
        raise PassThrough("named_file", f"'{one.source}': {error.strerror}") from error
    words = (word for word in one.job.arguments if not word.lstrip("-").startswith(("input=", "output=")))
    inputs += [("bundler option", word) for word in words]
    return make_key("unbundling", inputs).digest
