"""Who compiles: plain clang, ccache, sccache and hipcache behind one interface, each with a store of its own."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from measure import tree_cpu
from trouble import BenchError

#: Settings of the tools that a user may have, and make's job server, which some of the tools would obey.
FOREIGN = ("CCACHE_", "SCCACHE_", "HIPCACHE_", "MAKE", "MFLAGS", "GNUMAKEFLAGS", "RUSTC_WRAPPER", "NINJA_STATUS")


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of all builds: the user's, without what would make two runs differ."""
    kept = {name: value for name, value in environ.items() if not name.startswith(FOREIGN)}
    return {**kept, "HIP_PLATFORM": "amd", "LC_ALL": "C"}


def find_program(name: str, advice: str) -> str:
    """The program of this Python's environment, or else of PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        raise BenchError(f"the program '{name}' was not found", advice)
    return found


def find_compiler(name: str) -> str:
    return find_program(name, "install Debian's package 'hipcc', or name one with --compiler")


def find_ninja() -> str:
    return find_program("ninja", "install this project's extra 'bench'")


@dataclass(frozen=True)
class Size:
    """A store: bytes on the disk (blocks of files and directories), files, bytes of a `tar` of it; `beside`: bytes on
    the disk of what the tool keeps for this machine in the directory for temporary files."""

    disk: int
    files: int
    tar: int
    beside: int = 0


class Tool:
    """Plain clang; the caches below differ from it in what is said here.

    A store is one directory with the same path for the whole run. `open` must come before a build, `close`
    before the store's files are touched.
    """

    name = "plain"
    title = "plain clang"
    caches = False

    def __init__(self, home: Path, env: Mapping[str, str]) -> None:
        self.store = home / "store"
        self.temporary = home / "temporary"
        #: Directories of the project: that of the next build, then others. Empty: the tool is told none.
        self.bases: tuple[Path, ...] = ()
        self._empty_config = home / "no-config"
        self._base = dict(env)
        self.temporary.mkdir(parents=True, exist_ok=True)
        self._empty_config.touch()

    def launcher(self) -> tuple[str, ...]:
        """What stands before the compiler in a compile command."""
        return ()

    def environment(self) -> dict[str, str]:
        """The environment of a build."""
        return {**self._base, "TMPDIR": str(self.temporary), **self.settings()}

    def settings(self) -> dict[str, str]:
        """The tool's own variables."""
        return {}

    def version(self) -> str:
        """The tool's version, in one line."""
        return ""

    def open(self) -> None:
        """Get ready to compile with the store as it is."""

    def close(self) -> None:
        """Leave the store alone until `open`."""

    def counters(self) -> dict[str, int]:
        """What the tool has counted so far, each counter with a dotted name."""
        return {}

    def server_cpu(self) -> float:
        """CPU seconds used so far by a server that compiles for the tool."""
        return 0.0

    def outcome(self, counted: Mapping[str, int]) -> dict[str, int]:
        """What became of the compiles, by counters that moved: hits, misses ..."""
        return {}

    def size(self) -> Size:
        """The store, as it is now."""
        states, beside = _states(self.store), _states(self.temporary)
        files = sum(stat.S_ISREG(state.st_mode) for state in states)
        # A header of 512 bytes for each entry, contents in blocks of 512, all of it in records of 10 kB.
        blocks = sum(1 + (-(-state.st_size // 512) if stat.S_ISREG(state.st_mode) else 0) for state in states)
        disk, elsewhere = (sum(state.st_blocks for state in some) * 512 for some in (states, beside))
        return Size(disk, files, -(-(blocks + 2) // 20) * 10240, elsewhere)

    def reset(self, *, headers: bool = False) -> None:
        """An empty store. `headers`: precompiled headers stay."""
        self.close()
        for directory in (self.store,) if headers else (self.store, self.temporary):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
        self.open()

    def unpack(self) -> None:
        """Move the store through a tar archive to another place, as a CI service does."""
        self.close()
        place = self.store.with_name(f"{self.store.name}-unpacked")
        place.mkdir()
        archive = self.store.with_name("store.tar")
        subprocess.run(["tar", "-C", self.store, "-cf", archive, "."], check=True)
        subprocess.run(["tar", "-C", place, "-xf", archive], check=True)
        archive.unlink()
        for directory in (self.store, self.temporary):
            shutil.rmtree(directory)
        self.temporary.mkdir()
        self.store = place
        self.open()

    def ask(self, *argv: str) -> str:
        """What a command prints."""
        done = subprocess.run(argv, env=self.environment(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchError(f"'{' '.join(argv)}' ended with status {done.returncode}", done.stderr.strip()[-2000:])
        return done.stdout


class Ccache(Tool):
    """ccache with its defaults: direct mode on."""

    name = "ccache"
    title = "ccache"
    caches = True

    def __init__(self, home: Path, env: Mapping[str, str]) -> None:
        super().__init__(home, env)
        self._program = find_program("ccache", "install Debian's package 'ccache', or leave it out with --tools")

    def launcher(self) -> tuple[str, ...]:
        return (self._program,)

    def settings(self) -> dict[str, str]:
        base = {"CCACHE_BASEDIR": str(self.bases[0]), "CCACHE_NOHASHDIR": "1"} if self.bases else {}
        # Without XDG_RUNTIME_DIR its table of inodes (5.9 MB of 4.14) would be in the store.
        base["CCACHE_TEMPDIR"] = str(self.temporary / "ccache")
        return {"CCACHE_DIR": str(self.store), "CCACHE_CONFIGPATH": str(self._empty_config), **base}

    def version(self) -> str:
        return self.ask(self._program, "--version").splitlines()[0]

    def counters(self) -> dict[str, int]:
        pairs = (line.split() for line in self.ask(self._program, "--print-stats").splitlines())
        return {name: int(count) for name, count in pairs if not name.endswith("timestamp")}

    def outcome(self, counted: Mapping[str, int]) -> dict[str, int]:
        names = {"direct_cache_hit": "direct", "preprocessed_cache_hit": "preprocessed", "cache_miss": "miss"}
        return {word: counted[name] for name, word in names.items() if name in counted}


class Sccache(Tool):
    """sccache with a server of our own, which ends with the benchmark."""

    name = "sccache"
    title = "sccache"
    caches = True

    def __init__(self, home: Path, env: Mapping[str, str]) -> None:
        super().__init__(home, env)
        advice = "install it with pip install '.[bench]', or leave it out with --tools"
        self._program = find_program("sccache", advice)
        self._socket = home / "socket"
        self._log = home / "server.log"
        self._server: subprocess.Popen[bytes] | None = None

    def launcher(self) -> tuple[str, ...]:
        return (self._program,)

    def settings(self) -> dict[str, str]:
        return {
            "SCCACHE_DIR": str(self.store),
            "SCCACHE_CONF": str(self._empty_config),
            "SCCACHE_SERVER_UDS": str(self._socket),
            "SCCACHE_IDLE_TIMEOUT": "0",
            "SCCACHE_BASEDIRS": ":".join(map(str, self.bases)),
        }

    def version(self) -> str:
        return self.ask(self._program, "--version").strip()

    def open(self) -> None:
        # In the foreground, so that its process is known: the CPU time of its compiles is found there.
        env = {**self.environment(), "SCCACHE_START_SERVER": "1", "SCCACHE_NO_DAEMON": "1"}
        self._socket.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(
                [self._program], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        for _ in range(200):
            if self._server.poll() is not None:
                break
            if self._socket.exists():
                return
            time.sleep(0.05)
        raise BenchError("sccache's server does not start", self._log.read_text(errors="replace").strip()[-2000:])

    def close(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        subprocess.run([self._program, "--stop-server"], env=self.environment(), capture_output=True, check=False)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()

    def counters(self) -> dict[str, int]:
        told = json.loads(self.ask(self._program, "--show-stats", "--stats-format=json"))
        return flatten(told.get("stats", {}))

    def server_cpu(self) -> float:
        return tree_cpu(self._server.pid) if self._server is not None else 0.0

    def outcome(self, counted: Mapping[str, int]) -> dict[str, int]:
        names = {"cache_hits.counts.": "hit", "cache_misses.counts.": "miss"}
        sums = {word: sum(n for name, n in counted.items() if name.startswith(start)) for start, word in names.items()}
        return {word: count for word, count in sums.items() if count}


class Hipcache(Tool):
    """hipcache as this checkout's environment has it."""

    name = "hipcache"
    title = "hipcache"
    caches = True

    def __init__(self, home: Path, env: Mapping[str, str]) -> None:
        super().__init__(home, env)
        self._program = find_program("hipcache", "install this project into the environment that runs the benchmark")

    def launcher(self) -> tuple[str, ...]:
        return (self._program,)

    def settings(self) -> dict[str, str]:
        base = {"HIPCACHE_BASEDIR": str(self.bases[0])} if self.bases else {}
        return {
            "HIPCACHE_DIR": str(self.store),
            "HIPCACHE_CONFIG": str(self._empty_config),
            "HIPCACHE_RESIDENT": "1",
            **base,
        }

    def version(self) -> str:
        return self.ask(self._program, "--version").strip()

    def counters(self) -> dict[str, int]:
        told = flatten(json.loads(self.ask(self._program, "stats", "--json")))
        return {name: count for name, count in told.items() if not name.startswith("store.")}

    def outcome(self, counted: Mapping[str, int]) -> dict[str, int]:
        names = {f"compiles.{word}": word for word in ("hit", "partial", "miss", "passed_through", "failed")}
        names |= {"jobs.frontend.misses": "front ends", "jobs.backend.misses": "back ends"}
        names |= {name: name.partition(".")[2] for name in counted if name.startswith(("passed_through.", "not_kept."))}
        return {word: counted[name] for name, word in names.items() if name in counted}


def _states(directory: Path) -> list[os.stat_result]:
    return [path.lstat() for path in (directory, *directory.rglob("*"))] if directory.is_dir() else []


def flatten(value: object, prefix: str = "") -> dict[str, int]:
    """The whole numbers of a JSON value under dotted names."""
    if isinstance(value, dict):
        found: dict[str, int] = {}
        for key, inner in value.items():
            found.update(flatten(inner, f"{prefix}.{key}" if prefix else str(key)))
        return found
    return {prefix: value} if isinstance(value, int) and not isinstance(value, bool) else {}


def difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """What was counted in between; counters that did not move are left out."""
    moved = {name: after.get(name, 0) - before.get(name, 0) for name in sorted({*before, *after})}
    return {name: count for name, count in moved.items() if count}


#: In the order in which they take turns.
TOOLS: dict[str, type[Tool]] = {tool.name: tool for tool in (Tool, Ccache, Sccache, Hipcache)}
