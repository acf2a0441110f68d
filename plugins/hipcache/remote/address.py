"""The address of a remote, as HIPCACHE_REMOTE has it.

    grpc://HOST:PORT[/INSTANCE]    Remote Execution API, version 2; grpcs:// with TLS, unix:/PATH of a socket
    http://HOST[:PORT][/PREFIX]    GET and PUT of PREFIX/ac/HASH and PREFIX/cas/HASH; https://
    s3://BUCKET[/PREFIX]           objects of the same names; gs://, az://CONTAINER

What follows a `?`, with `&` between two: `read-only` or `write-only`; files: `token-file` (a bearer token),
`header-file` (lines "Name: value"), `ca-file`, `cert-file`, `key-file` (PEM); `endpoint`: where a cloud's protocol is
spoken, if not at the cloud's own place; `timeout`: seconds that an answer may take (1).
A secret has no place in an address: it would be seen in lists of processes and in logs.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from hipcache.base import features
from hipcache.base.errors import ConfigError, nearest
from hipcache.base.values import dataclass, field
from hipcache.config import Config


class Library(NamedTuple):
    """Of a protocol: the module whose `connect(address, credentials)` gives its `backend.Backend`, what this imports,
    and the package to install for that."""

    module: str
    needs: str
    package: str


_GRPC = Library("hipcache.remote.reapi", "grpc", "grpcio")
_OBSTORE = Library("hipcache.remote.objects", "obstore", "obstore")
LIBRARIES = {
    **dict.fromkeys(("grpc", "grpcs", "unix"), _GRPC),
    **dict.fromkeys(("http", "https", "s3", "gs", "az"), _OBSTORE),
}
SCHEMES = tuple(LIBRARIES)
_FILES = ("token-file", "header-file", "ca-file", "cert-file", "key-file")
_TLS = ("ca-file", "cert-file", "key-file")
_OTHERS = ("endpoint", "timeout")
_FLAGS = ("read-only", "write-only")
# Options of an executor's address, which `workers` reads.
EXECUTORS = ("jobs", "limit", "weight", "platform", "prefer", "installed")
TIMEOUT, MOST_TIMEOUT = 1.0, 60.0
_HINT = "for example grpc://cache.example.com:9092/main, https://cache.example.com/rocm or s3://bucket/prefix"


@dataclass(frozen=True)
class Address:
    """`name`: as it may be shown. `host`: with the port; of a unix socket its path. `path`: the instance or prefix,
    without "/" at its ends. `files`: by the option's name; `endpoint`: in place of the cloud's;
    `timeout`: seconds for an answer."""

    name: str
    scheme: str
    host: str
    path: str = ""
    reads: bool = True
    writes: bool = True
    files: dict[str, str] = field(default_factory=dict)
    endpoint: str = ""
    timeout: float = TIMEOUT


def parse(text: str, kind: str = "remote", own: Sequence[str] = ()) -> Address:
    """`kind` of server, for messages, and the names of `own` options that it has besides, for hints: the caller has
    read these. Raises ConfigError."""
    try:
        parts = urlsplit(text)
        port = parts.port
        options = [_option(word) for word in filter(None, parts.query.split("&"))]
    except ValueError as error:
        # Python's own words may have a part of a password.
        why = "" if "@" in text else f": {error}"
        raise ConfigError(f"{kind} '{shown(text)}' is not an address{why}", _HINT) from error
    name = shown(text)
    if parts.scheme not in SCHEMES:
        near = nearest(parts.scheme, SCHEMES) if "://" in text else ""
        hint = f"did you mean '{near}://'?" if near else _HINT
        raise ConfigError(f"{kind} '{name}' begins with none of {', '.join(SCHEMES)}", hint)
    if parts.scheme != "unix" and "://" not in text:
        raise ConfigError(f"{kind} '{name}' has no '//' after '{parts.scheme}:'", _HINT)
    if _has_user(text) or any(name == "endpoint" and "@" in value for name, value in options):
        hint = "put a token into a file, and name it: ?token-file=/path; a user's name and password: ?header-file=/path"
        raise ConfigError(f"{kind} '{name}' contains a user or a password, which others could see", hint)
    if parts.scheme == "grpc" and port is None:
        raise ConfigError(f"{kind} '{name}' has no port", _HINT)
    host, path = (parts.path, "") if parts.scheme == "unix" else (parts.netloc, parts.path)
    if not host or parts.fragment:
        raise ConfigError(f"{kind} '{name}' is not an address", _HINT)
    given = _options(f"{kind} '{name}'", options, own)
    for option in _TLS:
        if option in given and parts.scheme != "grpcs":
            hint = "remove it; https:// and clouds use the system's certificates, or those of SSL_CERT_FILE"
            raise ConfigError(f"{kind} '{name}': only grpcs:// has the option '{option}'", hint)
    if ("cert-file" in given) != ("key-file" in given):  # grpc ends the whole process
        raise ConfigError(f"{kind} '{name}' has only one of cert-file and key-file", "name both files, or none")
    return Address(
        name,
        parts.scheme,
        unquote(host),
        unquote(path).strip("/"),
        reads="write-only" not in given,
        writes="read-only" not in given,
        files={name: given[name] for name in _FILES if name in given},
        endpoint=given.get("endpoint", ""),
        timeout=float(given.get("timeout", TIMEOUT)),
    )


def _options(server: str, options: list[tuple[str, str]], own: Sequence[str]) -> dict[str, str]:
    known = (*_FLAGS, *_FILES, *_OTHERS, *own)
    for name, value in options:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean '{near}'?" if near else f"known are {', '.join(known)}"
            if name in EXECUTORS:
                hint = "only executors have it: write it after the address in HIPCACHE_EXECUTOR"
            raise ConfigError(f"{server}: unknown option '{name}'", hint)
        if name in _FLAGS and value:
            raise ConfigError(f"{server}: '{name}' takes no value", f"write '{name}' alone, or leave it out")
        if name in _FILES and not value.startswith("/"):
            raise ConfigError(f"{server}: '{name}' needs an absolute path", f"write {name}=/path")
        if name == "timeout" and not _is_timeout(value):
            raise ConfigError(f"{server}: '{value}' is not a timeout", "write seconds, such as timeout=0.5")
    given = dict(options)
    if all(flag in given for flag in _FLAGS):
        raise ConfigError(f"{server} may be neither read nor written", "remove one of the two options")
    return given


def _option(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, unquote(value)


def _is_timeout(text: str) -> bool:
    whole, _, fraction = text.partition(".")
    digits = whole + fraction
    return digits.isascii() and digits.isdigit() and len(digits) < 6 and 0 < float(text) <= MOST_TIMEOUT


def shown(text: str) -> str:
    """Without options, and without what stands before an `@`."""
    place = (text.rpartition("@")[2] if _has_user(text) else text).partition("?")[0]
    scheme = text.partition("://")[0]
    return f"{scheme}://{place}" if scheme in SCHEMES and "://" not in place else place


def _has_user(text: str) -> bool:
    """Is there an `@`, but in the value of an option? A password that is not quoted may have each of `/?#`, and so it
    is not seen by who splits the address."""
    return not text.startswith("unix:") and "@" in text.partition("?")[0] + text.partition("=")[0]


def install(packages: Iterable[str] = ("grpcio", "protobuf", "obstore")) -> str:
    """The command for the environment that hipcache is in. By the names of the packages: an index need not have
    hipcache, or not this version of it."""
    return f"{sys.executable} -m pip install {' '.join(packages)}"


def missing_packages(remotes: Iterable[str]) -> list[str]:
    """Those of the extra `remote` that these addresses need, and that are not installed."""
    wanted = {"google.protobuf": "protobuf"}
    for text in remotes:
        library = LIBRARIES.get(text.partition(":")[0], _GRPC)
        wanted[library.needs] = library.package
    return [package for module, package in wanted.items() if not _is_installed(module)]


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def file_states(config: Config) -> list[tuple[str, int, int, int]]:
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
