"""Makes precompiled preambles (`planning/preamble`), by a compiler that is observed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hipcache.errors import JobFailed
from hipcache.execution import preamble_alone
from hipcache.execution.instances import InstancesInUse
from hipcache.execution.preamble_values import NAME, Candidate, Preamble, Refused
from hipcache.execution.read_files import Headers, recorded
from hipcache.execution.session import Session
from hipcache.inputs import observing
from hipcache.inputs.observing import Observed
from hipcache.inputs.trace import Untraceable
from hipcache.making import depfile
from hipcache.planning import preamble
from hipcache.planning.frontend import FrontEnd
from hipcache.values import replace

# In the path of each header of the compiler's, of libstdc++'s and of HIP's own: they declare no variable of the device.
_WITHOUT_VARIABLES = ("/clang/", "/c++/", "/hip/")


def make(
    session: Session, in_use: InstancesInUse, front: FrontEnd, one: Candidate, stem: str, *, initializes: bool
) -> Preamble:
    """Precompile it. `initializes`: may a pass with it have initializers? Raises Refused."""
    try:
        return _made(session, in_use, front, one, stem, initializes=initializes)
    except Untraceable as why:
        raise Refused(str(why), for_now=True) from why
    except JobFailed as why:
        raise Refused(str(why)) from why


def _made(
    session: Session, in_use: InstancesInUse, front: FrontEnd, one: Candidate, stem: str, *, initializes: bool
) -> Preamble:
    """Raises Refused, JobFailed, Untraceable."""
    pch, rule = (session.jobs.scratch(f"{stem}-made.{end}") for end in ("pch", "pch.d"))
    text = session.jobs.scratch(f"{stem}-made.hip", preamble.text_of(one.names))
    with session.engine.slots.hold(session.jobs.runner.check):
        started = session.engine.clock()
        argv = preamble.making(front, str(pch), str(rule), instantiated=one.instantiated)
        traced = session.jobs.trace(NAME, argv, stdin=text)
        set_back = session.jobs.was_set_back(started, traced.ended)
    if traced.observed is None or set_back or traced.ended.stderr:
        raise Refused("it cannot be observed, or has something to say")
    observed = observing.parse(traced.observed, str(session.jobs.workdir))
    listed = depfile.parse(os.fsdecode(rule.read_bytes()))
    read = tuple(path for path in listed if path not in ("-", preamble.STANDARD_INPUT))
    _check_headers(session, front, read, observed)
    reads = recorded(session, front, read, None, observed, started)
    known = replace(one, startup=preamble_alone.startup_code(session, front, pch, stem) if initializes else "")
    instances = in_use.listed(front, text, reads) if one.instantiated else None
    return Preamble(known, pch, Headers(read, observed, reads), instances)


def _check_headers(session: Session, front: FrontEnd, read: Sequence[str], observed: Observed) -> None:
    """Raises Refused."""
    files = session.files
    others = []
    for path in read:
        if not path.startswith("/") or not observed.has_read(path) or files.resolve(front.source) == path:
            raise Refused(f"'{path}' is relative, the source itself, or was not seen to be read")
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise Refused(f"'{path}': {error.strerror}") from error
        is_own = front.search.is_own(path, files.basedir)
        fault = preamble.fault(content, system=is_own)
        if fault:
            raise Refused(f"'{path}': {fault}")
        if not (is_own and any(part in path for part in _WITHOUT_VARIABLES)):
            others.append(content)
        if not is_own and preamble.may_warn_of_fields(front, content):
            raise Refused(f"'{path}': clang would not warn of its private fields that are not used")
    if preamble.have_variables(front, others):
        raise Refused("a header declares a variable of the device")
