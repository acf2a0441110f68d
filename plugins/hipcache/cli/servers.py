"""The checks of remotes and executors for `hipcache doctor`, and the conditions that their addresses are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from hipcache.cli.toolchain import FAULT, NOTE, OK, Check
from hipcache.config import Config
from hipcache.errors import ConfigError
from hipcache.executor import workers
from hipcache.executor.workers import NONE
from hipcache.remote import address, needs
from hipcache.report import conditions
from hipcache.report.conditions import Condition


def conditions_under(settings: Config) -> tuple[Condition, ...]:
    """Those of `conditions.under`, and addresses that are none."""
    return (*conditions.under(settings), *(() if settings.disable else _wrong_addresses(settings)))


def _wrong_addresses(settings: Config) -> Iterator[Condition]:
    parsers: tuple[tuple[str, tuple[str, ...], Callable[[str], object]], ...] = (
        ("remote", settings.remote, address.parse),
        ("executor", tuple(text for text in settings.executor if text != NONE), workers.parse),
    )
    for kind, texts, parse in parsers:
        for text in texts:
            try:
                parse(text)
            except ConfigError as error:
                yield Condition(kind, error.message, error.hint)


def check(settings: Config) -> Iterator[Check]:
    told: list[tuple[bool, str, str]] = []
    try:
        named = [*settings.remote, *(text for text in settings.executor if text != NONE)]
        missing = needs.missing_packages(named) if named else []
        wrong = list(_wrong_addresses(settings)) if missing else []
        if wrong:  # nobody knows what those need
            yield from (Check(FAULT, condition.message, condition.hint) for condition in wrong)
            return
        if missing:
            yield Check(FAULT, f"remotes and executors need {', '.join(missing)}", f"pip install {' '.join(missing)}")
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
            from hipcache.helper import remotes

            told += [one for text in settings.remote for one in remotes.examine(text, sends=not settings.readonly)]
        if settings.executor:
            from hipcache.executor import servers

            told += [servers.examine(text) for text in settings.executor if text != NONE]
    except ImportError as error:
        yield Check(FAULT, f"a server is set, but the package {error.name} is not installed", needs.INSTALL)
    yield from (Check(OK if good else FAULT, text, "" if good else hint) for good, text, hint in told)
