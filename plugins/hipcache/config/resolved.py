"""What the settings of a config file mean, for the launcher, which reads no YAML (`native/launcher/settings.c`).

The engine writes this into the user's runtime directory, for each content of a config file that it reads. The name
is "settings-" and the first 32 hexadecimal digits of the BLAKE3 digest of SETTINGS_DOMAIN, the name of the `Scope` and
HOME (for `~`), each with a NUL behind it, and the content: no time or inode of a file matters. The text is these
values in UTF-8, each with a NUL behind it; an empty one is not set:

    dir, key, namespace, log, stats_log, log_format, resident, readonly (a flag is 0 or 1), verify (PART/OF),
    remote (1: there is one, 0: there is none), 1 if it forbids to ask one

Another list of values needs another SETTINGS_DOMAIN.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hipcache.base import shared
from hipcache.base.errors import ConfigError
from hipcache.base.files import write_whole
from hipcache.base.paths import runtime_directory
from hipcache.config import files
from hipcache.config.settings import VARIABLES

if TYPE_CHECKING:
    from hipcache.config import Config

_KEYS = ("dir", "key", "namespace", "log", "stats_log", "log_format", "resident", "readonly", "verify")
_FORBID = ("disable", "readonly", "recache")
_VALUES = len(_KEYS) + 2
# Seconds after which such a text goes, when another one is written. One that is needed comes back.
_AGE = 7 * 86400


def leave(config: Config, environ: Mapping[str, str]) -> None:
    """Write it for each file of these settings, if it is not there. Only speed is lost where that cannot be."""
    if not config.files or "HOME" not in environ or not (directory := runtime_directory(environ)):
        return
    for file, scope in config.files:
        with suppress(OSError, UnicodeError, ConfigError):
            content = files.content(file)
            place = Path(directory, name(content, scope, environ))
            if not place.exists() or (place.is_file() and place.read_bytes().count(b"\0") != _VALUES):
                write_whole(place, values(content, file, scope, environ))
                _remove_old(Path(directory))


def _remove_old(directory: Path) -> None:
    """Raises OSError."""
    for path in directory.glob("settings-*"):
        if time.time() - path.lstat().st_mtime > _AGE:
            path.unlink(missing_ok=True)


def name(content: bytes, scope: files.Scope, environ: Mapping[str, str]) -> str:
    from hipcache.base.hashing import blake3  # most have no config file

    parts = [
        *map(shared.terminated, (shared.SETTINGS_DOMAIN, scope.name)),
        os.fsencode(environ.get("HOME", "")) + b"\0",
    ]
    return f"settings-{blake3(b''.join([*parts, content])).hexdigest()[:32]}"


def values(content: bytes, file: Path, scope: files.Scope, environ: Mapping[str, str]) -> bytes:
    """Raises UnicodeError, ConfigError: such a file is the engine's affair."""
    from hipcache.config import parse

    texts = files.parse(content, file, scope)
    told = [setting for setting in VARIABLES.values() if setting.key in (*_KEYS, *_FORBID, "remote")]
    found = {setting.key: parse(setting, texts[setting.key], environ) for setting in told if setting.key in texts}
    given = [found.get(key, "") for key in _KEYS]
    words = [str(int(value)) if isinstance(value, bool) else str(value) for value in given]
    if "verify" in found:
        words[-1] = "/".join(word.strip() for word in (*texts["verify"].text.split("/"), "1")[:2])
    words.append(str(int(bool(found["remote"]))) if "remote" in found else "")
    words.append("1" if any(map(found.get, _FORBID)) else "")
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)
