"""`hipcache demo`, whole: real headers, four architectures, beside plain clang."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hip import LAUNCHER


def test_the_demo_compiles_what_is_new_and_makes_clangs_own_objects(tmp_path: Path) -> None:
    environ = {**os.environ, "PATH": f"{Path(LAUNCHER[0]).parent}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    words = [*LAUNCHER, "demo", "--flags=-O0", "--report", str(tmp_path / "report.html")]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    compiled = [line.partition("compiled: ")[2] for line in done.stdout.splitlines() if "compiled: " in line]
    assert [one.replace(done.stdout.partition(" added")[0].split()[-1], "new") for one in compiled] == [
        *("everything", "nothing", "new", "nothing", "host, 4 front ends"),
    ]
    assert "all objects are clang's own, byte for byte" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
