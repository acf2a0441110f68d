"""The action of every HIP compile: SCons' own command action, with the engine tried first.

So printing, `-n`, `-s`, the signature of the command line and, where the engine leaves a compile to the compiler,
SCons' own spawn are those of any other command. The methods are the ones that SCons' `ActionBase` documents for its
subclasses (SCons API documentation, `SCons.Action`).
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from SCons.Action import CommandAction
from SCons.Errors import BuildError
from SCons.Subst import SUBST_CMD
from SCons.Util import flatten

from hipcache_scons import ahead, cached, commands, dependencies, shadows, shell, targets, toolchain
from hipcache_scons.dependencies import Reads

_NO_COMPILER = """\
hipcache: no compiler '{}' on the PATH of this Environment
  set HIPCXX (`hipcache doctor` lists compilers) or env['ENV']['PATH']
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
        node, started, cwd = target[0], time.time(), commands.directory()
        if node.is_conftest():
            # The attempts of Configure go to config.log, and SCons remembers the answer itself.
            return super().execute(target, source, env, executor)
        environ = commands.environment(env)
        cache = cached.open_cache(environ)
        argv = commands.words(self, target, source, env, executor) if cached.is_on(env, cache) else None
        if argv:
            ahead.fetch_once(cache)
        with tempfile.TemporaryDirectory(prefix="hipcache-") as scratch:
            ended = cached.compile(cache, argv, cwd) if argv else None
            if ended and ended.status:
                return BuildError(errstr=ended.why, status=ended.status)
            if ended and ended.left is None:
                files, result = ended.files, 0
            else:
                files, result = self._plain(target, source, env, executor, Path(scratch))
                if cache.engine and not cache.config.disable:
                    shadows.note(cache.engine, str(node.get_abspath()), ())
                if argv and ended:
                    cached.tell_plain(cache, argv, cwd, ended, bool(result))
        if not result:
            targets.made_one()
            self._read[node] = Reads(files, started)
        return result

    def _plain(self, target: Any, source: Any, env: Any, executor: Any, scratch: Path) -> tuple[tuple[str, ...], Any]:
        """(what it read, result) of the user's own command. Clang's dependency file would lack what only a device
        pass includes; with CC_PRINT_HEADERS every pass adds the headers that it enters to one file."""
        compiler = env.subst("$HIPCXX", target=target, source=source).strip()
        if " " not in compiler and not commands.is_there(compiler, env):
            cached.say(_NO_COMPILER.format(compiler))
            return (), BuildError(errstr=f"no compiler '{compiler}'", status=127, action=self)
        headers = scratch / "headers"
        variables = {**env["ENV"], "CC_PRINT_HEADERS": "1", "CC_PRINT_HEADERS_FILE": str(headers)}
        result = super().execute(target, source, env.Override({"ENV": variables}), executor)
        try:
            names = os.fsdecode(headers.read_bytes()).splitlines()
        except OSError:
            names = []  # no header at all, or no clang
        files = dict.fromkeys(dependencies.locate(name.strip(), commands.directory()) for name in names)
        return tuple(path for path in files if os.path.isfile(path)), result

    def get_presig(self, target: Any, source: Any, env: Any, executor: Any = None) -> str:
        """The command line, the toolchain by content, and headers that appeared. In the main thread; SCons asks again
        when the object has been built, right before it notes the implicit dependencies: the moment to settle them."""
        node = flatten([target])[0]  # Configure gives a node without a list around it
        reads = self._read.pop(node, None)
        if reads is not None:
            programs = super().get_implicit_deps(target, source, env, executor)
            dependencies.settle(node, source, programs, reads)
        environ = commands.environment(env)
        lines = env.subst_list(self._toolchain, SUBST_CMD, target, source)
        words = shell.split(commands.escaped(lines[0], env)) or ()
        cache = cached.open_cache(environ)
        engine = None if cache.config.disable else cache.engine
        known = toolchain.digest(words, environ, commands.directory(), engine)
        shadowed = shadows.seen(engine, str(node.get_abspath()), commands.directory()) if engine else ""
        return f"{super().get_presig(target, source, env, executor)}\n{known}" + (shadowed and f"\n{shadowed}")

    def get_implicit_deps(self, target: Any, source: Any, env: Any, executor: Any = None) -> list[Any]:
        """In the main thread, before SCons decides."""
        programs: list[Any] = super().get_implicit_deps(target, source, env, executor)
        return programs if target[0].is_conftest() else programs + dependencies.stored(target[0])
