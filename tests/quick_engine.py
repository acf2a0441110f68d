"""Makes this process's engine one of tests.

It remembers what is older than a tick of the file system, where the real one waits for two seconds (`trace.RACY`); and
what one test has learnt of a compiler spares the next one its digest, which takes as long as all its compiles (see
`shared_memos`).
"""

from __future__ import annotations

from collections.abc import Mapping

from hipcache import launcher

#: How young a file may be: the tick to which the file system stamps.
RACY = 0.03


def quicken(memos: str) -> None:
    """`memos`: the directory of what is shared."""
    launch = launcher.launch

    def launched(argv: list[str], environ: Mapping[str, str]) -> int:
        import shared_memos

        shared_memos.share(memos)
        return launch(argv, environ, racy=RACY)

    launcher.launch = launched  # type: ignore[assignment]
