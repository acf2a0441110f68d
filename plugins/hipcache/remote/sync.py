"""`hipcache sync`: wait until all that is queued for the remotes is sent."""

from __future__ import annotations

import argparse

from hipcache import config
from hipcache.base.errors import HipcacheError
from hipcache.cli import Console
from hipcache.cli.screen import ProgressLine, parse_seconds
from hipcache.remote import address
from hipcache.remote.client import Client

SUMMARY = "wait until all queued results are sent to the remote"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout", type=parse_seconds, default=600.0, metavar="SECONDS", help="time limit in seconds (default: 600)"
    )


def run(options: argparse.Namespace, console: Console) -> int:
    settings = config.load(console.environ, strict=True)
    if not settings.remote:
        # No error: it is the last step of CI jobs, and a fork has no address.
        print("nothing is sent: no remote is set (HIPCACHE_REMOTE, see docs/share.md)", file=console.out)
        return 0
    faults: list[tuple[str, str]] = []
    client = Client(settings, console.environ, lambda fault, hint: faults.append((fault, hint)))
    missing = client.why_not()
    if missing:
        raise HipcacheError(*missing)
    left = -1
    try:
        with ProgressLine(console.err, "compiles to send") as progress:
            for answer in client.sync(options.timeout):
                left = int(answer["left"])
                if left and answer.get("told"):
                    raise HipcacheError(*map(str, answer["told"][:2]))
                progress.at(left)
                if not left:
                    break
    except (OSError, ValueError, TypeError, KeyError) as error:
        waiting = f", with {left} compiles to send" if left > 0 else ""
        raise HipcacheError(
            f"not all results are sent{waiting}: {error}", "try again; 'hipcache doctor' checks the remote"
        ) from error
    print(_ended(settings), file=console.out)
    return 0


def _ended(settings: config.Config) -> str:
    if not any(address.parse(text).writes for text in settings.remote):
        return "nothing is sent: the address of each remote says 'read-only'"
    if settings.readonly:
        return f"all results are sent; none are added while the store is read-only ({settings.origins['readonly']})"
    return "all results are sent"
