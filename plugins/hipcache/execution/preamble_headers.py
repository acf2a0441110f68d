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
    files, texts = session.files, list[bytes]()
    for path in read:
        if not path.startswith("/") or not observed.has_read(path) or files.resolve(front.source) == path:
            raise Refused(f"'{path}' is relative, the source itself, or was not seen to be read")
        if not standard_headers.is_standard(path, front.search, files):
            raise Refused(f"'{path}': it is no header of the compiler's, of the standard libraries or of HIP's")
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise Refused(f"'{path}': {error.strerror}") from error
        fault = header_rules.fault(content)
        if fault:
            raise Refused(f"'{path}': {fault}")
        texts.append(content)
    devices = Functions(*header_rules.devices_functions(front, texts))
    return Headers(tuple(read), observed, recorded(session, front, read, None, observed, started), devices)
