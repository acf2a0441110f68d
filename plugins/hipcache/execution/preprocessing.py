"""Asks the compiler's own preprocessor about a pass, which takes a sixth of the time of the pass."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from hipcache.clang.frontend import FrontEnd
from hipcache.execution.session import Session
from hipcache.inputs import preprocessed, search

# Options with which it would be another text than the compiler sees.
_OF_TEXT = frozenset(
    (
        *("-E", "-C", "-CC", "-P", "-dA", "-dD", "-dI", "-dM", "-dU", "-fdirectives-only", "-fminimize-whitespace"),
        *("-fuse-line-directives", "-fkeep-system-includes", "-traditional-cpp"),
    )
)


def text(
    session: Session,
    front: FrontEnd,
    marked: Collection[str],
    replaced: Mapping[str, bytes] | None = None,
    unused: Collection[str] = (),
) -> bytes | None:
    """The preprocessed text, with marks for the values of those macros (`preprocessed.mark`), and with other texts in
    place of those of some headers; None if a text uses or defines one of the `unused` names, if
    it cannot be told, or there is anything to say about it. Raises PassThrough if the compiler cannot be started."""
    if not _OF_TEXT.isdisjoint(option.text[0] for option in front.job.options):
        return None
    argv = front.preprocessor(marked)
    if replaced:
        argv[2:2] = ["-ivfsoverlay", _overlay(session, front, replaced)]
    poison = preprocessed.poison(unused)
    if poison:
        argv[2:2] = ["-include", str(session.jobs.scratch(f"poison-{front.key.digest}", poison))]
    with session.engine.slots.hold(session.jobs.runner.check):
        started = session.engine.clock()
        done = session.jobs.attempt(argv)
    if done.status or done.stderr or session.jobs.was_set_back(started, done):
        return None
    made = done.stdout.replace(poison, b"", 1) if poison else done.stdout

    def identity(path: str) -> object:
        return search.identity(session.files.resolve(path))

    files = {identity(path) for path in replaced or ()}
    return preprocessed.without_witnesses(made, lambda name: identity(name) in files) if files else made


def _overlay(session: Session, front: FrontEnd, replaced: Mapping[str, bytes]) -> str:
    """A file system of clang's in which those paths are files with those contents (VirtualFileSystem.h)."""
    name = f"overlay-{front.key.digest}"
    roots = [
        {
            "type": "file",
            "name": session.files.resolve(path),
            "external-contents": str(session.jobs.scratch(f"{name}-{number}", content)),
        }
        for number, (path, content) in enumerate(replaced.items())
    ]
    whole = {"version": 0, "case-sensitive": True, "use-external-names": False, "roots": roots}
    return str(session.jobs.scratch(name, json.dumps(whole).encode()))
