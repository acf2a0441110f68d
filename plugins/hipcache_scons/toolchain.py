"""The toolchain in SCons' signatures: what the driver would run, by content, not by name.

The driver's own plan (`-###`) for an empty HIP source is asked once for each set of flags in a run of SCons: it
names the programs and the device libraries, and the directories in which headers are looked for. Whatever decides
about them (ROCM_PATH, a config file, another GCC) shows there.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hipcache.errors import PassThrough
from hipcache.inputs.identity import Identities
from hipcache.inputs.keys import digest_bytes, digest_file, make_key
from hipcache.planning import plan
from hipcache.planning.cc1 import Role
from hipcache.planning.plan import Plan
from hipcache.processes.runner import Runner

# What differs between two sources, or between two runs.
_NOT_TOOLCHAIN = {
    *(Role.OUTPUT, Role.DEPENDENCIES, Role.DEPENDENCY_STYLE, Role.PRESENTATION, Role.DIRECTORY, Role.CUID),
    *(Role.GPUBINARY, Role.INPUT, Role.MACRO, Role.BITCODE),
}
_PROGRAM = re.compile(r'^ "((?:[^"\\]|\\.)*)"', re.MULTILINE)
_BITCODE = re.compile(r'"-mlink-builtin-bitcode" "((?:[^"\\]|\\.)*)"')

_known: dict[tuple[object, ...], str] = {}
_lock = threading.Lock()


def digest(words: Sequence[str], environ: Mapping[str, str], cwd: str, runner: Runner, identities: Identities) -> str:
    """Digest of the toolchain that `words` (compiler and flags) reach with `environ`."""
    key = (tuple(words), tuple(sorted(environ.items())), cwd)
    with _lock:
        if key not in _known:
            _known[key] = make_key("toolchain", _inputs(words, environ, cwd, runner, identities)).digest
        return _known[key]


def _inputs(
    words: Sequence[str], environ: Mapping[str, str], cwd: str, runner: Runner, identities: Identities
) -> Iterator[tuple[str, str]]:
    ask = [*words, "-x", "hip", "-c", os.devnull, "-o", os.devnull, "-cuid=0", "-###"]
    try:
        answer = runner.run(ask, env=environ, cwd=Path(cwd))
    except OSError as error:
        yield "no compiler", str(error.strerror)
        return
    text = os.fsdecode(answer.stderr)
    if answer.status != 0:
        yield "no plan", digest_bytes(answer.stderr)
        return
    try:
        programs, libraries, options = _read(plan.parse(text))
    except PassThrough:
        # Jobs that hipcache leaves to the compiler (-fgpu-rdc, say): their programs and libraries count all the same.
        programs, libraries, options = _PROGRAM.findall(text), _BITCODE.findall(text), []
    for program in dict.fromkeys(programs):
        yield "program", _content(os.path.join(cwd, program), identities)
    for library in dict.fromkeys(libraries):
        yield f"library {os.path.basename(library)}", _content(os.path.join(cwd, library))
    for option in options:
        yield "option", option


def _read(found: Plan) -> tuple[list[str], list[str], list[str]]:
    jobs = [*(device.compile for device in found.devices), found.host]
    programs = [job.program for job in jobs] + [device.link.program for device in found.devices]
    options = [option for job in jobs for option in job.options]
    return (
        [*programs, found.bundle.program],
        [option.value for option in options if option.role is Role.BITCODE],
        [" ".join(option.text) for option in options if option.role not in _NOT_TOOLCHAIN],
    )


def _content(path: str, identities: Identities | None = None) -> str:
    try:
        return identities.digest(path) if identities else digest_file(path)
    except OSError as error:
        return f"cannot be read: {error}"
