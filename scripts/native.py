"""Checks of the C sources, apart from the tests of what they do.

    scripts/native.py warnings                every file, with warnings as errors
    scripts/native.py fuzz [SECONDS]          libFuzzer over tests/native/fuzz_*.c, SECONDS for all together (60)
    scripts/native.py sanitizers [ARGS...]    the tests of the C code (below, or pytest's ARGS) with ASan and UBSan

`fuzz` begins with the seeds that it writes (a record, a list, bitcode, a source, a config file) and with what earlier
runs found, in build/fuzz/TARGET. A fault leaves its input there. `sanitizers` works in a copy, build/sanitizers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hip_toolchain import hips_own

ROOT = Path(__file__).parent.parent
NATIVE = ROOT / "plugins/hipcache/native"
BUILD = ROOT / "build"
# hatch_build.py gives them their values.
DEFINED = ("HIPCACHE_VERSION", "SUBCOMMANDS", "NOT_HIP_CRC", "NOT_HIP_CHECK_CRC")
COMPILE = ["-std=gnu11", "-pthread", *(f'-D{name}=""' for name in DEFINED)]
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
SANITIZED = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# The launcher alone is a program; a target that needs a function of these takes the file itself.
OF_PROGRAMS = ("launcher.c",)
TESTS = ("bitcode", "direct*", "hashing", "lexer", "masquerade", "observer", "places", "reach_native", "resident*")
SOURCE = """\
#include <hip/hip_runtime.h> // a comment
#define TEXT R"x(raw "text")x" /* another
one */
#if __has_include("a.h") && 1'000u8 > 'a'
#pragma clang __debug dump \\
    a
#endif
%:include "di??/graph.h"
__global__ void k(float *x) { asm volatile("s_nop 0" : : "v"(*x)); const char *f = __FILE__ "\\x41"; }
"""
CONFIG = """\
# plain
dir: /var/cache/hipcache
key: /etc/hipcache.key
namespace: team
log: /tmp/log
log_format: json
resident: off
verify: 1/20
remote: reapi://cache:50051
max_size: 20G
readonly: yes
"""


def warnings() -> None:
    """Raises CalledProcessError."""

    def compile_one(source: Path) -> None:
        words = [*_compiler(), *COMPILE, *WARNINGS, "-O2", "-fPIC", *_includes(), "-c", str(source), "-o", os.devnull]
        subprocess.run(words, check=True)

    sources = [*sorted(NATIVE.rglob("*.c")), *sorted((ROOT / "tests/native").glob("*.c"))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, sources))


def fuzz(seconds: int) -> None:
    """Raises CalledProcessError."""
    targets = sorted((ROOT / "tests/native").glob("fuzz_*.c"))
    for target in targets:
        name = target.stem.removeprefix("fuzz_")
        corpus = BUILD / "fuzz" / name
        corpus.mkdir(parents=True, exist_ok=True)
        (corpus / "seed").write_bytes(seed(name))
        program = BUILD / "fuzz" / target.stem
        clang = str(hips_own().root / "bin/clang")
        # A source that the target includes is in it already.
        included = [line.split('"')[1] for line in target.read_text().splitlines() if line.startswith('#include "')]
        sources = [path for path in sorted(NATIVE.rglob("*.c")) if path.name not in (*OF_PROGRAMS, *included)]
        words = [clang, *COMPILE, *SANITIZED, "-fsanitize=fuzzer", *_includes(), str(target), *map(str, sources)]
        subprocess.run([*words, "-o", str(program)], check=True)
        limits = [f"-max_total_time={max(1, seconds // len(targets))}", "-timeout=10", "-max_len=65536", "-verbosity=0"]
        print(f"==> {name}", flush=True)
        found = f"-artifact_prefix={corpus.parent}/{name}-"
        subprocess.run([program, *limits, "-print_final_stats=1", found, corpus], check=True)


def seed(name: str) -> bytes:
    """An input of that target which is as it should be."""
    from hipcache.direct.record import DirectRecord, Output, Rule, pack_list
    from hipcache.inputs.watched import Watched

    watched = tuple(Watched("f", f"/base/{part}.h") for part in ("a", "ab", "abc"))
    if name == "lexer":
        return SOURCE.encode()
    if name == "config":
        return CONFIG.encode()
    if name == "list":
        return pack_list(watched)
    if name == "bitcode":
        words = [str(hips_own().root / "bin/clang"), "-x", "c", "-", "-O1", "-g", "-emit-llvm", "-c", "-o", "-"]
        text = b'static int x; int f(int a) { __asm__("nop"); return a + x++; } asm(".globl y");'
        return subprocess.run(words, input=text, stdout=subprocess.PIPE, check=True).stdout
    digest = "5a" * 32
    return DirectRecord(
        variables=digest,
        state=digest,
        racy=2.0,
        ignored=("PWD", "COLUMNS"),
        outputs=((Output("/base/k.o", digest, executable=True), 12), (Output("<basedir>/l.o", digest), 0)),
        messages=b"k.hip:1:1: warning: w\n",
        counted=b"compiles\thit\t1\n",
        history=("history/5a",),
        uses=((True, digest), (False, digest)),
        watched=watched,
        contents=b"",
        system=digest,
        system_list=digest,
        system_contents=digest,
        rules=(Rule("/base/k.d", b"k.o: <basedir>/k.hip \\\n  a.h\n"), Rule("", b"")),
    ).pack()


def sanitizers(arguments: list[str]) -> None:
    """Raises CalledProcessError."""
    copy = BUILD / "sanitizers"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    python = copy / ".venv/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", copy / ".venv"], check=True)
        (packages,) = (copy / ".venv").glob("lib/python*/site-packages")
        (own,) = (ROOT / ".venv").glob("lib/python*/site-packages")
        (packages / "tools.pth").write_text(f"{own}\n")
    built = {**os.environ, "CC": _compiler()[0], "CFLAGS": " ".join([*SANITIZED, "-fno-omit-frame-pointer"])}
    install: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--disable-pip-version-check",
        "-e",
        ".",
    ]
    subprocess.run(install, cwd=copy, env=built, check=True)
    asked = [*_compiler(), "-print-file-name=libasan.so"]
    library = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    environ = os.environ | {
        "LD_PRELOAD": library,  # of Python, which is built without
        "ASAN_OPTIONS": "detect_leaks=0",  # Python and clang leave it to their end
        "TEST_AS_USERS": "1",
    }
    tests = [str(path) for name in TESTS for path in sorted((copy / "tests").rglob(f"test_{name}.py"))]
    words: list[str | Path] = [
        python,
        "-m",
        "pytest",
        "-n",
        str(os.cpu_count()),
        "--dist",
        "worksteal",
        *(arguments or tests),
    ]
    subprocess.run(words, cwd=copy, env=environ, check=True)


def _compiler() -> list[str]:
    return [os.environ.get("CC") or "cc"]


def _includes() -> list[str]:
    return [f"-I{folder}" for folder in sorted({path.parent for path in NATIVE.rglob("*.[ch]")})]


def main() -> int:
    match sys.argv[1:]:
        case ["warnings"]:
            warnings()
        case ["fuzz", *seconds]:
            fuzz(int(*seconds or ["60"]))
        case ["sanitizers", *arguments]:
            sanitizers(arguments)
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
