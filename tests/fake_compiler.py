"""A compiler for the tests of the story: it answers with a recorded plan, and writes small files for jobs.

Its language: lines of a source that begin with `host` reach the host's object alone, all others every pass;
`include NAME` reads a file; `__DATE__` is what it is in C. Preprocessed text (-E) is all that is read.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import recordings
from hip_toolchain import hips_own
from hipcache.clang.host_object import PLACEHOLDER
from hipcache.processes.runner import NO_STDIN, PIPE, Completed, ForkServers, Killed, Traced
from store_clock import HandClock

_MARK = b"host-part-goes-here-" + b"." * 44


def host_template(directory: Path) -> bytes:
    """A real object of clang's that holds the placeholder in its section, and a mark for the host's part."""
    source = directory / "template.c"
    source.write_text(
        f'__attribute__((section(".hip_fatbin"))) const char fat[] = "{PLACEHOLDER.decode()}";\n'
        f'char host[] = "{_MARK.decode()}";\n'
    )
    subprocess.run([hips_own().root / "bin/clang", "-c", source, "-o", directory / "template.o"], check=True)
    return (directory / "template.o").read_bytes()


@dataclass
class Compiler:
    """A fake Runner; each job takes a second of `clock`.

    `options`: what all passes have besides those of the `plan`; `says`: text that a kind of job prints on standard
    error; `prints`: on standard output; `fails`: kinds of jobs that fail (before they write anything, where they say
    nothing of their own); `before`: called with the kind when a job begins; `ran`: kinds, as run.
    """

    directory: Path
    template: bytes
    clock: HandClock
    plan: str = "clang15-three-archs"
    options: str = ""
    says: dict[str, str] = field(default_factory=dict)
    prints: dict[str, str] = field(default_factory=dict)
    fails: set[str] = field(default_factory=set)
    before: Callable[[str], None] = lambda kind: None
    ran: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.tools = self.directory / "tools"
        self.tools.mkdir()
        for name in ("clang++", "clang", "lld", "clang-offload-bundler"):
            (self.tools / name).write_text(f"the {name}")
            (self.tools / name).chmod(0o755)

    def group(self, servers: ForkServers | None = None) -> Group:
        return Group(self)

    def run(self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Completed:
        return self.group().run(argv, cwd=cwd, env=env)

    def kill(self) -> None:
        pass

    def check(self) -> None:
        pass

    def job(self, argv: Sequence[str], cwd: Path) -> Completed:
        kind = _kind(argv)
        with self._lock:
            self.ran.append(kind)
            self.clock.tick()
        self.before(kind)
        failed = kind in self.fails
        if failed and kind not in self.says:
            return Completed(1, b"", b"error: it fails\n")
        if kind == "plan":
            text = recordings.text(self.plan).replace("/usr/lib/llvm-15/bin", str(self.tools))
            text = text.replace('"-cc1"', f'"-cc1"{self.options}')
            return Completed(0, b"", text.encode())
        if kind == "text":
            defined = [word[2:].partition("=") for word in argv if word.startswith("-D__")]
            text, _ = _read(cwd, argv[list(argv).index("-x") + 2])
            for name, _, value in defined:
                text = text.replace(name, value)
            return Completed(0, text.encode(), b"")
        _WORK[kind.partition(" ")[0]](self, list(argv), cwd)
        return Completed(int(failed), self.prints.get(kind, "").encode(), self.says.get(kind, "").encode(), 1.0)

    def front(self, argv: list[str], cwd: Path) -> None:
        text, read = _read(cwd, argv[-1])
        lines = [line for line in text.splitlines() if not line.startswith("host")]
        _after(argv, "-o").write_text("\n".join([_cpu(argv), *lines]))
        _after(argv, "-dependency-file").write_text(f"output: {' '.join(read)}\n")

    def back(self, argv: list[str], cwd: Path) -> None:
        _after(argv, "-o").write_bytes(Path(argv[-1]).read_bytes())

    def host(self, argv: list[str], cwd: Path) -> None:
        text, read = _read(cwd, argv[-1])
        digest = sha256(text.encode()).hexdigest().encode()
        _after(argv, "-o").write_bytes(self.template.replace(_MARK, digest))
        _after(argv, "-dependency-file").write_text(f"output: {' '.join(read)}\n")

    def link(self, argv: list[str], cwd: Path) -> None:
        output = _after(argv, "-o")
        output.write_bytes(b"code object of " + Path(argv[argv.index(str(output)) + 1]).read_bytes())

    def bundle(self, argv: list[str], cwd: Path) -> None:
        inputs = [word.partition("=")[2] for word in argv if word.startswith("-input=")]
        (output,) = (word.partition("=")[2] for word in argv if word.startswith("-output="))
        Path(output).write_bytes(b"\n".join(Path(name).read_bytes() for name in inputs))


class Group:
    """What one compile runs its jobs with."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._killed = False

    def group(self, servers: ForkServers | None = None) -> Group:
        return Group(self._compiler)

    def run(self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Completed:
        if self._killed:
            raise Killed
        return self._compiler.job(argv, cwd or Path("/"))

    def trace(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int = NO_STDIN,
        program: str = "",
        stderr: int = PIPE,
    ) -> Traced:
        return Traced(self.run(argv, cwd=cwd, env=env), None)

    def kill(self) -> None:
        self._killed = True

    def check(self) -> None:
        if self._killed:
            raise Killed


_WORK: dict[str, Callable[[Compiler, list[str], Path], None]] = {
    "front": Compiler.front,
    "whole": Compiler.front,
    "back": Compiler.back,
    "host": Compiler.host,
    "link": Compiler.link,
    "bundle": Compiler.bundle,
}


def _kind(argv: Sequence[str]) -> str:
    """plan, text, front ARCH (to bitcode), whole ARCH (in one step), back ARCH, link, bundle, host."""
    if "-###" in argv:
        return "plan"
    if argv[1] != "-cc1":
        return "bundle" if "bundler" in argv[0] else "link"
    if "-E" in argv:
        return "text"
    if "-fcuda-is-device" not in argv:
        return "host"
    if "ir" in argv:
        return f"back {_cpu(argv)}"
    return f"front {_cpu(argv)}" if "-emit-llvm-bc" in argv else f"whole {_cpu(argv)}"


def _cpu(argv: Sequence[str]) -> str:
    return argv[list(argv).index("-target-cpu") + 1]


def _after(argv: list[str], option: str) -> Path:
    return Path(argv[argv.index(option) + 1])


def _read(cwd: Path, name: str) -> tuple[str, list[str]]:
    """The text with what it includes, and the files that were read."""
    text, read = (cwd / name).read_text(), [name]
    lines = []
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "include":
            more, names = _read(cwd, rest)
            lines.append(more)
            read += names
        else:
            lines.append(line)
    return "\n".join(lines), read
