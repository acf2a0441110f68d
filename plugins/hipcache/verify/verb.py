"""`hipcache verify`: check every entry of the store, or recompile some objects and compare."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from random import sample

from hipcache import config
from hipcache.cli import Session, compilation_database, refuse_alone
from hipcache.cli.screen import ProgressLine, plural
from hipcache.config import Config
from hipcache.engine import open_engine
from hipcache.processes.pool import Pool
from hipcache.report.outcome import DIFFERENT
from hipcache.store.local import LocalStore
from hipcache.store.opening import is_there, open_store
from hipcache.values import replace
from hipcache.verify import comparison, entries
from hipcache.verify.comparison import ENDS, NOT_COMPARED, NOT_STORED, Compared
from hipcache.verify.entries import Checked

SUMMARY = "check every entry of the store, or recompile some objects and compare"
DAMAGED = 1
SAMPLE = 20
_PATIENCE = 5.0  # seconds for compilers that are to end


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--compile",
        action="store_true",
        help="compile stored objects anew, and compare them; not links and programs: compile_commands.json does not"
        " list them, and the driver runs their last step each time",
    )
    parser.add_argument(
        "--sample",
        type=_count,
        metavar="N",
        help=f"how many objects to recompile, chosen at random (default: {SAMPLE})",
    )
    parser.add_argument(
        "-p",
        dest="build",
        type=Path,
        metavar="DIR",
        help=f"the build directory, which has a {compilation_database.LIST} (default: .)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a count; write 1, 2 ...")
    return int(text)


def run(options: argparse.Namespace, session: Session) -> int:
    for option, value in (("--sample", options.sample), ("-p", options.build)):
        if value and not options.compile:
            refuse_alone(option, "--compile")
    settings = config.load(session.environ, strict=True)
    if options.compile:
        return _compile(settings, options, session)
    if not options.json and not is_there(settings):
        print(f"nothing to check: there is no store in '{settings.dir}' yet", file=session.out)
        return 0
    return _check(open_store(settings), options, session)


def _check(store: LocalStore, options: argparse.Namespace, session: Session) -> int:
    with ProgressLine(session.err, "entries checked") as progress:
        checked = entries.check(store, progress.at)
    if options.json:
        print(json.dumps(_as_json(checked), indent=2), file=session.out)
    else:
        _show(checked, store, session)
    return DAMAGED if checked.damaged else 0


def _show(checked: Checked, store: LocalStore, session: Session) -> None:
    for one in checked.damaged:
        print(f"{one.kind} '{one.name}': {one.why}{'; removed' if one.removed else ''}", file=session.out)
    total = f"{plural(checked.blobs, 'blob')} and {plural(checked.records, 'record')} checked"
    removed = sum(one.removed for one in checked.damaged)
    left = len(checked.damaged) - removed
    words = [total, f"{removed} removed" if removed else "", f"{plural(left, 'damaged entry')} kept" if left else ""]
    print(", ".join(filter(None, words)) + ("" if checked.damaged else ", none damaged"), file=session.out)
    if checked.evicted:
        done = "would be removed" if store.read_only else "removed"
        print(f"{plural(checked.evicted, 'record')} whose contents were evicted: {done}.", file=session.out)
    if left and store.read_only:
        print(
            "The store may only be read: unset HIPCACHE_READONLY, or run this as its owner, to remove them.",
            file=session.out,
        )


def _as_json(checked: Checked) -> dict[str, object]:
    damaged = [one._asdict() for one in checked.damaged]
    return {"blobs": checked.blobs, "records": checked.records, "damaged": damaged, "evicted": checked.evicted}


def _compile(settings: Config, options: argparse.Namespace, session: Session) -> int:
    # Looked at, not used: nothing is stored, and what is used least stays so.
    engine = open_engine(replace(settings, readonly=True, recache=False), session.environ)
    listed = compilation_database.commands(options.build or Path(), session.environ)
    done: list[Compared] = []
    rest = sample(listed, len(listed))
    with (
        ProgressLine(session.err, "compiles looked at") as progress,
        tempfile.TemporaryDirectory(prefix="hipcache-") as top,
    ):
        while rest and (wanted := (options.sample or SAMPLE) - _compared(done)) > 0:
            together, rest = rest[: min(wanted, settings.job_slots)], rest[min(wanted, settings.job_slots) :]
            ended: dict[int, Compared] = {}
            with Pool[int, Compared](stop=engine.runner.kill, patience=_PATIENCE) as pool:
                for number, command in enumerate(together, len(done)):
                    scratch = Path(top) / str(number)
                    scratch.mkdir()
                    pool.submit(number, partial(comparison.compare_stored, engine, command, scratch))
                while pool.busy:
                    number, one = pool.next_done()
                    if isinstance(one, Exception):
                        raise one
                    ended[number] = one
            done += [ended[number] for number in sorted(ended)]
            progress.at(len(done))
    kept = {
        one.output: str(path)
        for one in done
        if one.difference and not settings.readonly
        if (path := comparison.keep(settings.dir, one.difference, engine.clock()))
    }
    if options.json:
        print(json.dumps(_compared_json(done, kept), indent=2), file=session.out)
    else:
        _show_compared(done, kept, session)
    return DAMAGED if any(one.end == DIFFERENT for one in done) else 0


def _compared(done: list[Compared]) -> int:
    return sum(one.end not in (NOT_STORED, NOT_COMPARED) for one in done)


def _show_compared(done: list[Compared], kept: dict[str, str], session: Session) -> None:
    for one in done:
        if one.difference:
            where = f"; both are in '{kept[one.output]}'" if one.output in kept else ""
            print(f"different: {one.difference.summary()}{where}", file=session.out)
        elif one.why:
            print(f"{one.end}: '{one.output}': {one.why}", file=session.out)
    counts = Counter(one.end for one in done)
    ends = ", ".join(f"{counts[end]} {end}" for end in ENDS if counts[end])
    compared = f"{plural(_compared(done), 'object')} recompiled"
    print(f"{compared}: {ends}" if done else "the build lists no HIP compile", file=session.out)


def _compared_json(done: list[Compared], kept: dict[str, str]) -> dict[str, object]:
    counts = Counter(one.end for one in done)
    return {
        "compiles": {end.replace(" ", "_"): counts[end] for end in ENDS},
        "different": [
            {**one.difference.as_json(), "report": kept.get(one.output)} for one in done if one.difference is not None
        ],
    }
