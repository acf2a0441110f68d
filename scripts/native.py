"""Checks of the C sources, apart from the tests of what they do.

    scripts/native.py warnings                warnings as errors; the layout, by clang-format
    scripts/native.py fuzz [SECONDS]          libFuzzer over tests/native/fuzz_*.c, SECONDS for all together (60)
    scripts/native.py sanitizers [ARGS...]    the tests of the C code (below, or pytest's ARGS) with ASan and UBSan

`fuzz` begins with the seeds that it writes (a record, a list, bitcode, a source, resolved settings) and with what
earlier runs found, in build/fuzz/TARGET. A fault leaves its input there. `sanitizers` works in a copy of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hip_toolchain import hips_own
from hipcache.config.files import USER
from hipcache.config.resolved import values
from hipcache.direct.record import DirectRecord, Output, Rule, pack_list
from hipcache.inputs.watched import Watched

ROOT = Path(__file__).parent.parent
NATIVE = ROOT / "plugins/hipcache/native"
BUILD = ROOT / "build"
# hatch_build.py gives them their values.
DEFINED = (
    "HIPCACHE_VERSION",
    "SUBCOMMANDS",
    "NOT_HIP_CRC",
    "NOT_HIP_CHECK_CRC",
    "CXX_CACHE_CRC",
    "CXX_CACHE_CHECK_CRC",
)
COMPILE = ["-std=gnu11", "-pthread", "-DREADS_PACKS=1", "-DZSTD_LOADED", *(f'-D{name}=""' for name in DEFINED)]
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
SANITIZED = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# Others, which start launchers and compilers below the sanitizers, by ARGS.
TESTS = ("bitcode", "lexer", "observer", "packs", "records")
# An empty environment, and little memory: what the sanitizers themselves cannot start with.
DESELECTED = "not test_under_another_observer_it_runs_without and not test_without_memory_for_a_record"
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
CONFIG = b"dir: /cache\nkey: /etc/key\nnamespace: team\nlog: /tmp/log\nlog_format: json\nresident: off\nverify: 1/20\n"


def warnings() -> None:
    """Raises CalledProcessError."""
    sources = [*NATIVE.rglob("*.c"), *(ROOT / "tests/native").glob("*.c")]
    _compile([*_compiler(), *WARNINGS, "-O2", "-fPIC"], {source: Path(os.devnull) for source in sources})
    others = [path for name in ("tests", "bench") for path in (ROOT / name).glob("*.[ch]")]
    files = [*sources, *NATIVE.rglob("*.h"), *others]
    formatter = Path(sys.executable).with_name("clang-format")
    subprocess.run([str(formatter), "--dry-run", "-Werror", *map(str, files)], check=True)


def fuzz(seconds: int) -> None:
    """Raises CalledProcessError."""
    clang = [str(hips_own().root / "bin/clang"), *SANITIZED, "-fsanitize=fuzzer-no-link"]
    targets = sorted((ROOT / "tests/native").glob("fuzz_*.c"))
    (BUILD / "fuzz").mkdir(parents=True, exist_ok=True)
    objects = {path: BUILD / "fuzz" / f"{path.stem}.o" for path in (*NATIVE.rglob("*.c"), *targets)}
    _compile(clang, objects)
    for target in targets:
        name = target.stem.removeprefix("fuzz_")
        corpus = BUILD / "fuzz" / name
        corpus.mkdir(exist_ok=True)
        (corpus / "seed").write_bytes(seed(name))
        # A source that the target includes is in it already; others are of a program, or of those that passes run in.
        included = re.findall(r'^#include "(.*)"', target.read_text(), re.MULTILINE)
        left = ("launcher.c", *included)
        linked = [objects[path] for path in objects if path.name not in left and path.parent.name != "observer"]
        linked = [path for path in linked if not path.name.startswith("fuzz_") or path == objects[target]]
        program = BUILD / "fuzz" / target.stem
        subprocess.run([*clang, "-fsanitize=fuzzer", "-pthread", *linked, "-o", program], check=True)
        limits = [f"-max_total_time={max(1, seconds // len(targets))}", "-timeout=10", "-max_len=65536", "-verbosity=0"]
        print(f"==> {name}", flush=True)
        found = f"-artifact_prefix={corpus.parent}/{name}-"
        subprocess.run([program, *limits, "-print_final_stats=1", found, corpus], check=True)


def seed(name: str) -> bytes:
    """An input of that target which is as it should be."""
    watched = tuple(Watched("f", f"/base/{part}.h") for part in ("a", "ab", "abc"))
    if name == "lexer":
        return SOURCE.encode()
    if name == "config":
        return values(CONFIG, Path("hipcache.yaml"), USER, {})
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
    copy.mkdir(parents=True, exist_ok=True)
    packed = 'git ls-files -z | tar --null --files-from=- -c | tar -x -C "$1"'
    subprocess.run(["sh", "-c", packed, "sh", str(copy)], cwd=ROOT, check=True)
    python = copy / ".venv/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", copy / ".venv"], check=True)
        (packages,) = (copy / ".venv").glob("lib/python*/site-packages")
        (own,) = (ROOT / ".venv").glob("lib/python*/site-packages")
        (packages / "tools.pth").write_text(f"{own}\n")
    built = {**os.environ, "CC": _compiler()[0], "CFLAGS": " ".join([*SANITIZED, "-fno-omit-frame-pointer"])}
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "-e", "."]
    subprocess.run(install, cwd=copy, env=built, check=True)
    asked = [*_compiler(), "-print-file-name=libasan.so"]
    library = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    environ = os.environ | {
        "LD_PRELOAD": library,  # of Python, which is built without
        "ASAN_OPTIONS": "detect_leaks=0",  # Python and clang leave it to their end
    }
    tests = [str(path) for name in TESTS for path in sorted((copy / "tests").rglob(f"test_{name}.py"))]
    words = [str(python), "-m", "pytest", "-n", str(os.cpu_count()), "--dist", "worksteal", "-k", DESELECTED]
    words += arguments or tests
    subprocess.run(words, cwd=copy, env=environ, check=True)


def _compile(command: list[str], objects: Mapping[Path, Path]) -> None:
    """Each source to its object. Raises CalledProcessError."""
    includes = [f"-I{folder}" for folder in sorted({path.parent for path in NATIVE.rglob("*.[ch]")})]

    def compile_one(source: Path) -> None:
        subprocess.run([*command, *COMPILE, *includes, "-c", str(source), "-o", str(objects[source])], check=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, objects))


def _compiler() -> list[str]:
    return [os.environ.get("CC") or "cc"]


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
