"""`hipcache prefetch`: fetch what a whole build needs from the remote, before its first compile."""

from __future__ import annotations

import argparse
import os
import select
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from hipcache import config
from hipcache.base.errors import HipcacheError
from hipcache.base.paths import is_of_kernel
from hipcache.cli import Console
from hipcache.cli.screen import parse_seconds
from hipcache.remote.client import open_client

SUMMARY = "fetch the results of a whole build from the remote, before it starts"
SECONDS = 20.0
# Bytes of a list that comes through a pipe.
_MOST = 256 << 20


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
        type=parse_seconds,
        default=SECONDS,
        metavar="SECONDS",
        help=f"time limit in seconds (default: {SECONDS:.0f})",
    )
    parser.add_argument(
        "--step",
        action="store_true",
        help="for use as a build step: never fails, and does nothing without a remote or with HIPCACHE_PREFETCH=0",
    )


def run(options: argparse.Namespace, console: Console) -> int:
    try:
        settings = config.load(console.environ, strict=True)
        if options.step and not (settings.remote and settings.prefetch and not settings.disable):
            return 0
        if not settings.remote:
            raise HipcacheError("no remote is set", "set HIPCACHE_REMOTE to its address: see docs/share.md")
        _prefetch(options, console, settings)
    except HipcacheError as error:
        if not options.step:
            raise
        print(f"hipcache: prefetch failed: {error}", file=console.err)
    except Exception as error:  # the build comes first
        if not options.step:
            raise
        print(f"hipcache: prefetch failed: {type(error).__name__}: {error}", file=console.err)
    return 0


def _prefetch(options: argparse.Namespace, console: Console, settings: config.Config) -> None:
    """Raises HipcacheError."""
    if settings.readonly or settings.recache:
        print("nothing prefetched: the store is read-only, or HIPCACHE_RECACHE is set", file=console.out)
        return
    client = open_client(settings, console.environ)
    wrong = client.why_not()
    if wrong:
        raise HipcacheError(*wrong)
    path, end = os.path.abspath(options.file), time.monotonic() + options.timeout
    try:
        with _readable(path, end) as file:
            told = client.prefetch(file, end - time.monotonic(), "" if file == path else os.getcwd())
    except (OSError, ValueError) as error:
        print(f"hipcache: prefetch is incomplete: {error}", file=console.err)
        return
    if told:
        print(told, file=console.out)


@contextmanager
def _readable(path: str, end: float) -> Iterator[str]:
    """The path of a file that the storage helper can open: a copy of what the shell has opened (`<(...)`, `/dev/fd/3`),
    and of a pipe, which may never say anything. `end`: on the monotonic clock. Raises HipcacheError, OSError."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # the helper says what is wrong
        mode = 0
    if not (stat.S_ISFIFO(mode) or (stat.S_ISREG(mode) and is_of_kernel(path))):
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="hipcache-", suffix=".json") as copy:
        _copy(path, copy, end)
        copy.flush()
        yield copy.name


def _copy(path: str, to: IO[bytes], end: float) -> None:
    size = 0
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb", buffering=0) as opened:
        while size <= _MOST:
            left = end - time.monotonic()
            if left <= 0 or not select.select([opened], (), (), left)[0]:
                raise HipcacheError(f"cannot read '{path}': it does not end in time", "name a file")
            piece = opened.read(1 << 20)
            if piece == b"":
                return
            size += to.write(piece or b"")
    raise HipcacheError(f"cannot read '{path}': it is too large", "name a file")
