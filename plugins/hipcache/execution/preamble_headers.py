"""Checks the headers of a precompiled preamble by their texts (`planning/header_rules`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hipcache.execution.headers import Headers
from hipcache.execution.preamble_values import Refused
from hipcache.execution.read_files import recorded
from hipcache.execution.session import Session
from hipcache.inputs.observing import Observed
from hipcache.making.undefined import Functions
from hipcache.planning import header_rules, standard_headers
from hipcache.planning.frontend import FrontEnd


def checked(session: Session, front: FrontEnd, read: Sequence[str], observed: Observed, started: float) -> Headers:
    """The headers that a compile has `read` which began at `started` (seconds of the epoch). Raises Refused,
    Untraceable."""
    files = session.files
    own, others = list[bytes](), list[bytes]()
    for path in read:
        if not path.startswith("/") or not observed.has_read(path) or files.resolve(front.source) == path:
            raise Refused(f"'{path}' is relative, the source itself, or was not seen to be read")
        is_standard = standard_headers.is_standard(path, front.search, files)
        if not is_standard and not session.engine.any_header:
            raise Refused(f"'{path}': it is no header of the compiler's, of the standard libraries or of HIP's")
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise Refused(f"'{path}': {error.strerror}") from error
        is_own = front.search.is_own(path, files.basedir)
        fault = header_rules.fault(content, system=is_own)
        if fault:
            raise Refused(f"'{path}': {fault}")
        (own if is_standard else others).append(content)
        if not is_own and header_rules.may_warn_of_fields(front, content):
            raise Refused(f"'{path}': clang would not warn of its private fields that are not used")
    if header_rules.have_variables(front, others):
        raise Refused("a header declares a variable of the device")
    if header_rules.may_catch(front, others):
        raise Refused("a function of the device has a try, of which clang would say nothing")
    devices = Functions(*header_rules.devices_functions(front, own, others))
    return Headers(tuple(read), observed, recorded(session, front, read, None, observed, started), devices)
