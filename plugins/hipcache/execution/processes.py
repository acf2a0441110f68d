"""The executors of processes: this machine, and remote executors if the settings name some."""

from __future__ import annotations

from hipcache.execution import Executor
from hipcache.execution.local import LocalProcess
from hipcache.execution.session import Session


def executor(session: Session) -> Executor:
    local, executions = LocalProcess(session), session.engine.executions
    if not executions:
        return local
    from hipcache.executor.process import RemoteProcess

    return RemoteProcess(session, local, executions())
