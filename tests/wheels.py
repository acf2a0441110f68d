"""The wheel of this checkout, built as for a release."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import hipcache
import pytest
from cmake_project import CHECKOUT
from hip import SESSION

SCRIPTS = f"hipcache-{hipcache.__version__}.data/scripts"
INFO = f"hipcache-{hipcache.__version__}.dist-info"


def build(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`python -m build`, and what it says."""
    return subprocess.run(
        [sys.executable, "-m", "build", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, **environ},
    )


def build_wheel(*words: str, **environ: str) -> Path:
    """The wheel that it makes."""
    out = Path(words[words.index("--outdir") + 1])
    done = build(*words, **environ)
    assert done.returncode == 0, done.stdout
    (built,) = out.glob("*.whl")
    return built


def install(prefix: Path, *words: str, **environ: str) -> Path:
    """A fresh virtual environment, with what pip is told to install in it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(prefix), "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, *words], check=True, env={**os.environ, **environ})
    return prefix


@pytest.fixture(scope="module")
def wheel() -> Path:
    """Built as for a release: the source distribution first, and the wheel from that; once for all workers of a run."""
    place = SESSION / "wheel"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        dist = place / "dist"
        if not dist.exists():
            build_wheel("--outdir", str(place / "part"), str(CHECKOUT))
            (place / "part").rename(dist)
    (built,) = dist.glob("*.whl")
    return built
