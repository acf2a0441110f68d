"""What a command came to, when hipcache has done it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hipcache.outcome import CompileOutcome
from hipcache.report.history import Record
from hipcache.values import dataclass

if TYPE_CHECKING:
    from hipcache.direct.whole import Whole


@dataclass(frozen=True)
class Compiled:
    """A compile that hipcache did. `messages`: what plain clang would have printed on standard error. `whole`: what a
    direct hit needs, None where not all of that is known; `files`: all that its passes read, as clang names them;
    `jobs`: how many processes the driver would run for a compile;
    `has_messages`: did the driver say something itself?"""

    outcome: CompileOutcome
    messages: str
    record: Record
    whole: Whole | None
    files: tuple[str, ...]
    jobs: int = 0
    has_messages: bool = False
