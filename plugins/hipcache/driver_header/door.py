"""What the driver's header adds: a way to run a front end, and a check of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hipcache.execution.front_ends import FrontEndWay
    from hipcache.execution.session import Session

CHECKS = "hipcache.driver_header.doctor"


def front_end(session: Session) -> FrontEndWay:
    from hipcache.driver_header.use import DriverHeader

    return DriverHeader(session)
