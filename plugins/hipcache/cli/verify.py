"""`hipcache verify`: check every entry of the store, or compile some anew and compare."""

from __future__ import annotations

import argparse
import json

from hipcache import config
from hipcache.cli import Session
from hipcache.cli.screen import Progress, plural
from hipcache.store.local import LocalStore
from hipcache.verify import entries
from hipcache.verify.entries import Checked

SUMMARY = "check every entry of the store, and remove what is damaged"
DAMAGED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace, session: Session) -> int:
    settings = config.load(session.environ, strict=True)
    store = LocalStore(settings.dir, max_bytes=settings.max_size, read_only=settings.readonly)
    return _check(store, options, session)


def _check(store: LocalStore, options: argparse.Namespace, session: Session) -> int:
    with Progress(session.err, "entries checked") as progress:
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
    words = [total, f"{removed} removed" if removed else "", f"{left} damaged, and left as they are" if left else ""]
    print(", ".join(filter(None, words)) + ("" if checked.damaged else ", all are whole"), file=session.out)
    if left and store.read_only:
        print("The store is read-only: unset HIPCACHE_READONLY to have them removed.", file=session.out)


def _as_json(checked: Checked) -> dict[str, object]:
    damaged = [one._asdict() for one in checked.damaged]
    return {"blobs": checked.blobs, "records": checked.records, "damaged": damaged}
