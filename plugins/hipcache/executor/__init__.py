"""Executors: actions that run on workers of another machine, by the Remote Execution API.

client      a compile's side of the executors: what may run there, by the storage helper, and how it ended
servers     the storage helper's side: programs, servers, one action run
workers     the address of an executor
protocol    REAPI's messages, and programs that workers have installed themselves
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hipcache.build.loop import Executor
    from hipcache.config import Config
    from hipcache.execution.local import LocalProcess
    from hipcache.execution.session import Session
    from hipcache.executor.client import Executions
    from hipcache.remote.client import Client

STANDS_ON = "remote"
ADDRESSES = {"executor": "hipcache.executor.workers"}
EXECUTIONS = "hipcache.executor.servers"
# As of `report.statistics.CounterGroup`.
COUNTERS = {
    "name": "executed",
    "field": "executions",
    "counters": ("done", "taken back", "checked", "failed", "milliseconds"),
    "text": "executors  {done:action} run remotely ({milliseconds:time}), {taken back} taken back to run here, "
    "{execution_faults:error}{execution_faults:?: }{execution_faults:each}",
    "meaning": "actions that the workers of an executor ran (`done`, `taken back`, `checked` against a run here, "
    "`failed` and so run here to confirm it, `milliseconds`), and errors by kind",
    "open": "execution_faults",
    "prefix": "fault ",
}


def executions(client: Callable[[], Client], config: Config, environ: Mapping[str, str]) -> Callable[[], Executions]:
    def tell(fault: str, hint: str) -> None:
        from hipcache.report import conditions

        about = " ".join(config.executor)
        conditions.tell([conditions.Condition("executor", fault, hint, about)], environ)

    @cache
    def opened() -> Executions:
        from hipcache.executor.client import Executions

        return Executions(client(), tell)

    return opened


def executor(session: Session, local: LocalProcess, executions: Executions) -> Executor:
    from hipcache.executor.client import RemoteProcess

    return RemoteProcess(session, local, executions)
