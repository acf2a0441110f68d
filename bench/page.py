"""The page of a measurement: run in a directory of its own, its figures written as JSON and as a page of tables."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import machine
from trouble import BenchError

OUT = Path(__file__).resolve().parent.parent / "build" / "bench"

#: Of a directory: the figures, and the page that shows them.
Measure = Callable[[Path], tuple[Mapping[str, object], str]]


def parser(name: str, description: str | None, rounds: int) -> argparse.ArgumentParser:
    """What all measurements can be told. `description`: a module's docstring."""
    made = argparse.ArgumentParser(prog=f"bench/{name}.py", description=(description or "").partition("\n")[0])
    made.add_argument(
        "--rounds", type=int, default=rounds, help=f"rounds in which each tool has its turn (default: {rounds})"
    )
    made.add_argument("--out", type=Path, default=OUT, help="where results go (default: build/bench)")
    return made


def write(name: str, out: Path, measure: Measure, cores: int = 2) -> int:
    """Measure, and write `name`.json and `name`.md into `out`; the exit status."""
    directory = Path(tempfile.mkdtemp(prefix="hipcache-bench-"))
    try:
        about = machine.describe(machine.keep_to(cores))
        found, text = measure(directory)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps({"machine": asdict(about), **found}, indent=1) + "\n")
    (out / f"{name}.md").write_text(text)
    print(f"\n{text}\nwritten: {out / name}.json, {name}.md")
    return 0


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Its lines."""
    lines = ["|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in (head, *rows)]
    return [lines[0], "|" + "---|" * len(head), *lines[1:]]


def checked(value: float, limit: float | None) -> tuple[str, str]:
    """The limit (None: there is none), and whether `value` keeps to it."""
    return ("", "") if limit is None else (f"{limit}", "ok" if value <= limit else "MISSED")


def say(text: str) -> None:
    print(text, flush=True)
