"""Who compiles: plain clang, ccache, sccache and hipcache behind one interface, each with a store of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from measure import tree_cpu
from scenario import Expect, Scenario, State, disagreements
from trouble import BenchError
from workload import Architectures

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
    return find_program(name, "install Debian's package 'clang-15', or name one with --compiler")


def find_ninja() -> str:
    return find_program("ninja", "install this project's extra 'bench'")


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
        self._empty_config = home / "no-config"
        self._base = dict(env)
        home.mkdir(parents=True, exist_ok=True)
        self._empty_config.touch()

    def launcher(self) -> tuple[str, ...]:
        """What stands before the compiler in a compile command."""
        return ()

    def environment(self) -> dict[str, str]:
        """The environment of a build."""
        return {**self._base, **self.settings()}

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

    def complaints(
        self, scenario: Scenario, counted: Mapping[str, int], sources: int, sets: Architectures
    ) -> list[str]:
        """What shows that the measured build was not the one that the scenario means. Empty: all is well."""
        return []

    def reset(self) -> None:
        """An empty store."""
        self.close()
        shutil.rmtree(self.store, ignore_errors=True)
        self.store.mkdir(parents=True)
        self.open()

    def save(self, target: Path) -> None:
        """Copy the store."""
        self.close()
        shutil.copytree(self.store, target, symlinks=True)
        self.open()

    def restore(self, saved: Path) -> None:
        """Put a copy in the store's place."""
        self.close()
        shutil.rmtree(self.store, ignore_errors=True)
        shutil.copytree(saved, self.store, symlinks=True)
        self.open()

    def _ask(self, *argv: str) -> str:
        done = subprocess.run(argv, env=self.environment(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchError(f"'{' '.join(argv)}' ended with status {done.returncode}", done.stderr.strip()[-2000:])
        return done.stdout


def whole_object_complaints(scenario: Scenario, hits: int, misses: int, sources: int) -> list[str]:
    """A cache of whole objects that misses when nothing has changed, or hits when it is empty, is set up wrongly.

    Every other scenario is its own affair: it may know more ways to hit than one expects.
    """
    if scenario.state is State.EMPTY and misses != sources:
        return [f"{misses} misses instead of {sources}"]
    if scenario.state is State.BASE and scenario.expect is Expect.NONE and not scenario.edit and hits != sources:
        return [f"{hits} hits instead of {sources}"]
    return []


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
        return {"CCACHE_DIR": str(self.store), "CCACHE_CONFIGPATH": str(self._empty_config)}

    def version(self) -> str:
        return self._ask(self._program, "--version").splitlines()[0]

    def counters(self) -> dict[str, int]:
        pairs = (line.split() for line in self._ask(self._program, "--print-stats").splitlines())
        return {name: int(count) for name, count in pairs if not name.endswith("timestamp")}

    def complaints(
        self, scenario: Scenario, counted: Mapping[str, int], sources: int, sets: Architectures
    ) -> list[str]:
        hits = counted.get("direct_cache_hit", 0) + counted.get("preprocessed_cache_hit", 0)
        return whole_object_complaints(scenario, hits, counted.get("cache_miss", 0), sources)


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
        }

    def version(self) -> str:
        return self._ask(self._program, "--version").strip()

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
        told = json.loads(self._ask(self._program, "--show-stats", "--stats-format=json"))
        return flatten(told.get("stats", {}))

    def server_cpu(self) -> float:
        return tree_cpu(self._server.pid) if self._server is not None else 0.0

    def complaints(
        self, scenario: Scenario, counted: Mapping[str, int], sources: int, sets: Architectures
    ) -> list[str]:
        hits = sum(count for name, count in counted.items() if name.startswith("cache_hits.counts."))
        misses = sum(count for name, count in counted.items() if name.startswith("cache_misses.counts."))
        return whole_object_complaints(scenario, hits, misses, sources)


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
        return {"HIPCACHE_DIR": str(self.store), "HIPCACHE_CONFIG": str(self._empty_config), "HIPCACHE_RESIDENT": "1"}

    def version(self) -> str:
        return self._ask(self._program, "--version").strip()

    def counters(self) -> dict[str, int]:
        told = flatten(json.loads(self._ask(self._program, "stats", "--json")))
        return {name: count for name, count in told.items() if not name.startswith("store.")}

    def complaints(
        self, scenario: Scenario, counted: Mapping[str, int], sources: int, sets: Architectures
    ) -> list[str]:
        return disagreements(scenario, counted, sources, sets)


def flatten(value: object, prefix: str = "") -> dict[str, int]:
    """The whole numbers of a JSON value under dotted names."""
    if isinstance(value, dict):
        found: dict[str, int] = {}
        for key, inner in value.items():
            found.update(flatten(inner, f"{prefix}.{key}" if prefix else str(key)))
        return found
    return {prefix: value} if isinstance(value, int) and not isinstance(value, bool) else {}


#: In the order in which they take turns.
TOOLS: dict[str, type[Tool]] = {tool.name: tool for tool in (Tool, Ccache, Sccache, Hipcache)}
USUAL = list(TOOLS)
TITLES = {name: tool.title for name, tool in TOOLS.items()}
