"""The features: packages that can be deleted, each of which says at its door what it adds to the program.

The door is the `__init__`. No module outside imports one: it asks here for what the doors add, by the name that it has
there: a function, or modules named as text, which are imported when they are needed. A door itself imports nothing.

    kinds            gives the kinds (`app.kinds.Kind`) of another compiler's commands
    LINK_PLANNER     the module whose `plan` makes the graph of a command that links
    CACHES           a policy's name -> the module whose `result_cache(session, content)` has its results
    shared_cache     gives a cache of results together with that of a team
    remote           gives the client of the remotes, when it is needed, and takes keys of records to upload
    front_end        gives a way (`execution.passes.FrontEndWay`) to run the front ends of a compile
    hints            gives a store of what can be made again, beside the user's and on this machine alone
    executions       gives the executors, when they are needed
    executor         gives an executor of processes that may run them elsewhere, too
    checks           gives lines of the doctor for the settings
    HIT_CHECK        the module whose `compare` confirms what a hit has delivered
    WHOLE_COMPILE    the module whose `WholeCompile` keeps the record of a whole compile for a team
    STORAGE_HELPER   the module whose `serve` is the process that holds connections
    EXECUTIONS       the module whose `ExecutionService` runs actions in it, and `examine` checks an executor
    RECORDS          the module whose `outputs` names the contents of a record of its own
    QUEUE            the module whose `empty` removes what waits in a store
    ADDRESSES        a setting -> the module whose `parse` reads one of its addresses, which has `files` that it names
    COUNTERS         the fields of the `report.statistics.CounterGroup` of what is counted
    VERBS            a subcommand of `hipcache.VERBS` -> its module
    STANDS_ON        another feature, without which it adds nothing
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

# What a hit may ask for comes first.
FEATURES = ("remote", "executor", "driver_header", "link", "verify", "iree")


def doors() -> Iterator[ModuleType]:
    """Of those that are there, one after the other."""
    for name in FEATURES:
        door = _door(name)
        if door and _door(getattr(door, "STANDS_ON", name)):
            yield door


@cache
def _door(name: str) -> ModuleType | None:
    full = f"hipcache.{name}"
    try:
        return import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
        return None


def added(name: str) -> Iterator[Any]:
    """What each door that has this name adds."""
    return (vars(door)[name] for door in doors() if name in vars(door))


def modules(name: str) -> Iterator[Any]:
    """The modules that doors name so."""
    return map(import_module, added(name))


def modules_for(name: str, key: str) -> Iterator[Any]:
    """The modules that doors name so for the key."""
    return (import_module(modules[key]) for modules in added(name) if key in modules)


def hints(environ: Mapping[str, str]) -> list[Any]:
    """The stores that doors open so, where there is room for them."""
    return [store for open_store in added("hints") if (store := open_store(environ))]
