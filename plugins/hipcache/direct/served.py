"""Objects that a direct hit made of a compile in another checkout, which leaves no history of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

from hipcache.config import Config
from hipcache.direct import elsewhere
from hipcache.direct.record import Output
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.keys import digest_file
from hipcache.report.history import History, Record
from hipcache.report.outcome import HIT
from hipcache.store.local import open_store
from hipcache.values import replace


def compile_of(path: str, history: History, settings: Config) -> Record | None:
    """The hit that made the file at absolute `path`, told by the compile whose outputs it was given: that compile's
    record for every checkout has this file, with its content. None if there is no such compile."""
    try:
        status, digest = os.stat(path), digest_file(path)
    except OSError:
        return None
    store = open_store(settings, read_only=True)
    last = os.path.basename(path)
    for record in history.each():
        if os.path.basename(record.object) != last:
            continue
        for here, there in _bases(path, record.object):
            output = Output(Basedir(here).portable(path), digest, os.access(path, os.X_OK)).pack(status.st_size)
            if output in (store.get_action(elsewhere.key(record.command, record.directory, there)) or b""):
                units = tuple(replace(unit, hit=True, why=()) for unit in record.units)
                notes = (f"taken from the compile of '{record.object}'",)
                return replace(record, object=path, when=status.st_mtime, outcome=HIT, notes=notes, units=units)
    return None


def _bases(one: str, other: str) -> Iterator[tuple[str, str]]:
    """Pairs of directories in which the two paths have the same name."""
    while os.path.basename(one) == os.path.basename(other) and os.path.dirname(one) != one:
        one, other = os.path.dirname(one), os.path.dirname(other)
        yield one, other
