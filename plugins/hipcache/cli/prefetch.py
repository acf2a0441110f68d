"""`hipcache prefetch`: fetch what a whole build needs from the remote, before its first compile."""

from __future__ import annotations

import argparse
import os

from hipcache import config
from hipcache.cli import Session, seconds
from hipcache.engine.servers import client_of
from hipcache.errors import HipcacheError

SUMMARY = "fetch the results of a whole build from the remote, before it starts"
SECONDS = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        default="compile_commands.json",
        metavar="FILE",
        help="the build's commands (default: compile_commands.json)",
    )
    parser.add_argument(
        "--timeout",
        type=seconds.parse,
        default=SECONDS,
        metavar="SECONDS",
        help=f"time limit in seconds (default: {SECONDS:.0f})",
    )
    parser.add_argument(
        "--step",
        action="store_true",
        help="for use as a build step: never fails, and does nothing without a remote or with HIPCACHE_PREFETCH=0",
    )


def run(options: argparse.Namespace, session: Session) -> int:
    try:
        settings = config.load(session.environ, strict=True)
        if options.step and not (settings.remote and settings.prefetch and not settings.disable):
            return 0
        if not settings.remote:
            raise HipcacheError("no remote is set", "set HIPCACHE_REMOTE to its address: see docs/share.md")
        _prefetch(options, session, settings)
    except HipcacheError as error:
        if not options.step:
            raise
        print(f"hipcache: prefetch failed: {error}", file=session.err)
    except Exception as error:  # the build comes first
        if not options.step:
            raise
        print(f"hipcache: prefetch failed: {type(error).__name__}: {error}", file=session.err)
    return 0


def _prefetch(options: argparse.Namespace, session: Session, settings: config.Config) -> None:
    """Raises HipcacheError."""
    if settings.readonly or settings.recache:
        print("nothing prefetched: the store is read-only, or HIPCACHE_RECACHE is set", file=session.out)
        return
    client = client_of(settings, session.environ)()
    wrong = client.why_not()
    if wrong:
        raise HipcacheError(*wrong)
    try:
        told = client.prefetch(os.path.abspath(options.file), options.timeout)
    except (OSError, ValueError) as error:
        print(f"hipcache: prefetch is incomplete: {error}", file=session.err)
        return
    if told:
        print(told, file=session.out)
