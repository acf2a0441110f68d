"""Stored compiles of a build, made anew and compared: those that its compile_commands.json lists.

Nothing is written into the build tree or the store: the compiler writes into a directory of its own (`redirected`),
and the store is only read. So a compile that writes files beside its object, which the object names, is left out.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hipcache.engine import Engine
from hipcache.errors import HipcacheError, JobFailed, PassThrough
from hipcache.execution.session import Session
from hipcache.planning import auxiliary, tools
from hipcache.planning.command import Command, parse_each
from hipcache.planning.driver_options import SEPARATE
from hipcache.report.outcome import DIFFERENT, SAME, VARYING
from hipcache.values import dataclass
from hipcache.verify import fresh, served_by
from hipcache.verify.difference import Difference, archs_of

NOT_STORED, NOT_COMPARED = "not stored", "not compared"
ENDS = (SAME, DIFFERENT, VARYING, NOT_STORED, NOT_COMPARED)
LIST = "compile_commands.json"
_OUTPUT = ("-o", "--output")
_RULE = ("-MF",)


@dataclass(frozen=True)
class Compared:
    """`end`: of ENDS; `why`: in words, if it was not compared; `difference`: if there is one."""

    output: str
    end: str
    why: str = ""
    difference: Difference | None = None


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
        one.path(one.output or os.path.splitext(os.path.basename(one.source))[0] + ".o")
        for one in commands(build, environ)
    )


def compare(engine: Engine, command: Command, scratch: Path) -> Compared:
    """Compare what the store would serve for `command` with what the compiler makes. `scratch`: an empty directory;
    `engine`: one whose store is only read."""
    name = command.path(command.output or command.source)
    if command.links or command.makes_program or command.assembles:
        return Compared(name, NOT_COMPARED, "it links, or is a source of the assembler")
    try:
        how, engine, command = fresh.prepare(engine, command)
        assert how.plan
        jobs = [*(device.compile for device in how.plan.devices), *([how.plan.host] if how.plan.host else [])]
        if len(how.outputs) != 1 or any(map(auxiliary.of, jobs)):
            return Compared(name, NOT_COMPARED, "it writes several files")
        served = served_by.store(engine, command, how.plan, scratch / "served.o")
        if isinstance(served, str):
            return Compared(name, NOT_STORED, served)
        made = [_made(engine, how, scratch / "1.o")]
        if made[0] != served:
            made.append(_made(engine, how, scratch / "2.o"))
    except (PassThrough, JobFailed) as error:
        return Compared(name, NOT_COMPARED, str(error))
    if made[0] == served:
        return Compared(name, SAME)
    if made[1] != made[0]:
        return Compared(name, VARYING)
    words = (command.compiler, *how.words)
    found = Difference(how.outputs[0], words, command.cwd, archs_of(command.arguments), served, made[0])
    return Compared(name, DIFFERENT, "", found)


def _made(engine: Engine, how: fresh.Fresh, output: Path) -> bytes:
    """Raises JobFailed, PassThrough."""
    command = how.command
    cuid = how.words[: len(how.words) - len(command.argv) + 1]
    with Session(engine, command) as session:
        status = how.run(session, [*cuid, *redirected(command.arguments, output)])
    if status != 0:
        raise JobFailed("the compiler", status)
    try:
        return output.read_bytes()
    except OSError as error:
        raise PassThrough("job_output", f"the compiler wrote no '{output}'") from error


def redirected(arguments: Sequence[str], output: Path) -> list[str]:
    """The words with another output, and the dependency file beside that."""
    rule = os.fspath(output.with_suffix(".d"))
    words = ["-o", os.fspath(output)]
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            return [*words, word, *rest]
        if word in _OUTPUT or word in _RULE:
            next(rest, None)
            words += ["-MF", rule] if word in _RULE else []
        elif word.startswith("-MF"):
            words += ["-MF", rule]
        elif word.startswith("--output=") or (word.startswith("-o") and not word.startswith(("-object", "-objc"))):
            continue
        else:
            words += [word, *([next(rest, "")] if word in SEPARATE or word.startswith("-Xarch_") else [])]
    return words
