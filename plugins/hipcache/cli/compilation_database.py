"""A compilation database: the compile_commands.json of a build directory, as commands."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hipcache.base.errors import HipcacheError, PassThrough
from hipcache.clang import tools
from hipcache.clang.command import Command, parse_each

LIST = "compile_commands.json"


def commands(build: Path, environ: Mapping[str, str]) -> list[Command]:
    """Each HIP compile of the list in directory `build` (or of that file itself). Raises HipcacheError."""
    file = build / LIST if build.is_dir() else build
    hint = "have the build tool write it (CMake: -DCMAKE_EXPORT_COMPILE_COMMANDS=ON), and name its directory"
    try:
        listed = json.loads(file.read_bytes())
    except OSError as error:
        raise HipcacheError(f"cannot read '{file}': {error.strerror}", hint) from error
    except (ValueError, RecursionError) as error:
        raise HipcacheError(f"'{file}' is no JSON: {error}", hint) from error
    if not isinstance(listed, list):
        raise HipcacheError(f"'{file}' is no list of compiles", hint)
    return [command for entry in listed for command in _of(entry, environ, file)]


def _of(entry: Any, environ: Mapping[str, str], file: Path) -> Iterator[Command]:
    """The commands of an entry; none if hipcache would leave it to the compiler."""
    try:
        words = entry.get("arguments") or shlex.split(entry["command"])
        directory = os.path.normpath(file.absolute().parent / entry["directory"])
        argv = tools.behind([str(word) for word in words])
        if "\0" in directory:
            raise ValueError("its directory is no path")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise HipcacheError(f"'{file}' holds an entry that is no compile: {str(entry)[:80]}") from error
    try:
        yield from parse_each(argv, directory, environ)
    except PassThrough:
        return


def objects(build: Path, environ: Mapping[str, str]) -> frozenset[str]:
    """The absolute paths of the objects of these compiles. Raises HipcacheError."""
    return frozenset(
        command.path(command.output or os.path.splitext(os.path.basename(command.source))[0] + ".o")
        for command in commands(build, environ)
    )
