"""What a precompiled preamble comes to alone, without a source."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hipcache.errors import JobFailed
from hipcache.execution.preamble_values import NAME, Preamble, Refused
from hipcache.execution.session import Session
from hipcache.making import order, startup
from hipcache.patterns import pattern
from hipcache.planning import preamble
from hipcache.planning.frontend import FrontEnd

_DEFINED = pattern(rb"#define ([^ (]+).*")


def differs(session: Session, front: FrontEnd, one: Preamble, stem: str) -> bool:
    """Do its own headers come to other code when they are precompiled, in another order or in part, or to other
    warnings? False if that cannot be told."""
    jobs = session.jobs
    text = jobs.scratch(f"{stem}-text.hip", preamble.text_of(one.candidate.names))
    empty = jobs.scratch(f"{stem}-empty.hip", b"")
    found = []
    for source, pch in ((text, ""), (empty, str(one.pch))):
        output = source.with_suffix(".ll")
        try:
            done = jobs.run(NAME, preamble.alone(front, str(source), str(output), pch=pch, assembly=True))
        except JobFailed:
            return False
        found.append((order.of_assembly(output.read_bytes()), bool(done.stderr)))
    return found[0] != found[1]


def check_macros(session: Session, front: FrontEnd, text: Path, stem: str) -> None:
    """With a precompiled header, clang defines the macros of the command line once more behind it: none may be another
    one by then. Raises Refused, JobFailed."""
    names = {os.fsencode(re.split(r"[=(]", macro, maxsplit=1)[0]) for macro in front.macros}
    if not names:
        return
    found = []
    for source in (session.jobs.scratch(f"{stem}-empty.hip", b""), text):
        output = source.with_suffix(".macros")
        session.jobs.run(NAME, preamble.listing_macros(front, str(source), str(output)))
        defined = (_DEFINED.match(line) for line in output.read_bytes().splitlines())
        found.append({one.group(1): one.group() for one in defined if one and one.group(1) in names})
    if found[0] != found[1]:
        raise Refused("a header changes a macro of the command line")


def startup_code(session: Session, front: FrontEnd, pch: Path, stem: str) -> str:
    """The code that initializes what its headers have (`making.startup`). There may be one such variable: two come in
    another order (llvm/llvm-project#67992)."""
    jobs = session.jobs
    empty, assembly = jobs.scratch(f"{stem}-empty.hip", b""), jobs.scratch(f"{stem}-empty.ll")
    jobs.run(NAME, preamble.alone(front, str(empty), str(assembly), pch=str(pch), assembly=True))
    variables, functions = startup.count(assembly.read_bytes())
    if not variables and not functions:
        return ""
    if variables != 1 or functions > 1:
        raise Refused("it has objects that are initialized at the start")
    object_ = assembly.with_suffix(".o")
    jobs.run(NAME, preamble.alone(front, str(empty), str(object_), pch=str(pch), assembly=False))
    code = startup.code(object_.read_bytes())
    if code == startup.NOT_READ:
        raise Refused("the code that initializes its objects cannot be read")
    return code
