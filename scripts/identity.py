"""Plain clang and hipcache on each flag, end and program of the fuzzer's tables: a table of what is identical.

    scripts/identity.py --compiler CLANG [--seconds S] [--out FILE]

Each case is one compile of one source for two architectures, by plain clang and then twice by hipcache, with an empty
store: identical (bytes, messages, status and other files), passed through with the reason, plain clang fails, or
DIFFERENT. With --seconds it ends early, and says how many cases it left out.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from fuzz_case import Difference
from fuzz_compile import Compile
from fuzz_flags import CHOICES, ENDS, LINKING

_ARCHS = ["gfx90a", "gfx1030"]


def cases(compiler: str, root: Path) -> Iterator[tuple[str, Compile]]:
    """Name, case."""
    for kind, table in (("", CHOICES), ("end", ENDS), ("program", LINKING)):
        for words in {" ".join(words): words for words in table}.values():
            place = root / "case"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            case = Compile(1, place, False, instead=compiler)
            case.archs, case.level, case.source, case.rule = _ARCHS, "-O2", ((), "k.hip"), []
            case.flags, case.shape = ([words], []) if not kind else ([], words)
            case.output, case.end = ["-o", "out.o"], [] if kind == "program" else ["-c"]
            if {"-S", "-E"} & set(words):
                case.end = []
            yield " ".join(words), case


def result(case: Compile) -> str:
    """What became of one case."""
    before = case._files()
    words = case.words()
    plain = case._end(words, before, "a")
    case._restore(before)
    if plain.status:
        return "plain clang fails"
    for _ in range(2):
        cached = case._end([*case.launcher, *words], before, "a")
        case._restore(before)
        outcome = case._outcome("a")
        try:
            case._same(plain, cached)
        except Difference as error:
            again = case._end(words, before, "a")
            case._restore(before)
            try:
                case._same(plain, again)
            except Difference:
                return f"plain clang's own differ ({outcome})"
            return f"**DIFFERENT**: {str(error).splitlines()[0][:80]} ({outcome})"
        if outcome.startswith("passed"):
            return outcome
        time.sleep(0.05)
    return f"identical, then {outcome}"


def main() -> int:
    parser = argparse.ArgumentParser(description="a table of what is identical to plain clang's")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--seconds", type=float, default=0, help="end after so long")
    parser.add_argument("--out", type=Path, help="where the table goes")
    options = parser.parse_args()
    end, rows, left = time.monotonic() + options.seconds, [], 0
    with tempfile.TemporaryDirectory(prefix="hipcache-identity-") as root:
        for name, case in cases(options.compiler, Path(root)):
            if options.seconds and time.monotonic() > end:
                left += 1
                continue
            rows.append((name, result(case)))
            print(*rows[-1], sep=": ", flush=True)
    version = subprocess.run(
        [*options.compiler.split(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    counts = Counter(what.partition(" (")[0].partition(":")[0] for _, what in rows)
    lines = [
        f"# Identity, {version.splitlines()[0]}",
        "",
        f"By `scripts/identity.py`, {date.today()}: {len(rows)} cases, {left} not run. "
        + ", ".join(f"{count} {what}" for what, count in counts.most_common())
        + ".",
        "",
        "| case | |",
        "|---|---|",
        *(f"| `{name.replace('|', chr(92) + '|')}` | {what} |" for name, what in rows),
    ]
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")
    return 1 if any("DIFFERENT" in what for _, what in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
