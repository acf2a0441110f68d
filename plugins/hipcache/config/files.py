"""The config files: where each is, what it may set, and its text by settings.

Later ones win, the environment over all of them:

    system    /etc/hipcache.yaml, or HIPCACHE_SYSTEM_CONFIG                      anything
    user      ~/.config/hipcache/hipcache.yaml, or HIPCACHE_CONFIG               anything
    store     hipcache.yaml in the store's directory                             max_size, readonly, umask
    project   .hipcache.yaml in the working directory, or the nearest above it   basedir, disable, readonly

A store is shared by others, and a checkout may be a stranger's. So neither says where anything is read from, written or
sent to, which programs run, whose records count, or how often hits are checked. These two count only if they are
regular files (no links) of this user, of root, or of the owner of the directory that they lie in: in /tmp anybody can
write one. `native/launcher/settings.c` and `native/direct/project.c` find the same files.

Each is YAML, one mapping; its keys are the variables' names (`HIPCACHE_MAX_SIZE: 20G`) or those in short (`max_size`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hipcache.base import shared
from hipcache.base.errors import ConfigError
from hipcache.base.shared import MOST_CONFIG
from hipcache.base.values import dataclass
from hipcache.config.settings import PREFIX, RETIRED, VARIABLES, Setting, nearest_hint

if TYPE_CHECKING:
    from yaml import Node

SOURCE_NOTE = ".hipcache-source"
DEFAULT, ENVIRONMENT = "default", "environment"
# Environment only: a file cannot name another one.
NAMES_A_FILE = ("config_file", "system_config")
_RETIRED = {name: key for variable, key in RETIRED.items() for name in (variable, key)}


@dataclass(frozen=True)
class Scope:
    """The name of a config file, and the keys that it may have; none: all of them."""

    name: str
    allowed: tuple[str, ...] = ()


SYSTEM, USER = Scope("system-wide"), Scope("user's")
STORE = Scope("store's", ("max_size", "readonly", "umask"))
PROJECT = Scope("project's", ("basedir", "disable", "readonly"))


@dataclass(frozen=True)
class Text:
    """A value as it was written. `place` is for errors ("FILE:LINE: key 'x'"), `origin` for `hipcache config`."""

    text: str
    place: str
    origin: str


def expand(path: str, environ: Mapping[str, str]) -> str:
    return str(_home(environ)) + path[1:] if path == "~" or path.startswith("~/") else path


def _home(environ: Mapping[str, str]) -> Path:
    home = environ["HOME"] if "HOME" in environ else os.path.expanduser("~")
    if not home.startswith("/"):
        raise ConfigError("this user has no home directory", "set HOME, or HIPCACHE_DIR and HIPCACHE_CONFIG")
    return Path(home)


def user_directory(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    """The XDG base directory, in which a relative value is to be ignored, and `hipcache` in it."""
    base = environ.get(variable, "")
    return (Path(base) if base.startswith("/") else _home(environ) / below_home) / "hipcache"


def system_path(environ: Mapping[str, str]) -> Path:
    """The path of the system-wide file. Raises ConfigError."""
    named = environ.get(PREFIX + "SYSTEM_CONFIG", "")
    if named and not named.startswith("/"):
        raise ConfigError(
            f"environment variable 'HIPCACHE_SYSTEM_CONFIG': '{named}' is not an absolute path",
            "write it from the root; there need be no such file",
        )
    return Path(named or shared.SYSTEM_CONFIG)


def user_path(environ: Mapping[str, str]) -> Path | None:
    """The path of the user's file; None if there is no home directory."""
    named = environ.get(PREFIX + "CONFIG", "")
    try:
        if named:
            return Path(expand(named, environ)).absolute()
        return user_directory(environ, "XDG_CONFIG_HOME", ".config") / "hipcache.yaml"
    except ConfigError:
        return None


def user_file(environ: Mapping[str, str]) -> tuple[Path | None, str]:
    """That file, if it is there, and what names it. Raises ConfigError."""
    named = environ.get(PREFIX + "CONFIG", "")
    if named:
        file = Path(expand(named, environ))
        if not os.path.isfile(file):
            raise ConfigError(
                f"environment variable 'HIPCACHE_CONFIG': there is no file '{named}'",
                "create it, or unset HIPCACHE_CONFIG to use the config file of the user",
            )
        return file.absolute(), ENVIRONMENT
    found = user_path(environ)
    return (found if found and os.path.exists(found) else None), DEFAULT


def store_path(store: Path) -> Path:
    return store / shared.STORE_SETTINGS


def project_file(cwd: str) -> Path | None:
    """The nearest one that counts. `cwd`: absolute."""
    for directory in parents(cwd):
        path = os.path.join(directory, shared.PROJECT_SETTINGS)
        if counts(path):
            return Path(path)
    return None


def source_directory(cwd: str) -> Path | None:
    """The directory of the sources that are built in `cwd` (absolute), or above it, as the module of a build tool has
    noted it there: in a file `.hipcache-source`, its absolute path and a line break."""
    for directory in parents(cwd):
        path = os.path.join(directory, SOURCE_NOTE)
        if counts(path):
            with suppress(OSError), open(path, "rb") as file:
                line = os.fsdecode(file.read(MOST_CONFIG).removesuffix(b"\n"))
                if line[1:] and os.path.isabs(line) and os.path.normpath(line) == line and "\n" not in line:
                    return Path(line)
            return None
    return None


def parents(path: str) -> Iterator[str]:
    """The directory itself, and those above it but the root."""
    while path not in ("/", ""):
        yield path
        path = os.path.dirname(path)


def counts(path: Path | str) -> bool:
    """Is it a store's or a project's file, and of somebody who may say what is in it?"""
    try:
        found = os.lstat(path)
        return stat.S_ISREG(found.st_mode) and (
            found.st_uid in (0, os.getuid()) or found.st_uid == os.stat(os.path.dirname(path)).st_uid
        )
    except OSError:
        return False


def read(file: Path, scope: Scope = USER) -> dict[str, Text]:
    """What stands in the file. Raises ConfigError."""
    try:
        return parse(content(file), file, scope)
    except OSError as error:
        raise ConfigError(f"cannot read config file '{file}': {error.strerror}", "repair or remove it") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"config file '{file}' is not UTF-8 text", "save it as UTF-8") from error


def parse(content: bytes, file: Path, scope: Scope = USER) -> dict[str, Text]:
    """The scalars of the YAML mapping as text, with their lines. YAML's own types are not used: `max_size: 10G`
    and HIPCACHE_MAX_SIZE=10G must mean the same, whatever a YAML version makes of `yes` or `0o17`. Raises
    UnicodeDecodeError, ConfigError."""
    text = content.decode("utf-8")
    if not text.strip(" \n"):
        return {}  # to load YAML takes 8 ms

    import yaml

    try:
        document = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else str(file)
        problem = getattr(error, "problem", None) or "cannot be read"
        raise ConfigError(f"{place}: not YAML: {problem}", "write lines such as 'max_size: 10GiB'") from error
    if document is None:
        return {}
    if not isinstance(document, yaml.MappingNode):
        place = f"{file}:{document.start_mark.line + 1}"
        raise ConfigError(f"{place}: expected settings", "write lines such as 'max_size: 10GiB'")
    # Those of NAMES_A_FILE are known here only so that they can be refused with a better message.
    keys = {name: setting for v, setting in VARIABLES.items() for name in (v, v.removeprefix(PREFIX).lower())}
    texts: dict[str, Text] = {}
    seen = set()
    for key_node, value_node in document.value:
        origin = f"{file}:{key_node.start_mark.line + 1}"
        name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        place = f"{origin}: key '{name}'"
        if name in _RETIRED:
            texts[_RETIRED[name]] = Text("", place, origin)
            continue
        if name not in keys:
            # A wrong key is matched against those that are written like it, and that this file may have.
            near = [k for k in keys if k.startswith(PREFIX) == name.upper().startswith(PREFIX)]
            raise ConfigError(
                f"{origin}: unknown key '{name}'", nearest_hint(name, [k for k in near if allows(scope, keys[k])])
            )
        setting = keys[name]
        refuse(setting, scope, place)
        if setting.key in seen:
            raise ConfigError(f"{place} is set twice", "remove one of the two lines")
        seen.add(setting.key)
        if setting.kind == "addresses" and isinstance(value_node, yaml.SequenceNode):
            texts[setting.key] = Text(" ".join(_address(node, place) for node in value_node.value), place, origin)
            continue
        if not isinstance(value_node, yaml.ScalarNode):
            if setting.kind == "addresses":
                hint = f"write '{name}: grpc://HOST:PORT', or below '{name}:' a line '- address: ...' for each"
                raise ConfigError(f"{place} needs an address, or a list of them", hint)
            raise ConfigError(f"{place} needs one value", f"for example '{name}: {setting.default or '/path'}'")
        if value_node.value and value_node.tag != "tag:yaml.org,2002:null":
            texts[setting.key] = Text(value_node.value, place, origin)
    if scope is PROJECT and "basedir" in texts:
        texts["basedir"] = _below(file.parent, texts["basedir"])
    return texts


def _address(node: Node, place: str) -> str:
    """One of a list: the address as it is; or a mapping with `address` and its options, of which those that may be
    repeated have a mapping of their own (`platform: {OSFamily: linux}`). Raises ConfigError."""
    from urllib.parse import quote

    from yaml import ScalarNode

    if isinstance(node, ScalarNode):
        return str(node.value)
    pairs = _pairs(node) or {}
    address = pairs.pop("address", None)
    if not isinstance(address, ScalarNode):
        raise ConfigError(
            f"{place} has an entry without an address", "write '- grpc://...', or '- address: grpc://...'"
        )
    words = []
    for name, value in pairs.items():
        several = {key: node.value for key, node in (_pairs(value) or {}).items() if isinstance(node, ScalarNode)}
        if isinstance(value, ScalarNode):
            if value.value not in ("false", "no"):
                words.append(name if value.value in ("true", "yes") else f"{name}={quote(value.value)}")
        elif several and len(several) == len(value.value):
            words += [f"{name}={quote(f'{key}:{word}')}" for key, word in several.items()]
        else:
            raise ConfigError(f"{place}: '{name}' needs one value", f"for example '{name}: 4'")
    return str(address.value) + ("?" + "&".join(words) if words else "")


def _pairs(node: Node) -> dict[str, Node] | None:
    """The pairs of a mapping; None if it is no mapping of words."""
    from yaml import MappingNode, ScalarNode

    if not isinstance(node, MappingNode) or not all(isinstance(key, ScalarNode) for key, _ in node.value):
        return None
    return {str(key.value): value for key, value in node.value}


def allows(scope: Scope, setting: Setting) -> bool:
    """May files of this scope have that setting?"""
    return setting.key not in NAMES_A_FILE and (not scope.allowed or setting.key in scope.allowed)


def refuse(setting: Setting, scope: Scope, place: str) -> None:
    """Raises ConfigError if files of this scope may not have that setting. `place`: which one, for the message."""
    variable = next(name for name, known in VARIABLES.items() if known is setting)
    if setting.key in NAMES_A_FILE:
        raise ConfigError(f"{place} cannot be set in a config file", f"set {variable} in the environment")
    if not allows(scope, setting):
        raise ConfigError(
            f"{place} cannot be set in a {scope.name} config file",
            f"it may have {', '.join(scope.allowed)}; set {setting.key} in the user's config file, or {variable}",
        )


def content(file: Path) -> bytes:
    """Raises OSError, ConfigError."""
    with open(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as opened:
        found = opened.read(MOST_CONFIG + 1)
    if found is None:  # a pipe that nobody has written to yet
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    if len(found) > MOST_CONFIG:
        raise ConfigError(f"config file '{file}' has more than {MOST_CONFIG} bytes", "write settings only into it")
    return found


def _below(directory: Path, written: Text) -> Text:
    """A project names its base directory from its own, and none outside."""
    path = os.path.normpath(os.path.join(directory, written.text))
    if path != str(directory) and not path.startswith(f"{directory}/"):
        raise ConfigError(
            f"{written.place}: '{written.text}' is not in the project", "write '.', or a directory below the file's"
        )
    return Text(path, written.place, written.origin)
