"""The device link (LTO) of one offload arch: an action keyed by the contents of its inputs, its options and tools.

The key contains names of the user's files only as far as `explain` shows them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hipcache.model import Action, Cache, Output, Policy, Process, Source, Unit, Word
from hipcache.report.outcome import LINK

CODE = "code"


def action(
    arch: str,
    command: tuple[Word, ...],
    place: str,
    parts: Sequence[tuple[str, Word]],
    inputs: Sequence[tuple[str, Source]],
    root: str = "",
    *,
    stored: bool = True,
) -> Action:
    """`command` writes `CODE` to `place` in the scratch. `stored`: may what it writes be kept?"""
    return Action(
        id=f"device link of {arch}",
        kind="device link",
        label=f"device link of {arch}",
        work=Process(command, root, ((CODE, place),)),
        parts=tuple(parts),
        inputs=tuple(inputs),
        outputs=(CODE,),
        policy=Policy(remote=True, assembles=True) if stored else Policy(Cache.NEVER),
        missing="nothing is stored for this device code",
    )


def output(action: Action) -> Output:
    return Output(action.id, CODE)


def unit(arch: str, action: Action, *, several: bool) -> Unit:
    """It counts as a link, and as a unit of its arch. `several`: are there other units of the arch?"""
    return Unit(action.id, f"link of {arch}" if several else arch, (arch, LINK))
