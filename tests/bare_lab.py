"""A directory to compile in, a store, and a compiler: what is run there, and what was counted."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from ended import Counted, Ended
from golden import Golden
from golden_of_all import NOT_INHERITED, GoldenOfAll
from kernels import ARCHS, BARE, CUID, HIP_IN_SHORT, KERNEL
from launchers import LAUNCHER
from session import FULL, RESIDENT, SESSION, SHORT
from told import statistics
from toolchains import BY_NEW_DRIVER, LLVM

# Tests marked `files` go without.
packs = True
Place = TypeVar("Place", bound="BareLab")

# A command of a test ends in less. The longest of a full run alone take clang a minute of one core.
SECONDS = 600.0 if FULL else 120.0


@dataclass
class BareLab:
    """A directory to compile in, a store, and a compiler. `archs`: those of a command that names none; `driver`: the
    option that chooses the offload driver."""

    root: Path
    version: str
    compiler: str
    environ: dict[str, str] = field(default_factory=dict)
    archs: tuple[str, ...] = ARCHS
    driver: tuple[str, ...] = ()
    _seen: dict[str, object] = field(default_factory=dict)
    _golden: Golden = field(default_factory=Golden)

    @classmethod
    def make(cls: type[Place], root: Path, version: str) -> Place:
        """`version`: of clang, with BY_NEW_DRIVER behind it by the new offload driver."""
        driver = ("--offload-new-driver",) if version.endswith(BY_NEW_DRIVER) else ()
        version = version.removesuffix(BY_NEW_DRIVER)
        for name in ("work", "home", "run"):
            (root / name).mkdir()
        environ = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
        environ |= {
            "HOME": str(root / "home"),
            "HIPCACHE_DIR": str(root / "store"),
            "HIPCACHE_PACKS": str(int(packs)),
            "LC_ALL": "C",
            "HIP_PLATFORM": "amd",
            "HIPCACHE_RESIDENT": "0",  # one for each test would be more than a user may have: test_resident.py
            "HIPCACHE_PREAMBLES": "0",  # tests count passes: test_driver_header.py
        }
        environ["XDG_RUNTIME_DIR"] = str(root / "run")
        if RESIDENT:
            environ |= {"HIPCACHE_RESIDENT": "1", "HIPCACHE_SYSTEM_PATHS": f"{root / 'work'}:/usr:/lib:/etc:/bin"}
            environ["XDG_RUNTIME_DIR"] = _runtime()
        golden = Golden(of_all=GoldenOfAll(SESSION, root) if SHORT else None)
        lab = cls(
            root / "work", version, str(LLVM[version] / "bin" / "clang++"), environ, driver=driver, _golden=golden
        )
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
        seconds: float = SECONDS,
    ) -> Ended:
        """Its end, within `seconds`."""
        done = subprocess.run(
            [*argv],
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
        words = [self.compiler, *self.driver, *archs, *BARE, *level, *cuid, *flags, "-c", source, "-o", output]
        return [os.fspath(word) for word in words]


@cache
def _runtime() -> str:
    """One for all labs, since a user may have few of them; the resident ends when it is gone."""
    place = tempfile.mkdtemp(prefix="hc-", dir="/tmp")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place
