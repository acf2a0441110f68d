"""The toolchain in SCons' signatures: what the driver would run, by content, not by name.

The driver's own plan (`-###`) is asked once for each set of flags, and remembered from one run of SCons to the next as
the engine remembers plans (`hipcache.clang.tool_answers`): it names the programs and the device libraries, and the
directories in which headers are looked for. Whatever decides about them (ROCM_PATH, a config file, another GCC) shows
there.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from hipcache.base.errors import JobFailed, PassThrough, StoreError
from hipcache.base.keys import digest_bytes, digest_file, make_key
from hipcache.build.context import Context
from hipcache.clang import driver, plan, script, tools
from hipcache.clang.cc1 import Role
from hipcache.clang.command import expand
from hipcache.clang.plan import Plan
from hipcache.inputs.identity import Identities
from hipcache.processes.runner import Runner, SubprocessRunner

# Options that differ between two sources, or between two runs.
_NOT_TOOLCHAIN = {
    *(Role.OUTPUT, Role.DEPENDENCIES, Role.DEPENDENCY_STYLE, Role.PRESENTATION, Role.DIRECTORY, Role.CUID),
    *(Role.GPUBINARY, Role.INPUT, Role.BITCODE),
}
_PROGRAM = re.compile(r'^ "((?:[^"\\]|\\.)*)"', re.MULTILINE)
_BITCODE = re.compile(r'"-mlink-builtin-bitcode" "((?:[^"\\]|\\.)*)"')

# Any file that is there, since nothing is compiled.
_SOURCE = __file__

_known: dict[tuple[object, ...], str] = {}
_lock = threading.Lock()


def digest(words: Sequence[str], environ: Mapping[str, str], cwd: str, context: Context | None) -> str:
    """Digest of the toolchain that `words` (compiler and flags) reach with `environ`. Without an `context` nothing is
    remembered from one run to the next."""
    key = (tuple(words), tuple(sorted(environ.items())), cwd)
    with _lock:
        if key not in _known:
            _known[key] = make_key("toolchain", _inputs(words, environ, cwd, context)).digest
        return _known[key]


def _inputs(
    words: Sequence[str], environ: Mapping[str, str], cwd: str, context: Context | None
) -> Iterator[tuple[str, str]]:
    runner: Runner = context.runner if context else SubprocessRunner()
    identities = Identities(runner, environ, context.memos if context else None, time.time())
    ask = [*driver.to_plan(tuple(words)), "-x", "hip", "-c", _SOURCE, "-o", os.devnull, "-cuid=0", "-###"]
    text = _remembered(ask, cwd, context, runner) if context else None
    if text is None:
        try:
            answer = runner.run(ask, env=environ, cwd=Path(cwd))
        except OSError as error:
            yield "no compiler", str(error.strerror)
            return
        if answer.status != 0:
            yield "no plan", digest_bytes(answer.stderr)
            return
        text = os.fsdecode(answer.stderr)
    try:
        programs, libraries, options = _read(plan.parse(text))
    except PassThrough:
        # Jobs that hipcache leaves to the compiler (-H, say): their programs and libraries count all the same.
        programs, libraries, options = _PROGRAM.findall(text), _BITCODE.findall(text), []
    for program in dict.fromkeys(programs):
        yield "program", _content(os.path.join(cwd, program), identities)
    for library in dict.fromkeys(libraries):
        yield f"library {os.path.basename(library)}", _content(os.path.join(cwd, library))
    for option in options:
        yield "option", option


def _remembered(ask: list[str], cwd: str, context: Context, runner: Runner) -> str | None:
    """The plan's text without a process, if it was asked for in another run and still holds."""
    try:
        with ExitStack() as stack:
            words = tools.behind(ask)
            if tools.is_hipcc(words[0]):
                compiling = tuple(word for word in words if word != "-###")
                (command, *_), context = script.unwrap(context, compiling, cwd, runner, compiling)
                words = (*command.argv, "-###")
            ask, arguments = list(words), expand(words[1:], cwd)
            _, found = driver.answer(
                ask, arguments, cwd, context, runner, lambda: stack.enter_context(context.store.workdir())
            )
            return found.text
    except (PassThrough, JobFailed, StoreError):
        return None


def _read(found: Plan) -> tuple[list[str], list[str], list[str]]:
    jobs = [*(device.compile for device in found.devices), *([found.host] if found.host else [])]
    tools = [*(device.link for device in found.devices), found.bundle]
    programs = [job.program for job in (*jobs, *tools) if job]
    options = [option for job in jobs for option in job.options]
    return (
        programs,
        [option.value for option in options if option.role is Role.BITCODE],
        [" ".join(option.text) for option in options if option.role not in _NOT_TOOLCHAIN],
    )


def _content(path: str, identities: Identities | None = None) -> str:
    try:
        return identities.digest(path) if identities else digest_file(path)
    except OSError as error:
        return f"cannot be read: {error}"
