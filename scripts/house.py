"""Prints how the program is cut: what a compile enters, how large it is, which way imports run (issue 48's table).

    scripts/house.py [SOURCE.hip]

The compile is of a small kernel without HIP's headers, or of that source, by HIP's own clang: a miss, then a hit by the
engine, without the native launcher. A module is entered if one of its functions is; the body of a class is none. The
time of imports is the least of five.
"""

from __future__ import annotations

import ast
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from hip_toolchain import hips_own

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "plugins/hipcache"
BARE = runpy.run_path(str(ROOT / "tests/kernels.py"))
_PROFILED = """
import inspect, json, os, sys, threading
seen = set()
def profile(frame, event, _):
    code = frame.f_code
    is_function = event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_name[0] != "<"
    if is_function and f"{os.sep}hipcache{os.sep}" in code.co_filename:
        seen.add((code.co_filename, code.co_name, code.co_firstlineno))
threading.setprofile(profile)
sys.setprofile(profile)
from hipcache.app.launch import launch
launch(sys.argv[2:], dict(os.environ))
sys.setprofile(None)
with open(sys.argv[1], "w") as file:
    json.dump(list(seen), file)
"""


def names() -> dict[str, Path]:
    """The modules, by their name within the program."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


def edges() -> set[tuple[str, str]]:
    """(module, module that it imports), also in functions and for types."""
    modules = names()
    found = set()
    for name, path in modules.items():
        for full in _imported(ast.parse(path.read_text())):
            inner = full.removeprefix("hipcache").lstrip(".")
            while inner and inner not in modules:
                inner = inner.rpartition(".")[0]
            if full.split(".")[0] == "hipcache" and inner != name:
                found.add((name, inner))
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def duplicate_classes() -> set[str]:
    """Names of classes at the top of two modules or more; private ones are not counted."""
    counted = Counter(
        node.name
        for path in names().values()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return {name for name, count in counted.items() if count > 1}


def _package(module: str) -> str:
    return module.partition(".")[0]


def _entered(place: Path, environ: dict[str, str], command: list[str]) -> tuple[int, int]:
    """Modules and functions."""
    words = [sys.executable, "-c", _PROFILED, str(place / "seen"), *command]
    subprocess.run(words, cwd=place, env=environ, check=True, stdout=subprocess.DEVNULL)
    functions = {(file, name) for file, name, _ in json.loads((place / "seen").read_text())}
    return len({file for file, _ in functions}), len(functions)


def _import_milliseconds(place: Path, environ: dict[str, str], command: list[str]) -> float:
    words = [sys.executable, "-X", "importtime", "-m", "hipcache", *command]
    said = subprocess.run(words, cwd=place, env=environ, check=True, stderr=subprocess.PIPE, text=True).stderr
    lines = [line.split("|") for line in said.splitlines() if line.startswith("import time:") and "hipcache" in line]
    return sum(int(line[0].partition(":")[2]) for line in lines) / 1000


def _lines(*patterns: str) -> int:
    return sum(len(path.read_text().splitlines()) for pattern in patterns for path in ROOT.glob(pattern))


def main() -> int:
    toolchain = hips_own()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "hip_in_short.hpp").write_text(BARE["HIP_IN_SHORT"])
        (place / "k.hip").write_text(Path(*sys.argv[1:]).read_text() if sys.argv[1:] else BARE["KERNEL"])
        flags = toolchain.flags if sys.argv[1:] else BARE["BARE"]
        command = [str(toolchain.compiler), "-x", "hip", *flags, *BARE["ARCHS"], "-O2", "-c", "k.hip", "-o", "k.o"]
        environ = {"PATH": os.environ["PATH"], "HOME": directory, "HIPCACHE_DIR": f"{directory}/store"}
        environ |= {"HIP_PLATFORM": "amd", "HIPCACHE_RESIDENT": "0"}
        miss = _entered(place, environ, command)
        hit = _entered(place, environ, command)
        imports = min(_import_milliseconds(place, environ, command) for _ in range(5))
    found = edges()
    inside = sum(_package(one) == _package(other) for one, other in found)
    across = {(_package(one), _package(other)) for one, other in found if _package(one) != _package(other)}
    rows = {
        "modules / functions entered by a plain miss": f"{miss[0]} / {miss[1]:,}",
        "modules / functions entered by an engine hit": f"{hit[0]} / {hit[1]:,}",
        "modules; lines of plugins; lines of tests": f"{len(names())}; "
        f"{_lines('plugins/**/*.py', 'plugins/**/*.c', 'plugins/**/*.h'):,}; {_lines('tests/**/*.py'):,}",
        "own imports of an engine hit": f"{imports:.0f} ms",
        "import edges inside a package; package edges": f"{100 * inside / len(found):.0f} %; {len(across)}",
        "duplicate class names": f"{len(duplicate_classes())}",
    }
    for name, value in rows.items():
        print(f"| {name} | {value} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
