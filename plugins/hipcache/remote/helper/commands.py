"""The commands that a build asks for: the one that the native program asks about, and those of a list of the build.

The native program (`native/launcher/helper.c`) asks: is the result of this command to be had?

asked     "ask ", bytes of the rest, blank, number of words, newline; then, each followed by NUL: the working
          directory, the words of the command as typed, the variables as NAME=VALUE
answer    "y": its direct record is in the local store.  "n": it is not.  Before that, now and then, a newline,
          which says that the helper is at it
"""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO

from hipcache.base.errors import HipcacheError
from hipcache.base.values import dataclass
from hipcache.clang import tools
from hipcache.clang.assembler import WORTH
from hipcache.remote import invocation

# Words of a compile of HIP; those of the target of AMD's GPUs, and of their assembler.
_LANGUAGE = frozenset(["hip", "-xhip", "--language=hip"])
_GPU = ("amdgcn", "--target=amdgcn")
_ASSEMBLER = frozenset(["assembler", "-xassembler", "--language=assembler"])
_HINT = "name the build's compile_commands.json: CMake writes it with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
ASK, AHEAD = b"ask ", b"ahead "
YES, NO = b"y", b"n"
_MOST = 4 << 20


@dataclass(frozen=True)
class Question:
    ahead: bool
    argv: tuple[str, ...]
    cwd: str
    environ: Mapping[str, str]


def read_question(line: bytes, rest: BinaryIO) -> Question:
    """Raises ValueError for what is no question, and OSError."""
    size, words = map(int, line.split()[1:])
    if not (0 < size <= _MOST and words > 0):
        raise ValueError("no size of a question")
    text = rest.read(size)
    if len(text) != size or not text.endswith(b"\0"):
        raise ValueError("a question that is cut")
    parts = [os.fsdecode(part) for part in text[:-1].split(b"\0")]
    if len(parts) <= words:
        raise ValueError("too few words")
    pairs = [part.partition("=") for part in parts[1 + words :]]
    return Question(
        line.startswith(AHEAD), tuple(parts[1 : 1 + words]), parts[0], {name: value for name, _, value in pairs}
    )


@dataclass(frozen=True)
class Listed:
    """A command of a build, without hipcache before it, and the directory that it runs in. `parts`: who runs it puts it
    together of the results that it asks for, and has no use for the whole (see `hipcache_scons/ahead`)."""

    argv: tuple[str, ...]
    cwd: str
    parts: bool = False


def listed(path: str) -> list[Listed]:
    """The compiles of HIP in a compilation database (https://clang.llvm.org/docs/JSONCompilationDatabase.html). Raises
    HipcacheError."""
    try:
        # A pipe may never say anything.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise HipcacheError(f"cannot read '{path}': it is not a file", _HINT)
            return chosen(json.loads(file.read().decode("utf-8", "surrogateescape")))
    except OSError as error:
        raise HipcacheError(f"cannot read '{path}': {error.strerror}", _HINT) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HipcacheError(f"'{path}' is not a list of compile commands: {error!r}", _HINT) from error


def chosen(entries: Iterable[dict[str, object]]) -> list[Listed]:
    """The compiles of HIP among them. Raises ValueError, KeyError, TypeError, AttributeError for what is no entry."""
    found = dict.fromkeys(_listed(entry) for entry in entries)
    return [listed for listed in found if "-c" in listed.argv and not is_plain(listed.argv) and _can_be(listed)]


def is_plain(argv: Sequence[str]) -> bool:
    """Is it certainly a compile, and certainly not HIP? As `native/launcher/launcher.c` has it."""
    words = argv[1:]
    return (
        "-c" in words
        and not tools.is_hipcc(tools.behind(argv)[0])
        and not any(word in _LANGUAGE or word.endswith(".hip") or word.startswith("@") for word in words)
        and not _assembles_for_gpu(words)
    )


def _assembles_for_gpu(words: Sequence[str]) -> bool:
    """Perhaps (`clang/assembler` knows), and is it worth it?"""
    return (
        any(word.startswith(_GPU) for word in words)
        and any(word in _ASSEMBLER or word.endswith(".s") for word in words)
        and any(os.path.isfile(word) and os.path.getsize(word) >= WORTH for word in words)
    )


def _can_be(listed: Listed) -> bool:
    """Could these be the words and the directory of a process? JSON has halves of characters, too."""
    try:
        return b"\0" not in b"".join(map(os.fsencode, (*listed.argv, listed.cwd)))
    except UnicodeError:
        return False


def _listed(entry: dict[str, object]) -> Listed:
    given = entry.get("arguments")
    words = [str(word) for word in given] if isinstance(given, list) else shlex.split(str(entry["command"]))
    argv = invocation.behind_launchers(words)
    return Listed(argv, os.path.realpath(str(entry["directory"])), entry.get("parts") is True)
