"""The dependency file that a compile was asked for: from its options, and what the passes read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hipcache.delivery import files
from hipcache.errors import PassThrough
from hipcache.making import depfile
from hipcache.model import Dependency, End, Rule, Slot, ended
from hipcache.planning.cc1 import Role
from hipcache.planning.plan import Plan
from hipcache.planning.streams import is_stream


def of(plan: Plan, slots: tuple[Slot, ...], path: Callable[[str], str]) -> tuple[Rule, ...]:
    """`slots`: passes in the order of what is listed; `path` makes a name absolute. Raises PassThrough."""
    options = [option for option in plan.first.options if option.role is Role.DEPENDENCIES]
    name = plan.dependency_file
    if not name:
        return ()
    whole = path(name)
    if name == "-" or (is_stream(whole) and os.path.realpath(whole) != os.devnull):
        raise PassThrough("standard_streams", f"-MF {name}")  # a rule for each pass
    targets = [o.value if o.name == "-MT" else depfile.quote(o.value) for o in options if o.name in ("-MT", "-MQ")]
    everything = any(option.role is Role.DEPENDENCY_STYLE for option in plan.first.options)
    phony = any(option.name == "-MP" for option in options)
    return (Rule(whole, tuple(targets), slots, everything, phony, plan.clang),)


def text(rule: Rule, ends: Mapping[str, End]) -> bytes:
    """Raises PassThrough."""
    return _text(rule, [end.result.files for end in (ended(ends, slot) for slot in rule.slots) if end])


def _text(rule: Rule, passes: Sequence[Sequence[Dependency]]) -> bytes:
    names = depfile.union([[file.path for file in read if rule.everything or not file.system] for read in passes])
    if any(";" in name or "\n" in name for name in names):
        # The store says what was read, and others may write there: make runs what stands behind such a name.
        raise PassThrough("side_output", "a header name that make would read as a command")
    return os.fsencode(depfile.write(rule.targets, names, phony=rule.phony, clang=rule.clang))


def write(rule: Rule, ends: Mapping[str, End]) -> None:
    """Raises PassThrough."""
    _write(rule, text(rule, ends))


def write_lists(rule: Rule, passes: Sequence[Sequence[Dependency]]) -> None:
    """The same of what these passes read. Raises PassThrough."""
    _write(rule, _text(rule, passes))


def _write(rule: Rule, content: bytes) -> None:
    """Write as clang does, which replaces an object, and writes into a dependency file that is there."""
    if os.path.isfile(rule.path) and not os.access(rule.path, os.W_OK):
        raise PassThrough("output", f"'{rule.path}' cannot be written")
    files.write(Path(rule.path), content, through_links=True)
