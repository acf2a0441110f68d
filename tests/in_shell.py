"""A command behind redirections and process substitutions of a shell."""

from __future__ import annotations

from pathlib import Path

from bare_lab import BareLab


def shell(
    lab: BareLab, command: str, *words: str | Path, env: dict[str, str] | None = None
) -> tuple[int, bytes, bytes]:
    """Run a shell command in which "$@" stands for `words`."""
    ended = lab.run(["/bin/bash", "-c", command, "bash", *words], env=env)
    return ended.status, ended.out, ended.err
