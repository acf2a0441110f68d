"""The remotes and executors of the settings, as a compile has them: nothing of either is loaded until it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from hipcache.config import Config
from hipcache.report import conditions, notices

if TYPE_CHECKING:
    from hipcache.remote.client import Client


def client_of(config: Config, environ: Mapping[str, str]) -> Callable[[], Client]:
    def tell(fault: str, hint: str) -> None:
        about = " ".join(config.remote)
        notices.tell([conditions.Condition("remote", fault, hint, about)], environ)

    @cache
    def client() -> Client:
        from hipcache.remote.client import Client

        return Client(config, environ, tell, notices.build_of_this_process)

    return client


def queue_of(config: Config, environ: Mapping[str, str]) -> Callable[[str], object]:
    """The function that takes the key of a record to upload later. It does without the client, which takes longer to
    load than a hit may take. The native program asked the storage helper before the engine began, so a helper is there
    to be told."""

    def put(key: str) -> None:
        from hipcache.disk.confined import Confined
        from hipcache.remote import needs, notice, queue
        from hipcache.remote.place import destination_of, place_of

        if needs.missing_packages(config.remote):
            return
        store = Confined(config.dir, config.umask)
        if queue.add(store, [key], [], destination_of(config), anew=config.recache):
            with suppress(OSError):  # no place for a socket: then there is no helper
                notice.give(place_of(config, environ))

    return put
