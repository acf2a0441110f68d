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

from hipcache.base.errors import PassThrough
from SCons.Action import CommandAction, LazyAction, ListAction
from SCons.Subst import SUBST_CMD
from SCons.Util import flatten

from hipcache_scons import ahead, cached, commands, dependencies, shadows, targets, toolchain
from hipcache_scons.dependencies import Reads

_NO_COMPILER = """\
hipcache: no compiler '{}' on the PATH of this Environment
  set HIPCXX (`hipcache doctor` lists compilers) or env['ENV']['PATH']
"""


class HipAction(LazyAction):  # type: ignore[misc]
    """`command`: HIPCOM or SHHIPCOM, one command or all else that SCons takes for an action, such as a list; `flags`:
    the variables that choose the toolchain."""

    def __init__(self, command: str, flags: str) -> None:
        super().__init__(command, {"cmdstr": f"${command}STR"})
        self._toolchain = f"$HIPCXX $_HIPTARGETFLAGS {flags}"
        # By node; put in by the thread that compiles, taken out by the main thread.
        self._read: dict[Any, Reads] = {}

    def compile_of(self, target: Any, source: Any, env: Any) -> Any:
        """The action of the one command that compiles; None if it cannot be told."""
        if self._is_one(env):
            return self
        made = self._generate(target, source, env, 1)
        several = made.list if isinstance(made, ListAction) else [made]
        return next((action for action in several if isinstance(action, _Compile)), None)

    def _is_one(self, env: Any) -> bool:
        return self.get_parent_class(env) is CommandAction

    def _generate(self, target: Any, source: Any, env: Any, for_signature: Any, executor: Any = None) -> Any:
        """SCons' own action, where the variable does not hold one command: but the first command that starts HIPCXX
        is for the cache."""
        made = super()._generate(target, source, env, for_signature, executor)
        if not env or self._is_one(env):
            return made
        several = made.list if isinstance(made, ListAction) else [made]
        first = next(
            (number for number, action in enumerate(several) if _starts_compiler(action, target, source, env)), None
        )
        if first is None:
            return made
        compiling = _Compile(several[first].cmd_list, self)
        return ListAction([*several[:first], compiling, *several[first + 1 :]])

    def execute(self, target: Any, source: Any, env: Any, executor: Any = None) -> Any:
        """In a worker thread."""
        return self.compile(self, target, source, env, executor)

    def compile(self, command: CommandAction, target: Any, source: Any, env: Any, executor: Any) -> Any:
        """What `command` makes, through the cache if it is on. In a worker thread."""
        if executor:
            target, source = executor.get_all_targets(), executor.get_all_sources()
        node, started, cwd = target[0], time.time(), commands.directory()
        if node.is_conftest():
            # The attempts of Configure go to config.log, and SCons remembers the answer itself.
            return CommandAction.execute(command, target, source, env, executor)
        environ = commands.environment(env)
        cache = cached.open_cache(environ)
        argv: tuple[str, ...] | None = None
        ended: cached.Ended | None = None
        if cached.is_on(env, cache):
            argv = commands.words(command, target, source, env, executor)
            ended = cached.left_to_scons(env, command, executor)
            if not argv:
                argv = commands.for_the_shell(command, target, source, env, executor)
                ended = ended or cached.Ended(left=PassThrough("scons_spawn", "the shell"))
        with tempfile.TemporaryDirectory(prefix="hipcache-") as scratch:
            if argv and not ended:
                ahead.fetch_once(cache)
                ended = cached.compile(cache, argv, cwd)
            ended = ended if argv else None
            if ended and ended.status:
                return commands.failed(command, target, source, env, executor, ended.why, ended.status)
            if ended and ended.left is None:
                files, result = ended.files, 0
            else:
                files, result = self._plain(command, target, source, env, executor, Path(scratch))
                if cache.context and not cache.config.disable:
                    shadows.note(cache.context, str(node.get_abspath()), ())
                if argv and ended:
                    cached.tell_plain(cache, argv, cwd, ended, bool(result))
        if not result:
            targets.made_one()
            self._read[node] = Reads(files, started)
        return result

    def _plain(
        self, command: CommandAction, target: Any, source: Any, env: Any, executor: Any, scratch: Path
    ) -> tuple[tuple[str, ...], Any]:
        """(what it read, result) of the user's own command. Clang's dependency file would lack what only a device
        pass includes; with CC_PRINT_HEADERS every pass adds the headers that it enters to one file."""
        compiler = env.subst("$HIPCXX", target=target, source=source).strip()
        is_plain = commands.shell_words(compiler) == (compiler,)
        if is_plain and not commands.is_there(compiler, env) and not commands.spawned_by(env, command, executor):
            cached.say(_NO_COMPILER.format(compiler))
            return (), commands.failed(command, target, source, env, executor, f"no compiler '{compiler}'", 127)
        headers = scratch / "headers"
        variables = {**env["ENV"], "CC_PRINT_HEADERS": "1", "CC_PRINT_HEADERS_FILE": str(headers)}
        result = CommandAction.execute(command, target, source, env.Override({"ENV": variables}), executor)
        try:
            names = os.fsdecode(headers.read_bytes()).split("\n")
        except OSError:
            names = []  # no header at all, or no clang
        cwd = os.getcwd() if commands.changes_directory(command, executor) else commands.directory()
        files = dict.fromkeys(dependencies.locate(name, cwd) for name in names if name)
        return tuple(path for path in files if os.path.isfile(path)), result

    def get_presig(self, target: Any, source: Any, env: Any, executor: Any = None) -> str | bytes:
        """The command line (bytes if there are several), the toolchain by content, and headers that appeared. In the
        main thread; SCons asks again when the object has been built, right before it notes the implicit dependencies:
        the moment to settle them."""
        node = flatten([target])[0]  # Configure gives a node without a list around it
        reads = self._read.pop(node, None)
        moved: list[str] = []
        if reads is not None:
            moved = dependencies.settle(node, source, _programs(node, target, source, env), reads)
        environ = commands.environment(env)
        lines = env.subst_list(self._toolchain, SUBST_CMD, target, source)
        words = commands.shell_words(commands.escaped(lines[0], env)) or ()
        cache = cached.open_cache(environ)
        context = None if cache.config.disable else cache.context
        known = toolchain.digest(words, environ, commands.directory(), context)
        shadowed = shadows.seen(context, str(node.get_abspath()), commands.directory()) if context else ""
        more = "\n".join(["", known, *filter(None, [shadowed]), *(f"changed meanwhile: {path}" for path in moved)])
        signature: str | bytes = super().get_presig(target, source, env)
        return signature + more if isinstance(signature, str) else signature + more.encode()

    def get_implicit_deps(self, target: Any, source: Any, env: Any, executor: Any = None) -> list[Any]:
        """In the main thread, before SCons decides."""
        programs: list[Any] = super().get_implicit_deps(target, source, env, executor)
        return programs if target[0].is_conftest() else programs + dependencies.stored(target[0])


class _Compile(CommandAction):  # type: ignore[misc]
    """The command that compiles, one of several in the variable of `whole`."""

    def __init__(self, command: Any, whole: HipAction) -> None:
        super().__init__(command, **whole.gen_kw)
        self._whole = whole

    def execute(self, target: Any, source: Any, env: Any, executor: Any = None) -> Any:
        """In a worker thread."""
        return self._whole.compile(self, target, source, env, executor)


def _programs(node: Any, target: Any, source: Any, env: Any) -> list[Any]:
    """Those of all actions that make `node`, as SCons lists them: AddPreAction and AddPostAction put others beside the
    compile."""
    found: list[Any] = []
    for action in node.get_executor().get_action_list():
        listed: Any = super(HipAction, action) if isinstance(action, HipAction) else action
        found += listed.get_implicit_deps(target, source, env)
    return found


def _starts_compiler(action: Any, target: Any, source: Any, env: Any) -> bool:
    """Is it a command that begins with the words of HIPCXX?"""
    if not isinstance(action, CommandAction):
        return False
    words, compiler = action.process(target, source, env)[0], env.subst_list("$HIPCXX")
    first = [str(word) for word in compiler[0]] if compiler else []
    return bool(words and first) and [str(word) for word in words[0][: len(first)]] == first
