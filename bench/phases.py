"""A launcher that tells when each of its phases ends."""

from __future__ import annotations

import subprocess
from pathlib import Path

from floor import SMALL_PROGRAM
from workload import HERE

NATIVE = HERE.parent / "plugins" / "hipcache" / "native"


def build_launcher_of_phases(program: Path) -> Path:
    """A launcher that tells when each phase ends (`phases.h`), of the files of the native launcher."""
    from hipcache import VERBS, __version__

    folders = [NATIVE / name for name in ("direct", "launcher")]
    sources = [path for folder in folders for path in sorted(folder.glob("*.c"))]
    words = [*SMALL_PROGRAM, "-std=gnu11", "-O2", "-include", str(HERE / "phases.h"), "-o", str(program)]
    words += [f"-I{folder}" for folder in folders]
    words += [f'-DHIPCACHE_VERSION="{__version__}"', f'-DSUBCOMMANDS="{" ".join((*VERBS, "help"))}"']
    # It is to count nothing: no line of the counters has an empty checksum.
    words += [f'-D{name}_CRC=""' for name in ("NOT_HIP", "NOT_HIP_CHECK", "CXX_CACHE", "CXX_CACHE_CHECK")]
    asked = ["cc", "-print-file-name=libzstd.a"]
    zstd = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    packs = ["-DZSTD_LINKED", zstd] if Path(zstd).is_absolute() else []
    subprocess.run([*words, *map(str, sources), *packs], check=True)
    return program
