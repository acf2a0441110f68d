"""A case of the fuzzer: a project and a command, run by plain clang and by hipcache, step by step.

What the project is, and what a step does to it, the kinds of cases say: `fuzz_compile`, `fuzz_links` ...
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from hip_toolchain import chosen, hips_own

LAUNCHER = (sys.executable, "-m", "hipcache")
COMPILERS = tuple(f"/usr/bin/{toolchain.name}" for toolchain in chosen())
REAL = hips_own().flags
BARE = ("-nogpuinc", "-nogpulib")
LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os", "-Oz", "-O", "-Ofast", "-Og")

FULL_HEADER = "#include <hip/hip_runtime.h>\n"
SHORT_HEADER = """\
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*);
"""

# Files of these names have random names or times in them, or in their own.
_CHANGING = re.compile(r".*\.(json|gcno)$|stat$|.*-[0-9a-f]{6}.*")

# What hipcache says once in a build, where it does not know a compiler's plan.
ADVICE = re.compile(rb"^hipcache: .*\n(  .*\n)*", re.MULTILINE)


def table(text: str) -> list[list[str]]:
    """Choices of one or more words each, with ` | ` between them."""
    return [shlex.split(choice) for line in text.strip().splitlines() for choice in line.split(" | ")]


def numbered(line: str, number: int) -> str:
    """The line with its number; directives keep their `#`, and `##` is one of clang's."""
    parts = []
    for part in line.split("\n"):
        first, rest = (part[:1], part[1:]) if part.startswith("#") else ("", part)
        parts.append(first + re.sub(r"(?<!#)#(?!#)|%", str(number), rest))
    return "\n".join(parts)


class Difference(Exception):
    """What hipcache did otherwise."""


@dataclass
class Ended:
    """What a command left behind. `files`: content of each file that it made or changed, by name; `programs`: those of
    them that can be run."""

    status: int
    out: bytes
    err: bytes
    files: dict[str, bytes]
    programs: set[str]


@dataclass
class Case:
    """One seed: a project, a command, and how both go on. `real`: with HIP's own headers and device libraries;
    `instead`: a compiler in place of those that the seed chooses from; `tally`: of precompiled preambles."""

    STEPS: ClassVar[tuple[int, int]] = (3, 7)  # at least, and less than
    SAME_STORE: ClassVar[float] = 0.8  # the chance of the first one

    seed: int
    root: Path
    real: bool = False
    launcher: Sequence[str] = LAUNCHER
    instead: str = ""
    said: list[str] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    plain: dict[str, Ended] = field(default_factory=dict)  # what plain clang left behind, by state

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.work = self.root / self.random.choice(["work", "work", "wo rk", "w$o#r'k", "w,o=r:k"])
        chosen = self.random.choice(COMPILERS)
        self.compiler = self.instead or chosen
        self.stores = {name: self.root / f"store-{name}" for name in "ab"}
        self.variables: dict[str, str] = {}
        self.version = 0

    def run(self) -> None:
        """Raises Difference."""
        last = ""
        for step in range(self.random.randrange(*self.STEPS)):
            what = self._edit() if step else "first time"
            store = "a" if self.random.random() < self.SAME_STORE else "b"
            again = f"{store} {self._state()}"
            outcome = self._compare(what, store, must_hit=again == last)
            last = again if outcome in ("hit", "miss", "partial") and not self._is_never_kept() else ""

    # What the kinds of cases have of their own

    def words(self) -> list[str]:
        """The command, the compiler first."""
        raise NotImplementedError

    def _edit(self) -> str:
        """Do something to the project or the command; says what."""
        raise NotImplementedError

    def _same_file(self, name: str, mine: bytes, other: bytes) -> None:
        if mine != other:
            raise Difference(f"'{name}' has other bytes")

    # Edits

    def _write(self, name: str, content: str) -> None:
        path = os.path.join(self.work, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    def _nothing(self) -> str:
        return "nothing changed"

    def _move(self) -> str:
        """The same project in another directory."""
        self.version += 1
        old, self.work = self.work, self.root / f"moved {self.version}"
        old.rename(self.work)
        return "the project is moved"

    def _toggle_variable(self, choices: Sequence[tuple[str, str]]) -> str:
        name, value = self.random.choice(choices)
        if self.variables.pop(name, None) is None:
            self.variables[name] = value.replace("@", str(self.work))
        return f"variable {name}"

    # Both sides

    def _state(self) -> str:
        """All that a step can change, to tell whether a step changed anything."""
        files = []
        for directory, directories, names in os.walk(self.work):
            for name in (*directories, *names):
                path = os.path.join(directory, name)
                found = os.lstat(path)
                if os.path.islink(path):
                    files.append(f"{path} {found.st_ino} {os.readlink(path)}")
                elif name in names:
                    # A step may restore the times of what it changes.
                    content = hashlib.blake2b(Path(path).read_bytes(), digest_size=8).hexdigest()
                    files.append(f"{path} {found.st_mtime_ns} {content}")
        return f"{self.words()} {self.variables} {sorted(files)}".encode("utf-8", "surrogateescape").hex()

    def _is_never_kept(self) -> bool:
        words = " ".join(self.words())
        asks_time = re.search(r"__(DATE|TIME|TIMESTAMP)__", words) is not None
        return asks_time or bool({"HIPCACHE_READONLY", "HIPCACHE_RECACHE", "SOURCE_DATE_EPOCH"} & set(self.variables))

    def _compare(self, what: str, store: str, *, must_hit: bool) -> str:
        words = self.words()
        shown = " ".join(shlex.quote(os.fsencode(word).decode(errors="backslashreplace")) for word in words)
        self.said.append(f"{what}; store {store}; {self.variables or ''}\n      {shown}")
        time.sleep(0.03)  # what has just been written is not kept
        before, state = self._files(), self._state()
        plain = self.plain.pop(state, None) or self._end(words, before, "a")
        self._restore(before)
        cached = self._end([*self.launcher, *words], before, store)
        self._restore(before)
        outcome = self._outcome(store)
        if outcome.startswith("passed"):
            cached.err = ADVICE.sub(b"", cached.err)
        try:
            self._same(plain, cached)
            self.plain[state] = plain
        except Difference:
            for _ in range(5):  # lld's threads: one order of messages may come several times
                again = self._end(words, before, "a")
                self._restore(before)
                unsteady = _different(plain.files, again.files)
                other = neutral(plain.out + plain.err) != neutral(again.out + again.err)
                if unsteady or other:
                    break
            else:
                raise
            if other:
                plain.out = cached.out = plain.err = cached.err = b""
            self._same(_without(plain, unsteady), _without(cached, unsteady))
        self.said[-1] = f"{outcome:8} {self.said[-1]}"
        if plain.status:
            last = plain.err.decode(errors="replace").strip().rpartition("\n")[2]
            self.said[-1] += f"\n      status {plain.status}: {last[:200]}"
        if must_hit and plain.status == 0 and not outcome.startswith("hit"):
            raise Difference(f"no hit, though nothing has changed: {outcome}")
        return outcome.split()[0]

    def _end(self, words: Sequence[str], before: dict[str, bytes], store: str) -> Ended:
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("HIPCACHE_", "MAKE", "MFLAGS"))}
        environ |= {
            "LC_ALL": "C",
            "HIP_PLATFORM": "amd",
            "HOME": str(self.root),
            "HIPCACHE_DIR": str(self.stores[store]),
        }
        environ |= {"XDG_RUNTIME_DIR": str(self.root), **self.variables}
        try:
            done = subprocess.run(
                words,
                cwd=self.work,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=600,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Difference(f"still running after {error.timeout} s") from error
        made = {name: content for name, content in self._files().items() if before.get(name) != content}
        programs = {name for name in made if os.path.isfile(self.work / name) and os.access(self.work / name, os.X_OK)}
        return Ended(done.returncode, done.stdout, done.stderr, made, programs)

    def _files(self) -> dict[str, bytes]:
        found = {}
        for directory, _, names in os.walk(self.work):
            for name in names:
                path = os.path.join(directory, name)
                if os.path.islink(path):
                    found[os.path.relpath(path, self.work)] = b"-> " + os.fsencode(os.readlink(path))
                else:
                    with open(path, "rb") as file:
                        found[os.path.relpath(path, self.work)] = file.read()
        return found

    def _restore(self, before: dict[str, bytes]) -> None:
        """What a command made goes; what it replaced (a link) comes back."""
        for name, content in self._files().items():
            if before.get(name) != content:
                os.unlink(self.work / name)
        for name, content in before.items():
            path = self.work / name
            if not path.exists() and not path.is_symlink():
                if content.startswith(b"-> "):
                    path.symlink_to(os.fsdecode(content[3:]))
                else:
                    path.write_bytes(content)

    def _outcome(self, store: str) -> str:
        """What was counted last: outcome, and reason where it was passed through. (A log that the user asks for would
        rule direct hits out.)"""
        log = self.stores[store] / "v2/statistics/log"
        try:
            lines = [line.split("\t") for line in log.read_text(errors="replace").splitlines() if line]
        except OSError:
            return "uncounted"
        log.unlink()
        for _, told, what, number, *_ in lines:
            if told == "preambles":
                self.tally[what] += int(number)
        ends = [line for line in lines if line[1] != "preambles"]
        if not ends:
            return "uncounted"
        _, outcome, reason, *_ = ends[-1]
        return f"{outcome} {reason}" if outcome == "passed_through" else outcome

    def _same(self, plain: Ended, cached: Ended) -> None:
        if cached.status != plain.status:
            raise Difference(
                f"status {cached.status}, plain clang {plain.status}:\n{cached.err.decode(errors='replace')}"
            )
        for name, mine, other in (("output", cached.out, plain.out), ("messages", cached.err, plain.err)):
            if neutral(mine) != neutral(other):
                shown = [text.decode(errors="replace") for text in (mine, other)]
                raise Difference(f"{name}:\n{shown[0]}\n-- plain clang:\n{shown[1]}")
        names = [{name for name in ended.files if not _CHANGING.match(name)} for ended in (cached, plain)]
        if names[0] != names[1]:
            raise Difference(f"files {sorted(names[0])}, plain clang {sorted(names[1])}")
        if cached.programs != plain.programs:
            raise Difference(f"programs {sorted(cached.programs)}, plain clang {sorted(plain.programs)}")
        for name in sorted(names[0]):
            self._same_file(name, cached.files[name], plain.files[name])


def _different(some: dict[str, bytes], others: dict[str, bytes]) -> set[str]:
    """The files that plain clang itself makes otherwise each time: they hold names of its temporary files (linker maps,
    dependency files of links, debugging information of device LTO)."""
    return {name for name in {*some, *others} if some.get(name) != others.get(name)}


def _without(ended: Ended, names: set[str]) -> Ended:
    files = {name: content for name, content in ended.files.items() if name not in names}
    return Ended(ended.status, ended.out, ended.err, files, ended.programs - names)


def neutral(text: bytes) -> bytes:
    """Without the random names of temporary files, addresses in memory, times, and the word of the dynamic linker on
    LD_DEBUG=nothing that each process says: hipcache starts others than the compiler."""
    text = re.sub(rb"warning: debug option `nothing' unknown; .*\n", b"", text)
    text = re.sub(rb"0x[0-9a-f]{8,}", b"0xX", text)
    text = re.sub(rb"-[0-9a-f]{6}(?=[-.\"/ ])", b"-XXXXXX", text)
    return re.sub(rb"\d+\.\d+ ?(?=s|\()|\d+\.\d{4,}", b"N", text)
