"""Fetches what a build needs from the remote at once, before the first HIP object is made, if a remote is set.

Other build tools have compile_commands.json for that (`hipcache prefetch`). Here the emitters have seen all objects;
those that are not there are asked for, once in a build. An object that is only out of date asks for itself.

A whole compile is of no use here, as SCons must also know which headers may appear (`shadows`): the engine puts each
together from its parts, which is why these are fetched ("parts", see `hipcache.remote.helper.commands`).
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from typing import Any

from SCons.Util import display

from hipcache_scons import cached, commands, direct
from hipcache_scons.cached import Cache

SECONDS = 20.0
# One object asks for itself in as many round trips.
_LEAST = 2

_nodes: list[Any] = []
_lock = threading.Lock()


def note(target: Any) -> None:
    """An object that the build may make."""
    _nodes.append(target)


def fetch_once(cache: Cache) -> None:
    """In a worker thread; the others wait. Raises nothing: each compile can ask for itself."""
    config = cache.config
    if not (config.remote and config.prefetch) or config.readonly or config.recache or not cache.context:
        return
    with _lock:
        nodes, _nodes[:] = _nodes[:], []
        try:
            entries = [entry for node in nodes for entry in _entry(node, cache)]
            if len(entries) >= _LEAST:
                _fetch(cache, entries)
        except Exception as error:
            cached.say(f"hipcache: prefetch is incomplete: {error}\n")


def _entry(node: Any, cache: Cache) -> list[dict[str, object]]:
    """As of compile_commands.json; none if it is there, is not for the cache or is for another one."""
    if node.is_conftest() or os.path.exists(node.get_abspath()):
        return []
    executor = node.get_executor()
    env, actions = executor.get_build_env(), executor.get_action_list()
    if not cached.is_on(env, cache) or cached.open_cache(commands.environment(env)) is not cache:
        return []
    target, source = executor.get_all_targets(), executor.get_all_sources()
    # AddPreAction and AddPostAction put others beside it.
    action = next((action for action in actions if hasattr(action, "compile_of")), None)
    compiling = action and action.compile_of(target, source, env)
    argv = compiling and commands.words(compiling, target, source, env, executor)
    if not argv or commands.spawned_by(env, compiling, executor):
        return []
    words = direct.kept_as(argv)
    return [{"directory": commands.directory(), "file": str(source[0]), "arguments": words, "parts": True}]


def _fetch(cache: Cache, entries: list[dict[str, object]]) -> None:
    """Raises OSError, ValueError, HipcacheError."""
    assert cache.context
    assert cache.context.remote
    client = cache.context.remote()
    if client.why_not():
        return  # the first compile tells it
    with tempfile.NamedTemporaryFile("w", prefix="hipcache-", suffix=".json", encoding="utf-8") as file:
        json.dump(entries, file)
        file.flush()
        told = client.prefetch(file.name, SECONDS)
    if told:
        display(told)
