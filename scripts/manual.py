"""Writes the manual pages (docs/man), two pages of the manual (settings, reasons), the rows of counters in a third
(statistics) and the completions of shells (completions/) from what `hipcache --help`, the tables of settings and
reasons, and the counters' declarations say. A test holds the files to it.

    .venv/bin/python scripts/manual.py
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from hipcache.report import statistics
from hipcache.report.reasons import ADVICE, REASONS
from man_pages import engine_page, hipcache_page, settings_page
from manual_settings import cell, settings_manual
from shell_completions import bash, fish, zsh

ROOT = Path(__file__).parent.parent
_STATISTICS = ROOT / "docs/statistics.md"
_AROUND = ("not_kept", "since")


def main() -> int:
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


def files() -> Mapping[Path, str]:
    """Each generated file, and its text."""
    return {
        ROOT / "docs/man/hipcache.1": hipcache_page(),
        ROOT / "docs/man/hipcache-engine.1": engine_page(),
        ROOT / "docs/man/hipcache.yaml.5": settings_page(),
        ROOT / "docs/settings.md": settings_manual(),
        ROOT / "docs/reasons.md": reasons_manual(),
        _STATISTICS: statistics_manual(_STATISTICS.read_text()),
        ROOT / "completions/hipcache.bash": bash(),
        ROOT / "completions/_hipcache": zsh(),
        ROOT / "completions/hipcache.fish": fish(),
    }


# Pages of the manual: Markdown.


_REASONS = """\
# Reasons

hipcache passes a command that it does not understand to the compiler unchanged, and counts the reason. `hipcache stats`
shows the counts, and `hipcache explain OBJECT` shows the reason for one object.

| in `stats` | why hipcache did not cache it | what to do |
|---|---|---|
"""


def reasons_manual() -> str:
    return _REASONS + "".join(
        f"| `{name}` | {cell(sentence)} | {cell(ADVICE[name])} |\n" for name, sentence in REASONS.items()
    )


def statistics_manual(page: str) -> str:
    """The page with the rows of all groups of counters, between those of `not_kept` and `since`."""
    lines = page.splitlines(keepends=True)
    first, last = (next(n for n, line in enumerate(lines) if line.startswith(f"| `{name}` ")) for name in _AROUND)
    rows = [
        f"| {', '.join(f'`{name}`' for name in (group.field, group.open) if name)} | {cell(group.meaning)} |\n"
        for group in sorted(statistics.groups(), key=lambda group: group.field)
    ]
    return "".join([*lines[: first + 1], *rows, *lines[last:]])


if __name__ == "__main__":
    sys.exit(main())
