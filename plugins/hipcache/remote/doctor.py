"""The checks of remotes and executors for `hipcache doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from hipcache.base import features
from hipcache.cli.toolchain import FAULT, NOTE, OK, Check
from hipcache.config import Config
from hipcache.config.settings import NO_EXECUTOR
from hipcache.remote import address
from hipcache.report import conditions


def check(settings: Config) -> Iterator[Check]:
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
