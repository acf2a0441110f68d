"""`hipcache config`: every setting, its value, and where that comes from; `set` and `unset` change a config file."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from hipcache import config, features
from hipcache.cli import Session, config_file
from hipcache.cli.screen import Screen, human_size
from hipcache.errors import ConfigError, nearest
from hipcache.settings import VARIABLES
from hipcache.settings_files import PROJECT, STORE, SYSTEM, USER

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


def run(options: argparse.Namespace, session: Session) -> int:
    if options.scope is not USER and options.command[:1] not in (["set"], ["unset"]):
        hint = "'hipcache config' shows each value and the file that it comes from"
        raise ConfigError("--system, --store and --project go with set and unset", hint)
    if options.command:
        return _one(options, session)
    settings = config.load(session.environ, strict=True)
    values = _values(settings)
    origins = {variable: settings.origins[setting.key] for variable, setting in VARIABLES.items()}
    if options.json:
        document = {
            variable: {"value": _plain(value), "origin": origins[variable]} for variable, value in values.items()
        }
        print(json.dumps(document, indent=2), file=session.out)
        return 0
    screen = Screen(session.out, session.environ)
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


def _one(options: argparse.Namespace, session: Session) -> int:
    name, *rest = options.command
    found = config_file.setting(rest[0], options.scope)
    variable = next(variable for variable, known in VARIABLES.items() if known is found)
    if name == "get":
        settings = config.load(session.environ, strict=True)
        value = _values(settings)[variable]
        print(json.dumps(_plain(value)) if options.json else _show(variable, value, settings), file=session.out)
        return 0
    path = config_file.place(options.scope, session.environ, os.getcwd())
    content = rest[1] if name == "set" else ""
    config_file.write(found.key, content, session.environ, path, options.scope)
    told = f"{found.key}: {content}" if content else f"{found.key} is no longer set"
    print(f"{told}, in '{path}'", file=session.out)
    if session.environ.get(variable):
        print(f"hipcache: the environment variable {variable} is set, and overrides the file", file=session.err)
    elif content:
        with suppress(ConfigError):  # of another file
            origin = config.load(session.environ).origins[found.key]
            if not origin.startswith(f"{path}:"):
                print(f"hipcache: '{origin}' sets it, too, and overrides this file", file=session.err)
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
