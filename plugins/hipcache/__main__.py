"""The program `hipcache`: a subcommand when the first word is one, a compiler's stand-in otherwise.

A compile goes through here, so nothing is imported before it is known to be needed.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

SUBCOMMANDS = ("stats", "explain", "doctor", "gc", "clear", "verify", "config")
# What the native launcher says where the command that follows was a direct hit, and is to be compared.
SERVED = "--served"


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        _open_standard_streams()
    if argv[:1] == [SERVED]:
        from hipcache.launcher import check_served

        return check_served(argv[1:], os.environ)
    if not argv or argv[0] in SUBCOMMANDS or argv[0].startswith("-"):
        from hipcache.cli import run

        return run(argv, os.environ, sys.stdout, sys.stderr)
    if "/" not in argv[0]:
        # `stat` is a program, but no compiler: no compiler has anything to do without arguments.
        likeness = (0.85 if len(argv) == 1 else 1) if _on_path(argv[0]) else 0.7
        nearest = _nearest_subcommand(argv[0], likeness) if likeness < 1 else ""
        if nearest:
            print(
                f"hipcache: '{argv[0]}' is neither a subcommand nor a compiler on PATH\n"
                f"  did you mean 'hipcache {nearest}'?",
                file=sys.stderr,
            )
            return 2

    from hipcache.plain import pass_by

    # A compiler that does not start is the launcher's affair.
    with suppress(OSError):
        pass_by(argv, os.environ)

    try:
        from hipcache.launcher import launch

        return launch(argv, os.environ)
    except ImportError as error:
        # A package that hipcache needs is gone, or is another one: the build goes on without the cache.
        print(f"hipcache: cannot start: {error}\n  install hipcache again", file=sys.stderr, flush=True)
        os.execvp(argv[0], argv)


def _open_standard_streams() -> None:
    """Make those that are closed /dev/null, as clang does: a file that is opened later would get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _on_path(word: str) -> bool:
    # shutil.which would do; its import alone (bz2, lzma) takes as long as all of these calls.
    directories = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(directory, word), os.X_OK) for directory in directories)


def _nearest_subcommand(word: str, likeness: float) -> str:
    import difflib

    return next(iter(difflib.get_close_matches(word, SUBCOMMANDS, n=1, cutoff=likeness)), "")


if __name__ == "__main__":
    sys.exit(main())
