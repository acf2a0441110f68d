"""The native launcher of tests, beside an engine that takes files for old after an instant."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from session import SESSION

ENGINE_ALONE = (sys.executable, "-m", "hipcache")


# The engine as the native launcher finds it, with a file system that stamps files to the tick: what is older than that
# is remembered for a direct hit, while the real engine waits for two seconds (`RACY`). And what one test has
# learnt of a compiler spares the next one its digest, which takes as long as all its compiles (see `shared_memos`).
# (Its modules are looked for where the interpreter looks first, as ever: a longer path costs it a tenth of its start.)
ENGINE = f"""\
#!{sys.executable}
import os, sys
sys.path.append({str(Path(__file__).parent)!r})
from hipcache.__main__ import main
from hipcache.app import launch as launcher
launch = launcher.launch
def quick(argv, environ):
    import shared_memos
    shared_memos.share({str(SESSION / "memos")!r})
    return launch(argv, environ, racy=0.03)
launcher.launch = quick
sys.exit(main())
"""


def _launcher() -> str:
    """The installed native launcher, beside an engine for tests."""
    directory = Path(tempfile.mkdtemp(prefix="launcher-", dir=SESSION))
    Path(directory).chmod(0o755)  # for tests of several users
    shutil.copy(Path(sys.executable).with_name("hipcache"), directory)
    (directory / "hipcache-engine").write_text(ENGINE)
    (directory / "hipcache-engine").chmod(0o755)
    return str(directory / "hipcache")


LAUNCHER = (_launcher(),)
