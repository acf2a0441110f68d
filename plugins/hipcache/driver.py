"""Asks the compiler driver for its plan, and remembers the answer with all that the driver looked at for it.

The plan is a function of the command, the environment, the working directory, and what the driver finds in the file
system. All of these are checked before a remembered plan is used (`observe`); else the driver is asked.

Format of a remembered plan (an action of the store): zlib-compressed JSON
`{"text": str, "looked": [[how, path, signature], ...]}`.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from hipcache import observe, plan
from hipcache.command import Command
from hipcache.engine import Engine
from hipcache.errors import PassThrough, StoreError
from hipcache.keys import make_key
from hipcache.observe import Observation
from hipcache.plan import Plan
from hipcache.runner import Runner
from hipcache.trace import RACY

# Variables that a build tool or a shell sets anew for each command, and that no compiler reads.
_VOLATILE = frozenset(
    [
        "_",
        "OLDPWD",
        "SHLVL",
        "MAKEFLAGS",
        "MAKELEVEL",
        "MFLAGS",
        "MAKE_TERMERR",
        "MAKE_TERMOUT",
        "NINJA_STATUS",
        "TMPDIR",
        "COLUMNS",
        "LINES",
    ]
)


def ask(
    command: Command, cuid: str, engine: Engine, runner: Runner, *, columns: int | None, scratch: Callable[[], Path]
) -> Plan:
    """The plan for `command`. `cuid` is empty where the user has chosen one; `columns`: the width of the terminal
    that messages go to, None if they do not go to one; `scratch` gives a directory for what the driver leaves behind
    (clang 15 makes directories for its temporary files even when it only plans). Raises PassThrough."""
    # The driver looks whether its own standard error is a terminal: ours is, its is not. All of ours go first, so
    # that the user's options win, and since a `--` may end the options.
    look = [] if columns is None else ["-fcolor-diagnostics", f"-fmessage-length={columns}"]
    words = ["-###", *look, *([f"-cuid={cuid}"] if cuid else []), *command.argv[1:]]
    program = _which(command, engine.environ)
    inputs = [
        ("program", program),
        ("name", command.compiler),
        ("directory", command.cwd),
        *(("word", word) for word in words),
    ]
    inputs += [(f"variable {n}", v) for n, v in sorted(engine.environ.items()) if n not in _VOLATILE and not _own(n)]
    key = make_key("plan", inputs).digest
    text = None if engine.recache else _recall(engine.store.get_action(key))
    if text is None:
        text, looked = _run(program, [command.compiler, *words], engine, runner, Path(command.cwd), scratch())
        _remember(engine, key, text, looked)
    found = plan.parse(text)
    if "error:" in found.messages:
        # clang 15 plans on after an error (an -Xarch_ option that cannot be forwarded) and ends with status 0.
        raise PassThrough("driver", found.messages.strip())
    return found


def _run(
    program: str, argv: list[str], engine: Engine, runner: Runner, cwd: Path, scratch: Path
) -> tuple[str, tuple[Observation, ...]]:
    """The driver's answer, and what it looked at for it (nothing, where that is not known)."""
    env = {**engine.environ, "TMPDIR": str(scratch)}
    # What `native` stands for is asked of the machine, by ways that are no paths.
    native = any("native" in word for word in argv)
    seen = None if native else runner.observe(program, argv, cwd=cwd, env=env, ignore=scratch)
    try:
        answer, looked = seen or (runner.run(argv, env=env, cwd=cwd), ())
    except OSError as error:
        raise PassThrough("driver", str(error)) from error
    if answer.status != 0 or answer.stdout:
        raise PassThrough("driver", f"-### ended with status {answer.status}")
    return os.fsdecode(answer.stderr), looked


def _remember(engine: Engine, key: str, text: str, looked: tuple[Observation, ...]) -> None:
    if not looked or observe.young(looked, engine.clock(), RACY):
        return
    data = {"text": text, "looked": [[one.how, one.path, one.sign] for one in looked]}
    raw = json.dumps(data, separators=(",", ":")).encode("utf-8", "surrogateescape")
    with suppress(StoreError):  # only speed is lost; a compile that has more to store says so
        engine.store.put_action(key, zlib.compress(raw, 1))


def _recall(raw: bytes | None) -> str | None:
    """The text of a remembered plan, if nothing that the driver looked at has changed."""
    if raw is None:
        return None
    try:
        data = json.loads(zlib.decompress(raw).decode("utf-8", "surrogateescape"))
        looked = [Observation(how, path, sign) for how, path, sign in data["looked"]]
        text = str(data["text"])
    except (ValueError, KeyError, TypeError, zlib.error):
        return None
    return text if all(observe.sign(one.how, one.path) == one.sign for one in looked) else None


def _own(name: str) -> bool:
    return name.startswith("HIPCACHE_")


def _which(command: Command, environ: Mapping[str, str]) -> str:
    """The compiler's path, as exec would find it. Raises PassThrough."""
    if "/" in command.compiler:
        return command.path(command.compiler)
    for directory in environ.get("PATH", os.defpath).split(":"):
        path = os.path.join(command.cwd, directory, command.compiler)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise PassThrough("driver", f"no '{command.compiler}' on PATH")
