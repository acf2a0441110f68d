"""The kinds of commands: how each is parsed, and which planner makes its graph.

A kind is a line here, or of a feature's door, and a module with a function `plan`. Modules are imported on demand,
because the launcher starts one process per command.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from hipcache.base import features
from hipcache.base.errors import PassThrough
from hipcache.base.values import dataclass
from hipcache.clang import tools
from hipcache.clang.command import Command, parse_each
from hipcache.config import Config

if TYPE_CHECKING:
    from hipcache.build.context import Context
    from hipcache.execution import Planner


@dataclass(frozen=True)
class Kind:
    """`module`: the planner's; `claims`: is a command of this kind? `script`: may a script in the compiler's place
    start the compiler? Otherwise the planner refuses scripts.

    A kind of a feature is all that has to do with one program, by its name: `parser`: the module whose `read` parses
    its command, as `read` below; `install`: how to get the program, in words."""

    module: str
    claims: Callable[[Command], bool] = lambda command: True
    script: bool = False
    program: str = ""
    parser: str = ""
    install: str = ""

    @property
    def planner(self) -> Planner:
        planner: Planner = import_module(self.module).plan
        return planner


# A command is of the first kind that claims it.
KINDS = (
    Kind("hipcache.execution.assembler", lambda command: command.assembles),
    Kind("hipcache.execution.object", script=True),
)


def of(command: Command) -> Kind:
    """Raises PassThrough for a link without the feature that plans it."""
    kind = of_program(command.compiler)
    if kind:
        return kind
    if command.makes_program or command.links:
        for module in features.added("LINK_PLANNER"):
            return Kind(module)
        raise PassThrough("link")
    return next(kind for kind in KINDS if kind.claims(command))


def of_features() -> list[Kind]:
    return [kind for kinds in features.added("kinds") for kind in kinds()]


def of_program(program: str) -> Kind | None:
    """The feature's kind for that program's commands."""
    if tools.is_clang(program):
        return None
    return next((kind for kind in of_features() if kind.program == os.path.basename(program)), None)


def read(argv: tuple[str, ...], cwd: str, environ: Mapping[str, str], config: Config) -> tuple[Command, ...]:
    """The commands that the user's `argv` stands for, one for each source; none if a program in the compiler's place
    (hipcc) must be asked for them (`unwrapped`). Raises PassThrough, Refused, OSError."""
    words = tools.behind(argv)
    if tools.is_hipcc(words[0]):
        from hipcache.clang import script

        script.check(words, environ)
        return ()
    kind = of_program(words[0])
    if kind:
        found: tuple[Command, ...] = import_module(kind.parser).read(words, cwd, argv, config)
        return found
    return parse_each(words, cwd, environ, typed=argv)


def unwrapped(
    context: Context, commands: tuple[Command, ...], argv: Sequence[str], cwd: str
) -> tuple[tuple[Command, ...], Context]:
    """The commands themselves, or, if there are none, those that hipcc runs for `argv`, and the context with the
    environment for them. Raises PassThrough, StoreError."""
    if commands:
        return commands, context
    from hipcache.clang import script

    return script.unwrap(context, tools.behind(argv), cwd, context.runner, tuple(argv))
