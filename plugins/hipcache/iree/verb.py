"""`hipcache iree-check MODULE...`: for which device an IREE module is built, and whether it fits the one asked for."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from pathlib import Path

from hipcache.base.errors import HipcacheError, nearest
from hipcache.cli import FAULT, Console
from hipcache.cli.screen import plural
from hipcache.disk import atomic
from hipcache.iree import module
from hipcache.iree.module import Module, Wanted

SUMMARY = "show which device an IREE module is built for, and check that it fits"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "module", nargs="*", metavar="MODULE", help="a .vmfb file; NAME.hip.gfx942.vmfb must be for hip and gfx942"
    )
    parser.add_argument("--device", default="", help=f"the device that it must run on: {', '.join(module.DEVICES)}")
    parser.add_argument("--target", default="", help="the architecture or product that it must run on (gfx942, mi300x)")
    parser.add_argument("--manifest", default="", metavar="FILE", help="write a JSON list of the modules to FILE")
    parser.add_argument("--quiet", action="store_true", help="print only what does not fit")


def run(options: argparse.Namespace, console: Console) -> int:
    if options.device and options.device not in module.DEVICES:
        near = nearest(options.device, module.DEVICES)
        hint = f"did you mean '{near}'?" if near else f"known are {', '.join(module.DEVICES)}"
        raise HipcacheError(f"unknown device '{options.device}'", hint)
    if not options.module:
        raise HipcacheError("no MODULE given", "write for example 'hipcache iree-check model.vmfb --device=hip'")
    status, listed = 0, []
    for path in options.module:
        made = module.read(path)
        claim = module.claimed(path)
        wanted = Wanted(options.device or claim.device, options.target or claim.target)
        why = module.misfit(made, wanted)
        if why:
            print(f"hipcache: {why}", file=console.err)
            status = FAULT
        elif not options.quiet:
            for line in _described(made):
                print(line, file=console.out)
        listed.append(_entry(made, wanted, options.manifest))
    if options.manifest and not status:
        text = json.dumps({"modules": listed}, indent=2) + "\n"
        atomic.write_whole(Path(options.manifest), text.encode())
    return status


def _described(made: Module) -> list[str]:
    what = f"device {', '.join(made.devices) or 'none'}; format {', '.join(made.formats) or 'none'}"
    archs = f"; {', '.join(made.archs)}" if made.archs else ""
    count = plural(made.executables, "executable")
    flag = module.flag(made)
    lines = [f"'{made.path}': {what}{archs}; {count}"]
    return [*lines, f"  iree-run-module {flag} --module={made.path}"] if flag else lines


def _entry(made: Module, wanted: Wanted, manifest: str) -> dict[str, object]:
    name = os.path.relpath(made.path, os.path.dirname(manifest) or ".")
    return {
        "file": name,
        "device": wanted.device or (made.devices[0] if made.devices else ""),
        "target": wanted.target or (made.archs[0] if made.archs else ""),
        "architectures": list(made.archs),
        "formats": list(made.formats),
        "run": module.flag(made),
        "sha256": hashlib.sha256(Path(made.path).read_bytes()).hexdigest(),
    }
