"""Checkouts of one project, and a launcher whose engine only says that it was started."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from direct_lab import Direct
from hip import BARE, CUID, HIP_IN_SHORT, LAUNCHER, Ended, Lab, settle

SOURCE = """\
#include "hip_in_short.hpp"
#include "value.hpp"
extern "C" __global__ void kernel(int* p) { p[0] = p[1] * 7 + VALUE; }
extern "C" int host() { return VALUE; }
"""


LEFT = ("out.o", "out.d")


class Checkouts:
    """The same files in several places; each is compiled in its own `build`."""

    def __init__(self, direct: Direct) -> None:
        self.direct = direct
        self.lab: Lab = direct.lab
        self.add("one")

    def place(self, name: str) -> Path:
        return self.lab.root / name

    def add(self, name: str, like: str = "") -> Path:
        place = self.place(name)
        if like:
            shutil.copytree(self.place(like), place, symlinks=True)
            shutil.rmtree(place / "build")
        else:
            self.lab.write(place / "src/k.hip", SOURCE)
            self.lab.write(place / "inc/hip_in_short.hpp", HIP_IN_SHORT)
            self.lab.write(place / "inc/value.hpp", "#define VALUE 41\n")
        (place / "first").mkdir(exist_ok=True)
        (place / "build").mkdir()
        settle()
        return place

    def words(self, name: str, *flags: str, source: str = "{}/src/k.hip") -> list[str]:
        place = self.place(name)
        cuid = () if any("cuid" in flag for flag in flags) else (CUID,)
        words = [self.lab.compiler, "--offload-arch=gfx906", *BARE, "-O2", *cuid, *flags]
        words += ["-I{}/first", "-I{}/inc", "-c", source, "-o", "out.o"]
        return [word.replace("{}", str(place)) for word in words]

    def run(self, name: str, words: list[str], *launcher: str, env: dict[str, str] | None = None) -> Ended:
        place = self.place(name)
        for left in LEFT:
            (place / "build" / left).unlink(missing_ok=True)
        return self.lab.run([*launcher, *words], cwd=place / "build", env={**self.told(name), **(env or {})})

    def told(self, name: str) -> dict[str, str]:
        return {"HIPCACHE_BASEDIR": str(self.place(name)), "PWD": str(self.place(name) / "build")}

    def warm(self, *flags: str, source: str = "{}/src/k.hip", env: dict[str, str] | None = None) -> None:
        for _ in range(2):
            words = self.words("one", *flags, source=source)
            ended = self.run("one", words, *LAUNCHER, env=env)
            assert ended.status == 0, ended.err
        self.lab.count_anew()

    def files(self, name: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.place(name) / "build").iterdir()}

    def is_served(
        self, name: str, *flags: str, source: str = "{}/src/k.hip", env: dict[str, str] | None = None
    ) -> bool:
        """With no engine; the object is plain clang's, and all files are what the engine would write."""
        words = self.words(name, *flags, source=source)
        ended = self.run(name, words, str(self.direct.program), env=env)
        assert ended.status in (0, 99), ended.err
        served = self.files(name)
        told = {"HIPCACHE_RECACHE": "1", **self.told(name), **(env or {})}

        def run(*launcher: str) -> tuple[Ended, dict[str, bytes]]:
            ended = self.run(name, words, *launcher, env=told)
            assert ended.status == 0, ended.err
            return ended, self.files(name)

        build = self.place(name) / "build"
        without = [build / left for left in LEFT]
        (_, plain), (anew, made) = self.lab.by_both(run, words, without=without, cwd=build, env=told)
        assert made["out.o"] == plain["out.o"]
        if ended.status == 0:
            assert (served, ended.err) == (made, anew.err)
        else:
            assert served == {}
        self.lab.count_anew()
        return ended.status == 0


@pytest.fixture
def checkouts(direct: Direct) -> Checkouts:
    return Checkouts(direct)
