"""Processes of workers elsewhere, for as long as no slot is free here.

An action can go there if its command reads nothing but its inputs and its tool: each word but the program's own name is
an option without a path, an input or an output. Whatever goes wrong there, the action runs here; also where it fails
there, or says something that may look otherwise here.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from hipcache.execution.local import LocalProcess, places, why_nowhere_else
from hipcache.execution.session import Session
from hipcache.executor.client import Done, Executions, Failed, Slot, Task
from hipcache.inputs.identity import is_script
from hipcache.model import Action, Bound, Diagnostics, Held, Inputs, Process, Ran, Ref, Word, render
from hipcache.values import dataclass

_PAUSE = 0.01
# Of clang: where its headers are, which bitcode includes no more.
_WITHOUT_EFFECT = "-resource-dir"
_EM_AMDGPU = 224


@dataclass(frozen=True)
class RemoteProcess:
    session: Session
    local: LocalProcess
    executions: Executions

    def run(self, bound: Bound, inputs: Inputs) -> Ran:
        executions, session = self.executions, self.session
        task = None if executions.are_down else self._task(bound.action, inputs)
        check = session.jobs.runner.check
        while task and not executions.are_down:
            check()
            slot = None if executions.is_preferred else session.engine.slots.attempt()
            if slot:
                return self.local.run(bound, inputs, slot)
            there = executions.attempt()
            if there:
                ended = self._run_there(*there, task, bound.action)
                if isinstance(ended, Failed):
                    return self._confirmed(there[0], ended, bound, inputs)
                if isinstance(ended, Ran):
                    return self._checked(there[0], ended, bound, inputs) if executions.is_to_be_checked else ended
                if ended:
                    return self.local.run(bound, inputs, ended)
            else:
                time.sleep(_PAUSE)
        return self.local.run(bound, inputs)

    def _run_there(self, number: int, place: Slot, task: Task, action: Action) -> Ran | Failed | Slot | None:
        """The result of the worker; or a slot, to run it here; or None, to look again."""
        session = self.session
        with place:
            ended = self.executions.run(number, task, session.jobs.runner.check, session.engine.slots.attempt)
        if not isinstance(ended, Done):
            return ended
        if not all(map(_is_device_code, task.outputs.values())):
            self.executions.differs(number, "garbage", "it made no code of a GPU")
            return None
        if ended.text and (action.policy.diagnostics is Diagnostics.REFUSED or _names_files(ended.text, task)):
            return session.engine.slots.hold(session.jobs.runner.check)
        session.serve(f"executor '{ended.name}' compiled some of it")
        paths = dict(zip(action.outputs, task.outputs.values(), strict=True))
        return Ran({name: Held(path=Path(path)) for name, path in paths.items()}, ended.text, ended.seconds)

    def _confirmed(self, number: int, failed: Failed, bound: Bound, inputs: Inputs) -> Ran:
        """Raises what a failing run here raises: then it is the user's own error, and in the compiler's words."""
        here = self.local.run(bound, inputs)
        self.executions.unconfirmed(number, failed)
        return here

    def _checked(self, number: int, ran: Ran, bound: Bound, inputs: Inputs) -> Ran:
        """The result of this machine, if it is another one."""
        here = self.local.run(bound, inputs)
        made = _contents(here)
        if made == _contents(ran):
            self.executions.checked()
            return ran
        if made == _contents(self.local.run(bound, inputs)):  # else it is another one each time
            self.executions.differs(number, "different", "it made another output than this machine")
        return here

    def _task(self, action: Action, inputs: Inputs) -> Task | None:
        """The task for a worker; None if it must run here."""
        work = action.work
        assert isinstance(work, Process)
        program, *words = work.command
        if not action.policy.remote or work.root or not isinstance(program, str) or not _is_portable(words):
            return None
        files = self._files(program)
        if not files:
            return None
        read = {one.name for word in words if not isinstance(word, str) for one in word if isinstance(one, Ref)}
        there = [name for name, _ in action.inputs if name in read]
        here = places(self.session, there, inputs)
        if why_nowhere_else(action, here):
            return None
        named = {name: f"input-{number}" for number, name in enumerate(there)}
        made = {name: f"output-{number}" for number, name in enumerate(action.outputs)}
        # Not where a process here would write it: an answer may come too late, and be given up.
        outputs = {
            name: f"{self.session.jobs.scratch(dict(work.places).get(name, name))}.there" for name in action.outputs
        }
        return Task(
            program,
            files,
            tuple(render(word, {**named, **made}) for word in words),
            {named[name]: here[name] for name in there},
            {made[name]: outputs[name] for name in action.outputs},
        )

    def _files(self, program: str) -> tuple[str, ...]:
        """The files of the program: itself, and all that the loader maps for it. Empty if they are not known."""
        identities = self.session.identities
        files = identities.contents().get(self.session.tool(program), ())
        loaders = [path for path in files if os.path.basename(path).startswith("ld-")]
        return files if len(loaders) == 1 and not is_script(files[0]) else ()


def _is_portable(words: list[Word]) -> bool:
    before = ""
    for word in words:
        text = word if isinstance(word, str) else "".join(one for one in word if isinstance(one, str))
        if "/" in text and before != _WITHOUT_EFFECT:
            return False
        before = text
    return True


def _contents(ran: Ran) -> list[bytes]:
    return [held.read() for held in ran.outputs.values()]


def _is_device_code(path: str) -> bool:
    """Is it an ELF file for AMD GPUs (e_machine of the System V ABI)? What the code does nobody can see."""
    with open(path, "rb") as file:
        head = file.read(20)
    return head[:4] == b"\x7fELF" and head[18:20] == _EM_AMDGPU.to_bytes(2, "little")


def _names_files(text: str, task: Task) -> bool:
    """Does it say something by names that are others here?"""
    return any(name in text for name in (*task.inputs, *task.outputs, "bin/", "lib/"))
