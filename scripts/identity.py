"""Plain clang and hipcache on the fuzzer's flags, ends and programs, and on real sources: what is identical.

    scripts/identity.py --compiler CLANG [--sources DIRECTORY [--lines N]] [--count N] [--seconds S] [--out FILE]
    scripts/identity.py --page FILE...

Each case is one compile of one source for two architectures, by plain clang and then twice by hipcache, with an empty
store: identical (bytes, messages, status and other files), passed through with the reason, plain clang fails, or
DIFFERENT. With --sources the cases are programs of a collection (HeCBench's `src`: NAME-hip/*.cu) that plain clang
compiles, with HIP's own headers; with --lines only such as have at most N lines. It ends after N cases or S seconds.
FILE is JSON: what is there already is not run again; --page makes one table of several.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from fuzz_case import ADVICE, Difference
from fuzz_compile import Compile
from fuzz_flags import CHOICES, ENDS, LINKING

_ARCHS = ["gfx90a", "gfx1030"]
_FAILS = "plain clang fails"


def flag_cases(root: Path, compiler: str) -> Iterator[tuple[str, Compile]]:
    """Name, case: the ends and programs, then the flags, mixed."""
    flags = list(CHOICES)
    random.Random(1).shuffle(flags)
    for kind, table in (("end", ENDS), ("program", LINKING), ("", flags)):
        for words in {" ".join(words): words for words in table}.values():
            case = _case(compiler, root)
            case.flags, case.shape = ([words], []) if not kind else ([], words)
            case.end = [] if kind == "program" or {"-S", "-E"} & set(words) else ["-c"]
            yield " ".join(words), case


def source_cases(root: Path, compiler: str, collection: Path, lines: int) -> Iterator[tuple[str, Compile]]:
    """The same for the first source of each program in the collection, unless it has more lines."""
    for program in sorted(collection.glob("*-hip")):
        for source in sorted(program.glob("*.cu"))[:1]:
            if source.read_bytes().count(b"\n") > lines:
                continue
            case = _case(compiler, root)
            case.real, case.source = True, (("-x", "hip"), source.name)
            case.flags, case.shape = [["-std=c++17", "-I.", "-Icuda"]], []
            shutil.rmtree(case.work)
            shutil.copytree(program, case.work)
            beside = collection / f"{program.name[:-4]}-cuda"  # some have their headers there
            if beside.is_dir():
                shutil.copytree(beside, case.work / "cuda")
            yield f"{program.name}/{source.name}", case


def _case(compiler: str, root: Path) -> Compile:
    place = root / "case"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    case = Compile(1, place, False, (str(Path(sys.executable).with_name("hipcache")),), compiler)
    case.archs, case.level, case.source, case.rule = _ARCHS, "-O2", ((), "k.hip"), []
    case.output, case.end = ["-o", "out.o"], ["-c"]
    return case


def result(case: Compile) -> str:
    """What became of one case."""
    before = case._files()
    words = case.words()
    plain = case._end(words, before, "a")
    case._restore(before)
    if plain.status:
        return _FAILS
    for _ in range(2):
        cached = case._end([*case.launcher, *words], before, "a")
        case._restore(before)
        outcome = case._outcome("a")
        cached.err = ADVICE.sub(b"", cached.err)
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


def page(files: Sequence[Path]) -> str:
    """Counts, and the cases that are not identical hits for each compiler."""
    runs = [json.loads(file.read_text()) for file in files]
    names = list(dict.fromkeys(name for run in runs for name in run["results"]))
    usual = "identical, then hit"
    lines = ["| run | cases | |", "|---|---|---|"]
    for run in runs:
        counts = Counter(what.partition(" (")[0].partition(": ")[0] for what in run["results"].values())
        told = ", ".join(f"{count} {what}" for what, count in counts.most_common())
        lines.append(f"| {run['compiler']}, {run['date']} | {len(run['results'])} | {told} |")
    lines += ["", "| case | " + " | ".join(run["short"] for run in runs) + " |", "|---" * (len(runs) + 1) + "|"]
    for name in names:
        results = [run["results"].get(name, "-") for run in runs]
        if set(results) - {usual, "-"}:
            cells = " | ".join(what.replace("passed_through ", "").replace(usual, "hit") for what in results)
            lines.append(f"| `{name.replace('|', chr(92) + '|')}` | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="a table of what is identical to plain clang's")
    parser.add_argument("--compiler", help="options may follow")
    parser.add_argument("--sources", type=Path, help="the collection's directory")
    parser.add_argument("--lines", type=int, default=1_000_000, help="leave out sources that have more")
    parser.add_argument("--count", type=int, default=1000, help="end after so many cases")
    parser.add_argument("--seconds", type=float, default=86400, help="end after so long")
    parser.add_argument("--out", type=Path, help="where the results go")
    parser.add_argument("--page", type=Path, nargs="+", metavar="FILE", help="print the table of these results")
    options = parser.parse_args()
    if options.page:
        print(page(options.page), end="")
        return 0
    asked = [*options.compiler.split(), "--version"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    short = re.sub(r".*version (\d+).*", r"\1", version) + (" sources" if options.sources else "")
    run: dict[str, Any] = {"compiler": version, "short": short, "date": str(date.today()), "results": {}}
    if options.out and options.out.exists():
        run = json.loads(options.out.read_text())
    results, failing = run["results"], run.setdefault("failing", [])
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory(prefix="hipcache-identity-") as name:
        place = Path(name), options.compiler
        sources = options.sources and source_cases(*place, options.sources, options.lines)
        for title, case in sources or flag_cases(*place):
            if len(results) >= options.count or time.monotonic() > end:
                break
            if title in results or title in failing:
                continue
            what = result(case)
            print(title, what, sep=": ", flush=True)
            if options.sources and what == _FAILS:
                failing.append(title)
            else:
                results[title] = what
            if options.out:
                options.out.write_text(json.dumps(run, indent=0) + "\n")
    return 1 if any("DIFFERENT" in what for what in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
