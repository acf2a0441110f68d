"""What remotes need on this machine: packages, and the files that their addresses name."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable
from contextlib import suppress

from hipcache import features
from hipcache.config import Config
from hipcache.errors import ConfigError

_BY_NAME = ("http", "s3:", "gs:", "az:")


def install(packages: Iterable[str] = ("grpcio", "protobuf", "obstore")) -> str:
    """The command for the environment that hipcache is in. By the names of the packages: an index need not have
    hipcache, or not this version of it."""
    return f"{sys.executable} -m pip install {' '.join(packages)}"


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


def files(config: Config) -> list[tuple[str, int, int, int]]:
    """The state of the files that a helper reads once, at its start: path, inode, size, nanoseconds. With another state
    it is another helper."""
    named = [str(config.key or "")]
    for setting, texts in (("remote", config.remote), ("executor", config.executor)):
        for addresses in features.modules_for("ADDRESSES", setting) if texts else ():
            for text in texts:
                with suppress(ConfigError):
                    named += addresses.parse(text).files.values()
    found = []
    for path in filter(None, named):
        with suppress(OSError):
            status = os.stat(path)
            found.append((path, status.st_ino, status.st_size, status.st_mtime_ns))
    return found
