"""Sets and removes a line of a config file; all other lines, comments among them, stay as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hipcache import config, features, settings_files
from hipcache.disk import atomic
from hipcache.errors import ConfigError
from hipcache.settings import NO_EXECUTOR, PREFIX, SETTINGS, VARIABLES, Setting, nearest
from hipcache.settings_files import PROJECT, STORE, SYSTEM, USER, Scope
from hipcache.shared import PROJECT_SETTINGS


def setting(name: str, scope: Scope = USER) -> Setting:
    """The setting of that name, written as a key (`max_size`) or as a variable. `scope`: of the file that it is for.
    Raises ConfigError."""
    known = {found.key: found for found in SETTINGS}
    known |= {variable.removeprefix(PREFIX).lower(): found for variable, found in VARIABLES.items()}
    key = name.removeprefix(PREFIX).lower()
    if key not in known:
        allowed = [one for one, found in known.items() if settings_files.allows(scope, found)]
        raise ConfigError(f"unknown setting '{name}'", nearest(key, allowed))
    return known[key]


def place(scope: Scope, environ: Mapping[str, str], cwd: str) -> Path:
    """The file of that scope, which need not be there. Raises ConfigError."""
    if scope is SYSTEM:
        return settings_files.system_path(environ)
    if scope is STORE:
        return settings_files.store_path(config.load(environ).dir)
    if scope is PROJECT:
        return settings_files.project_file(cwd) or Path(cwd, PROJECT_SETTINGS)
    path = settings_files.user_path(environ)
    if path is None:
        raise ConfigError("this user has no home directory", "set HOME, or HIPCACHE_CONFIG")
    return path


def write(name: str, value: str, environ: Mapping[str, str], path: Path, scope: Scope = USER) -> None:
    """Give the setting that value in the file, or none if it is empty. The setting, the value and what stands in the
    file are checked before. Raises ConfigError, OSError."""
    found = setting(name)
    settings_files.refuse(found, scope, f"setting '{found.key}'")
    if value and not (scope is PROJECT and found.key == "basedir"):
        config.check(found, value, environ)
        for one in value.split() if found.kind == "addresses" and value != NO_EXECUTOR else ():
            for addresses in features.modules_for("ADDRESSES", found.key):
                addresses.parse(one)
    text = ""
    if path.exists():
        settings_files.read(path, scope)
        text = path.read_bytes().decode()  # with its line ends
    edited = _edited(text, found, value, path)
    _check(text, edited, found, value, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_whole(path, edited.encode(), through_links=scope in (SYSTEM, USER), as_directory=scope is STORE)


def _check(text: str, edited: str, found: Setting, value: str, path: Path) -> None:
    """What is YAML in another form than ours may come to something else: {jobs: 1}, a value that goes on below."""
    import yaml

    names = (found.key, found.variable)
    try:
        before, after = _values(text), _values(edited)
        others = [[one for one in values if one[0] not in names] for values in (before, after)]
        mine = [content for name, content in after if name in names]
        if others[0] == others[1] and mine == ([value] if value else []):
            return
    except (yaml.YAMLError, ValueError):
        pass  # told below
    raise ConfigError(f"'{path}' does not consist of lines 'key: value'", "edit it by hand: hipcache did not change it")


def _values(text: str) -> list[tuple[str, str]]:
    """Each key with its value: of a scalar what is written, whatever its type and quotes are, else the YAML. Raises
    YAMLError, ValueError."""
    import yaml

    document = yaml.compose(text, Loader=yaml.SafeLoader)
    if document is None:
        return []
    if not isinstance(document, yaml.MappingNode):
        raise ValueError("no mapping")
    return [
        (key.value, at.value if isinstance(at, yaml.ScalarNode) else yaml.serialize(at)) for key, at in document.value
    ]


def _edited(text: str, found: Setting, value: str, path: Path) -> str:
    lines = text.splitlines(keepends=True)
    at = _line_of(lines, found)
    if at is None:
        if not value:
            return text
        end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
        last = "" if not lines or lines[-1].endswith("\n") else end
        return f"{text}{last}{found.key}: {_scalar(value)}{end}"
    below = next((line for line in lines[at + 1 :] if not re.match(r"\s*(#|$)", line)), "")
    if below[:1] in (" ", "\t", "-") and not below.startswith("---"):
        raise ConfigError(
            f"{path}:{at + 1}: the value of key '{found.key}' spans several lines",
            "edit it by hand: hipcache did not change it",
        )
    lines[at : at + 1] = [re.sub(r":[^\r\n]*", lambda _: f": {_scalar(value)}", lines[at], count=1)] if value else []
    return "".join(lines)


def _line_of(lines: list[str], found: Setting) -> int | None:
    names = "|".join(map(re.escape, (found.key, found.variable)))
    key = re.compile(rf"(?P<quote>['\"]?)(?:{names})(?P=quote)\s*:")
    return next((number for number, line in enumerate(lines) if key.match(line)), None)


def _scalar(value: str) -> str:
    """As YAML has it: as it is where that reads as the same, else in quotes."""
    import yaml

    try:
        document = yaml.compose(f"key: {value}\n", Loader=yaml.SafeLoader)
        if document and [(key.value, node.value) for key, node in document.value] == [("key", value)]:
            return value
    except yaml.YAMLError:
        pass  # it is in quotes, below
    quoted: str = yaml.safe_dump(value, width=1 << 20, allow_unicode=True, default_style="'")
    return quoted.removesuffix("\n")
