"""The files that a pass over a source has read, as clang lists them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hipcache.build import Dependency, depfile
from hipcache.clang.frontend import FrontEnd, graph_file
from hipcache.disk.paths import absolute, is_null, is_of_kernel
from hipcache.errors import PassThrough
from hipcache.execution import preprocessing
from hipcache.execution.session import Session
from hipcache.inputs import recording
from hipcache.inputs.observing import Observed, plain
from hipcache.inputs.readset import ReadSet


def recorded(
    session: Session,
    front: FrontEnd,
    read: Sequence[str],
    user: frozenset[str] | None,
    observed: Observed | None,
    started: float,
) -> ReadSet:
    """The read set of a pass that began at `started` (seconds of the epoch). `read` and `user`: as of `read_files`.
    Raises Untraceable, OSError."""
    return recording.record(
        session.files,
        read=list(read),
        user=user,
        first=front.included,
        macros=front.macros,
        search=front.search,
        started=started,
        dated=front.dated,
        observed=observed,
        is_tools=session.identities.knows,
        preprocess=partial(preprocessing.text, session, front),
    )


def listed(read: list[str], user: frozenset[str] | None) -> tuple[Dependency, ...]:
    return tuple(Dependency(path, user is not None and path not in user) for path in read)


def read_files(
    session: Session, front: FrontEnd, rule: Path, observed: Observed | None, more: tuple[str, ...] = ()
) -> tuple[list[str], frozenset[str] | None]:
    """(all files that the pass read, the source first; those that are no system headers, None if not known). `more`:
    system headers that others have read for it."""
    source = plain(front.source)  # as in clang's dependency file
    try:
        listed = depfile.parse(os.fsdecode(rule.read_bytes()))
        if front.all_headers:
            return depfile.union([[source], more, listed]), None
        graph = depfile.parse_graph(os.fsdecode(graph_file(rule).read_bytes()))
    except OSError as error:
        raise PassThrough("job_output", f"no dependency file: {error.strerror}") from error
    search, root = front.search, front.sysroot
    exists = session.files.exists
    entered: list[str] = []
    for name in graph:
        # The graph's names lack the sysroot, where they began with it: all that the name may stand for is watched.
        found = [path for path in (name, root + name, os.path.join(root, name)) if exists(path)]
        if observed:
            found = list(filter(observed.has_read, found)) or found
        if not found:
            raise PassThrough("job_output", f"'{name}' was read, but does not exist")
        entered += map(plain, found)
    # A file of -include has no edge in the graph.
    places = ("", *search.quote, *search.angled)
    for name in front.included:
        entered += [path for path in (os.path.join(place, name) for place in places) if exists(path)][:1]
    return depfile.union([[source], listed, more, entered]), frozenset([source, *listed])


def check_streams(read: list[str]) -> None:
    """Raises PassThrough: the user's standard input was another file for this pass."""
    for path in read:
        if is_of_kernel(absolute(path, "")) and not is_null(path):
            raise PassThrough("standard_streams", path)
