"""The files that the user gets, each written completely or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hipcache.base.errors import PassThrough, passing_through
from hipcache.base.files import write_whole
from hipcache.build import ActionId, ActionOutput, Delivery, Dependency, DependencyRule, End, Graph, depfile, ended
from hipcache.build.storage import ContentStore

# Files that appear in the user's tree: where they can be written, and how.


def check_places(paths: Iterable[str]) -> None:
    """If the object cannot be written, clang fails and leaves nothing beside it."""
    for path in paths:
        is_special = os.path.exists(path) and not os.path.isfile(path)  # /dev/null
        kept = os.path.lexists(path) and os.path.isfile(path) and not os.access(path, os.W_OK)
        directory = os.path.dirname(path)
        can_be_made = os.path.isdir(directory) and os.access(directory, os.W_OK)
        if kept or os.path.isdir(path) or not (is_special or can_be_made):
            raise PassThrough("output", f"'{path}' cannot be written")


def write_file(path: Path, content: bytes, *, through_links: bool = False) -> None:
    """Raises PassThrough."""
    with passing_through("output", str(path)):
        write_whole(path, content, through_links=through_links)


def clean_up(output: str) -> None:
    """As the driver does after a job that failed (`Compilation::CleanupFile`); a linker may leave an old program."""
    if os.path.isfile(output) and os.access(output, os.W_OK):
        os.unlink(output)


def deliver(graph: Graph, ends: Mapping[ActionId, End], contents: ContentStore) -> set[ActionId]:
    """Write the dependency files and all that is delivered; the actions whose content is lost. Raises PassThrough."""
    check_places(delivery.path for delivery in graph.deliveries)
    for rule in graph.rules:
        _write_rule(rule, rule_text(rule, ends))
    lost = set()
    for delivery in written(graph, ends):
        path, output, end = Path(delivery.path), delivery.output, ends[delivery.output.action]
        if output.name in end.held:
            write_file(path, end.held[output.name].read(), through_links=delivery.through_links)
        elif delivery.through_links and os.path.lexists(path):
            content = contents.read(end.hash(output.name))
            if content is not None:
                write_file(path, content, through_links=True)
            else:
                lost.add(output.action)
        elif not contents.copy(end.hash(output.name), path):
            lost.add(output.action)
        if delivery.executable:
            _make_executable(path)
    return lost


def written(graph: Graph, ends: Mapping[ActionId, End]) -> list[Delivery]:
    """The outputs to deliver: of two in one place the later one that was written."""
    last = {
        delivery.path: delivery
        for delivery in graph.deliveries
        if _is_there(delivery.output, ends[delivery.output.action])
    }
    return list(last.values())


def _is_there(output: ActionOutput, end: End) -> bool:
    return any(output.name in made for made in (end.held, end.result.outputs, end.result.passing))


def _make_executable(path: Path) -> None:
    """As lld does: who may read it may run it."""
    with suppress(OSError):
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            path.chmod(stat.S_IMODE(status.st_mode) | (status.st_mode & 0o444) >> 2)


# The dependency file that a compile was asked for: from its options, and what the passes read.


def rule_text(rule: DependencyRule, ends: Mapping[ActionId, End]) -> bytes:
    """Raises PassThrough."""
    return _text(rule, [end.result.files for end in (ended(ends, slot) for slot in rule.slots) if end])


def _text(rule: DependencyRule, passes: Sequence[Sequence[Dependency]]) -> bytes:
    names = depfile.union([[file.path for file in read if rule.everything or not file.system] for read in passes])
    if any(";" in name or "\n" in name for name in names):
        # The store says what was read, and others may write there: make runs what stands behind such a name.
        raise PassThrough("side_output", "a header name that make would read as a command")
    return os.fsencode(depfile.write(rule.targets, names, phony=rule.phony, clang=rule.clang))


def write_lists(rule: DependencyRule, passes: Sequence[Sequence[Dependency]]) -> None:
    """Write the file with what these passes have read. Raises PassThrough."""
    _write_rule(rule, _text(rule, passes))


def _write_rule(rule: DependencyRule, content: bytes) -> None:
    """Write as clang does, which replaces an object, and writes into a dependency file that is there."""
    if os.path.isfile(rule.path) and not os.access(rule.path, os.W_OK):
        raise PassThrough("output", f"'{rule.path}' cannot be written")
    write_file(Path(rule.path), content, through_links=True)
