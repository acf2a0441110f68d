"""One command. Its planner makes the graph: `object` and `source`, or `assembler`. Where its actions run (`world`):
`local`, as processes; `passes`, observed; `session`: of the current compile.

A new kind of command is a module with a `Planner` named `plan`, and a line in `app/kinds`. A planner runs only the
driver, to ask for its plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hipcache.base.errors import JobFailed, PassThrough
from hipcache.base.values import dataclass
from hipcache.build import ActionId, End, Graph, Slot
from hipcache.clang import tools
from hipcache.inputs.identity import is_script

if TYPE_CHECKING:
    from hipcache.clang.dry_run import Asked, AskedToAssemble
    from hipcache.execution.session import Session

Ends = Mapping[ActionId, End]


@dataclass(frozen=True)
class Planned:
    """The graph of a command. A kind of which more is to be said has a class of its own."""

    graph: Graph

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read besides those of passes, as clang names them."""
        return ()

    @property
    def jobs(self) -> int:
        """The number of processes that the driver would run."""
        return 0

    @property
    def answer(self) -> Asked | AskedToAssemble | None:
        """The driver's answer, on which a direct hit of the command depends. None: commands of this kind have none."""
        return None

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The passes over a source."""
        return ()

    @property
    def why_indirect(self) -> str:
        """In words why the next compile of the same command goes to the engine, too; empty if it need not."""
        return ""

    def failed(self, failed: JobFailed, ends: Ends) -> JobFailed:
        """The failure of a job as the compiler would tell it."""
        return failed

    def then(self, ends: Ends) -> Planned | None:
        """The graph that is built after this one, of which the command's output comes; None if this is the last."""
        return None


# From a command, and the width of the terminal for its messages (None without a terminal), to its graph. Raises
# PassThrough, JobFailed, StoreError.
Planner = Callable[["Session", "int | None"], Planned]


def refuse_script(session: Session, verb: str, *, unwrapped: bool = False) -> None:
    """Raises PassThrough if the compiler is a script that hipcache cannot look behind, or (`unwrapped`) was one."""
    command = session.command
    if (unwrapped and command.unwrapped) or is_script(
        tools.which(command.compiler, command.cwd, session.context.environ)
    ):
        raise PassThrough("wrapper", f"a script that {verb} may also do other work")
