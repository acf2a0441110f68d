"""Inputs of a module that are neither words of the command nor files: variables, and the machine's processor.

A variable counts if iree-compile can read it by name (`direct/variables`). The processor matters for
`--iree-llvmcpu-target-cpu=host`, and for constants that are computed on it during compilation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hipcache.direct import variables
from hipcache.errors import PassThrough
from hipcache.inputs.keys import digest_bytes
from hipcache.inputs.memos import Memos
from hipcache.planning.answers import VOLATILE

# Their effects are seen otherwise: the observer sees programs that are looked for, the output names the directory.
_SEEN = frozenset(["PATH", "PWD"])
_CPUINFO = "/proc/cpuinfo"
_LINES = (b"model name", b"flags", b"Features", b"CPU part")


def parts(environ: Mapping[str, str], tools: Mapping[str, tuple[str, ...]], memos: Memos) -> Iterator[tuple[str, str]]:
    """Parts of a key. `tools`: digest -> files. Raises PassThrough."""
    never = variables.never_asked(environ, tools, memos)
    for name in sorted(environ.keys() - never - VOLATILE - _SEEN):
        if not name.startswith("HIPCACHE_"):
            yield f"variable {name}", environ[name]
    yield "processor", _processor()


def _processor() -> str:
    """The description of the first processor; all of a machine are alike."""
    try:
        with open(_CPUINFO, "rb") as file:
            first = file.read().partition(b"\n\n")[0]
    except OSError as error:
        raise PassThrough("tool", f"'{_CPUINFO}': {error.strerror}") from error
    return digest_bytes(b"\n".join(line for line in first.splitlines() if line.startswith(_LINES)))
