"""A compile's side of the executors: has an action run on a worker of a server, by the storage helper.

Protocol (see `client`): {"op": "execute", "build": name, "executor": number in the settings, "program": path, "files":
paths of what it loads, "words": of the command behind the program, "inputs" and "outputs": {name in the words: path
here}}. While the helper is at it, it says {"at": where the action is}, several times a second. In the end one of

    {"end": "done", "text": what the command said, "seconds": of the work}    the outputs are written
    {"end": "later"}                  the program is on its way to the server
    {"end": "failed", "why": text, "quiet": is a fault not told?}    its own error, or the worker's fault
    {"end": "fault", "kind": word, "told": [text, hint] or null, where it is no fault}

{"op": "blame", "executor": number, "kind": word, "why": text} has no answer: the machine that asked knows by a run of
its own that what came is the worker's fault.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

from hipcache.base.errors import ConfigError
from hipcache.base.keys import digest_bytes
from hipcache.base.paths import runtime_directory
from hipcache.base.values import dataclass, field
from hipcache.build import Action, Bound, Diagnostics, Held, Inputs, Process, Ran, Ref, Word, render
from hipcache.execution.local import LocalProcess, places, why_nowhere_else
from hipcache.execution.session import Session
from hipcache.executor import workers
from hipcache.executor.workers import ExecutorAddress
from hipcache.inputs.identity import is_script
from hipcache.processes.slots import SharedSlots
from hipcache.remote import address
from hipcache.remote.backend import STATUS
from hipcache.remote.client import Client, Tell
from hipcache.report import statistics

QUEUED = "queued"
# Seconds in which the helper says something, on a machine whose cores are all busy.
_SILENCE = 15.0
# Bytes of a line of the helper: the texts of a command (at most 4 MiB each) as JSON has them.
_LONGEST_LINE = 1 << 26
# Seconds until one asks again whose program is on its way; and until an action that waits there for a worker is taken
# back where a slot is free here.
_LATER, _PATIENCE = 0.5, 1.0

Slot = AbstractContextManager[object]


def _draw() -> float:
    """Not by Python's module `random`, which takes longer to load than all else here."""
    return (int.from_bytes(os.urandom(6), "big") + 1) / ((1 << 48) + 1)


def _name_of_slots(executor: ExecutorAddress) -> str:
    """The same for all compiles that use these workers, wherever their settings name them."""
    workers_of = (executor.address.scheme, executor.address.host, executor.address.path, executor.platform)
    return f"executor-{digest_bytes(repr(workers_of).encode())[:16]}-slots"


@dataclass(frozen=True)
class Task:
    """What is to run there. `files`: the program's own and all that the loader maps for it."""

    program: str
    files: tuple[str, ...]
    words: tuple[str, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True)
class Done:
    text: str
    seconds: float
    name: str


@dataclass(frozen=True)
class Failed:
    """It failed there. `why`: in words; `quiet`: if it does not fail here, nothing is told of that."""

    why: str
    quiet: bool


# The result; or a slot to run it here; or neither.
Ended = Done | Failed | Slot | None


@dataclass
class Executions:
    """The executors of the settings. Nothing here raises but what it is given to call."""

    client: Client
    tell: Tell
    _down: set[int] = field(default_factory=set)
    _later: dict[int, float] = field(default_factory=dict)

    @cached_property
    def _all(self) -> list[tuple[ExecutorAddress, SharedSlots]]:
        """Each with its slots: one for each action that may be there at once."""
        config = self.client.config
        try:
            texts = workers.named(config)
            found = [workers.parse(text) for text in texts]
            missing = address.missing_packages(texts)
            if missing:
                raise ConfigError(f"an executor needs {', '.join(missing)}", address.install(missing))
        except ConfigError as error:
            if not workers.is_implied(config):  # else it is told of the remote
                self.tell(error.message, error.hint)
            return []
        place = runtime_directory(self.client.environ)
        return [(executor, SharedSlots(executor.jobs, place, _name_of_slots(executor))) for executor in found]

    @property
    def is_preferred(self) -> bool:
        """Is there one that is used also while slots are free here?"""
        return any(executor.prefer for number, (executor, _) in enumerate(self._all) if number not in self._down)

    @property
    def are_down(self) -> bool:
        """Is none of them of any use?"""
        return len(self._down) >= len(self._all) or not self.client.is_up()

    @property
    def is_to_be_checked(self) -> bool:
        """Is the next result compared with what this machine makes?"""
        return self.client.config.is_drawn()

    def checked(self) -> None:
        """It was the same."""
        self._count({"checked": 1})

    def _count(self, counts: Mapping[str, int]) -> None:
        """As of the door's `counters`."""
        statistics.count(self.client.config.dir, "executed", counts, self.client.config.umask)

    def attempt(self) -> tuple[int, Slot] | None:
        """One that may take an action now, and the right to have it there."""
        now = time.monotonic()
        for number in workers.order([executor for executor, _ in self._all], _draw):
            if number not in self._down and self._later.get(number, 0.0) <= now:
                slot = self._all[number][1].attempt()
                if slot:
                    return number, slot
        return None

    def run(self, number: int, task: Task, check: Callable[[], None], slot: Callable[[], Slot | None]) -> Ended:
        """The result, or how it failed; or a slot to run it here, since none of the workers had taken it up when one
        came free; or None where that executor cannot do it (now). `check` may raise."""
        executor, _ = self._all[number]
        began, counts = time.monotonic(), dict[str, int]()
        try:
            for answer in self._ask(number, task, executor.limit + _SILENCE):
                check()
                waits = answer.get("at") == QUEUED and time.monotonic() - began > _PATIENCE
                free = slot() if waits and not executor.prefer else None
                if free:
                    counts = {"taken back": 1}
                    return free
                if answer.get("end") == "done":
                    counts = {"done": 1, "milliseconds": round((time.monotonic() - began) * 1000)}
                    return Done(str(answer["text"]), float(answer["seconds"]), executor.address.name)
                if answer.get("end") == "later":
                    self._later[number] = time.monotonic() + _LATER
                    return None
                if answer.get("end") == "failed":
                    counts = {"failed": 1}
                    return Failed(str(answer["why"]), bool(answer["quiet"]))
                if answer.get("end") == "fault":
                    self._down.add(number)
                    if answer["told"]:
                        counts = {f"fault {answer['kind']}": 1}
                        self.tell(*map(str, answer["told"][:2]))
                    return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            counts = {"fault helper": 1}
            self._down.add(number)
            hint = "the build continues without it; try 'hipcache doctor'"
            self.tell(f"executor '{executor.address.name}': the storage helper does not answer: {error}", hint)
        finally:
            self._count(counts)
        return None

    def unconfirmed(self, number: int, failed: Failed) -> None:
        """It does not fail here."""
        self.differs(number, STATUS, failed.why, quiet=failed.quiet)

    def differs(self, number: int, kind: str, how: str, *, quiet: bool = False) -> None:
        """What it made is not what this machine makes."""
        name = self._all[number][0].address.name
        self._down.add(number)
        self.client.note({"op": "blame", "executor": number, "kind": kind, "why": how})
        self._count({f"fault {kind}": 1})
        if not quiet:
            self.tell(f"executor '{name}': {how}", "check its workers")

    def _ask(self, number: int, task: Task, longest: float) -> Iterator[dict[str, Any]]:
        """Raises OSError, ValueError."""
        request = {
            **{"op": "execute", "build": self.client.build(), "executor": number, "program": task.program},
            **{"files": task.files, "words": task.words, "inputs": dict(task.inputs), "outputs": dict(task.outputs)},
        }
        end = time.monotonic() + longest
        with self.client.connected(_SILENCE) as connection, connection.makefile("rb") as answers:
            connection.sendall(json.dumps(request).encode() + b"\n")
            while time.monotonic() < end:
                line = answers.readline(_LONGEST_LINE)
                if not line:
                    raise OSError("it has ended")
                answer = json.loads(line) if line.strip() else {}
                if not isinstance(answer, dict):
                    raise ValueError("no answer")
                yield answer
        raise OSError("it takes too long")


_PAUSE = 0.01
# Of clang: where its headers are, which bitcode includes no more.
_WITHOUT_EFFECT = "-resource-dir"
_EM_AMDGPU = 224


@dataclass(frozen=True)
class RemoteProcess:
    """Runs processes on workers elsewhere, for as long as no slot is free here.

    An action can go there if its command reads nothing but its inputs and its tool: each word but the program's own
    name is an option without a path, an input or an output. Whatever goes wrong there, the action runs here; also where
    it fails there, or says something that may look otherwise here.
    """

    session: Session
    local: LocalProcess
    executions: Executions

    def run(self, bound: Bound, inputs: Inputs) -> Ran:
        executions, session = self.executions, self.session
        task = None if executions.are_down else self._task(bound.action, inputs)
        check = session.jobs.runner.check
        while task and not executions.are_down:
            check()
            slot = None if executions.is_preferred else session.context.slots.attempt()
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
            ended = self.executions.run(number, task, session.jobs.runner.check, session.context.slots.attempt)
        if not isinstance(ended, Done):
            return ended
        if not all(map(_is_device_code, task.outputs.values())):
            self.executions.differs(number, "garbage", "it made no code of a GPU")
            return None
        if ended.text and (action.policy.diagnostics is Diagnostics.REFUSED or _names_files(ended.text, task)):
            return session.context.slots.hold(session.jobs.runner.check)
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
        read = {part.name for word in words if not isinstance(word, str) for part in word if isinstance(part, Ref)}
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
        text = word if isinstance(word, str) else "".join(part for part in word if isinstance(part, str))
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
