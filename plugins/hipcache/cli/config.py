"""`hipcache config`: every setting, its value, and where that comes from."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from hipcache import config
from hipcache.cli import Session
from hipcache.cli.screen import Screen, human_size
from hipcache.remote import address
from hipcache.settings import VARIABLES

SUMMARY = "show every setting and where it comes from"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace, session: Session) -> int:
    settings = config.load(session.environ, strict=True)
    values = {variable: getattr(settings, setting.key) for variable, setting in VARIABLES.items()}
    values["HIPCACHE_REMOTE"] = tuple(map(address.shown, settings.remote))
    origins = {variable: settings.origins[setting.key] for variable, setting in VARIABLES.items()}
    if options.json:
        document = {
            variable: {"value": str(value) if isinstance(value, Path) else value, "origin": origins[variable]}
            for variable, value in values.items()
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


def _show(variable: str, value: object, settings: config.Config) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if variable == "HIPCACHE_MAX_SIZE":
        return human_size(settings.max_size) if settings.max_size else "no bound"
    if variable == "HIPCACHE_JOBS" and value == 0:
        return f"{settings.job_slots} (available cores and memory)"
    if variable == "HIPCACHE_VERIFY":
        return f"1/{round(1 / settings.verify)}" if settings.verify else "none"
    if variable == "HIPCACHE_UMASK":
        return f"{settings.umask:03o}"
    if variable == "HIPCACHE_REMOTE":
        return " ".join(map(address.shown, settings.remote)) or "none"
    if isinstance(value, tuple):
        return ":".join(value)
    return str(value)
