"""A command as the build tool has started it."""

from __future__ import annotations

from collections.abc import Mapping

from hipcache.config import Config
from hipcache.values import dataclass


@dataclass(frozen=True)
class Call:
    """The command that the build tool runs: its words, the directory, the environment, and the user's settings."""

    argv: list[str]
    cwd: str
    environ: Mapping[str, str]
    config: Config
