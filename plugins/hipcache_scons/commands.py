"""The command of an action as hipcache sees it: its words, its environment, its directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from SCons.Errors import BuildError
from SCons.Node.FS import get_default_fs
from SCons.Platform.posix import subprocess_spawn
from SCons.Subst import escape_list
from SCons.Util import is_String

# These run the words of a command and do nothing else. (Not zsh, which reads ~/.zshenv first.)
_SHELLS = {f"{directory}{name}" for directory in ("", "/bin/", "/usr/bin/") for name in ("sh", "bash", "dash")}
# What shell_words leaves to a shell.
_OPERATORS = set("|&;<>()$`*?[]\n#~!{}")
_ESCAPED_IN_QUOTES = set('$`"\\\n')


def words(action: Any, target: Any, source: Any, env: Any, executor: Any) -> tuple[str, ...] | None:
    """The command of `action` as the shell would run it; None if only the shell can, or there is no such program."""
    lines, ignore, _ = action.process(target, [node.rfile() for node in source], env, executor)
    lines = [line for line in lines if line]
    if ignore or len(lines) != 1:
        return None
    argv = shell_words(escaped(lines[0], env))
    return argv if argv and is_there(argv[0], env) else None


def for_the_shell(action: Any, target: Any, source: Any, env: Any, executor: Any) -> tuple[str, ...]:
    """The words of an action of one command that only the shell can run, or whose failure SCons ignores; else empty."""
    lines, ignore, _ = action.process(target, [node.rfile() for node in source], env, executor)
    lines = [line for line in lines if line]
    needed = len(lines) == 1 and (ignore or shell_words(escaped(lines[0], env)) is None)
    return tuple(map(str, lines[0])) if needed else ()


def failed(action: Any, target: Any, source: Any, env: Any, executor: Any, why: str, status: int) -> BuildError:
    """What SCons' own action returns when its one command ends with `status`."""
    lines, _, _ = action.process(target, [node.rfile() for node in source], env, executor)
    line = escape_list(next(filter(len, lines), []), env.get("ESCAPE", lambda word: word))
    return BuildError(errstr=why, status=status, action=action, command=line)


def escaped(line: Any, env: Any) -> str:
    """The words of a substituted `line` as one text for the shell."""
    return " ".join(escape_list(line, env.get("ESCAPE", lambda word: word)))


def spawned_by(env: Any, action: Any, executor: Any) -> str:
    """The variable by which the project runs commands in a way of its own: in a container, say, in another directory,
    or with other variables than `env["ENV"]`. Empty if SCons runs them as ever."""
    if changes_directory(action, executor):
        return "chdir"
    if env.get("SPAWN") is not subprocess_spawn:
        return "SPAWN"
    shell = env.get("SHELL")
    if shell not in _SHELLS or (shell.endswith("bash") and "BASH_ENV" in env["ENV"]):
        return "SHELL"
    return "SHELL_ENV_GENERATORS" if env.get("SHELL_ENV_GENERATORS") else ""


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


def changes_directory(action: Any, executor: Any) -> bool:
    """Does SCons change the directory for it (`chdir=`)? The names in its words are from there then."""
    return bool(getattr(executor, "builder_kw", {}).get("chdir") or getattr(action, "chdir", None))


def directory() -> str:
    """SCons runs all commands from the directory of the SConstruct, but for those with `chdir=`."""
    return str(get_default_fs().Top.get_abspath())


def is_there(program: str, env: Any) -> bool:
    return os.access(os.path.join(directory(), program), os.X_OK) if "/" in program else bool(env.WhereIs(program))


def shell_words(line: str) -> tuple[str, ...] | None:
    """The words of a command line as the shell would make them; None if only a shell can tell them.

    SCons joins the words of a command and gives them to `sh -c`. A command that uses more of the shell than quotes and
    backslashes (POSIX, "Shell Command Language", 2.2) is left to it."""
    made: list[str] = []
    word: str | None = None
    chars = iter(line)
    for char in chars:
        if char in " \t":
            if word is not None:
                made.append(word)
            word = None
            continue
        word = word or ""
        if char == "\\":
            word += next(chars, "\\")
        elif char == "'":
            for inner in chars:
                if inner == "'":
                    break
                word += inner
            else:
                return None
        elif char == '"':
            for inner in chars:
                if inner == '"':
                    break
                if inner in "$`":
                    return None
                if inner == "\\":
                    behind = next(chars, "")
                    word += behind if behind in _ESCAPED_IN_QUOTES else "\\" + behind
                else:
                    word += inner
            else:
                return None
        elif char in _OPERATORS:
            return None
        else:
            word += char
    if word is not None:
        made.append(word)
    if not made or "=" in made[0]:
        return None  # an assignment before the command
    return tuple(made)
