"""Compiles that are certainly not HIP, with default settings: count them, and become the compiler.

A project that compiles HIP as C++ sends all its C++ through hipcache. The launcher would find out the same about a
plain source, but what it imports for that takes longer (25 ms) than Python's own start (9 ms). So nothing is imported
here that Python has not loaded anyway, and whatever is not plain at first sight is left to the launcher.
"""

from __future__ import annotations

import binascii
import fcntl
import os
import signal
from collections.abc import Mapping, Sequence

from hipcache.disk.confined import MOST_STATISTICS, Confined
from hipcache.planning import tools
from hipcache.report import checks

_LANGUAGE = frozenset(["hip", "-xhip", "--language=hip"])
# The target of AMD's GPUs, as a word of its own or not, and their assembler.
_GPU = ("amdgcn", "--target=amdgcn")
_ASSEMBLER = frozenset(["assembler", "-xassembler", "--language=assembler"])
_WORTH = 1 << 18  # planning/assembler.py: WORTH
# The line that `statistics` would write, and the size of its log from which on it must look after it.
TEXT = b"passed_through\tnot_hip\t0"
TEXT_OF_CHECK = TEXT + b"\tconfigure check ..."
_LARGE = 1000 * 1024
# Settings that do not affect such a compile.
_HARMLESS = frozenset(f"HIPCACHE_{name}" for name in ("DIR", "REMOTE", "RESIDENT", "SYSTEM_PATHS", "UMASK", "VERIFY"))


def pass_by(argv: list[str], environ: Mapping[str, str]) -> None:
    """Become the compiler if nothing else is needed; otherwise do nothing and return. Raises OSError."""
    if not is_plain(argv) or any(name.startswith("HIPCACHE_") and name not in _HARMLESS for name in environ):
        return
    store = environ.get("HIPCACHE_DIR") or _below(environ, "XDG_CACHE_HOME", ".cache")
    config = _below(environ, "XDG_CONFIG_HOME", ".config") + "/hipcache.yaml"
    program = tools.which(argv[0], "", environ)
    known = store.startswith("/") and config.startswith("/") and program
    if not known or os.path.lexists(config):
        return
    if not os.access(program, os.X_OK) or not _count(store, TEXT_OF_CHECK if is_check(argv, os.getcwd()) else TEXT):
        return
    # Python ignores these two signals, and an ignored signal stays ignored after exec.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execv(program, argv)


def is_plain(argv: Sequence[str]) -> bool:
    """Is it certainly a compile, and certainly not HIP?"""
    words = argv[1:]
    return (
        "-c" in words
        and not tools.is_hipcc(tools.behind(argv)[0])
        and not any(word in _LANGUAGE or word.endswith(".hip") or word.startswith("@") for word in words)
        and not _assembles_for_gpu(words)
    )


def is_check(argv: Sequence[str], directory: str) -> bool:
    """A configure check, by its output?"""
    output = argv[argv.index("-o") + 1 :][:1] if "-o" in argv else []
    return checks.is_check(os.path.join(directory, *output))


def _assembles_for_gpu(words: Sequence[str]) -> bool:
    """Perhaps (`planning/assembler` knows), and is it worth it?"""
    return (
        any(word.startswith(_GPU) for word in words)
        and any(word in _ASSEMBLER or word.endswith(".s") for word in words)
        and any(_size(word) >= _WORTH for word in words if not word.startswith("-"))
    )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _below(environ: Mapping[str, str], variable: str, below_home: str) -> str:
    base = environ.get(variable, "")
    return f"{base if base.startswith('/') else environ.get('HOME', '') + '/' + below_home}/hipcache"


def _count(root: str, text: bytes) -> bool:
    """Append to the log of the statistics; False if that takes more than one write."""
    content = b"\n%08x\t%s\n" % (binascii.crc32(text), text)
    store = Confined(root)
    try:
        lock = store.open("statistics/lock", MOST_STATISTICS, os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            log = store.open("statistics/log", _LARGE, os.O_WRONLY | os.O_APPEND)
            try:
                return os.write(log, content) == len(content)
            finally:
                os.close(log)
        finally:
            os.close(lock)
    except OSError:
        return False
