"""A launcher of tests whose engines are forked off a process which has imported all: each spares a tenth of a second of
CPU.

For what a lab runs (`Lab.run`), in comparisons with plain clang and by itself, in tests without the marker `as_users`.
What build tools and other processes of tests start is as users start it. It is the native launcher, which finds
`forked_engine.c` for its engine: that asks `engine_server.py`, or starts the real one, which it does in one test of
twenty as an audit.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent


_MAKING = threading.Lock()


def launcher(usual: str) -> str:
    """The launcher for this process. `usual`: that with an engine of tests, in a directory of this run's."""
    with _MAKING:  # a test's threads ask at once
        return _launcher(usual)


@cache
def _launcher(usual: str) -> str:
    session = Path(usual).parent.parent
    directory = Path(tempfile.mkdtemp(prefix="forking-", dir=session))
    directory.chmod(0o755)
    shutil.copy(usual, directory)
    shutil.copy(Path(usual).with_name("hipcache-engine"), directory / "hipcache-engine.py")
    shutil.copy(_built(session), directory / "hipcache-engine")
    words = [sys.executable, "-E", str(_HERE / "engine_server.py"), str(directory)]
    read, write = os.pipe()  # it ends when this process does
    atexit.register(os.close, write)
    subprocess.run(words, stdin=read, env={**os.environ, "LC_ALL": "C"}, check=True, timeout=60)  # C as in a lab
    os.close(read)
    return str(directory / "hipcache")


def _built(session: Path) -> Path:
    """`forked_engine.c`, once for all workers."""
    program = session / "forked-engine"
    if not program.exists():
        part = program.with_name(f"{program.name}.{os.getpid()}")
        words = ["cc", "-std=c2x", "-O1", "-Wall", "-Wextra", "-Werror", f'-DPYTHON="{sys.executable}"']
        subprocess.run([*words, str(_HERE / "forked_engine.c"), "-o", str(part)], check=True, timeout=60)
        part.replace(program)
    return program
