"""The action of links in SCons' own builders: with device code to link the engine is tried first.

What links is a command of SCons' link tool (LINKCOM, SHLINKCOM, LDMODULECOM), and stays one: the words of the engine's
links are those that clang gets, `--hip-link` among them. Every other link is not touched.
"""

from __future__ import annotations

from typing import Any

from SCons.Action import LazyAction, ListAction

from hipcache_scons import cached, commands

_LINKS_DEVICE_CODE = {"--hip-link", "--offload-link"}
_VARIABLES = {"Program": "LINKCOM", "SharedLibrary": "SHLINKCOM", "LoadableModule": "LDMODULECOM"}


class HipLinkAction(LazyAction):  # type: ignore[misc]
    """In the place of SCons' own `LazyAction`, which does all else."""

    def execute(self, target: Any, source: Any, env: Any, executor: Any = None) -> Any:
        """In a worker thread."""
        if executor:
            target, source = executor.get_all_targets(), executor.get_all_sources()
        cache = cached.open_cache(commands.environment(env))
        argv = commands.words(self, target, source, env, executor) if cached.is_on(env, cache) else None
        if argv is None or _LINKS_DEVICE_CODE.isdisjoint(argv) or target[0].is_conftest():
            return super().execute(target, source, env, executor)
        cwd = commands.directory()
        ended = cached.left_to_scons(env, self, executor) or cached.link(cache, argv, cwd)
        if ended.status:
            return commands.failed(self, target, source, env, executor, ended.why, ended.status)
        if ended.left is None:
            return 0
        result = super().execute(target, source, env, executor)
        cached.tell_plain(cache, argv, cwd, ended, bool(result))
        return result


def install(env: Any) -> None:
    """Put it into those builders of `env` that have SCons' own."""
    for name, variable in _VARIABLES.items():
        builder = env["BUILDERS"].get(name)
        action = getattr(builder, "action", None)
        if isinstance(action, ListAction):
            action.list = [_in_place_of(command, variable) for command in action.list]
        elif builder is not None:
            builder.action = _in_place_of(action, variable)


def _in_place_of(action: Any, variable: str) -> Any:
    is_scons_own = type(action) is LazyAction and action.var == variable
    return HipLinkAction(variable, action.gen_kw) if is_scons_own else action
