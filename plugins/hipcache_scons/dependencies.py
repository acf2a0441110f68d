"""Real dependency lists as implicit dependencies: SCons' nodes of the files that the passes of a compile read.

A scanner guesses; the compiler knows, but only after the compile. So, as ninja does with its deps log: when an object
has been built, its implicit dependencies become what was really read, *before* SCons writes its signatures
(`settle`). The next run takes that list from SCons' own database (`stored`, as `--implicit-cache` does), and what
the C scanner finds comes on top: headers that are generated have to be built first, and a variant directory copies
only what it knows of. Since both runs put the list together in the same way, the second one is up to date.

Rejected: a dependency file read with ParseDepends (one build late, since its nodes have no signatures in the run that
makes the object); a scanner that follows `#include` (knows neither device-only headers of the system nor macros).

Everything here runs where SCons scans and writes signatures: in its main thread, or in newer releases in whichever
thread holds the lock of its task master. Nodes may be made nowhere else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from hipcache.base.times import change_limit
from hipcache.base.values import dataclass


def locate(name: str, cwd: str) -> str:
    """The absolute path of a file as SCons may know it, which takes `..` out by text alone: clang writes
    /bin/../lib/gcc/..., where /bin is a link, and that would be another file."""
    path = os.path.join(cwd, name)
    plain = os.path.normpath(path)
    if ".." not in path.split(os.sep):
        return plain
    with suppress(OSError):
        if os.path.samefile(plain, path):
            return plain
    directory, base = os.path.split(path)
    return os.path.join(os.path.realpath(directory), base)


@dataclass(frozen=True)
class Reads:
    """The files that the compile of an object read: absolute paths, and when it began (seconds of the epoch)."""

    files: tuple[str, ...]
    started: float


def stored(target: Any) -> list[Any]:
    """The implicit dependencies of the last build, but for files that are gone: then SCons sees a shorter list, and
    rebuilds, instead of failing for want of them."""
    nodes = target.get_stored_implicit() or []
    return [node for node in nodes if node.is_derived() or node.rexists()]


def settle(target: Any, sources: Sequence[Any], programs: Iterable[Any], reads: Reads) -> list[str]:
    """Let the implicit dependencies of `target`, which was just built, be what was read. `programs`: those of its
    command, which SCons puts after what the scanner finds. Returns the paths of those that have changed since the
    compile began: another compile may sign them as they are now, and SCons has one signature of a file for all."""
    scanner = target.builder.source_scanner
    env = target.get_build_env()
    scanned = [
        node for source in sources for node in source.get_implicit_deps(env, scanner, target.get_build_scanner_path)
    ]
    # In a variant directory the source that is compiled may be another file than the node.
    explicit = {str(node.get_abspath()) for source in sources for node in (source, source.rfile(), source.srcnode())}
    read = [target.fs.File(path) for path in reads.files if path not in explicit]
    # Of a header in a variant directory below its sources SCons' finder makes a second node (Dir.srcdir_find_file).
    by_path: dict[str, Any] = {}
    for node in (*scanned, *programs, *read):
        by_path.setdefault(str(node.get_abspath()), node)
    nodes = list(by_path.values())
    for node in nodes:
        _sign(node, reads.started)
    target.implicit = nodes
    target.implicit_set = set(nodes)
    return [
        str(node) for node in nodes if not node.is_derived() and _has_changed(str(node.get_abspath()), reads.started)
    ]


def _has_changed(path: str, started: float) -> bool:
    """Not by the node's own status, which SCons keeps from its first look at the file; nor by the change time, which is
    new with each link that SCons makes in a variant directory; and a time to come is no change."""
    try:
        found = os.stat(path)
    except OSError:
        return False  # SCons rebuilds for what is gone
    return change_limit(started) <= found.st_mtime_ns <= time.time_ns()


def _sign(node: Any, started: float) -> None:
    """A file that no builder makes and that SCons has not met in this run has no signature yet."""
    info = node.get_ninfo()
    if node.is_derived() or hasattr(info, "csig"):
        return
    with suppress(OSError):  # it is gone already
        if node.exists() and node.get_timestamp() <= started:
            info.update(node)
    # Else it was written while the compiler ran: without a signature it counts as changed the next time.
