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
from typing import Any

from hipcache.errors import ConfigError
from hipcache.executor import workers
from hipcache.executor.workers import Executor
from hipcache.inputs.keys import digest_bytes
from hipcache.processes.slots import SharedSlots, runtime_directory
from hipcache.remote import needs
from hipcache.remote.backend import STATUS
from hipcache.remote.client import Client, Tell
from hipcache.report import statistics
from hipcache.values import dataclass, field

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


def _name_of_slots(one: Executor) -> str:
    """The same for all compiles that use these workers, wherever their settings name them."""
    workers_of = (one.address.scheme, one.address.host, one.address.path, one.platform)
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
    def _all(self) -> list[tuple[Executor, SharedSlots]]:
        """Each with its slots: one for each action that may be there at once."""
        config = self.client.config
        try:
            texts = workers.named(config)
            found = [workers.parse(text) for text in texts]
            missing = needs.missing_packages(texts)
            if missing:
                raise ConfigError(f"an executor needs {', '.join(missing)}", needs.install(missing))
        except ConfigError as error:
            if not workers.is_implied(config):  # else it is told of the remote
                self.tell(error.message, error.hint)
            return []
        place = runtime_directory(self.client.environ)
        return [(one, SharedSlots(one.jobs, place, _name_of_slots(one))) for one in found]

    @property
    def is_preferred(self) -> bool:
        """Is there one that is used also while slots are free here?"""
        return any(one.prefer for number, (one, _) in enumerate(self._all) if number not in self._down)

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
        statistics.record_executions(self.client.config.dir, {"checked": 1}, self.client.config.umask)

    def attempt(self) -> tuple[int, Slot] | None:
        """One that may take an action now, and the right to have it there."""
        now = time.monotonic()
        for number in workers.order([one for one, _ in self._all], _draw):
            if number not in self._down and self._later.get(number, 0.0) <= now:
                slot = self._all[number][1].attempt()
                if slot:
                    return number, slot
        return None

    def run(
        self,
        number: int,
        task: Task,
        check: Callable[[], None],
        slot: Callable[[], Slot | None],
    ) -> Ended:
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
            statistics.record_executions(self.client.config.dir, counts, self.client.config.umask)
        return None

    def unconfirmed(self, number: int, failed: Failed) -> None:
        """It does not fail here."""
        self.differs(number, STATUS, failed.why, quiet=failed.quiet)

    def differs(self, number: int, kind: str, how: str, *, quiet: bool = False) -> None:
        """What it made is not what this machine makes."""
        name = self._all[number][0].address.name
        self._down.add(number)
        self.client.note({"op": "blame", "executor": number, "kind": kind, "why": how})
        statistics.record_executions(self.client.config.dir, {f"fault {kind}": 1}, self.client.config.umask)
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
