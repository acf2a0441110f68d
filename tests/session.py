"""The directory that all workers of a run share, and which kind of run it is."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import private_mounts

FULL = bool(os.environ.get("TEST_FULL"))
# All tests through the resident, which is to know every file of a lab (`make test-full`).
RESIDENT = bool(os.environ.get("TEST_RESIDENT"))
SHORT = not (FULL or RESIDENT)

# Bytes of memory that the files of a short run may take: the largest took 1 GB, and a server that keeps contents
# (buildbox-casd) wants 2 GB that are free. On ext4, 7 % of the run's CPU time goes to the search for inodes that no
# file had in the last seconds.
MEMORY = 4 << 30


def _session() -> Path:
    """A directory that all workers of this run share; the process that began it removes it."""
    known = os.environ.get("TEST_SESSION")
    if known is None:
        known = os.environ["TEST_SESSION"] = tempfile.mkdtemp(prefix="hipcache-tests-")
        atexit.register(shutil.rmtree, known, ignore_errors=True)
        place = _in_memory(Path(known))
        if SHORT and private_mounts.memory(place, MEMORY):
            atexit.register(private_mounts.detach, place)
            os.makedirs(known, exist_ok=True)
        os.chmod(known, 0o755)  # some tests compile as another user
        atexit.register(_end_sccache, known)
    return Path(known)


def _end_sccache(session: str) -> None:
    """Meson starts a server of sccache, which would live for ten minutes, and know only the files of this run."""
    program = Path(sys.executable).with_name("sccache")
    if Path(session, "sccache").exists() and program.exists():
        subprocess.run([program, "--stop-server"], stdout=subprocess.DEVNULL, timeout=60, check=True)


def _in_memory(session: Path) -> Path:
    """The directory for all temporary files, since clang leaves up to a dozen empty directories of each compile there;
    the session's own if another one holds what the run needs."""
    needed = (Path.cwd(), Path(sys.prefix), Path.home(), Path(__file__).resolve())
    return session if any(path.is_relative_to(session.parent) for path in needed) else session.parent


SESSION = _session()
# A server of the user's, or of another run, does not see the files of this one.
os.environ["SCCACHE_SERVER_UDS"] = f"{SESSION}/sccache"
# Each start of pytest changes the mode of the directory above those of all runs: what compiles below it in another run
# would count as moved, and would not be kept. So this run has one of its own.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(SESSION))
