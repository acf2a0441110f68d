"""What remotes need on this machine: packages, and the files that their addresses name."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from contextlib import suppress

from hipcache.errors import ConfigError
from hipcache.executor import workers
from hipcache.remote.address import parse

_BY_NAME = ("http", "s3:", "gs:", "az:")
# By the names of the packages: an index need not have hipcache, or not this version of it.
INSTALL = "pip install grpcio protobuf obstore"


def missing_packages(remotes: Iterable[str]) -> list[str]:
    """Those of the extra `remote` that these addresses need, and that are not installed."""
    wanted = {"google.protobuf": "protobuf"}
    for text in remotes:
        wanted |= {"obstore": "obstore"} if text.startswith(_BY_NAME) else {"grpc": "grpcio"}
    return [package for module, package in wanted.items() if not _is_installed(module)]


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def files(more: Iterable[str], remotes: Iterable[str], executors: Iterable[str]) -> list[tuple[str, int, int, int]]:
    """The state of the files that a helper reads once, at its start: path, inode, size, nanoseconds. With another state
    it is another helper."""
    named = list(more)
    for read, texts in ((parse, remotes), (lambda text: workers.parse(text).address, executors)):
        for text in texts:
            with suppress(ConfigError):
                named += read(text).files.values()
    found = []
    for path in filter(None, named):
        with suppress(OSError):
            status = os.stat(path)
            found.append((path, status.st_ino, status.st_size, status.st_mtime_ns))
    return found
