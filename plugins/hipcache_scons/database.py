"""HIP objects in `env.CompilationDatabase()`, which SCons' tool `compilation_db` adds to an Environment.

That tool gives an emitter to each suffix of C and C++ that it finds as it is loaded; how an emitter keeps its entry for
the database differs from release to release. So its own emitter for C++ is called here, for each HIP object as it is
declared, with the command of HIP as that of C++: both tools can be loaded in any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from SCons.Environment import Base
from SCons.Tool import Tool, createObjBuilders

_SUFFIX = ".cpp"


def note(action: Any, command: str, target: Any, source: Any, env: Any) -> None:
    """An object that `action` (a `HipAction`) makes; nothing for an attempt of Configure, or if `env` has no such tool.
    `command`: the variable that C++ has in its place, CXXCOM or SHCXXCOM."""
    if "CompilationDatabase" not in env["BUILDERS"] or not source or source[0].is_conftest():
        return
    compiling = action.compile_of(target, source, env)
    if compiling is not None:
        _emitters()[command](target, source, env.Override({command: compiling.cmd_list}))


@functools.cache
def _emitters() -> dict[str, Callable[..., Any]]:
    """SCons' own for C++, by the variable with the command."""
    env = Base(tools=[])
    builders = createObjBuilders(env)
    for builder in builders:
        # It adds its emitter only to one that is there.
        builder.add_emitter(_SUFFIX, lambda target, source, env: (target, source))
    Tool("compilation_db")(env)
    static, shared = (builder.emitter[_SUFFIX] for builder in builders)
    return {"CXXCOM": static, "SHCXXCOM": shared}
