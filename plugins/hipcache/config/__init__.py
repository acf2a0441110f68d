"""The values of the settings: where each came from, and errors that name the nearest valid one.

A value comes from the environment, else from the last of the config files that has it (`config/files`), else it is
the default. An empty value counts as not set. All sources hold text, so one parser for each kind of value serves them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hipcache.base.errors import ConfigError
from hipcache.base.values import dataclass, field
from hipcache.config import builders, files
from hipcache.config.files import DEFAULT, ENVIRONMENT, NAMES_A_FILE, Text
from hipcache.config.settings import NO_EFFECT, PREFIX, RETIRED, SETTINGS, VARIABLES, Setting, nearest_hint, parse_size
from hipcache.processes import room

if TYPE_CHECKING:
    from typing import NoReturn

FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Config:
    """The values in force. `origins` says where each came from, by field: "default", "environment", "FILE:LINE", or by
    what a base directory was found. `files`: the config files that were read, the last one wins, and what
    each may set.

    `warnings` are unknown HIPCACHE_* variables (an error for a command, but never a reason not to compile), and
    settings of older versions.
    """

    dir: Path
    config_file: Path | None = None
    system_config: Path | None = None
    disable: bool = False
    readonly: bool = False
    recache: bool = False
    max_size: int = 10 * 2**30
    packs: bool = True
    basedir: Path | None = None
    source_dir: Path | None = None
    namespace: str = ""
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
    preambles: bool = True
    preamble_checks: int = 64
    cxx_cache: str = ""
    iree_checks: bool = True
    resident: bool = True
    system_paths: tuple[str, ...] = ()
    files: tuple[tuple[Path, files.Scope], ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def job_slots(self) -> int:
        """`jobs`, or as many as this process has cores and memory for."""
        if self.jobs:
            return self.jobs
        groups = room.groups()
        return room.compilers(room.cores(groups), room.memory(groups))

    def is_drawn(self) -> bool:
        """Is it the turn of this result to be compared (`verify`)?"""
        return self.verify > 0 and int.from_bytes(os.urandom(7), "little") < self.verify * 2**56


def load(environ: Mapping[str, str], *, strict: bool = False) -> Config:
    """Read the environment and the config file. With `strict` an unknown HIPCACHE_* variable is an error too."""
    warnings = []
    for variable in sorted(environ):
        if variable in RETIRED:
            warnings.append(f"environment variable '{variable}' {NO_EFFECT}")
        elif variable.startswith(PREFIX) and variable not in VARIABLES:
            message, hint = f"unknown environment variable '{variable}'", nearest_hint(variable, list(VARIABLES))
            if strict:
                raise ConfigError(message, hint)
            warnings.append(f"{message}; {hint}")

    system, (user, user_origin) = files.system_path(environ), files.user_file(environ)
    scopes = [(system, files.SYSTEM)] if os.path.lexists(system) else []
    scopes += [(user, files.USER)] if user else []
    texts: dict[str, Text] = {}
    for file, scope in scopes:
        texts |= files.read(file, scope)
    given = {
        setting.key: Text(environ[variable], f"environment variable '{variable}'", ENVIRONMENT)
        for variable, setting in VARIABLES.items()
        if environ.get(variable, "")
    }
    place = given.get("dir") or texts.get("dir")
    store = _path(place, environ) if place else files.user_directory(environ, "XDG_CACHE_HOME", ".cache")
    if "\n" in str(store):  # the driver's plan, which has paths of the store, is read line by line
        _bad_value(_broken(place, environ), "has a line break", "name a directory without one")
    found_there = [(files.store_path(store), files.STORE)] if files.counts(files.store_path(store)) else []
    project = _project()
    found_there += [(project, files.PROJECT)] if project else []
    for file, scope in found_there:
        texts |= files.read(file, scope)
    warnings += [f"{texts[key].place} {NO_EFFECT}" for key in RETIRED.values() if key in texts]
    texts |= given

    values: dict[str, Any] = {}
    origins = {setting.key: DEFAULT for setting in SETTINGS}
    for setting in SETTINGS:
        if setting.key not in NAMES_A_FILE and setting.key in texts:
            written = texts[setting.key]
            values[setting.key] = parse(setting, written, environ)
            origins[setting.key] = written.origin
    values["dir"] = store
    if "system_paths" not in values:
        values["system_paths"] = tuple(VARIABLES[PREFIX + "SYSTEM_PATHS"].default.split(":"))
    found = None if "basedir" in values else builders.room(environ)
    if found:
        values["basedir"], origins["basedir"] = Path(found.path), found.why
    if "basedir" not in values and PREFIX + "BASEDIR" not in environ:
        with suppress(OSError):
            values["source_dir"] = files.source_directory(os.getcwd())
    origins["config_file"] = user_origin
    origins["system_config"] = ENVIRONMENT if environ.get(PREFIX + "SYSTEM_CONFIG") else DEFAULT
    read = (*scopes, *found_there)
    return Config(
        **values, config_file=user, system_config=system, files=read, origins=origins, warnings=tuple(warnings)
    )


def _broken(place: Text | None, environ: Mapping[str, str]) -> Text:
    """Where the line break in the store's path comes from; `place`: what names the store, if anything does."""
    if place and "\n" in place.text:
        return place
    found_by_cache = not place and environ.get("XDG_CACHE_HOME", "").startswith("/")
    variable = "XDG_CACHE_HOME" if found_by_cache else "HOME"
    return Text(environ.get(variable, ""), f"environment variable '{variable}'", ENVIRONMENT)


def _project() -> Path | None:
    with suppress(OSError):
        return files.project_file(os.getcwd())
    return None


def basedir_at(config: Config, environ: Mapping[str, str], cwd: str) -> str:
    """The base directory of a compile in another process, with these variables; empty if there is none. `config`:
    of this process, which is at home in no project."""
    named, project = environ.get(PREFIX + "BASEDIR", ""), files.project_file(cwd)
    with suppress(ConfigError):
        found = files.read(project, files.PROJECT).get("basedir") if project and not named else None
        named = named or (found.text if found else "")
    return named or str(config.basedir or "")


def watched_paths(config: Config, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The paths of config files that a direct hit depends on, without the project's (`direct/record.key`)."""
    paths = (files.system_path(environ), files.user_path(environ), files.store_path(config.dir))
    return tuple(path for path in paths if path)


# ccache takes a plain number for GiB. Nobody means a store of so few bytes.
_FEWEST_BYTES = 10_000


def _size(written: Text, environ: Mapping[str, str]) -> int:
    size = parse_size(written.text)
    if size is None:
        _bad_value(written, "is not a size", "write a number and K, M, G, T, KiB, MiB, GiB or TiB, for example 10GiB")
    if written.text.strip().isdigit() and 0 < size < _FEWEST_BYTES:
        _bad_value(written, "has no unit, and would be bytes", f"write for example {size}GiB (as ccache reads it)")
    return size


def _flag(written: Text, environ: Mapping[str, str]) -> bool:
    flag = FLAGS.get(written.text.strip().lower())
    if flag is None:
        hint = "write " + ", ".join(word for word, meaning in FLAGS.items() if meaning)
        _bad_value(written, "is neither yes nor no", hint + " or " + ", ".join(w for w, m in FLAGS.items() if not m))
    return flag


def _number(written: Text) -> int | None:
    text = written.text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _count(written: Text, environ: Mapping[str, str]) -> int:
    count = _number(written)
    if count is None:
        _bad_value(written, "is not a count", "write 0, 1, 2 ... up to 999999999; 0 means one for each available core")
    return count


def _positive(written: Text, environ: Mapping[str, str]) -> int:
    return _number(written) or _bad_value(written, "is not a positive number", "write 1, 2, 3 ... up to 999999999")


def _share(written: Text, environ: Mapping[str, str]) -> float:
    """As the native program reads it: `take_share` in native/launcher/settings.c."""
    part, slash, whole = (word.strip() for word in written.text.partition("/"))
    whole = whole if slash else "1"
    good = all(word.isascii() and word.isdigit() and len(word) < 10 for word in (part, whole))
    if not good or int(whole) == 0 or int(part) > int(whole):
        _bad_value(
            written, "is not a fraction", "write for example 1/100 (one hit in a hundred), 1 (every hit) or 0 (none)"
        )
    return int(part) / int(whole)


def _mask(written: Text, environ: Mapping[str, str]) -> int:
    text = written.text.strip().removeprefix("0o")
    if not text or len(text) > 4 or text.strip("01234567") or int(text, 8) & ~0o077:
        _bad_value(
            written, "is not a umask", "write 002 for a group's store, 007 to keep others out, 077 for a private store"
        )
    return int(text, 8)


def _path(written: Text, environ: Mapping[str, str]) -> Path:
    """An absolute path. A relative one would mean another place in each directory that a build compiles in."""
    path = files.expand(written.text, environ)
    if not path.startswith("/") or "\0" in path:
        _bad_value(written, "is not an absolute path", "write it from the root, or from your home directory as ~/...")
    return Path(path)


def _paths(written: Text, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Absolute paths, without "/" at their ends."""
    paths = tuple(path.rstrip("/") for path in written.text.split(":"))
    if not all(path.startswith("/") for path in paths):
        _bad_value(written, "is not a list of absolute paths", "write for example /usr:/opt ('/' is too broad)")
    return paths


def _format(written: Text, environ: Mapping[str, str]) -> str:
    if written.text not in ("text", "json"):
        _bad_value(written, "is not a log format", "write text or json")
    return written.text


def _name(written: Text, environ: Mapping[str, str]) -> str:
    if len(written.text) > 64 or not all(c.isascii() and (c.isalnum() or c in "._+-") for c in written.text):
        _bad_value(written, "is not a valid name", "write up to 64 letters, digits, '.', '_', '+' and '-'")
    return written.text


def _program(written: Text, environ: Mapping[str, str]) -> str:
    """A name, or an absolute path. hipcache behind itself would have no end."""
    text = written.text
    if len(text.split()) != 1 or ("/" in text and not text.startswith("/")) or os.path.basename(text) == "hipcache":
        _bad_value(written, "is not another cache", "write the name of one program, such as ccache, or its path")
    return text


_PARSERS: dict[str, Callable[[Text, Mapping[str, str]], object]] = {
    "size": _size,
    "flag": _flag,
    "count": _count,
    "positive": _positive,
    "share": _share,
    "mask": _mask,
    **dict.fromkeys(("directory", "file"), _path),
    "directories": _paths,
    "addresses": lambda written, _: tuple(written.text.split()),  # whether they are right, `remote.address` knows
    "format": _format,
    "name": _name,
    "program": _program,
}


def parse(setting: Setting, written: Text, environ: Mapping[str, str]) -> object:
    """Raises ConfigError if that is no value of the setting."""
    return _PARSERS[setting.kind](written, environ)


def check(setting: Setting, text: str, environ: Mapping[str, str]) -> None:
    """As `parse`."""
    parse(setting, Text(text, f"setting '{setting.key}'", ""), environ)


def _bad_value(written: Text, why: str, hint: str) -> NoReturn:
    raise ConfigError(f"{written.place}: '{written.text}' {why}", hint)
