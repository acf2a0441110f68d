"""What a command came to, when hipcache has done it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hipcache.outcome import CompileOutcome
from hipcache.report.history import Record
from hipcache.values import dataclass

if TYPE_CHECKING:
    from hipcache.direct.remember import Whole
    from hipcache.planning.plan import Plan


@dataclass(frozen=True)
class Compiled:
    """A compile that hipcache did. `messages`: what plain clang would have printed on standard error. `whole`: what a
    direct hit needs, None where not all of that is known; `files`: all that its passes read, as clang names them;
    `plan`: the driver's (None of a link)."""

    outcome: CompileOutcome
    messages: str
    record: Record
    whole: Whole | None
    files: tuple[str, ...]
    plan: Plan | None
