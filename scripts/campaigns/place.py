"""The place of a campaign: sources, what plain clang makes of them, a store, and what nobody may touch.

    ROOT/work       the build tree: sources, objects
    ROOT/store      HIPCACHE_DIR
    ROOT/run, home  the user's; ROOT/outside: files that no compile has anything to do with

A trial that goes wrong raises `Finding`: a wrong object, a build that fails or hangs, a write outside.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from campaigns.sources import FLAGS, HEADER, SOURCE

# With these variables the native launcher leaves every compile to the engine, which alone reads "~".
BY_ENGINE = {"HIPCACHE_LOG": "~/../log"}
# In the root, what compiles and the trials themselves make.
OURS = ("store", "known", "template", "run", "log", "shared")
OTHER = "other.hip"  # whose compile leaves the digests of the compiler in a store
NO_STORE = 0.125
BOUND = 60.0  # seconds after which a command counts as hung, on a busy machine


class Finding(Exception):
    """What went wrong in a trial."""


@dataclass(frozen=True)
class Ended:
    """What a command left behind. `seconds`: by the clock on the wall."""

    status: int
    out: str
    err: str
    seconds: float


@dataclass
class Place:
    """See above. `settled`: seconds after which the engine takes a file for old; `golden`: the object of each source,
    by its name. `known`, `template`: copies of a store, see `prepare`."""

    root: Path
    launcher: Sequence[str]
    compiler: str
    settled: float = 2.2
    golden: dict[str, bytes] = field(default_factory=dict)
    rules: dict[str, bytes] = field(default_factory=dict)
    known: Path | None = None
    template: Path | None = None
    _untouched: dict[str, object] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    def make(self, sources: int = 1) -> None:
        """Write the project, and have plain clang compile it."""
        for name in ("work", "home", "outside/directory", "run"):
            (self.root / name).mkdir(parents=True)
        (self.root / "run").chmod(0o700)
        (self.outside / "file").write_text("nobody may change this\n")
        (self.outside / "directory" / "file").write_text("nor this\n")
        (self.outside / "directory" / ("0" * 62)).write_text("nor what is named like an entry\n")
        (self.root / "home" / ".profile").write_text("# the user's\n")
        (self.work / "hip_in_short.hpp").write_text(HEADER)
        (self.work / "value.hpp").write_text("#define VALUE 7\n")
        for number in range(sources):
            self._make_source(f"k{number}.hip", number)
        time.sleep(self.settled)
        self.note_untouched()

    def _make_source(self, name: str, number: int) -> None:
        (self.work / name).write_text(SOURCE.format(number=number))
        plain = self.run(self.words(name)[len(self.launcher) :])
        if plain.status != 0:
            raise SystemExit(f"plain clang cannot compile here: {plain.err}")
        self.golden[name] = self.object_of(name).read_bytes()
        self.object_of(name).unlink()
        self.object_of(name).with_suffix(".d").unlink()

    def words(self, source: str = "k0.hip", output: str = "") -> list[str]:
        output = output or self.object_of(source).name
        return [*self.launcher, self.compiler, *FLAGS, "-MD", "-c", source, "-o", output]

    def object_of(self, source: str = "k0.hip") -> Path:
        return self.work / (source.removesuffix(".hip") + ".o")

    def environ(self, *, resident: bool = False, more: Mapping[str, str] | None = None) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.root / "home"),
            "XDG_RUNTIME_DIR": str(self.root / "run"),
            "HIPCACHE_DIR": str(self.store),
            "HIPCACHE_RESIDENT": "1" if resident else "0",
            "HIP_PLATFORM": "amd",
            "LC_ALL": "C",
            **(more or {}),
        }

    def start(
        self,
        words: Sequence[str],
        *,
        resident: bool = False,
        env: Mapping[str, str] | None = None,
        before: Callable[[], object] | None = None,
    ) -> subprocess.Popen[bytes]:
        """In a session of its own, so that all of it can be ended. `before` runs in the child."""
        return subprocess.Popen(
            list(words),
            cwd=self.work,
            env=self.environ(resident=resident, more=env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=before,  # noqa: PLW1509
        )

    def run(
        self,
        words: Sequence[str],
        *,
        resident: bool = False,
        env: Mapping[str, str] | None = None,
        before: Callable[[], object] | None = None,
        bound: float = BOUND,
    ) -> Ended:
        """Raises Finding where it does not end within `bound` seconds."""
        return self.wait(self.start(words, resident=resident, env=env, before=before), bound)

    def wait(self, process: subprocess.Popen[bytes], bound: float = BOUND) -> Ended:
        begun = time.monotonic()
        try:
            out, err = process.communicate(timeout=bound)
        except subprocess.TimeoutExpired:
            end_group(process)
            words = process.args if isinstance(process.args, list) else []
            raise Finding(f"hung: no end after {bound:.0f} s: {' '.join(map(str, words))}") from None
        return Ended(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), _since(begun))

    def compile(
        self,
        source: str = "k0.hip",
        *,
        resident: bool = False,
        env: Mapping[str, str] | None = None,
        before: Callable[[], object] | None = None,
    ) -> Ended:
        """Raises Finding where the object is not plain clang's, or the build would stop."""
        for path in (self.object_of(source), self.object_of(source).with_suffix(".d")):
            path.unlink(missing_ok=True)
        ended = self.run(self.words(source), resident=resident, env=env, before=before)
        self.check(source, ended)
        return ended

    def check(self, source: str, ended: Ended) -> None:
        if ended.status != 0:
            raise Finding(f"lost build: status {ended.status}: {ended.err.strip()[-400:]}")
        self.check_object(source, must=True)
        if "Traceback" in ended.err:
            raise Finding(f"traceback: {ended.err.strip()[-400:]}")
        rule = self.object_of(source).with_suffix(".d").read_bytes()
        if self.rules.setdefault(source, rule) != rule:
            raise Finding(f"another dependency file: {rule!r}")

    def check_object(self, source: str, *, must: bool = False) -> None:
        """What is there must be whole and right; `must`: and there."""
        path = self.object_of(source)
        if not path.exists():
            if must:
                raise Finding("lost build: no object, and status 0")
        elif path.read_bytes() != self.golden[source]:
            raise Finding(f"wrong object '{path}', {path.stat().st_size} bytes")

    # What nobody may touch

    def note_untouched(self) -> None:
        self._untouched = self._state()

    def check_untouched(self) -> None:
        """Raises Finding where something outside of the store was made, changed or removed."""
        now, before = self._state(), self._untouched
        changed = sorted(path for path in {*now, *before} if now.get(path) != before.get(path))
        if changed:
            self._untouched = now
            raise Finding(f"written outside of the store: {', '.join(changed[:5])}")

    def _state(self) -> dict[str, object]:
        state: dict[str, object] = {name: "" for name in os.listdir(self.root) if name not in OURS}
        for top in (self.work, self.root / "home", self.outside):
            for directory, names, files in os.walk(top):
                for name in names:
                    state[f"{directory}/{name}/"] = os.lstat(f"{directory}/{name}").st_mode
                for name in files:
                    path = f"{directory}/{name}"
                    if directory == str(self.work) and (name.endswith((".o", ".d")) or is_leftover(name)):
                        continue
                    found = os.lstat(path)
                    content = Path(path).read_bytes() if stat.S_ISREG(found.st_mode) else b""
                    state[path] = (found.st_mode, found.st_uid, found.st_mtime_ns, content)
        return state

    # The store

    def prepare(self, sources: int = 1) -> None:
        """`make`, and two stores: `known` knows the compiler, whose digest takes longer than a compile, and none of the
        sources; `template` has each of them, with all that a direct hit needs."""
        self.make(sources)
        self._make_source(OTHER, -1)
        for _ in range(2):
            self.compile(OTHER)
        del self.golden[OTHER]
        self.known = self.copy("known")
        for source in self.golden:
            for _ in range(3):
                self.compile(source)
        self.template = self.copy("template")

    def copy(self, name: str) -> Path:
        """A copy of the store as it is now, to be restored."""
        copy = self.root / name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.store, copy, symlinks=True)
        self.note_untouched()
        return copy

    def restore_cold(self, dice: Random) -> None:
        """A store that has none of the sources; one in eight times no store at all."""
        self.restore(None if dice.random() < NO_STORE else self.known)

    def restore(self, copy: Path | None) -> None:
        """The store as that copy has it (None: no store)."""
        with suppress(FileNotFoundError):
            if self.store.is_symlink() or not self.store.is_dir():
                self.store.unlink()
            else:
                shutil.rmtree(self.store)
        if copy:
            shutil.copytree(copy, self.store, symlinks=True)

    # The resident

    def residents(self) -> list[int]:
        """Those of this place."""
        mine = f"XDG_RUNTIME_DIR={self.root / 'run'}".encode()
        found = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                with suppress(OSError):
                    words = (process / "cmdline").read_bytes().split(b"\0")
                    variables = (process / "environ").read_bytes().split(b"\0")
                    if words[:2] == [b"hipcache", b"--resident"] and mine in variables:
                        found.append(int(process.name))
        return found

    def end(self) -> None:
        for process in self.residents():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def end_group(process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
    """All that a command started (and that stayed in its group)."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=10)


def is_leftover(name: str) -> bool:
    """A file that a killed process had not finished; clang leaves its own, too."""
    return name.startswith(".") and (name.endswith((".tmp", ".hipcache")) or ".hipcache" in name)


def _since(begun: float) -> float:
    return time.monotonic() - begun
