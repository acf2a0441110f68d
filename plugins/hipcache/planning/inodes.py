"""Names with the number of a file in them: static device variables of an object without a CUID.

With -fgpu-rdc the host's code names them, so each object needs a name of its own. Where it has no CUID (the new offload
driver up to clang 19, -fuse-cuid=none), clang takes the inode and the device of the file that the variable stands in:
`.static.<inode><device>_<hash of macros>` (`printPostfixForExternalizedDecl`, clang/lib/CodeGen/CodeGenModule.cpp). All
passes of an object must have seen the same file then, not only the same content: the source's number is in their keys,
and what names another file (a header) is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from hipcache.inputs.trace import Files
from hipcache.patterns import pattern
from hipcache.planning.cc1 import Role
from hipcache.planning.jobs import Cc1Job

_NUMBER = pattern(rb"\.(?:static|intern)\.([0-9a-f]+)_")
_WIDTH = 0xFFFFFFFF  # they are printed with %x


def keyed(job: Cc1Job, files: Files) -> Iterable[tuple[str, str]]:
    """The inode of the source, as a part of a pass's key; nothing if no name depends on it."""
    number = _number(job, files)
    return [("number of the source's file", number)] if number else []


def names_another_file(job: Cc1Job, files: Files, output: bytes) -> bool:
    """Does the output have a name by another file than the source in it?"""
    number = _number(job, files)
    return bool(number) and any(found != number.encode() for found in _NUMBER.findall(output))


def _number(job: Cc1Job, files: Files) -> str:
    """Empty if no name depends on it."""
    if job.value(Role.CUID) or all(option.name != "-fgpu-rdc" for option in job.options):
        return ""
    try:
        device, inode, *_ = files.numbered(job.value(Role.INPUT))
    except OSError:
        return "none"  # the compiler says why
    return f"{inode & _WIDTH:x}{device & _WIDTH:x}"
