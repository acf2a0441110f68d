"""Local processes, in the slots that all compilers of a user share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from hipcache import processes
from hipcache.base import times
from hipcache.base.errors import PassThrough
from hipcache.base.values import dataclass
from hipcache.build import Action, Bound, Diagnostics, File, Held, Inputs, Lost, Process, Ran, render
from hipcache.clang import bitcode
from hipcache.execution.session import Session


@dataclass(frozen=True)
class LocalProcess:
    session: Session

    def run(self, bound: Bound, inputs: Inputs, slot: AbstractContextManager[object] | None = None) -> Ran:
        """`slot`: one that is had already."""
        action, session = bound.action, self.session
        work = action.work
        assert isinstance(work, Process)
        root = session.jobs.workdir / work.root if work.root else Path(session.command.cwd)
        paths = places(session, [name for name, _ in action.inputs], inputs)
        paths |= {name: str(session.jobs.scratch(dict(work.places).get(name, name))) for name in action.outputs}
        words = {name: os.path.relpath(path, root) if work.root else path for name, path in paths.items()}
        argv = [render(word, words) for word in work.command]
        environ = session.jobs.environ_here() if work.root else None
        wanted = slot is None and action.policy.slot
        with slot or (session.context.slots.hold(session.jobs.runner.check) if wanted else nullcontext()):
            started = session.context.clock()
            done = session.jobs.run_now(action.label, argv, directory=root, environ=environ)
            set_back = session.jobs.was_set_back(started, done)
        why_not = self._unsettled(action, started, set_back=set_back) or why_nowhere_else(action, paths)
        text = said(session, done.stderr)
        if text and action.policy.diagnostics is Diagnostics.REFUSED:
            article = "" if " " in action.label else "the "
            raise PassThrough("job_output", f"{article}{action.label} printed: {text[:200]}")
        outputs = {name: Held(path=Path(paths[name])) for name in action.outputs}
        return Ran(outputs, text, done.work, why_not)

    def _unsettled(self, action: Action, started: float, *, set_back: bool) -> str:
        """The reason to think that an input file changed during the run, or nothing; nobody can set a change time
        back."""
        files, oldest = self.session.files, times.change_limit(started)
        for _, source in action.inputs:
            if not isinstance(source, File):
                continue
            dated = files.status(source.path)[4]
            if set_back or times.latest(dated) >= oldest:
                return times.why_changed(source.path, dated)
        return ""


def why_nowhere_else(action: Action, paths: Mapping[str, str]) -> str:
    """The reason why what it makes here is not what another directory or machine would make, or nothing. `paths`: of
    its inputs."""
    read = [paths[name] for name, _ in action.inputs if name in paths] if action.policy.assembles else []
    return next((f"{bitcode.INCLUDES} ({os.path.basename(path)})" for path in read if bitcode.may_include(path)), "")


def places(session: Session, names: Iterable[str], inputs: Inputs) -> dict[str, str]:
    """The paths of all inputs. Raises Lost with all that are lost."""
    found, lost = {}, set()
    for name in names:
        try:
            found[name] = place(session, name, inputs)
        except Lost as error:
            lost |= error.actions
    if lost:
        raise Lost(lost)
    return found


def place(session: Session, name: str, inputs: Inputs) -> str:
    """The path of the input: the user's file, or the place in the scratch that has its name."""
    held = inputs.of(name)
    if held.path is None:
        return str(session.jobs.scratch(name, held.read()))
    wanted = session.jobs.scratch(name)
    if held.path == wanted or not held.path.is_relative_to(session.jobs.workdir):
        return str(held.path)
    wanted.unlink(missing_ok=True)
    try:
        os.link(held.path, wanted)
    except OSError:
        import shutil

        shutil.copyfile(held.path, wanted)
    return str(wanted)


def said(session: Session, output: bytes) -> str:
    """The messages of a process. A temporary file in them lies where the driver's would: in the user's directory for
    such files, under a name that is another one each time."""
    place = os.fsencode(session.context.environ.get("TMPDIR") or "/tmp")
    return processes.decode(output.replace(os.fsencode(session.jobs.workdir), place))
