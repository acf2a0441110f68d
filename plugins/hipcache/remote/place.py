"""Where the socket of a storage helper is: its name is a digest of all that the helper is made from. And which of the
queue is its own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import hipcache
from hipcache.config import Config
from hipcache.errors import ConfigError
from hipcache.inputs.keys import digest_bytes
from hipcache.processes.slots import runtime_directory
from hipcache.remote import needs
from hipcache.remote.address import parse
from hipcache.shared import CREDENTIALS


def place_of(config: Config, environ: Mapping[str, str]) -> str:
    """Of the socket. Raises OSError."""
    directory = runtime_directory(environ)
    if not directory:
        raise OSError("no directory is available for its socket")
    named = sorted(f"{name}={value}" for name, value in environ.items() if name.upper().startswith(CREDENTIALS))
    made_from = (
        *(hipcache.__version__, config.dir, config.max_size, config.umask, config.key, config.namespace),
        *(config.remote, config.executor),
        needs.files(config),
    )
    return f"{directory}/remote-{digest_bytes(repr((*made_from, named)).encode())[:16]}"


def destination_of(config: Config) -> str:
    """Where results go that are queued under these settings: the servers that may be written, and what separates
    results on one. Without other options: with a new token, what waits is still for the same server."""
    servers = []
    for text in config.remote:
        with suppress(ConfigError):
            found = parse(text)
            if found.writes:
                servers.append((found.scheme, found.host, found.path, found.endpoint))
    return digest_bytes(repr((sorted(servers), config.namespace, str(config.key or ""))).encode())[:16]
