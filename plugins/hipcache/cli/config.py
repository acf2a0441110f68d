"""`hipcache config`: every setting, its value, and where that comes from; `set` and `unset` change a config file."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hipcache import config
from hipcache.base import features
from hipcache.base.errors import ConfigError, nearest
from hipcache.base.files import write_whole
from hipcache.base.shared import PROJECT_SETTINGS
from hipcache.cli import Console
from hipcache.cli.screen import Screen, human_size
from hipcache.config import files
from hipcache.config.files import PROJECT, STORE, SYSTEM, USER, Scope
from hipcache.config.settings import NO_EXECUTOR, PREFIX, SETTINGS, VARIABLES, Setting, nearest_hint

SUMMARY = "show every setting and where it comes from, or change one"
# The words that follow each.
_COMMANDS = {"get": ("KEY",), "set": ("KEY", "VALUE"), "unset": ("KEY",)}


class _Command(argparse.Action):
    """Words that are a command, or none."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        options: argparse.Namespace,
        words: str | Sequence[object] | None,
        option: str | None = None,
    ) -> None:
        name, *rest = [str(word) for word in words or ()] or [""]
        if name and len(rest) != len(_COMMANDS.get(name, ("no", "such", "command"))):
            parser.error(_wrong(name, rest))
        options.command = [name, *rest] if name else []


def _wrong(name: str, rest: Sequence[str]) -> str:
    if name in _COMMANDS:
        return f"write '{' '.join((name, *_COMMANDS[name]))}', not '{' '.join((name, *rest))}'"
    near = nearest(name, _COMMANDS)
    known = "get KEY, set KEY VALUE, unset KEY"
    return f"unknown command '{name}'; " + (f"did you mean '{near}'?" if near else f"known are {known}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    files = parser.add_mutually_exclusive_group()
    for scope, name in ((SYSTEM, "system"), (STORE, "store"), (PROJECT, "project")):
        files.add_argument(
            f"--{name}",
            dest="scope",
            action="store_const",
            const=scope,
            default=USER,
            help=f"change the {scope.name} config file, not the user's",
        )
    parser.add_argument(
        "command", nargs="*", action=_Command, help="get KEY, set KEY VALUE or unset KEY: set max_size 20GiB"
    )


def run(options: argparse.Namespace, console: Console) -> int:
    if options.scope is not USER and options.command[:1] not in (["set"], ["unset"]):
        hint = "'hipcache config' shows each value and the file that it comes from"
        raise ConfigError("--system, --store and --project go with set and unset", hint)
    if options.command:
        return _one(options, console)
    settings = config.load(console.environ, strict=True)
    values = _values(settings)
    origins = {variable: settings.origins[setting.key] for variable, setting in VARIABLES.items()}
    if options.json:
        document = {
            variable: {"value": _plain(value), "origin": origins[variable]} for variable, value in values.items()
        }
        print(json.dumps(document, indent=2), file=console.out)
        return 0
    screen = Screen(console.out, console.environ)
    width = max(map(len, values))
    shown = {variable: _show(variable, value, settings) for variable, value in values.items()}
    value_width = max(map(len, shown.values()))
    for variable, text in shown.items():
        screen.line(f"{variable:<{width}}  {text:<{value_width}}  {screen.paint('dim', origins[variable])}")
    return 0


def _values(settings: config.Config) -> dict[str, object]:
    values = {variable: getattr(settings, setting.key) for variable, setting in VARIABLES.items()}
    places = {"HIPCACHE_REMOTE": settings.remote, "HIPCACHE_EXECUTOR": settings.executor}
    remote = next(features.modules_for("ADDRESSES", "remote"), None)
    shown: Callable[[str], str] = remote.shown if remote else str
    return {**values, **{variable: tuple(map(shown, texts)) for variable, texts in places.items()}}


def _plain(value: object) -> object:
    """As JSON has it."""
    return str(value) if isinstance(value, Path) else value


def _one(options: argparse.Namespace, console: Console) -> int:
    name, *rest = options.command
    found = setting(rest[0], options.scope)
    variable = next(variable for variable, known in VARIABLES.items() if known is found)
    if name == "get":
        settings = config.load(console.environ, strict=True)
        value = _values(settings)[variable]
        print(json.dumps(_plain(value)) if options.json else _show(variable, value, settings), file=console.out)
        return 0
    path = place(options.scope, console.environ, os.getcwd())
    content = rest[1] if name == "set" else ""
    write(found.key, content, console.environ, path, options.scope)
    told = f"{found.key}: {content}" if content else f"{found.key} is no longer set"
    print(f"{told}, in '{path}'", file=console.out)
    if console.environ.get(variable):
        print(f"hipcache: the environment variable {variable} is set, and overrides the file", file=console.err)
    elif content:
        with suppress(ConfigError):  # of another file
            origin = config.load(console.environ).origins[found.key]
            if not origin.startswith(f"{path}:"):
                print(f"hipcache: '{origin}' sets it, too, and overrides this file", file=console.err)
    return 0


def _show(variable: str, value: object, settings: config.Config) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if variable == "HIPCACHE_MAX_SIZE":
        return human_size(settings.max_size) if settings.max_size else "no limit"
    if variable == "HIPCACHE_JOBS" and value == 0:
        return f"{settings.job_slots} (available cores and memory)"
    if variable == "HIPCACHE_VERIFY":
        return f"1/{round(1 / settings.verify)}" if settings.verify else "none"
    if variable == "HIPCACHE_UMASK":
        return f"{settings.umask:03o}"
    if isinstance(value, tuple):
        return (":" if variable == "HIPCACHE_SYSTEM_PATHS" else " ").join(value) or "none"
    return str(value) or "none"


def setting(name: str, scope: Scope = USER) -> Setting:
    """The setting of that name, written as a key (`max_size`) or as a variable. `scope`: of the file that it is for.
    Raises ConfigError."""
    known = {found.key: found for found in SETTINGS}
    known |= {variable.removeprefix(PREFIX).lower(): found for variable, found in VARIABLES.items()}
    key = name.removeprefix(PREFIX).lower()
    if key not in known:
        allowed = [word for word, found in known.items() if files.allows(scope, found)]
        raise ConfigError(f"unknown setting '{name}'", nearest_hint(key, allowed))
    return known[key]


def place(scope: Scope, environ: Mapping[str, str], cwd: str) -> Path:
    """The file of that scope, which need not be there. Raises ConfigError."""
    if scope is SYSTEM:
        return files.system_path(environ)
    if scope is STORE:
        return files.store_path(config.load(environ).dir)
    if scope is PROJECT:
        return files.project_file(cwd) or Path(cwd, PROJECT_SETTINGS)
    path = files.user_path(environ)
    if path is None:
        raise ConfigError("this user has no home directory", "set HOME, or HIPCACHE_CONFIG")
    return path


def write(name: str, value: str, environ: Mapping[str, str], path: Path, scope: Scope = USER) -> None:
    """Give the setting that value in the file, or none if it is empty. The setting, the value and what stands in the
    file are checked before. Raises ConfigError, OSError."""
    found = setting(name)
    files.refuse(found, scope, f"setting '{found.key}'")
    if value and not (scope is PROJECT and found.key == "basedir"):
        config.check(found, value, environ)
        for word in value.split() if found.kind == "addresses" and value != NO_EXECUTOR else ():
            for addresses in features.modules_for("ADDRESSES", found.key):
                addresses.parse(word)
    text = ""
    if path.exists():
        files.read(path, scope)
        text = path.read_bytes().decode()  # with its line ends
    edited = _edited(text, found, value, path)
    _check(text, edited, found, value, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, edited.encode(), through_links=scope in (SYSTEM, USER), as_directory=scope is STORE)


def _check(text: str, edited: str, found: Setting, value: str, path: Path) -> None:
    """What is YAML in another form than ours may come to something else: {jobs: 1}, a value that goes on below."""
    import yaml

    names = (found.key, found.variable)
    try:
        before, after = _nodes(text), _nodes(edited)
        others = [[value for value in values if value[0] not in names] for values in (before, after)]
        mine = [content for name, content in after if name in names]
        if others[0] == others[1] and mine == ([value] if value else []):
            return
    except (yaml.YAMLError, ValueError):
        pass  # told below
    raise ConfigError(f"'{path}' does not consist of lines 'key: value'", "edit it by hand: hipcache did not change it")


def _nodes(text: str) -> list[tuple[str, str]]:
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
