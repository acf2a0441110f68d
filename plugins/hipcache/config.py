"""The values of the settings: where each came from, and errors that name the nearest valid one.

A value comes from the environment, else from the config file, else it is the default. An empty value counts as
not set. The config file is YAML, one mapping; its keys are the variables' names (`HIPCACHE_MAX_SIZE: 20G`) or
those in short (`max_size: 20G`). Both sources hold text, so one parser for each kind of value serves both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hipcache.errors import ConfigError
from hipcache.inputs import builders
from hipcache.processes import room
from hipcache.settings import PREFIX, SETTINGS, VARIABLES, Setting, nearest, parse_size
from hipcache.shared import MOST_CONFIG
from hipcache.values import dataclass, field

if TYPE_CHECKING:
    from typing import NoReturn

DEFAULT = "default"
ENVIRONMENT = "environment"
FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Config:
    """The values in force. `origins` says where each came from, by field: "default", "environment", "FILE:LINE", or by
    what a base directory was found.

    `warnings` are unknown HIPCACHE_* variables: an error for a command, but never a reason not to compile.
    """

    dir: Path
    config_file: Path | None = None
    disable: bool = False
    readonly: bool = False
    recache: bool = False
    max_size: int = 10 * 2**30
    basedir: Path | None = None
    key: Path | None = None
    umask: int | None = None
    log: Path | None = None
    log_format: str = "text"
    stats_log: Path | None = None
    jobs: int = 0
    remote: tuple[str, ...] = ()
    executor: tuple[str, ...] = ()
    prefetch: bool = True
    verify: float = 0.0
    preambles: bool = False
    preamble_checks: int = 64
    iree_checks: bool = True
    resident: bool = True
    system_paths: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def job_slots(self) -> int:
        """`jobs`, or as many as this process has cores and memory for."""
        return self.jobs or room.compilers(len(os.sched_getaffinity(0)), room.memory())

    def is_drawn(self) -> bool:
        """Is it the turn of this result to be compared (`verify`)?"""
        return self.verify > 0 and int.from_bytes(os.urandom(7), "little") < self.verify * 2**56


@dataclass(frozen=True)
class _Text:
    """A value as it was written. `place` is for errors ("FILE:LINE: key 'x'"), `origin` for `hipcache config`."""

    text: str
    place: str
    origin: str


def load(environ: Mapping[str, str], *, strict: bool = False) -> Config:
    """Read the environment and the config file. With `strict` an unknown HIPCACHE_* variable is an error too."""
    warnings = []
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in VARIABLES:
            message, hint = f"unknown environment variable '{variable}'", nearest(variable, list(VARIABLES))
            if strict:
                raise ConfigError(message, hint)
            warnings.append(f"{message}; {hint}")

    file, file_origin = _config_file(environ)
    texts = read_file(file) if file else {}
    for variable, setting in VARIABLES.items():
        if environ.get(variable, ""):
            texts[setting.key] = _Text(environ[variable], f"environment variable '{variable}'", ENVIRONMENT)

    values: dict[str, Any] = {}
    origins = {setting.key: DEFAULT for setting in SETTINGS}
    for setting in SETTINGS:
        if setting.key != "config_file" and setting.key in texts:
            written = texts[setting.key]
            values[setting.key] = _PARSERS[setting.kind](written, environ)
            origins[setting.key] = written.origin
    if "dir" not in values:
        values["dir"] = _user_directory(environ, "XDG_CACHE_HOME", ".cache")
    if "system_paths" not in values:
        values["system_paths"] = tuple(VARIABLES[PREFIX + "SYSTEM_PATHS"].default.split(":"))
    found = None if "basedir" in values else builders.room(environ)
    if found:
        values["basedir"], origins["basedir"] = Path(found.path), found.why
    origins["config_file"] = file_origin
    return Config(**values, config_file=file, origins=origins, warnings=tuple(warnings))


def _size(written: _Text, environ: Mapping[str, str]) -> int:
    size = parse_size(written.text)
    if size is None:
        _bad_value(written, "is not a size", "write a number and K, M, G, T, KiB, MiB, GiB or TiB, for example 10GiB")
    return size


def _flag(written: _Text, environ: Mapping[str, str]) -> bool:
    flag = FLAGS.get(written.text.strip().lower())
    if flag is None:
        hint = "write " + ", ".join(word for word, meaning in FLAGS.items() if meaning)
        _bad_value(written, "is neither yes nor no", hint + " or " + ", ".join(w for w, m in FLAGS.items() if not m))
    return flag


def _count(written: _Text, environ: Mapping[str, str]) -> int:
    text = written.text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        _bad_value(written, "is not a count", "write 0, 1, 2 ...; 0 means one for each available core")
    return int(text)


def _share(written: _Text, environ: Mapping[str, str]) -> float:
    """Of the launcher, too: `share_of` in native/launcher.c."""
    part, slash, whole = (word.strip() for word in written.text.partition("/"))
    whole = whole if slash else "1"
    good = all(word.isascii() and word.isdigit() and len(word) < 10 for word in (part, whole))
    if not good or int(whole) == 0 or int(part) > int(whole):
        _bad_value(written, "is not a share", "write for example 1/100 (one hit in a hundred), 1 (each) or 0 (none)")
    return int(part) / int(whole)


def _mask(written: _Text, environ: Mapping[str, str]) -> int:
    text = written.text.strip().removeprefix("0o")
    if not text or len(text) > 4 or text.strip("01234567") or int(text, 8) & ~0o077:
        _bad_value(
            written, "is not a umask", "write 002 for a store of a group, 007 to keep others out, 077 to share none"
        )
    return int(text, 8)


def _path(written: _Text, environ: Mapping[str, str]) -> Path:
    """An absolute path. A relative one would mean another place in each directory that a build compiles in."""
    path = _expand(written.text, environ)
    if not path.startswith("/") or "\0" in path:
        _bad_value(written, "is not an absolute path", "write it from the root, or from your home directory as ~/...")
    return Path(path)


def _paths(written: _Text, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Absolute paths, without "/" at their ends."""
    paths = tuple(path.rstrip("/") for path in written.text.split(":"))
    if not all(path.startswith("/") for path in paths):
        _bad_value(written, "is not a list of absolute paths", "write for example /usr:/opt; '/' alone is too much")
    return paths


def _format(written: _Text, environ: Mapping[str, str]) -> str:
    if written.text not in ("text", "json"):
        _bad_value(written, "is no format of the log", "write text or json")
    return written.text


_PARSERS: dict[str, Callable[[_Text, Mapping[str, str]], object]] = {
    "size": _size,
    "flag": _flag,
    "count": _count,
    "share": _share,
    "mask": _mask,
    **dict.fromkeys(("directory", "file"), _path),
    "directories": _paths,
    "addresses": lambda written, _: tuple(written.text.split()),  # whether they are right, `remote.address` knows
    "format": _format,
}


def check(setting: Setting, text: str, environ: Mapping[str, str]) -> None:
    """Raises ConfigError where that is no value of the setting."""
    _PARSERS[setting.kind](_Text(text, f"setting '{setting.key}'", ""), environ)


def _bad_value(written: _Text, why: str, hint: str) -> NoReturn:
    raise ConfigError(f"{written.place}: '{written.text}' {why}", hint)


def _expand(path: str, environ: Mapping[str, str]) -> str:
    return str(_home(environ)) + path[1:] if path == "~" or path.startswith("~/") else path


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME") or os.path.expanduser("~")
    if not home.startswith("/"):
        raise ConfigError("this user has no home directory", "set HOME, or HIPCACHE_DIR and HIPCACHE_CONFIG")
    return Path(home)


def _user_directory(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    """The XDG base directory, in which a relative value is to be ignored, and `hipcache` in it."""
    base = environ.get(variable, "")
    return (Path(base) if base.startswith("/") else _home(environ) / below_home) / "hipcache"


def config_path(environ: Mapping[str, str]) -> Path | None:
    """Where the config file is looked for; None where there is no home directory."""
    named = environ.get(PREFIX + "CONFIG", "")
    try:
        if named:
            return Path(_expand(named, environ)).absolute()
        return _user_directory(environ, "XDG_CONFIG_HOME", ".config") / "hipcache.yaml"
    except ConfigError:
        return None


def _config_file(environ: Mapping[str, str]) -> tuple[Path | None, str]:
    named = environ.get(PREFIX + "CONFIG", "")
    if named:
        file = Path(_expand(named, environ))
        if not os.path.isfile(file):
            raise ConfigError(
                f"environment variable 'HIPCACHE_CONFIG': there is no file '{named}'",
                "create it, or unset HIPCACHE_CONFIG to use the config file of the user",
            )
        return file.absolute(), ENVIRONMENT
    found = config_path(environ)
    return (found if found and os.path.exists(found) else None), DEFAULT


def read_file(file: Path) -> dict[str, _Text]:
    """The scalars of the YAML mapping as text, with their lines. YAML's own types are not used: `max_size: 10G`
    and HIPCACHE_MAX_SIZE=10G must mean the same, whatever a YAML version makes of `yes` or `0o17`."""
    import yaml

    try:
        if os.stat(file).st_size > MOST_CONFIG:
            raise ConfigError(f"config file '{file}' has more than {MOST_CONFIG} bytes", "write settings only into it")
        document = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(f"cannot read config file '{file}': {error.strerror}", "repair or remove it") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"config file '{file}' is not UTF-8 text", "save it as UTF-8") from error
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else str(file)
        problem = getattr(error, "problem", None) or "cannot be read"
        raise ConfigError(f"{place}: not YAML: {problem}", "write lines such as 'max_size: 10GiB'") from error
    if document is None:
        return {}
    if not isinstance(document, yaml.MappingNode):
        line = document.start_mark.line + 1
        raise ConfigError(f"{file}:{line}: expected settings", "write lines such as 'max_size: 10GiB'")

    # "config" is known here only so that it can be refused with a better message.
    keys = {name: setting for v, setting in VARIABLES.items() for name in (v, v.removeprefix(PREFIX).lower())}
    texts: dict[str, _Text] = {}
    seen = set()
    for key_node, value_node in document.value:
        origin = f"{file}:{key_node.start_mark.line + 1}"
        name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        place = f"{origin}: key '{name}'"
        if name not in keys:
            # A wrong key is matched against those that are written like it.
            style = [known for known in keys if known.startswith(PREFIX) == name.startswith(PREFIX)]
            raise ConfigError(f"{origin}: unknown key '{name}'", nearest(name, style))
        setting = keys[name]
        if setting.key == "config_file":
            raise ConfigError(f"{place} cannot be set in a config file", "set HIPCACHE_CONFIG in the environment")
        if setting.key in seen:
            raise ConfigError(f"{place} is set twice", "remove one of the two lines")
        seen.add(setting.key)
        if setting.kind == "addresses" and isinstance(value_node, yaml.SequenceNode):
            values = [node.value for node in value_node.value if isinstance(node, yaml.ScalarNode)]
            texts[setting.key] = _Text(" ".join(values), place, origin)
            continue
        if not isinstance(value_node, yaml.ScalarNode):
            raise ConfigError(f"{place} needs one value", f"for example '{name}: {setting.default or '/path'}'")
        if value_node.value and value_node.tag != "tag:yaml.org,2002:null":
            texts[setting.key] = _Text(value_node.value, place, origin)
    return texts
