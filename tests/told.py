"""What hipcache says of its compiles, asked in this process: a new one costs 50 ms."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

import shared_memos
from hipcache import cli
from session import SESSION


def statistics(environ: Mapping[str, str], *words: str) -> dict[str, object]:
    """What `hipcache stats --json` says in that environment. In this process: a new one costs 50 ms. `words`: more
    (--zero)."""
    out, err = io.StringIO(), io.StringIO()
    status = cli.run(["stats", "--json", *words], {**environ, "HIPCACHE_LOG": ""}, out, err)
    assert status == 0, err.getvalue()
    found: dict[str, object] = json.loads(out.getvalue())
    return found


def explained(environ: Mapping[str, str], *objects: str) -> str:
    """What `hipcache explain` says in that environment, of these objects or the last compile. In this process, as
    `statistics`."""
    out, err = io.StringIO(), io.StringIO()
    cli.run(["explain", *objects], {**environ, "HIPCACHE_LOG": ""}, out, err)
    return out.getvalue() + err.getvalue()


def know_tools(environ: Mapping[str, str]) -> None:
    """Let a project's store know the compilers that tests have met (see `shared_memos`)."""
    shared_memos.give(SESSION / "memos", environ)
