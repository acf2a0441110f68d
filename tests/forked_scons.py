"""SCons forked off a process which has imported it and the engine: each run spares an eighth of a second of CPU.

    python forked_scons.py SCRIPT PLUGINS PACKAGES

serves runs of the `scons` that is SCRIPT, with its own Python, until standard input ends: there the requests come from,
and there the answers go. The same as with a start of its own are the script's text, the directory, the environment,
the search path of modules, and signals. Nothing has run before but imports; what comes later, Python looks for as ever.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

# What needs packages that may be missing, and what works as soon as it is imported.
_NOT_YET = ("hipcache.__main__", "hipcache.remote", "hipcache.base.native.libhipcache")
_NO_MODULES = ("SCons.Tool.ninja.", "SCons.Tool.ninja_tool.")


def run(
    scons: Path, words: list[str], cwd: Path, environ: dict[str, str], seconds: float
) -> tuple[int, str, str] | None:
    """(exit status, output, messages) of SCons with these words; None where it is to be started as ever."""
    if any(map(_is_of_python, environ)):
        return None
    request = [str(cwd)], words, [f"{name}={value}" for name, value in environ.items()]
    with (
        open(os.devnull) as nothing,
        tempfile.TemporaryFile("a+b") as out,
        tempfile.TemporaryFile("a+b") as err,
    ):
        status = _server(scons).ask(request, [nothing.fileno(), out.fileno(), err.fileno()], seconds)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return status, texts[0], texts[1]


def _is_of_python(variable: str) -> bool:
    """Does Python read it as it begins, to do something else?"""
    return variable.startswith("PYTHON") and variable not in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")


class _Server:
    """The process that serves, seen from the test."""

    def __init__(self, scons: Path) -> None:
        python = scons.read_text().partition("\n")[0].removeprefix("#!").strip()
        plugins = Path(__file__).parent.parent / "plugins"
        packages = next(path for path in sys.path if path.endswith("site-packages"))
        self.peer, other = socket.socketpair()
        words = [python, __file__, str(scons), str(plugins), packages]
        environ = {name: value for name, value in os.environ.items() if not _is_of_python(name)}
        self.process = subprocess.Popen(
            words, stdin=other, env=environ | {"LC_ALL": "C"}, cwd="/", start_new_session=True
        )
        other.close()
        atexit.register(self.end)

    def end(self) -> None:
        """A run that is left, as by Ctrl-C, ends too."""
        self.peer.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
            return
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(5)

    def ask(self, request: object, streams: list[int], seconds: float) -> int:
        """The exit status of a run. Errors: TimeoutError, and no run can be asked for any more."""
        data = json.dumps(request).encode()
        self.peer.settimeout(seconds)
        socket.send_fds(self.peer, [len(data).to_bytes(4, "big")], streams)
        self.peer.sendall(data)
        try:
            answer = self.peer.recv(4)
        except TimeoutError:
            _server.cache_clear()
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        assert answer, "the server of SCons has ended"
        return os.waitstatus_to_exitcode(int.from_bytes(answer, "big"))


_server = cache(_Server)


def _serve(script: str, plugins: str, packages: str) -> NoReturn:
    usual = [os.path.dirname(script), *sys.path[1:]]
    sys.path[:] = [*usual, plugins, packages, os.path.dirname(__file__)]
    _import_all()
    from engine_server import become

    sys.path[:] = usual
    code = compile(Path(script).read_text(), script, "exec")
    peer = socket.socket(fileno=os.dup(0))
    gc.collect()
    gc.freeze()
    while True:
        size, streams, _, _ = socket.recv_fds(peer, 4, 3)
        if not size:
            os._exit(0)
        data = peer.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
        pid = os.fork()
        if not pid:
            cwd, argv, environ = (list(map(os.fsencode, words)) for words in json.loads(data))
            become(code, streams, os.getpgrp(), cwd[0], [os.fsencode(script), *argv], environ)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(pid, 0)
        peer.sendall(status.to_bytes(4, "big"))


def _import_all() -> None:
    """SCons, its tools, and the engine; not our tool, which keeps the environment that it began in. Errors:
    AssertionError, if a module has begun to work."""
    for name in ("SCons.Script.Main", "SCons.Script"):
        importlib.import_module(name)
    for package in ("SCons.Tool", "hipcache"):
        there = importlib.import_module(package)
        for module in pkgutil.walk_packages(there.__path__, f"{package}."):
            if not module.name.startswith((*_NOT_YET, *_NO_MODULES)):
                with suppress(ImportError):
                    importlib.import_module(module.name)
    assert threading.active_count() == 1


if __name__ == "__main__":
    _serve(*sys.argv[1:])
