"""Builds the native launcher (`plugins/hipcache/native/*.c`) into the wheel, where there is a C compiler.

`hipcache` is that program, and `hipcache-engine` beside it is the Python entry point that it starts where it has no
answer of its own. Without a C compiler `hipcache` is a Python script that does the same, slower.
"""

from __future__ import annotations

import binascii
import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path("plugins/hipcache/native")
SHARED = ("ask.c", "blake3.c", "hit.c", "output.c", "places.c", "seal.c", "state.c", "statistics.c", "store.c")
# In the library alone.
ALONE = ("bitcode.c", "lexer.c", "lexer_line.c", "lexer_span.c", "lexer_words.c", "library.c")
OBSERVER = ("observe.c", "observer.c")
LIBRARY = "libhipcache.so"
WITHOUT_COMPILER = """\
#!python
import sys
from hipcache.__main__ import main
sys.exit(main())
"""


class LauncherHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version`: "standard", or "editable", whose package is the checkout itself."""
        built = Path(self.directory) / "native"
        built.mkdir(parents=True, exist_ok=True)
        launcher, library = built / "hipcache", built / LIBRARY
        try:
            compiler = shlex.split(os.environ.get("CC", "cc"))
            # glibc asks the processor some 80 questions as a program starts, and each of them is a microsecond in a
            # virtual machine. With musl, a hit takes two thirds of the time.
            small = [] if "CC" in os.environ else [["musl-gcc", "-static"]]
            ways = [*small, [*compiler, "-static"], compiler]
            self._compile(launcher, [*SHARED, "resident.c", "watching.c", "masquerade.c", "launcher.c"], ways)
            self._compile(library, [*SHARED, *ALONE, *OBSERVER], [[*compiler, "-shared", "-fPIC", "-pthread"]])
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"no native launcher, hits will be slower: {error}")
            launcher.write_text(WITHOUT_COMPILER)
            launcher.chmod(0o755)  # installers keep the mode that stands in the wheel
            library.unlink(missing_ok=True)
        else:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
            if version == "editable":
                library.replace(Path(self.root) / SOURCES / LIBRARY)
            else:
                build_data["force_include"][str(library)] = f"hipcache/native/{LIBRARY}"
        build_data["shared_scripts"][str(launcher)] = "hipcache"

    def _compile(self, output: Path, sources: list[str], ways: list[list[str]]) -> None:
        """In the first of `ways` (a compiler and what it is told) that works: static programs start faster."""
        counted = binascii.crc32(b"passed_through\tnot_hip\t0")
        given = [*shlex.split(os.environ.get("CPPFLAGS", "")), *shlex.split(os.environ.get("CFLAGS", ""))]
        options = ["-std=gnu11", "-O2", "-Wall", "-Wextra", *given]
        options += [f'-DHIPCACHE_VERSION="{self.metadata.version}"', f'-DNOT_HIP_CRC="{counted:08x}"']
        linked = shlex.split(os.environ.get("LDFLAGS", ""))
        for number, way in enumerate(ways):
            try:
                words = [*way, *options, "-o", str(output), *(str(SOURCES / name) for name in sources), *linked]
                subprocess.run(words, check=True, cwd=self.root, capture_output=True, text=True)
                return
            except (OSError, subprocess.CalledProcessError) as error:
                if number == len(ways) - 1:
                    self.app.display_warning(str(getattr(error, "stderr", error)))
                    raise
