"""What the tests of programs share that one command compiles and links: plain clang's and hipcache's, side by side."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hip import BARE, CUID, Counted, Ended, Lab

MAIN = 'extern "C" int host();\nint main() { return host() == 0; }\n'
LIBRARIES = ("-no-hip-rt", "-L.", "-lruntime")


@dataclass(frozen=True)
class Both:
    """What both left: the end, the files that are new with their modes, and what hipcache counted."""

    ended: Ended
    files: dict[str, tuple[bytes, int]]
    counted: Counted

    @property
    def program(self) -> bytes:
        return self.files["program"][0]


def words(lab: Lab, *more: str, libraries: tuple[str, ...] = LIBRARIES) -> list[str]:
    archs = () if any("-arch=" in word for word in more) else lab.archs
    output = () if "-o" in more else ("-o", "program")
    # From clang 18 on two objects of one CUID do not link together.
    several = ["-Wl,-z,muldefs"] if sum(word.endswith((".hip", ".cpp")) for word in more) > 1 else []
    return [lab.compiler, *archs, *BARE, CUID, "-O1", *more, *several, *libraries, *output]


def both(lab: Lab, *more: str, env: dict[str, str] | None = None, libraries: tuple[str, ...] = LIBRARIES) -> Both:
    before = {path: path.read_bytes() for path in lab.root.iterdir() if path.is_file()}
    command = words(lab, *more, libraries=libraries)

    def run(*launcher: str) -> tuple[Ended, dict[str, tuple[bytes, int]], list[Path]]:
        ended = lab.run([*launcher, *command], env=env)
        # Names of temporary files differ in every run of clang.
        said = re.sub(rb"-[0-9a-f]{6}\b", b"-", ended.err)
        files = {}
        for path in sorted(lab.root.iterdir()):
            if path.is_file() and before.get(path) != path.read_bytes():
                files[path.name] = path.read_bytes(), path.stat().st_mode
                path.unlink()
        gone = [path for path in before if not path.exists() and path.name not in files]
        for path, content in before.items():
            if not path.exists():
                path.write_bytes(content)
        return Ended(ended.status, ended.out, said), files, gone

    found = lab.by_both(run, command, env=env)
    assert found[1][0].err.decode() == found[0][0].err.decode()
    assert found[1][0] == found[0][0]
    assert found[1][1].keys() == found[0][1].keys()
    assert found[1][2] == found[0][2]
    for name, made in found[0][1].items():
        assert found[1][1][name] == made or name.endswith(".d"), f"'{name}' is not plain clang's"
    return Both(found[1][0], found[1][1], lab.counted())
