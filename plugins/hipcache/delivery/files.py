"""Files that appear in the user's tree: where they can be written, and how."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from hipcache.disk import atomic
from hipcache.errors import PassThrough
from hipcache.model import Delivery, End, Graph, Output
from hipcache.storage import ContentStore


def check_places(paths: Iterable[str]) -> None:
    """If the object cannot be written, clang fails and leaves nothing beside it."""
    for path in paths:
        is_special = os.path.exists(path) and not os.path.isfile(path)  # /dev/null
        kept = os.path.lexists(path) and os.path.isfile(path) and not os.access(path, os.W_OK)
        directory = os.path.dirname(path)
        can_be_made = os.path.isdir(directory) and os.access(directory, os.W_OK)
        if kept or os.path.isdir(path) or not (is_special or can_be_made):
            raise PassThrough("output", f"'{path}' cannot be written")


def write(path: Path, content: bytes, *, through_links: bool = False) -> None:
    """Raises PassThrough."""
    try:
        atomic.write_whole(path, content, through_links=through_links)
    except OSError as error:
        raise PassThrough("output", f"'{path}': {error.strerror}") from error


def clean_up(output: str) -> None:
    """As the driver does after a job that failed (`Compilation::CleanupFile`); a linker may leave an old program."""
    if os.path.isfile(output) and os.access(output, os.W_OK):
        os.unlink(output)


def deliver(graph: Graph, ends: Mapping[str, End], contents: ContentStore) -> set[str]:
    """Write what the user gets, each file whole or not at all; the actions whose content is lost."""
    lost = set()
    for one in written(graph, ends):
        path, output, end = Path(one.path), one.output, ends[one.output.action]
        if output.name in end.held:
            write(path, end.held[output.name].read(), through_links=one.through_links)
        elif one.through_links and os.path.lexists(path):
            content = contents.read(end.hash(output.name))
            if content is not None:
                write(path, content, through_links=True)
            else:
                lost.add(output.action)
        elif not contents.copy(end.hash(output.name), path):
            lost.add(output.action)
        if one.executable:
            _make_executable(path)
    return lost


def written(graph: Graph, ends: Mapping[str, End]) -> list[Delivery]:
    """The outputs to deliver: of two in one place the later one that was written."""
    last = {one.path: one for one in graph.deliveries if _is_there(one.output, ends[one.output.action])}
    return list(last.values())


def _is_there(output: Output, end: End) -> bool:
    return output.name in end.held or output.name in end.result.outputs


def _make_executable(path: Path) -> None:
    """As lld does: who may read it may run it."""
    with suppress(OSError):
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            path.chmod(stat.S_IMODE(status.st_mode) | (status.st_mode & 0o444) >> 2)
