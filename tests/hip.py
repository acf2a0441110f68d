"""What the tests of compiles share: plain clang and hipcache side by side, and what hipcache counted meanwhile.

How to write a quick test (a compile of a bare source costs 0.2 s of plain clang, 0.3 s of hipcache, 0.01 s warm):

- `lab.warm()`, then one change, then `lab.changed()` or `lab.compile()`: plain clang is asked again only after a change
  (`golden`), and once for all tests that begin with the same files and command (`golden_of_all`). A loop that rewrites
  a file that stays the same makes it run anew. Own comparisons go through `lab.plain`.
- `kernel(...)`, HIP_IN_SHORT and BARE instead of HIP's own headers, which take a second for each pass.
- `lab.counted()`, `lab.stats()`, `statistics(environ)` instead of a process `hipcache stats`.
- Nothing sleeps until a file is old: `same` and `plain` see to it, `settle()` does elsewhere. Engines of tests take an
  instant for old (`racy`), and know the compilers from the run's other tests (`shared_memos`).
- Where something is waited for, wait for it, with a bound. Each test has one as well (`bound`), as has each command of
  `lab.run`; children begin with the usual signals, also in a background job.
- Costly projects and programs are made once, in a fixture of the module; a configured build directory can be used by
  several tests if each has a target of its own.
- The marker `archs(1)` on a module where a second architecture proves nothing, which costs a fifth of a compile more;
  `archs(2)` on its tests that tell one from the other. In a full run each compile is for two.
- `only_15`, `only_19` where the compiler cannot matter. Three cases of a matrix or more meet one compiler each in
  `make test`, and all in `make test-full`: see `sampling`, also for samples of a large matrix.
- In a short run most engines of labs and most runs of SCons are forked (`forked_engines`, `forked_scons`; not with the
  marker `as_users`), and root's clang
  loads copies of libraries, with which it starts in half the time (`prelinked`): neither with TEST_AS_USERS=1, nor in
  `make test-full`.
- pytest's `--durations=20` says where the time goes; count CPU seconds (`time`: user + sys), not seconds of the clock.
"""

from __future__ import annotations

import atexit
import fcntl
import io
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

import forked_engines
import pytest
import shared_memos
from golden import Golden, Tree
from golden_of_all import GoldenOfAll
from hipcache import cli

# Seconds after which a file is old for that engine.
SETTLED = 0.04
ENGINE_ALONE = (sys.executable, "-m", "hipcache")
LLVM = {version: Path(f"/usr/lib/llvm-{version}") for version in ("15", "19", "22")}
DEVICE_LIBRARIES = Path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")

ARCHS = ("--offload-arch=gfx906", "--offload-arch=gfx90a")
# Without HIP's headers and device libraries a compile takes a fifth of a second.
BARE = ("-nogpuinc", "-nogpulib")
# The driver's own CUID hashes the command line; the same one for both makes objects comparable.
CUID = "-cuid=5eed"


def _session() -> Path:
    """A directory that all workers of this run share; the process that began it removes it."""
    known = os.environ.get("TEST_SESSION")
    if known is None:
        known = os.environ["TEST_SESSION"] = tempfile.mkdtemp(prefix="hipcache-tests-")
        os.chmod(known, 0o755)  # some tests compile as another user
        atexit.register(shutil.rmtree, known, ignore_errors=True)
    return Path(known)


SESSION = _session()
# Each start of pytest changes the mode of the directory above those of all runs: what compiles below it in another run
# would count as moved, and would not be kept. So this run has one of its own.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(SESSION))


# The engine as the native launcher finds it, with a file system that stamps files to the tick: what is older than that
# is remembered for a direct hit, while the real engine waits for two seconds (`trace.RACY`). And what one test has
# learnt of a compiler spares the next one its digest, which takes as long as all its compiles (see `shared_memos`).
# (Its modules are looked for where the interpreter looks first, as ever: a longer path costs it a tenth of its start.)
_ENGINE = f"""\
#!{sys.executable}
import os, sys
sys.path.append({str(Path(__file__).parent)!r})
from hipcache.__main__ import main
from hipcache.launcher import launch as launcher
launch = launcher.launch
def quick(argv, environ):
    import shared_memos
    shared_memos.share({str(SESSION / "memos")!r})
    return launch(argv, environ, racy=0.03)
launcher.launch = quick
sys.exit(main())
"""


def _launcher() -> str:
    """The installed native launcher, beside an engine for tests."""
    directory = Path(tempfile.mkdtemp(prefix="launcher-", dir=SESSION))
    Path(directory).chmod(0o755)  # for tests of several users
    shutil.copy(Path(sys.executable).with_name("hipcache"), directory)
    (directory / "hipcache-engine").write_text(_ENGINE)
    (directory / "hipcache-engine").chmod(0o755)
    return str(directory / "hipcache")


LAUNCHER = (_launcher(),)

FULL = bool(os.environ.get("TEST_FULL"))
# All tests through the resident, which is to know every file of a lab (`make test-full`).
RESIDENT = bool(os.environ.get("TEST_RESIDENT"))
# All front ends may use precompiled preambles, as by default (`make test-full`).
PREAMBLES = bool(os.environ.get("TEST_PREAMBLES"))
# Each engine is started as users start it (`forked_engines`), each clang loads the system's libraries (`prelinked`).
AS_USERS = os.environ.get("TEST_AS_USERS", "1" if FULL or RESIDENT else "0") not in ("", "0")


# Do labs fork the engines that a test starts by the launcher?
forks = True


def launcher_of_comparisons() -> tuple[str, ...]:
    """For those with plain clang, which look at all that comes out."""
    return LAUNCHER if AS_USERS else (forked_engines.launcher(*LAUNCHER),)


# What HIP's headers declare for a kernel and its launch, in our words.
HIP_IN_SHORT = """\
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __constant__ __attribute__((constant))
#define __shared__ __attribute__((shared))
struct dim3 {
    unsigned x, y, z;
    __host__ __device__ dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*);
extern "C" unsigned __hipPushCallConfiguration(dim3, dim3, unsigned long = 0, void* = nullptr);
extern "C" unsigned __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, void*);
"""

KERNEL = """\
#include "hip_in_short.hpp"
extern "C" __global__ void kernel(int* p) { p[0] = p[1] * 3; }
"""

HIT, PARTIAL, MISS, PASSED_THROUGH, FAILED = "hit", "partial", "miss", "passed_through", "failed"


def kernel(value: str, before: str = "") -> str:
    """A source whose kernel and host function hold `value`. `before`: lines of its own."""
    return f"""\
#include "hip_in_short.hpp"
{before}
extern "C" __global__ void kernel(int* p) {{ p[0] = p[1] * 7 + ({value}); }}
extern "C" int host() {{ return ({value}) + 5; }}
"""


Result = TypeVar("Result")


@dataclass(frozen=True)
class Ended:
    """What a process left behind."""

    status: int
    out: bytes
    err: bytes


@dataclass(frozen=True)
class Made:
    """What a compile left behind. `object`: None where there is none."""

    ended: Ended
    object: bytes | None
    rule: str


@dataclass(frozen=True)
class Counted:
    """What one compile added to the statistics. `missed`/`served`: the units, by name."""

    outcome: str
    reason: str
    missed: frozenset[str]
    served: frozenset[str]
    front_ends: int
    back_ends: int


@dataclass(frozen=True)
class Compiled:
    """A compile that was the same with hipcache as without. `plain_dependencies` are clang's own."""

    object: bytes
    messages: str
    status: int
    counted: Counted
    dependencies: str
    plain_dependencies: str

    @property
    def outcome(self) -> str:
        return self.counted.outcome


def write_files(root: Path, files: Mapping[str, str]) -> None:
    """`files`: names below `root` -> text."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def settle() -> None:
    """Let a written file grow older than the tick below which a change cannot be told from one during the compile."""
    time.sleep(SETTLED)


def statistics(environ: Mapping[str, str], *words: str) -> dict[str, object]:
    """What `hipcache stats --json` says in that environment. In this process: a new one costs 50 ms. `words`: more
    (--zero)."""
    out, err = io.StringIO(), io.StringIO()
    status = cli.run(["stats", "--json", *words], {**environ, "HIPCACHE_LOG": ""}, out, err)
    assert status == 0, err.getvalue()
    found: dict[str, object] = json.loads(out.getvalue())
    return found


def let_others_in(place: Path) -> None:
    """Let other users reach `place`. Nothing is touched that is open already, such as / and /tmp: a directory that gets
    a new change time on the way to a file counts as moved, and what compiles beside this test is not kept."""
    for path in (*reversed(place.parents), place):
        found = path.stat()
        if found.st_uid == os.getuid() and found.st_mode & 0o055 != 0o055:
            path.chmod(found.st_mode | 0o055)


def explained(environ: Mapping[str, str], *objects: str) -> str:
    """What `hipcache explain` says in that environment, of these objects or the last compile. In this process, as
    `statistics`."""
    out, err = io.StringIO(), io.StringIO()
    cli.run(["explain", *objects], {**environ, "HIPCACHE_LOG": ""}, out, err)
    return out.getvalue() + err.getvalue()


def know_tools(environ: Mapping[str, str]) -> None:
    """Let a project's store know the compilers that tests have met (see `shared_memos`)."""
    shared_memos.give(SESSION / "memos", environ)


def in_terminal(argv: Sequence[str], cwd: Path, environ: Mapping[str, str], columns: int = 60) -> tuple[int, bytes]:
    """(exit status, what was printed) of a command in a terminal of that many columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
    process = subprocess.Popen(argv, cwd=cwd, env=environ, stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    received = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        received += piece
    os.close(leader)
    return process.wait(), received


@dataclass
class Lab:
    """A directory to compile in, a store, and a compiler. `archs`: those of a command that names none."""

    root: Path
    version: str
    compiler: str
    environ: dict[str, str] = field(default_factory=dict)
    archs: tuple[str, ...] = ARCHS
    _seen: dict[str, object] = field(default_factory=dict)
    _golden: Golden = field(default_factory=Golden)

    @classmethod
    def make(cls, root: Path, version: str) -> Lab:
        for name in ("work", "home", "run"):
            (root / name).mkdir()
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HIPCACHE_", "XDG_", "MAKEFLAGS", "MFLAGS", "COLUMNS", "PYTEST_", "TEST_"))
        }
        environ |= {
            "HOME": str(root / "home"),
            "HIPCACHE_DIR": str(root / "store"),
            "LC_ALL": "C",
            "HIP_PLATFORM": "amd",
            "HIPCACHE_RESIDENT": "0",  # one for each test would be more than a user may have: test_resident.py
            # Tests count passes, and most compile one source once or twice: test_preambles.py
            "HIPCACHE_PREAMBLES": str(int(PREAMBLES)),
        }
        environ["XDG_RUNTIME_DIR"] = str(root / "run")
        if RESIDENT:
            environ |= {"HIPCACHE_RESIDENT": "1", "HIPCACHE_SYSTEM_PATHS": f"{root / 'work'}:/usr:/lib:/etc:/bin"}
            environ["XDG_RUNTIME_DIR"] = _runtime()
        golden = Golden(of_all=None if AS_USERS else GoldenOfAll(SESSION, root))
        lab = cls(root / "work", version, str(LLVM[version] / "bin" / "clang++"), environ, _golden=golden)
        lab.write("hip_in_short.hpp", HIP_IN_SHORT)
        lab.write("k.hip", KERNEL)
        return lab

    @property
    def store(self) -> Path:
        return Path(self.environ["HIPCACHE_DIR"])

    def write(self, name: str | Path, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        seconds: float = 120,
    ) -> Ended:
        """Its end, within `seconds`. An engine is forked (see `forked_engines`) where the launcher is the first word,
        but not in tests marked `as_users`, which see who started it."""
        words = [os.fspath(word) for word in argv]
        if forks and not AS_USERS and words[:1] == [*LAUNCHER]:
            words[:1] = launcher_of_comparisons()
            settle()  # a start takes longer: what was just written is old enough to be remembered then
        done = subprocess.run(
            words,
            cwd=cwd or self.root,
            env={**self.environ, **(env or {})},
            input=stdin,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def hipcache(self, *argv: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Ended:
        return self.run([*LAUNCHER, *argv], cwd=cwd, env=env)

    def stats(self) -> dict[str, object]:
        return statistics(self.environ)

    def count_anew(self) -> None:
        """Let what many compiles have counted until now be none of the next one's."""
        self._seen = self.stats()

    def counted(self) -> Counted:
        """What was counted since the last call. Exactly one compile must have ended, or none ("nothing")."""
        before, after = self._seen, self.stats()
        self._seen = after

        def grown(*names: str) -> dict[str, int]:
            old, new = before, after
            for name in names:
                old, new = old.get(name, {}), new.get(name, {})  # type: ignore[assignment,attr-defined]
            return {name: int(new[name]) - int(old.get(name, 0)) for name in new if new[name] != old.get(name, 0)}  # type: ignore[call-overload]

        outcomes = grown("compiles") or grown("checks")
        assert sum(outcomes.values()) <= 1, f"more than one compile: {outcomes}"
        reasons = grown("passed_through")
        units = {name: grown("units", name) for name in after["units"]}  # type: ignore[attr-defined]
        return Counted(
            next(iter(outcomes), "nothing"),
            next(iter(reasons), ""),
            frozenset(name for name, tally in units.items() if tally.get("misses")),
            frozenset(name for name, tally in units.items() if tally.get("hits")),
            grown("jobs", "frontend").get("misses", 0),
            grown("jobs", "backend").get("misses", 0),
        )

    def words(self, *flags: str | Path, source: str | Path = "k.hip", output: str = "out.o") -> list[str]:
        """The command line of a compile, the compiler first."""
        archs = () if any("-arch=" in os.fspath(f) for f in flags) else self.archs
        cuid = () if any("cuid=" in os.fspath(f) for f in flags) else (CUID,)
        level = () if any(os.fspath(f).startswith("-O") for f in flags) else ("-O2",)
        words = [self.compiler, *archs, *BARE, *level, *cuid, *flags, "-c", source, "-o", output]
        return [os.fspath(word) for word in words]

    def compile(
        self,
        *flags: str | Path,
        source: str | Path = "k.hip",
        output: str = "out.o",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Compiled:
        """The fresh compile of plain clang, then hipcache's: everything about them must be the same."""
        return self.same(self.words(*flags, source=source, output=output), output=output, cwd=cwd, env=env)

    def same(
        self,
        command: Sequence[str],
        *,
        output: str = "out.o",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Compiled:
        directory = cwd or self.root
        made, rule = directory / output, (directory / output).with_suffix(".d")

        def run(*launcher: str) -> Made:
            for path in (made, rule):
                path.unlink(missing_ok=True)
            ended = self.run([*launcher, *command], cwd=cwd, env=env)
            return Made(ended, made.read_bytes() if made.exists() else None, rule.read_text() if rule.exists() else "")

        for path in (made, rule):
            path.unlink(missing_ok=True)
        plain = self.plain(run, command, without=(made, rule), cwd=directory, env=env, share=True)
        cached = run(*launcher_of_comparisons())
        assert cached.ended.err.decode() == plain.ended.err.decode()
        assert (cached.ended.status, cached.ended.out) == (plain.ended.status, plain.ended.out)
        assert (cached.object is None) == (plain.object is None)
        assert cached.object == plain.object, "the object is not plain clang's"
        assert bool(cached.rule) == bool(plain.rule)
        messages = plain.ended.err.decode()
        return Compiled(cached.object or b"", messages, plain.ended.status, self.counted(), cached.rule, plain.rule)

    def plain(
        self,
        run: Callable[[], Result],
        command: Sequence[str],
        *,
        without: Sequence[Path] = (),
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        share: bool = False,
    ) -> Result:
        """What `run` gives, which is plain clang's `command`: the same again where nothing has changed since (see
        `golden`). `without`: files that are gone before each run; `share`: also what another test was given. Afterwards
        all files are old enough to be remembered.
        """
        told = {**self.environ, **(env or {})}
        apart = (Path(told["HIPCACHE_DIR"]), self.root.parent / "run", self.root.parent / "disk")

        def look() -> Tree:
            return Tree.of(self.root.parent, (*without, *apart))

        tree = look()
        made = self._golden.get(run, command, cwd or self.root, told, tree, look if share else None)
        tree.settle(SETTLED)
        return made

    def warm(
        self,
        *flags: str | Path,
        source: str | Path = "k.hip",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Compiled:
        """A compile that is served from now on, as the second one shows."""
        first = self.compile(*flags, source=source, cwd=cwd, env=env)
        assert first.status == 0, first.messages
        second = self.compile(*flags, source=source, cwd=cwd, env=env)
        assert second.outcome == HIT, f"{second.counted}\n{self.hipcache('explain').out.decode()}"
        for _ in range(3 if RESIDENT else 0):  # it is asked, told, and has time to learn
            second = self.compile(*flags, source=source, cwd=cwd, env=env)
            assert second.outcome == HIT, second.counted
        return second

    def changed(
        self,
        before: Compiled,
        *flags: str | Path,
        source: str | Path = "k.hip",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Compiled:
        """The compile after a change that matters: another object, plain clang's, and not served."""
        after = self.compile(*flags, source=source, cwd=cwd, env=env)
        assert after.status == 0, after.messages
        assert after.object != before.object, "the change does not change the object: the test shows nothing"
        assert after.outcome != HIT
        return after


def apart(lab: Lab, before: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> Ended:
    """Runs `argv` where mounts are its own, after the shell's `before`, with the variables that it would have here.
    Skips the test where this machine lets nobody mount."""
    namespace = ["unshare", "--mount", "--map-root-user"]
    if lab.run([*namespace, "true"]).status != 0:
        pytest.skip("this machine lets nobody mount")
    told = lab.environ.get("PWD")
    same = ["env", f"PWD={told}" if told else "-uPWD"]
    return lab.run([*namespace, "sh", "-c", f'{before}\nexec "$@"', "sh", *same, *argv], env=env)


@cache
def _runtime() -> str:
    """One for all labs, since a user may have few of them; the resident ends when it is gone."""
    place = tempfile.mkdtemp(prefix="hc-", dir="/tmp")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def script(path: Path, text: str) -> Path:
    """An executable shell script at `path`, which is replaced whole."""
    part = path.with_name(path.name + ".part")
    part.write_text("#!/bin/sh\n" + text)
    part.chmod(0o755)
    part.replace(path)
    return path


def same_times(path: Path, model: os.stat_result) -> None:
    os.utime(path, ns=(model.st_atime_ns, model.st_mtime_ns))


def rewrite(path: Path, content: str | bytes) -> None:
    """Other content of the same size in the same file with the same modification time."""
    old = path.stat()
    raw = content.encode() if isinstance(content, str) else content
    assert len(raw) == old.st_size, "the test means to keep the size"
    with path.open("r+b") as file:
        file.write(raw)
    same_times(path, old)
    assert path.stat().st_mtime_ns == old.st_mtime_ns


def replace(path: Path, content: bytes) -> None:
    """Another file of the same size, mode and modification time in the place of `path`."""
    old = path.stat()
    assert len(content) == old.st_size, "the test means to keep the size"
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    part.chmod(old.st_mode & 0o777)
    same_times(part, old)
    part.replace(path)


def toolchain(root: Path, version: str) -> Path:
    """A clang of its own: copies of the programs that a test may replace, links to all else. The driver's path."""
    origin = LLVM[version]
    (root / "bin").mkdir(parents=True)
    (root / "lib").mkdir()
    for name in ("clang", "lld", "clang-offload-bundler"):
        shutil.copy2(origin / "bin" / name, root / "bin" / name)
    (root / "bin" / "clang++").symlink_to("clang")
    (root / "bin" / "ld.lld").symlink_to("lld")
    for entry in (origin / "lib").iterdir():
        (root / "lib" / entry.name).symlink_to(entry)
    return root / "bin" / "clang++"


def rocm(root: Path, number: int) -> None:
    """A tree of ROCm: device libraries, that minor version, and a header <hip/value.h> whose VALUE it is."""
    write_files(
        root,
        {
            "bin/.hipVersion": f"HIP_VERSION_MAJOR=5\nHIP_VERSION_MINOR={number}\nHIP_VERSION_PATCH=1\n",
            "include/hip/value.h": f"#define VALUE {number}\n",
            "include/hip/hip_version.h": "",
        },
    )
    shutil.copytree(DEVICE_LIBRARIES, root / "amdgcn" / "bitcode")


def watched_compiler(path: Path, version: str, hook: str) -> Path:
    """A compiler whose every pass (`clang -cc1 ...`) goes through a shell script that does `hook` first.

    The script answers `-###` with the real plan, in which it has put itself where clang was. `$*` is the pass's
    command; a `hook` that ends in `exec` or `exit` replaces the pass.
    """
    real = LLVM[version] / "bin" / "clang"
    return script(
        path,
        f"""\
if [ "$1" = -cc1 ]; then
{hook}
exec {real} "$@"
fi
for word; do
    if [ "$word" = '-###' ]; then
        {real}++ "$@" 2>{path}.plan.$$ || {{ status=$?; cat {path}.plan.$$ >&2; rm {path}.plan.$$; exit $status; }}
        sed 's#^ "{real}" "-cc1"# "{path}" "-cc1"#' {path}.plan.$$ >&2
        rm {path}.plan.$$
        exit 0
    fi
done
exec {real}++ "$@"
""",
    )


def unobserved(lab: Lab) -> Lab:
    """The lab with a script for a compiler, which is not observed: its processes may outlive it."""
    lab.compiler = str(watched_compiler(lab.root.parent / "compiler", lab.version, ""))
    return lab


only_19 = pytest.mark.parametrize("lab", ["19"], indirect=True)
only_15 = pytest.mark.parametrize("lab", ["15"], indirect=True)
