"""Measures builds whose results all lie on a remote that is some milliseconds away, and local hits with a remote set.

Each tool fills its remote by one build. Then its local store and its build directory are made empty, its server or
helper is ended, and the build is run again under ninja, over a link that delays each packet by half of --delay in each
direction. A build with prefetch begins with that, and the time of it counts.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Protocol

import page
from build import ninja_file
from figures import Figures
from measure import Times, timed
from page import say
from tool import Ccache, Hipcache, Sccache, Tool, base_environment, find_compiler, find_ninja
from trouble import BenchError
from warm import SMALL
from workload import COMPILER, DEBIAN, DEBIAN_ARCHS, Compile, compile_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

ARCHES = 8
#: Seconds after which a compile is remembered whose files were just made: they may change again unseen.
OLD = 3.0
HTTP, CCACHE_REDIS, SCCACHE_REDIS, S3 = OTHERS = ("ccache, HTTP", "ccache, Redis", "sccache, Redis", "sccache, S3")
PREFETCH, NO_REMOTE = "hipcache, prefetch", "hipcache, no remote"
TARGETS = {"hipcache": 0.5, PREFETCH: 0.3}
#: A source without headers: filling the remotes takes no time, and ccache has less to hash.
LIGHT = """\
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*);
extern "C" unsigned __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, void*);
__attribute__((global)) void kNUMBER(float* p) { *p *= NUMBER.5f; }
"""


class Server(Protocol):
    """As of tests/remote_lab."""

    port: int

    def start(self) -> None: ...

    def kill(self) -> None: ...


def main(argv: Sequence[str] | None = None) -> int:
    parser = page.parser("remote", __doc__, rounds=5)
    parser.add_argument("--objects", type=int, default=60, help="sources of the build (default: 60)")
    parser.add_argument("--delay", type=float, default=20.0, help="milliseconds of a round trip (default: 20)")
    parser.add_argument("--compiler", default=COMPILER, help=f"the compiler (default: {COMPILER})")
    parser.add_argument("--light", action="store_true", help="sources without headers")
    parser.add_argument("--without", action="append", default=[], choices=OTHERS, help="leave that one out")
    options = parser.parse_args(argv)

    def measure(directory: Path) -> tuple[Mapping[str, object], str]:
        load = os.getloadavg()[0]
        found = Remotes(directory, options).measure()
        plain = {name: {figure: vars(one) for figure, one in of.items()} for name, of in found.items()}
        about = {"load": load, "delay": options.delay, "objects": options.objects, "rows": plain}
        return about, render(found, options, load)

    return page.write("remote", options.out, measure)


class Remotes:
    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        self._directory = directory
        self._options = options
        self._compiler = find_compiler(options.compiler)
        self._ninja = find_ninja()
        self._sources = directory / "src"
        self._sources.mkdir()
        for number in range(options.objects):
            text = LIGHT.replace("NUMBER", str(number)) if options.light else SMALL.format(number=number)
            (self._sources / f"k{number}.hip").write_text(text)

    def measure(self) -> dict[str, dict[str, Figures]]:
        lab = importlib.import_module("remote_lab")  # of tests/

        env = {**base_environment(os.environ), **lab.CLOUD, "XDG_RUNTIME_DIR": str(self._directory / "run")}
        (self._directory / "run").mkdir(mode=0o700)
        servers = {name: make(self._directory / name) for name, make in lab.SERVERS.items()}
        servers |= self._redis(lab)
        found: dict[str, dict[str, Figures]] = {}
        samples: dict[str, list[Times]] = {}
        with _running(servers), _links(servers, self._options.delay / 2000) as ports:
            tools = self._tools(env, ports)
            time.sleep(OLD)
            for name, tool in tools.items():
                if name in (PREFETCH, NO_REMOTE):
                    continue
                say(f"filling the remote of {name}")
                tool.reset()
                self._build(tool, name, before=tools["hipcache"].tool)
                tool.settle()
            for number in range(self._options.rounds):
                say(f"round {number + 1}")
                for name, tool in tools.items():
                    if name != NO_REMOTE:
                        tool.forget()
                        samples.setdefault(name, []).append(self._build(tool, name, first=True))
                    samples.setdefault(f"{name}, again", []).append(self._build(tool, name))
                    tool.close()
        for name, times in samples.items():
            found[name] = {
                "wall": Figures.of([one.wall for one in times]),
                "cpu": Figures.of([one.cpu for one in times]),
            }
        return found

    def _redis(self, lab: ModuleType) -> dict[str, Server]:
        """None where it is not installed. Debian's package `redis-server` starts a server for the whole machine; the
        same program comes with `redis-tools`, and goes by the name that it is called."""
        program = shutil.which("redis-server") or shutil.which("redis-check-rdb")
        if program is None:
            say("Redis is not installed (scripts/setup.sh bench): without it")
            return {}
        place, port = self._directory / "redis", lab.free_port()
        place.mkdir()
        (place / "redis-server").symlink_to(program)
        options = {"port": port, "bind": "127.0.0.1", "dir": place, "save": "", "appendonly": "no"}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        found: Server = lab.Server(place, port, [str(place / "redis-server"), *words], f"redis://127.0.0.1:{port}")
        return {"redis": found}

    def _tools(self, env: Mapping[str, str], ports: Mapping[str, int]) -> dict[str, _Shared]:
        home = self._directory / "tools"
        web, reapi, s3, redis = ports["nginx"], ports["casd"], ports["moto"], ports.get("redis")
        far = {
            "hipcache": (Hipcache, {"HIPCACHE_REMOTE": f"grpc://127.0.0.1:{reapi}/?timeout=20"}),
            HTTP: (Ccache, {"CCACHE_REMOTE_STORAGE": f"http://127.0.0.1:{web}/ccache"}),
            CCACHE_REDIS: (Ccache, {"CCACHE_REMOTE_STORAGE": f"redis://127.0.0.1:{redis}"}),
            SCCACHE_REDIS: (Sccache, {"SCCACHE_REDIS_ENDPOINT": f"redis://127.0.0.1:{redis}"}),
            S3: (
                Sccache,
                {
                    "SCCACHE_BUCKET": "team",
                    "SCCACHE_ENDPOINT": f"http://127.0.0.1:{s3}",
                    "SCCACHE_REGION": "us-east-1",
                    "SCCACHE_S3_USE_SSL": "false",
                    "SCCACHE_S3_KEY_PREFIX": "sccache",
                },
            ),
        }
        made = {
            name: _Shared(kind(home / name.replace(", ", "-"), {**env, **more}))
            for name, (kind, more) in far.items()
            if name not in self._options.without and (redis or name not in (CCACHE_REDIS, SCCACHE_REDIS))
        }
        return {**made, PREFETCH: made["hipcache"], NO_REMOTE: _Shared(Hipcache(home / Hipcache.name, env))}

    def _compile(self, tool: Tool, name: str) -> Compile:
        words = [*tool.launcher(), self._compiler, "-O2", "-std=c++17", *DEBIAN]
        words += ["-nogpuinc", "-nogpulib"] if self._options.light else []
        return compile_of(words, DEBIAN_ARCHS.many[:ARCHES], self._sources / name)

    def _build(self, shared: _Shared, name: str, *, first: bool = False, before: Tool | None = None) -> Times:
        """The whole build in an empty directory, in which all tools work: wall and CPU seconds. `before`: whose local
        store serves the compiles of ccache's first build, which is not measured."""
        tool, place = shared.tool, self._directory / "build"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        compiles = [self._compile(tool, f"k{number}.hip") for number in range(self._options.objects)]
        (place / "build.ninja").write_text(ninja_file(compiles))
        entries = [{"directory": str(place), "arguments": one.argv, "file": one.argv[-1]} for one in compiles]
        (place / "compile_commands.json").write_text(json.dumps(entries))
        argv = [self._ninja]
        if name == PREFETCH and first:
            argv = ["sh", "-c", f"{tool.launcher()[0]} prefetch --step && exec {self._ninja}"]
        env = tool.environment()
        if before and isinstance(tool, Ccache):
            served = {**before.environment(), "HIPCACHE_REMOTE": ""}
            env = {**served, **env, "HIPCACHE_REMOTE": "", "CCACHE_PREFIX": before.launcher()[0]}
        times = timed(argv, cwd=place, env=env, log=self._directory / "log")
        if len(list(place.glob("*.o"))) != self._options.objects:
            raise BenchError(f"{name} left too few objects")
        return times


class _Shared:
    """A tool with a remote."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    def reset(self) -> None:
        self.tool.reset()

    def settle(self) -> None:
        """All is on the remote."""
        if isinstance(self.tool, Hipcache) and "HIPCACHE_REMOTE" in self.tool.environment():
            subprocess.run(
                [*self.tool.launcher(), "sync"], env=self.tool.environment(), check=True, capture_output=True
            )
        time.sleep(1)
        self.close()

    def close(self) -> None:
        self.tool.close()
        for place in (Path(self.tool.environment()["XDG_RUNTIME_DIR"]) / "hipcache").glob("remote-*"):
            if place.suffix != ".lock":
                place.unlink(missing_ok=True)
        time.sleep(1.5)

    def forget(self) -> None:
        """All that is local."""
        if "HIPCACHE_REMOTE" in self.tool.environment() or not isinstance(self.tool, Hipcache):
            self.tool.reset()
        else:
            self.tool.open()


@contextmanager
def _running(servers: Mapping[str, Server]) -> Iterator[None]:
    started = []
    try:
        for server in servers.values():
            server.start()
            started.append(server)
        yield
    finally:
        for server in started:
            server.kill()


@contextmanager
def _links(servers: Mapping[str, Server], delay: float) -> Iterator[dict[str, int]]:
    """The ports of links with a delay (seconds in each direction), by the server's name."""
    lab = importlib.import_module("remote_lab")
    ports, processes = {}, []
    try:
        for name, server in servers.items():
            ports[name] = lab.free_port()
            words = [sys.executable, "-c", lab.LINK, str(ports[name]), str(server.port), str(delay)]
            processes.append(subprocess.Popen(words, start_new_session=True))
        time.sleep(1)
        yield ports
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def render(found: Mapping[str, Mapping[str, Figures]], options: argparse.Namespace, load: float) -> str:
    """The tables."""
    text = f"# An empty local store, and a remote {options.delay:.0f} ms away\n\n{options.objects} objects "
    text += f"{'without headers ' if options.light else ''}for {ARCHES} "
    text += f"architectures under ninja, milliseconds of the whole build: medians (least) of {options.rounds} rounds; "
    text += '"again": the same build once more, from the local store. '
    text += "CPU is of the build's own processes: not of servers, nor of a helper, which each build has to start. "
    text += f"The load was {load:.1f} at the begin.\n"
    rows = [(name, *(f"{one.median:.0f} ({one.least:.0f})" for one in of.values())) for name, of in found.items()]
    lines = [text, *page.table(("", "wall", "CPU"), rows)]
    fastest = min(of["wall"].median for name, of in found.items() if name in OTHERS)
    ratios = []
    for name, limit in TARGETS.items():
        value = found[name]["wall"].median / fastest
        ratios.append((f"{name} / the faster of the others", f"{value:.2f}", *page.checked(value, limit)))
    near = found["hipcache, again"]["cpu"].median / found[f"{NO_REMOTE}, again"]["cpu"].median
    ratios.append(("CPU of local hits with a remote / without", f"{near:.2f}", *page.checked(near, 1.05)))
    lines += ["", *page.table(("target", "is", "limit", ""), ratios)]
    return "\n".join(lines) + "\n"


def _stop(signal_number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)  # the servers end with it
    sys.exit(main())
