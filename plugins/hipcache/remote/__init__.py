"""A remote cache: action results and contents on a server that a team shares.

`client` is all that a compile loads of it, after a local miss: it asks the *storage helper* (`remote/helper`), a
process of this user's that holds the connections, keeps watch over what the remote costs (`breaker`), puts what it gets
into the local store, and uploads what is queued (`queue`). Only the helper loads the libraries of the protocols: a
server that hangs, or a library that does, can hold up nothing but the helper.

    address    which remote, in which mode, and what it needs on this machine
    envelope   a record as a REAPI ActionResult
    backend    what each protocol can do and shows, and connections; `reapi` (grpc), `objects` (http, s3, gs, az)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hipcache.build.loop import ResultCache
    from hipcache.cache.content import Shelves
    from hipcache.cli.toolchain import Check
    from hipcache.config import Config
    from hipcache.remote.client import Client

ADDRESSES = {"remote": "hipcache.remote.address"}
# As of `report.statistics.CounterGroup`.
COUNTERS = {
    "name": "remote",
    "field": "remote",
    # Results that were asked for, faults, results that were sent, bytes, time that fetches took.
    "counters": ("hits", "misses", "errors", "uploads", "received", "sent", "milliseconds"),
    "text": "remote  {hits:hit} ({received:size} received in {milliseconds:time}), {misses:miss}, "
    "{uploads:result} sent ({sent:size}), {errors:error}",
    "meaning": "results and bytes fetched and sent, errors; and by architecture and host: requests that found a result "
    "(`hits`) or none (`misses`), `errors`, `bytes` of the results, `milliseconds` (a request counts for every unit in "
    "it, the time of a prefetch only in `remote`)",
    "open": "remote_units",
    "each": ("hits", "misses", "errors", "bytes", "milliseconds"),
}
QUEUE = "hipcache.remote.queue"
RECORDS = "hipcache.remote.invocation"
STORAGE_HELPER = "hipcache.remote.helper.start"
VERBS = {"sync": "hipcache.remote.sync", "prefetch": "hipcache.remote.prefetch"}
WHOLE_COMPILE = "hipcache.remote.invocation"


def remote(config: Config, environ: Mapping[str, str]) -> tuple[Callable[[], Client], Callable[[str], object]]:
    @cache
    def client() -> Client:
        from hipcache.remote.client import open_client

        return open_client(config, environ)

    return client, partial(_queue, config, environ)


def _queue(config: Config, environ: Mapping[str, str], key: str) -> None:
    """Upload the record with that key later. It does without the client, which takes longer to load than a hit may
    take. The native program asked the storage helper before the engine began, so a helper is there to be told."""
    from hipcache.remote import address, queue, sockets
    from hipcache.store.confined import Confined

    if address.missing_packages(config.remote):
        return
    store = Confined(config.dir, config.umask)
    if queue.add(store, [key], [], sockets.destination_of(config), anew=config.recache):
        with suppress(OSError):  # no place for a socket: then there is no helper
            sockets.notify(sockets.place_of(config, environ))


def shared_cache(near: ResultCache, shelves: Shelves) -> ResultCache:
    from hipcache.remote.results import SharedCache

    return SharedCache(near, shelves)


def checks(settings: Config) -> Iterator[Check]:
    """Of executors, too."""
    import os

    from hipcache.base import features
    from hipcache.cli.toolchain import FAULT, NOTE, OK, Check
    from hipcache.config.settings import NO_EXECUTOR
    from hipcache.remote import address
    from hipcache.report import conditions

    told: list[tuple[bool, str, str]] = []
    try:
        named = [*settings.remote, *(text for text in settings.executor if text != NO_EXECUTOR)]
        missing = address.missing_packages(named) if named else []
        wrong = list(conditions.of_addresses(settings)) if missing else []
        if wrong:  # nobody knows what those need
            yield from (Check(FAULT, condition.message, condition.hint) for condition in wrong)
            return
        if missing:
            yield Check(FAULT, f"remotes and executors need {', '.join(missing)}", address.install(missing))
            return
        if named and settings.readonly:
            yield Check(
                NOTE,
                f"remotes and executors are not used: the store is read-only ({settings.origins['readonly']})",
                "nothing is fetched, sent or run there; to use them, remove that setting",
            )
        # The library logs each handshake that fails, in its own words.
        os.putenv("GRPC_VERBOSITY", "NONE")
        if settings.remote:
            from hipcache.remote.helper import remotes

            told += [line for text in settings.remote for line in remotes.examine(text, sends=not settings.readonly)]
        for executors in features.modules("EXECUTIONS"):
            told += [executors.examine(text) for text in settings.executor if text != NO_EXECUTOR]
    except ImportError as error:
        yield Check(FAULT, f"a server is set, but the package {error.name} is not installed", address.install())
    yield from (Check(OK if good else FAULT, text, "" if good else hint) for good, text, hint in told)
