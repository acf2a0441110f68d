"""The link of relocatable device code, whichever offload driver plans it: its device links, and the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hipcache.making import bundled_link, device_link, wrapped_link
from hipcache.making.device_link import Linked
from hipcache.planning.link_plan import LinkPlan
from hipcache.planning.wrapper_plan import WrapperPlan
from hipcache.session import Session


def link_devices(session: Session, plan: LinkPlan | WrapperPlan, sources: Mapping[str, str]) -> list[Linked]:
    """The code object of each arch, found or linked. `sources`: of the temporary files that the command itself has
    compiled. Raises JobFailed, PassThrough, StoreError."""
    # 2. Take objects and libraries apart, and key each device link with all that goes in.
    if isinstance(plan, WrapperPlan):
        units = wrapped_link.units(session, plan, sources)
    else:
        units = bundled_link.units(session, plan, sources)
    # 3. Look up each; 4. link what is missing, side by side.
    return device_link.link(session, units)


def finish(
    session: Session, plan: LinkPlan | WrapperPlan, codes: Sequence[Linked], messages: str, *, columns: int | None
) -> str:
    """Write the program; what was said on the way to it, `messages` first. Raises Damaged, HostLinkFailed, JobFailed,
    PassThrough."""
    # 5. Put the fat binary together; 6. have the host's linker write the program.
    if isinstance(plan, WrapperPlan):
        return wrapped_link.finish(session, plan, codes, messages, columns=columns)
    return bundled_link.finish(session, plan, codes, messages, columns=columns)
