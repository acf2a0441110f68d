#!/usr/bin/env python3
"""Random mutation of small projects, plain clang and hipcache side by side: no stale object, ever.

    scripts/mutate.py [--seed N] [--steps N] [--each N] [--compiler CLANG] [--keep DIR] [--tell]
                      [--leave-out REGEX]

A seed makes a project (`mutate_project`, of the texts in `mutate_grammar`) and mutates it `--each` times; the seeds
follow each other until `--steps` steps are done. A step mutates one thing, or undoes what the last ones did, and the
command is run

    by plain clang (once for each state of a project);
    by the native program, where that serves it alone: a direct hit, of the record of any state before;
    by the engine, with the store of all states before; and by the native program once more, now and then;

and each must leave the object, the messages, the dependency file and the exit status of plain clang. A failure prints
the seed, the way to it and what differs; the same seed takes the same steps again. The engine forks off this process
for each compile, and a native program that would start it ends instead: a step costs some 0.2 s.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import hipcache
import mutate_grammar
from fuzz_case import COMPILERS, Difference, neutral
from hipcache.app import launch as launcher
from mutate_grammar import SOURCE
from mutate_project import Project, State

#: What a compile imports is imported once, before the forks.
for _module in pkgutil.walk_packages(hipcache.__path__, "hipcache."):
    if not _module.name.endswith(("__main__", "libhipcache")):
        importlib.import_module(_module.name)

NATIVE = str(Path(sys.executable).with_name("hipcache"))
#: What the native program ends with where it would start the engine.
UNSERVED = 99
#: What has changed within these seconds is not kept: more than a tick of the file system's clock.
RACY = 0.03
SECONDS = 60
_TRIES = 20  # for a project that compiles
BASE = ("-nogpuinc", "-nogpulib", "-cuid=5eed", "--offload-arch=gfx906", "-O0", "-MD", "-MF", "out/m.d")
_LISTED = re.compile(rb"(?:\\.|[^\s\\])+")


@dataclass(frozen=True)
class Left:
    """What a command left behind."""

    status: int
    out: bytes
    err: bytes
    object: bytes | None
    rule: bytes | None


class Run:
    """One seed. `tally`: how its compiles were answered."""

    def __init__(self, seed: int, root: Path, tally: Counter[str], instead: str = "", native: str = NATIVE) -> None:
        self.seed, self.root, self.tally = seed, root, tally
        self.work = root / "work"
        for directory in ("work/out", "run", "bin"):
            (root / directory).mkdir(parents=True)
        rand = random.Random(seed)
        self.compiler = instead or rand.choice(COMPILERS)
        self.random = rand
        self.project = Project(rand, self.work)
        for _ in range(_TRIES):
            if self._started(self._words()).status == 0:
                break
            self.project.start()
        self.said: list[str] = []
        self.plain: dict[State, Left] = {}
        shutil.copy(native, root / "bin/hipcache")
        (root / "bin/hipcache-engine").write_text(f"#!/bin/sh\nexit {UNSERVED}\n")
        (root / "bin/hipcache-engine").chmod(0o755)

    def steps(self, number: int) -> None:
        """Raises Difference."""
        for step in range(number):
            self.said.append(self.project.mutate() if step else "first time")
            self.tally["steps"] += 1
            self._compare()

    def _compare(self) -> None:
        state, words = self.project.state, self._words()
        time.sleep(RACY + 0.01)
        plain = self._plain(state, words)
        self.project.failed = plain.status != 0
        self.said[-1] += "" if plain.status == 0 else f" (status {plain.status})"
        self.tally["failing"] += plain.status != 0
        self._native(words, plain, "direct")
        self._same(self._engine(words), plain, "the engine")
        self.said[-1] += self._counted()
        if self.random.random() < 0.3:
            self._native(words, plain, "direct again")

    def _words(self) -> list[str]:
        state = self.project.state
        flags = [word for flag in state.flags for word in flag]
        return [self.compiler, *BASE, *state.side, *flags, "-c", SOURCE, "-o", "out/m.o"]

    def _plain(self, state: State, words: Sequence[str]) -> Left:
        # A dependency is older or newer, whatever the state says.
        timeless = not any(isinstance(entry, bytes) and b"dependency" in entry for entry in state.tree.values())
        found = self.plain.get(state) if timeless else None
        if found is None:
            found = self.plain[state] = self._started(words)
        return found

    def _native(self, words: Sequence[str], plain: Left, name: str) -> None:
        left = self._started([str(self.root / "bin/hipcache"), *words])
        if left.status == UNSERVED:
            return
        self.tally[name] += 1
        self._same(left, plain, f"a {name} hit")

    def _started(self, words: Sequence[str]) -> Left:
        self._clear()
        try:
            done = subprocess.run(
                words,
                cwd=self.work,
                env=self._environ(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Difference(f"{words[0]} still runs after {SECONDS} s") from error
        return self._left(done.returncode, done.stdout, done.stderr)

    def _engine(self, words: Sequence[str]) -> Left:
        self._clear()
        said = [self.root / "out", self.root / "err"]
        pid = os.fork()
        if not pid:
            try:
                signal.alarm(SECONDS)
                os.chdir(self.work)
                os.environ.clear()
                os.environ.update(self._environ())
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                for number, file in enumerate(said, 1):
                    os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
                status = launcher.launch(list(words), os.environ, racy=RACY)
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
            finally:
                os._exit(UNSERVED)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status in (-signal.SIGALRM, UNSERVED):
            raise Difference(f"the engine ends with {status}: {said[1].read_text(errors='replace')[-2000:]}")
        return self._left(status, *(file.read_bytes() for file in said))

    def _left(self, status: int, out: bytes, err: bytes) -> Left:
        files = [
            path.read_bytes() if path.exists() else None for path in (self.work / "out/m.o", self.work / "out/m.d")
        ]
        return Left(status, out, err, *files)

    def _clear(self) -> None:
        for path in (self.work / "out").iterdir():
            path.unlink()

    def _environ(self) -> dict[str, str]:
        return {
            "PATH": os.defpath,
            "LC_ALL": "C",
            "HIP_PLATFORM": "amd",
            "HOME": str(self.root),
            "HIPCACHE_DIR": str(self.root / "store"),
            "HIPCACHE_RESIDENT": "0",
            "XDG_RUNTIME_DIR": str(self.root / "run"),
            **dict(self.project.state.variables),
        }

    def _counted(self) -> str:
        """How the engine counted its compile."""
        log = self.root / "store/v2/statistics/log"
        try:
            _, outcome, reason, *_ = log.read_text(errors="replace").splitlines()[-1].split("\t")
            log.unlink()
        except (OSError, IndexError, ValueError):
            return ""
        self.tally[outcome] += 1
        return f": {outcome} {reason if outcome == 'passed_through' else ''}"

    def _same(self, found: Left, plain: Left, name: str) -> None:
        if found.status != plain.status:
            raise Difference(f"{name}: status {found.status}, plain clang {plain.status}:\n{_text(found.err)}")
        for kind, mine, other in (("output", found.out, plain.out), ("messages", found.err, plain.err)):
            if neutral(mine) != neutral(other):
                raise Difference(f"{name}: {kind}:\n{_text(mine)}\n-- plain clang:\n{_text(other)}")
        if plain.status == 0 and found.object != plain.object:
            raise Difference(f"{name}: another object")
        if (found.rule is None) != (plain.rule is None):
            raise Difference(f"{name}: a dependency file in one case only")
        if plain.status == 0 and found.rule is not None and plain.rule is not None:
            listed, should = _LISTED.findall(found.rule), _LISTED.findall(plain.rule)
            if self.project.state.side:
                if found.rule != plain.rule:
                    raise Difference(f"{name}: dependency file:\n{_text(found.rule)}\n-- plain:\n{_text(plain.rule)}")
            elif not set(should) <= set(listed):
                raise Difference(f"{name}: the dependency file lacks {set(should) - set(listed)}")


def _text(said: bytes) -> str:
    return said.decode(errors="backslashreplace")


def check(seed: int, steps: int, tally: Counter[str], *, instead: str = "", keep: Path | None = None) -> str:
    """Run one seed; what differs, with the way to it, or nothing."""
    root = Path(tempfile.mkdtemp(prefix="hipcache-mutate-"))
    try:
        run = Run(seed, root, tally, instead)
        run.steps(steps)
    except Difference as error:
        if keep:
            shutil.copytree(root, keep / f"{seed}", symlinks=True)
        shown = shlex.join(run._words()), dict(run.project.state.variables)
        told = "\n".join(f"  {step}" for step in run.said[-6:])
        return f"seed {seed} step {len(run.said)}\n{told}\n  {shown[0]}\n  {shown[1]}\n  {error}\n"
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description="random mutation of small projects, beside plain clang")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--steps", type=int, default=400, help="of all seeds together")
    parser.add_argument("--each", type=int, default=40, help="steps of one seed")
    parser.add_argument("--compiler", default="", help="15, 19, or a path, not both in turns")
    parser.add_argument("--keep", type=Path, help="a directory for the projects and stores of failures")
    parser.add_argument("--tell", action="store_true", help="say how far it is, after each seed")
    parser.add_argument("--leave-out", default="", help="a regular expression for forms of known faults")
    options = parser.parse_args()
    if options.leave_out:
        mutate_grammar.leave_out(options.leave_out)
    version = options.compiler
    instead = f"/usr/bin/clang++-{version}" if version.isdigit() else version
    tally: Counter[str] = Counter()
    seed, findings = options.seed, 0
    while tally["steps"] < options.steps:
        found = check(seed, options.each, tally, instead=instead, keep=options.keep)
        findings += bool(found)
        if found or options.tell:
            print(found or f"seed {seed}: {dict(tally)}", flush=True)
        seed += 1
    print(json.dumps({"seeds": [options.seed, seed - 1], "findings": findings, **tally}))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
