"""The workload `programs`: 24 sources of a public collection of HIP programs, chosen by the rule in bench/README.md."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from trouble import BenchError
from workload import SHARED_HEADER, SHARED_TEXT, Workload, flat

COLLECTION = "https://github.com/zjin-lcf/HeCBench.git"
VARIABLE = "BENCH_COLLECTION"
STEP, COUNT = 20, 24
SUFFIXES = (".cu", ".hip", ".cpp")
#: What a compile may read. The collection's data and pictures stay where they are.
TEXTS = ("c", "cc", "cpp", "cu", "cuh", "cxx", "h", "hh", "hip", "hpp", "hxx", "inc", "inl", "ipp", "tpp")
#: One of these names is in an object with device code: a section of the old and of the new offload driver.
DEVICE_CODE = (b".hip_fatbin", b"offload_entries", b"offloading_entries")

_OPTION = re.compile(r"(?<=\s)-[ID]\s*[\w./=+-]+(?=\s)")


def fetch(collection: str, root: Path) -> str:
    """Put the collection's sources into `root`, from a git repository (path or URL); its commit."""
    wanted = [f"/src/**/*.{suffix}" for suffix in TEXTS] + ["/src/*/Makefile"]
    try:
        _git("clone", "--quiet", "--no-checkout", "--depth", "1", "--filter=blob:none", collection, str(root))
        _git("-C", str(root), "sparse-checkout", "set", "--no-cone", *wanted)
        _git("-C", str(root), "checkout", "--quiet", "HEAD")
        return _git("-C", str(root), "rev-parse", "HEAD").strip()
    except subprocess.CalledProcessError as error:
        advice = f"name another clone of it with --collection or {VARIABLE}; {error.stderr.decode(errors='replace')}"
        raise BenchError(f"the collection '{collection}' cannot be fetched", advice.strip()) from error
    finally:
        shutil.rmtree(root / ".git", ignore_errors=True)


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, check=True).stdout.decode()


@dataclass
class Choice:
    """The rule at work, on the collection below `root`. `objects` is where the tries leave what they compiled."""

    root: Path
    command: tuple[str, ...]
    flags: tuple[str, ...]
    archs: Sequence[str]
    objects: Path
    env: Mapping[str, str]
    own: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def workload(self, first: int, count: int, cores: int) -> Workload:
        """`count` sources, in the order of their directories; the project keeps only what they read."""
        (self.root / SHARED_HEADER).write_text(SHARED_TEXT)
        names = sorted(path.name for path in (self.root / "src").glob("*-hip"))
        turns = [names[start : start + STEP] for start in range(first, len(names), STEP)]
        with ThreadPoolExecutor(cores) as pool:
            sources = [source for source in pool.map(self._first, turns[:count]) if source]
        sources += [s for s in map(self._first, turns[count:] if len(sources) < count else []) if s]
        if not sources:
            raise BenchError("no program of the collection compiles", "see --compiler and --flags")
        sources = sources[:count]
        self._tidy(sources)
        own = {source: self.own[source] for source in sources}
        return Workload("programs", lambda _: None, tuple(sources), self.flags, own)

    def made(self, sources: Sequence[str]) -> dict[str, bytes]:
        """The objects that the tries left."""
        return {f"{name}.o": (self.objects / f"{name}.o").read_bytes() for name in map(flat, sources)}

    def _first(self, directories: Sequence[str]) -> str | None:
        """The first source that compiles, of the first directory that has one."""
        for directory in directories:
            for source in self._sources(directory):
                self.own[source] = self._options(directory)
                if self._compiles(source):
                    return source
        return None

    def _sources(self, directory: str) -> Iterator[str]:
        place = self.root / "src" / directory
        files = sorted(str(path.relative_to(self.root)) for path in place.rglob("*") if path.suffix in SUFFIXES)
        yield from (name for name in files if (self.root / name).is_file())

    def _options(self, directory: str) -> tuple[str, ...]:
        """-I and -D of the program's Makefile: plain words outside conditionals, directories that there are."""
        makefile = self.root / "src" / directory / "Makefile"
        text = re.sub(r"#.*", "", makefile.read_text(errors="replace")) if makefile.is_file() else ""
        depth, plain = 0, []
        for line in text.splitlines():
            depth += bool(re.match(r"\s*if(n?eq|n?def)\b", line)) - bool(re.match(r"\s*endif\b", line))
            plain += [] if depth else [line]
        words = []
        for option in dict.fromkeys(word.replace(" ", "") for word in _OPTION.findall("\n".join([*plain, ""]))):
            place = Path(os.path.normpath(makefile.parent / option[2:]))
            if option.startswith("-D"):
                words.append(option)
            elif place.is_dir() and place.is_relative_to(self.root):
                words.append(f"-I{place.relative_to(self.root)}")
        return tuple(words)

    def _compiles(self, source: str) -> bool:
        """Whether the source, and behind it the header that all share, becomes an object with device code."""
        path = self.root / source
        text = path.read_bytes()
        shared = os.path.relpath(self.root / SHARED_HEADER, path.parent)
        path.write_bytes(text + f'\n#include "{shared}"\n'.encode())
        plan = Workload("", lambda _: None, (), self.flags, self.own).compile(
            self.command, source, self.archs, self.root
        )
        self.objects.mkdir(exist_ok=True)
        done = subprocess.run(plan.argv, cwd=self.objects, env=self.env, capture_output=True, check=False)
        if done.returncode == 0 and any(name in (self.objects / plan.output).read_bytes() for name in DEVICE_CODE):
            return True
        path.write_bytes(text)
        return False

    def _tidy(self, sources: Sequence[str]) -> None:
        """Remove the programs that no chosen source reads."""
        read = {source.split("/")[1] for source in sources}
        for source in sources:
            listed = (self.objects / f"{flat(source)}.o.d").read_text(errors="replace")
            for word in listed.split():
                place = os.path.relpath(os.path.normpath(word), self.root).split("/")
                read.update(place[1:2] if place[0] == "src" else [])
        for path in (self.root / "src").iterdir():
            if path.name not in read and path.is_dir():
                shutil.rmtree(path)
