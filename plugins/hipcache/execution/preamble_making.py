"""Makes precompiled preambles (`planning/preamble`), by a compiler that is observed."""

from __future__ import annotations

import os

from hipcache.errors import JobFailed, StoreFull
from hipcache.execution import preamble_alone, preamble_headers
from hipcache.execution.instances import InstancesInUse
from hipcache.execution.preamble_values import NAME, Candidate, Preamble, Refused
from hipcache.execution.session import Session
from hipcache.inputs import observing
from hipcache.inputs.trace import Untraceable
from hipcache.making import depfile
from hipcache.planning import preamble
from hipcache.planning.frontend import FrontEnd
from hipcache.values import replace


def make(
    session: Session, in_use: InstancesInUse, front: FrontEnd, one: Candidate, stem: str, *, initializes: bool
) -> Preamble:
    """Precompile it. `initializes`: may a pass with it have initializers? Raises Refused."""
    try:
        return _made(session, in_use, front, one, stem, initializes=initializes)
    except Untraceable as why:
        raise Refused(str(why), for_now=True) from why
    except StoreFull as why:
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
    headers = preamble_headers.checked(session, front, read, observed, started)
    preamble_alone.check_macros(session, front, text, stem)
    known = replace(one, startup=preamble_alone.startup_code(session, front, pch, stem) if initializes else "")
    assert headers.reads
    instances = in_use.listed(front, text, headers.reads) if one.instantiated else None
    return Preamble(known, pch, headers, instances)
