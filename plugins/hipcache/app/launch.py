"""`hipcache COMPILER ARGS...`: acts as that compiler, and finishes the user's compile whatever happens."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hipcache import config as settings
from hipcache.app import fallback, kinds
from hipcache.app.ending import Interrupted, become, die, end_by_signals
from hipcache.app.fallback import Call
from hipcache.base.errors import ConfigError, PassThrough, Refused
from hipcache.clang import tools
from hipcache.config import Config, resolved
from hipcache.inputs.file_manager import RACY
from hipcache.report import conditions


def launch(argv: list[str], environ: Mapping[str, str], *, racy: float = RACY) -> int:
    """The exit status of the compile; does not return if the user's command takes this process over. `racy`: see
    `Context`."""
    try:
        status = _launch(argv, environ, racy)
        end_by_signals()  # all is done
        return status
    except Interrupted as interrupted:
        die(interrupted.number)


def check_served(argv: list[str], environ: Mapping[str, str]) -> int:
    """`argv` was a direct hit just now, and it is its turn to be compared with a compile anew (HIPCACHE_VERIFY)."""
    from hipcache.app.compilation import compare_served

    try:
        config = settings.load(environ)
    except ConfigError as fault:
        conditions.tell([conditions.of_wrong_settings(fault)], environ)
        return 0
    return compare_served(Call(argv, os.getcwd(), environ, config))


def _launch(argv: list[str], environ: Mapping[str, str], racy: float) -> int:
    fault: ConfigError | None = None
    config = Config(dir=Path(os.devnull), disable=True)
    try:
        config = settings.load(environ)
        resolved.leave(config, environ)
    except ConfigError as error:
        fault = error
    # A program that is not there is no compile to count.
    if (config.disable and not fault) or not os.access(tools.which(argv[0], "", environ), os.X_OK):
        become(argv)
    try:
        call = Call(argv, os.getcwd(), environ, config)
    except OSError:
        become(argv)
    try:
        commands = kinds.read(tuple(argv), call.cwd, environ, config)
        _check_temporary_directory(environ)
    except Refused as refused:
        return fallback.refuse(call, refused)
    except PassThrough as left:
        fallback.leave(call, left)
    except OSError:
        become(argv)
    # A compile that is none of ours says nothing: configure scripts take each word for a warning about their flag.
    if fault:
        conditions.tell([conditions.of_wrong_settings(fault)], environ)
        become(argv)
    from hipcache.app.compilation import compile_each

    return compile_each(call, commands, racy)


def _check_temporary_directory(environ: Mapping[str, str]) -> None:
    """Raises PassThrough if the compiler will not be able to write its own temporary files. LLVM takes the first
    of these variables that is set (llvm/lib/Support/Unix/Path.inc: `getEnvTempDir`)."""
    place = next((environ[name] for name in ("TMPDIR", "TMP", "TEMP", "TEMPDIR") if name in environ), "/tmp")
    if not (os.path.isdir(place or ".") and os.access(place or ".", os.W_OK | os.X_OK)):
        raise PassThrough("temporary_directory", f"'{place}'")
