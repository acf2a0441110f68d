"""The action of every HIP compile: SCons' own command action, with the engine tried first.

So printing, `-n`, `-s`, the signature of the command line and, where the engine leaves a compile to the compiler,
SCons' own spawn are those of any other command. The methods are the ones that SCons' `ActionBase` documents for its
subclasses (SCons API documentation, `SCons.Action`).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from SCons.Action import CommandAction
from SCons.Errors import BuildError
from SCons.Node.FS import get_default_fs
from SCons.Subst import SUBST_CMD, escape_list
from SCons.Util import flatten, is_String

from hipcache_scons import cached, dependencies, shadows, shell, toolchain
from hipcache_scons.cached import Cache, Ended
from hipcache_scons.dependencies import Reads

_NO_COMPILER = """\
hipcache: there is no compiler '{}' on the PATH of this Environment
  set HIPCXX to one (`hipcache doctor` lists those of this machine), or env['ENV']['PATH']
"""


class HipAction(CommandAction):  # type: ignore[misc]
    """`command`: HIPCOM or SHHIPCOM; `flags`: the variables that choose the toolchain."""

    def __init__(self, command: str, flags: str) -> None:
        super().__init__(f"${command}", cmdstr=f"${command}STR", varlist=())
        self._toolchain = f"$HIPCXX $_HIPTARGETFLAGS {flags}"
        # By node; put in by the thread that compiles, taken out by the main thread.
        self._read: dict[Any, Reads] = {}

    def execute(self, target: Any, source: Any, env: Any, executor: Any = None) -> Any:
        """In a worker thread."""
        if executor:
            target, source = executor.get_all_targets(), executor.get_all_sources()
        node, started, cwd = target[0], time.time(), _directory()
        if node.is_conftest():
            # What Configure tries goes to config.log, and SCons remembers the answer itself.
            return super().execute(target, source, env, executor)
        environ = environment(env)
        cache = cached.open_cache(environ)
        argv = self._words(target, source, env, executor) if _on(env, cache) else None
        with tempfile.TemporaryDirectory(prefix="hipcache-") as scratch:
            ended = Ended()
            if argv is not None:
                ended = cached.run(cache, argv, cwd)
                if ended.status:
                    return BuildError(errstr=f"interrupted by signal {ended.status}", status=128 + ended.status)
            if ended.files is not None:
                files, result = ended.files, 0
            else:
                files, result = self._plain(target, source, env, executor, Path(scratch))
                if cache.engine and not cache.config.disable:
                    shadows.note(cache.engine, str(node.get_abspath()), ())
                if argv is not None:
                    cached.tell_plain(cache, argv, cwd, ended, bool(result))
        if not result:
            self._read[node] = Reads(files, started)
        return result

    def _words(self, target: Any, source: Any, env: Any, executor: Any) -> tuple[str, ...] | None:
        """The command as the shell would run it; None where only the shell can."""
        lines, ignore, _ = self.process(target, [node.rfile() for node in source], env, executor)
        lines = [line for line in lines if line]
        if ignore or len(lines) != 1:
            return None
        argv = shell.split(" ".join(escape_list(lines[0], env.get("ESCAPE", lambda word: word))))
        return argv if argv and _is_there(argv[0], env) else None

    def _plain(self, target: Any, source: Any, env: Any, executor: Any, scratch: Path) -> tuple[tuple[str, ...], Any]:
        """(what it read, result) of the user's own command. Clang's dependency file would lack what only a device
        pass includes; with CC_PRINT_HEADERS every pass adds the headers that it enters to one file."""
        compiler = env.subst("$HIPCXX", target=target, source=source).strip()
        if " " not in compiler and not _is_there(compiler, env):
            cached.say(_NO_COMPILER.format(compiler))
            return (), BuildError(errstr=f"no compiler '{compiler}'", status=127, action=self)
        headers = scratch / "headers"
        variables = {**env["ENV"], "CC_PRINT_HEADERS": "1", "CC_PRINT_HEADERS_FILE": str(headers)}
        result = super().execute(target, source, env.Override({"ENV": variables}), executor)
        try:
            names = os.fsdecode(headers.read_bytes()).splitlines()
        except OSError:
            names = []  # no header at all, or no clang
        files = dict.fromkeys(dependencies.locate(name.strip(), _directory()) for name in names)
        return tuple(path for path in files if os.path.isfile(path)), result

    def get_presig(self, target: Any, source: Any, env: Any, executor: Any = None) -> str:
        """The command line, the toolchain by content, and headers that appeared. In the main thread; SCons asks again
        when the object has been built, right before it notes the implicit dependencies: the moment to settle them."""
        node = flatten([target])[0]  # Configure gives a node without a list around it
        reads = self._read.pop(node, None)
        if reads is not None:
            programs = super().get_implicit_deps(target, source, env, executor)
            dependencies.settle(node, source, programs, reads)
        environ = environment(env)
        lines = env.subst_list(self._toolchain, SUBST_CMD, target, source)
        words = shell.split(" ".join(escape_list(lines[0], env.get("ESCAPE", lambda word: word)))) or ()
        cache = cached.open_cache(environ)
        engine = None if cache.config.disable else cache.engine
        known = toolchain.digest(words, environ, _directory(), engine)
        shadowed = shadows.seen(engine, str(node.get_abspath()), _directory()) if engine else ""
        return f"{super().get_presig(target, source, env, executor)}\n{known}" + (shadowed and f"\n{shadowed}")

    def get_implicit_deps(self, target: Any, source: Any, env: Any, executor: Any = None) -> list[Any]:
        """In the main thread, before SCons decides."""
        programs: list[Any] = super().get_implicit_deps(target, source, env, executor)
        return programs if target[0].is_conftest() else programs + dependencies.stored(target[0])


def environment(env: Any) -> Mapping[str, str]:
    """`env["ENV"]` as a process gets it: SCons allows lists of paths, and nodes."""
    return {
        str(name): value
        if is_String(value)
        else os.pathsep.join(map(str, value))
        if isinstance(value, list)
        else str(value)
        for name, value in env["ENV"].items()
    }


def _directory() -> str:
    """SCons runs all commands from the directory of the SConstruct."""
    return str(get_default_fs().Top.get_abspath())


def _is_there(program: str, env: Any) -> bool:
    return os.access(os.path.join(_directory(), program), os.X_OK) if "/" in program else bool(env.WhereIs(program))


def _on(env: Any, cache: Cache) -> bool:
    return bool(env.get("HIPCACHE", True)) and not cache.config.disable
