"""The features: packages that can be deleted, each with a door that says what it adds to the program.

A feature is a package with a module `door`. No module outside imports one: it asks here for what their doors add, by
the name that it has there. Modules are named as text, and imported when they are needed.

    KINDS       `loop.kinds.Kind` of commands of another compiler
    CACHES      a policy's `Cache` -> the module whose `result_cache(session, content)` has its results
    VERBS       a subcommand of `hipcache.VERBS` -> its module
    HIT_CHECK   the module whose `compare` confirms what a hit has delivered
    ADDRESSES   a setting -> the module whose `parse` reads one of its addresses, which has `files` that it names
    CHECKS      the module whose `check` gives lines of the doctor for the settings
    EXECUTIONS  the module whose `Executions` runs actions in the storage helper, and `examine` checks an executor
    executions  the function that gives the executors of the settings, when they are needed
    executor    the function that gives the executor of processes, where not only this machine runs them
    STANDS_ON   another feature, without which it adds nothing
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any


@cache
def doors() -> tuple[ModuleType, ...]:
    place = os.path.dirname(__file__)
    names = [name for name in sorted(os.listdir(place)) if os.path.exists(f"{place}/{name}/door.py")]
    found = [import_module(f"hipcache.{name}.door") for name in names]
    return tuple(door for door in found if getattr(door, "STANDS_ON", names[0]) in names)


def added(name: str) -> Iterator[Any]:
    """What each door that has this name adds."""
    return (getattr(door, name) for door in doors() if hasattr(door, name))


def modules(name: str) -> Iterator[Any]:
    """The modules that doors name so."""
    return map(import_module, added(name))


def modules_for(name: str, key: str) -> Iterator[Any]:
    """The modules that doors name so for the key."""
    return (import_module(modules[key]) for modules in added(name) if key in modules)
