"""Invocation manifests: what a whole command came to, as a team shares it, so that it can be fetched before it runs.

A direct record is found by the command as it was typed, and a list of commands such as compile_commands.json leaves out
the options of dependency files. So the manifest is kept under a key without these, and without offload archs: one
manifest for a command, whatever archs it is for.

Format, JSON:

    {"invocations": [{"argv": [word, ...], "record": hash, "needs": [hash, ...], "reads": [[path, hash], ...],
                      "tools": [path, ...], "everywhere": bool}, ...],
     "asked": [key, ...]}

The newest invocation is the first. With HIPCACHE_BASEDIR a mark stands for it in words and paths.

    argv        the command; where its direct record belongs follows from it (a manifest names no place in the store)
    record      the direct record, without what is of one machine, as a content
    needs       the contents that the record names
    reads       files of the project and their contents: a hint whether the record is worth its bytes
    tools       the files of the programs that ran; none where any variable may matter
    everywhere  is it the record for every checkout (`direct/elsewhere`)?
    asked       the keys that the command has asked for: what it needs where the record does not hold
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache

from hipcache import __version__
from hipcache.cache import exchange
from hipcache.inputs.keys import digest_file, is_digest, make_key
from hipcache.settings_files import project_file
from hipcache.values import dataclass, replace

# Of one command: it may be for other archs in another configuration.
MOST_INVOCATIONS, MOST_ASKED, MOST_NEEDS, MOST_READS = 2, 512, 64, 4096
_START = b'{"invocations":'
_ALONE = frozenset(["-MD", "-MMD", "-MP", "-MV"])
_WITH_VALUE = ("-MF", "-MT", "-MQ")
_ARCHES = ("--offload-arch=", "--cuda-gpu-arch=")


@dataclass(frozen=True)
class Invocation:
    argv: tuple[str, ...]
    record: str
    needs: tuple[str, ...]
    reads: tuple[tuple[str, str], ...]
    tools: tuple[str, ...] = ()
    everywhere: bool = False

    @property
    def contents(self) -> tuple[str, ...]:
        return (self.record, *self.needs)

    @property
    def arches(self) -> list[str]:
        return arches(self.argv)


@dataclass(frozen=True)
class Manifest:
    invocations: tuple[Invocation, ...] = ()
    asked: tuple[str, ...] = ()

    def pack(self) -> bytes:
        invocations = [
            {
                "argv": one.argv,
                "record": one.record,
                "needs": one.needs,
                "reads": one.reads,
                "tools": one.tools,
                "everywhere": one.everywhere,
            }
            for one in self.invocations
        ]
        return json.dumps({"invocations": invocations, "asked": self.asked}, separators=(",", ":")).encode("ascii")


def arches(argv: Sequence[str]) -> list[str]:
    """As the command names them."""
    named = [word.partition("=")[2].split(",") for word in argv if word.startswith(_ARCHES)]
    return list(dict.fromkeys(arch for some in named for arch in some if arch))


def is_manifest(record: bytes) -> bool:
    return record.startswith(_START)


def outputs(record: bytes) -> list[str] | None:
    """The contents of a manifest, or as of `exchange`."""
    if not is_manifest(record):
        return exchange.outputs(record)
    return list(dict.fromkeys(name for one in unpack(record).invocations for name in one.contents)) or None


@lru_cache(maxsize=128)
def unpack(record: bytes | None) -> Manifest:
    """An empty one for what is none."""
    try:
        found = json.loads(record or b"{}")
        invocations = tuple(
            Invocation(
                tuple(one["argv"]),
                one["record"],
                tuple(one["needs"]),
                tuple((path, digest) for path, digest in one["reads"]),
                tuple(one["tools"]),
                bool(one["everywhere"]),
            )
            for one in found["invocations"]
        )
        manifest = Manifest(invocations[:MOST_INVOCATIONS], tuple(found["asked"])[:MOST_ASKED])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Manifest()
    return manifest if all(map(_is_good, manifest.invocations)) and all(map(is_digest, manifest.asked)) else Manifest()


def merged(first: Manifest, second: Manifest) -> Manifest:
    """Both; of one command the first's counts."""
    known = {one.argv for one in first.invocations}
    more = (*first.invocations, *(one for one in second.invocations if one.argv not in known))
    asked = tuple(dict.fromkeys((*first.asked, *second.asked)))
    return replace(first, invocations=more[:MOST_INVOCATIONS], asked=asked[:MOST_ASKED])


def key(argv: Sequence[str], cwd: str, portable: Callable[[str], str]) -> str:
    """Of the manifest of a command. `portable` puts the mark in the base directory's place."""
    words = [word for word in plain(argv) if not word.startswith(_ARCHES)]
    inputs = [("version", __version__), ("directory", portable(cwd)), *(("word", portable(word)) for word in words)]
    project = project_file(cwd)
    if project:  # who has another one has other settings
        with suppress(OSError):
            inputs += [("settings", portable(str(project))), ("settings", digest_file(project))]
    return make_key("invocation manifest", inputs).digest


def plain(argv: Iterable[str]) -> tuple[str, ...]:
    """The command without options of dependency files."""
    found = []
    words = iter(argv)
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif word not in _ALONE and not word.startswith(_WITH_VALUE):
            found.append(word)
    return tuple(found)


def behind_launchers(argv: Sequence[str]) -> tuple[str, ...]:
    """The command of the compiler, where hipcache stands before it."""
    words = list(argv)
    while words and os.path.basename(words[0]) == "hipcache":
        del words[0]
    return tuple(words)


def _is_good(one: Invocation) -> bool:
    sizes_are_good = bool(one.argv) and len(one.needs) <= MOST_NEEDS and len(one.reads) <= MOST_READS
    texts = (*one.argv, *one.tools, *(path for path, _ in one.reads))
    hashes = (*one.contents, *(digest for _, digest in one.reads))
    return sizes_are_good and all(isinstance(text, str) for text in texts) and all(map(is_digest, hashes))
