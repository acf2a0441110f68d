"""The program `hipcache`: a subcommand when the first word is one, a compiler's stand-in otherwise.

A compile goes through here, so nothing is imported before it is known to be needed.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress

from hipcache import STORAGE_HELPER, VERBS

# The native launcher passes this word before a command that was a direct hit and is to be compared.
SERVED = "--served"
# New objects after which Python looks for circles that nothing refers to: 700 is its own choice, for which it looks 40
# times while the modules of a compile are loaded (4 ms).
_GARBAGE = 100_000
# Where the locale is C, Python sets LC_CTYPE to the first of these that there is (PEP 538).
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")


def main(argv: list[str] | None = None) -> int:
    _end_by_interrupt()
    gc.set_threshold(_GARBAGE)
    as_program = argv is None
    if as_program:
        _restore_locale()
        _show_command()
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        _open_standard_streams()
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == [STORAGE_HELPER]:
        from hipcache.base import features

        return next((helper.serve(argv[1:], os.environ) for helper in features.modules("STORAGE_HELPER")), 1)
    if argv[:1] == [SERVED]:
        from hipcache.app.launch import check_served

        return check_served(argv[1:], os.environ)
    if not argv or argv[0] in VERBS or argv[0] == "help" or argv[0].startswith("-"):
        from hipcache.cli import run

        signal.signal(signal.SIGINT, signal.default_int_handler)
        return run(argv, os.environ, sys.stdout, sys.stderr)
    if not argv[0]:
        print("hipcache: the compiler is an empty word\n  is a variable such as CXX unset?", file=sys.stderr)
        return 127
    if "/" not in argv[0]:
        there = _on_path(argv[0])
        # `stat` is a program, but no compiler: no compiler has anything to do without arguments.
        likeness = (0.85 if len(argv) == 1 else 1) if there else 0.7
        near = _nearest_subcommand(argv[0], likeness) if likeness < 1 else ""
        if near or not there:
            return _say_unknown(argv[0], near)

    try:
        from hipcache.app.launch import launch

        status = launch(argv, os.environ)
    except Exception as error:
        # A package that hipcache needs is gone, or is another one; modules of two versions have met while hipcache is
        # upgraded; or this process may have too few files or too little memory even to start: the build goes on
        # without the cache.
        what = f"hipcache: cannot start: {error}\n  reinstall hipcache, or raise the limits ('ulimit -a')\n"
        with suppress(OSError):
            os.write(2, os.fsencode(what))
        os.execvp(argv[0], argv)
    if as_program:
        _end(status)
    return status


def _end(status: int) -> None:
    """End this process without taking down all modules one by one (8 ms); nothing waits for that, since each thread is
    a daemon. If something printed cannot be written, return: Python tells that when it ends by itself."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(status)


def _restore_locale() -> None:
    """Have LC_CTYPE as it was given: Python's own would reach the compiler. (So would PYTHONCOERCECLOCALE=0.)
    native/launcher/engine.c and hatch_build.py do the same for a package that is not there."""
    if os.environ.get("LC_CTYPE") not in _COERCED:
        return
    with suppress(OSError), open("/proc/self/environ", "rb") as file:
        given = [entry[9:] for entry in file.read().split(b"\0") if entry[:9] == b"LC_CTYPE="]
        os.environb.pop(b"LC_CTYPE")
        os.environb.update((b"LC_CTYPE", value) for value in given[:1])


def _show_command() -> None:
    """Have `ps` show this command without the words before it, which start Python, and `top` its name: the kernel
    reads them in this process's own memory (proc(5): arg_start, arg_end)."""
    before = len(sys.orig_argv) - len(sys.argv)
    if before <= 0 or sys.orig_argv[before:] != sys.argv:
        return
    with suppress(ImportError, LookupError, OSError, ValueError):
        import ctypes

        with open("/proc/self/stat", "rb") as file:
            start, end = (int(field) for field in file.read().rpartition(b")")[2].split()[45:47])
        words = ctypes.string_at(start, end - start).split(b"\0", before)
        ctypes.memmove(start, words[before].ljust(end - start, b"\0"), end - start)
        with open("/proc/self/comm", "wb") as file:
            file.write(os.fsencode(os.path.basename(sys.argv[0])))


def _end_by_interrupt() -> None:
    """Let Ctrl-C end this process without Python's traceback, as it ends a compiler. The native launcher has held the
    signal back until here."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def _open_standard_streams() -> None:
    """Make those that are closed /dev/null, as clang does: a file that is opened later would get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            try:
                null = os.open(os.devnull, os.O_RDWR)
            except OSError:
                null = os.open("/", os.O_RDONLY)  # a container without it: nothing is read from it, nor written to it
            os.set_inheritable(null, True)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _on_path(word: str) -> bool:
    # shutil.which would do; its import alone (bz2, lzma) takes as long as all of these calls.
    directories = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(directory, word), os.X_OK) for directory in directories)


def _say_unknown(word: str, near: str) -> int:
    """Neither a verb nor a program: nothing is compiled, and nothing counted."""
    from hipcache.app import ending

    hint = (
        f"did you mean 'hipcache {near}'?"
        if near
        else ending.hint_for_missing(word, os.environ.get("PATH", os.defpath))
    )
    print(f"hipcache: '{word}' is neither a subcommand nor a compiler on PATH\n  {hint}", file=sys.stderr)
    return 2 if near else 127


def _nearest_subcommand(word: str, likeness: float) -> str:
    from hipcache.base.errors import nearest

    return nearest(word.lower(), (*VERBS, "help"), likeness)


if __name__ == "__main__":
    sys.exit(main())
