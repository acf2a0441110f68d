"""Compilers and trees of ROCm that a test may change."""

from __future__ import annotations

import shutil
from pathlib import Path

from rewriting import script, write_files

# Behind the version of a clang that compiles with the new offload driver.
NEW = "-new"
LLVM = {version: Path(f"/usr/lib/llvm-{version}") for version in ("15", "19", "22")}
DEVICE_LIBRARIES = Path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")


def toolchain(root: Path, version: str) -> Path:
    """A clang of its own: copies of the programs that a test may replace, links to all else. The driver's path."""
    origin = LLVM[version]
    (root / "bin").mkdir(parents=True)
    (root / "lib").mkdir()
    # (The linker wrapper looks for the others beside the file that it is.)
    wrapper = ("clang-linker-wrapper", "clang-offload-packager", "llvm-offload-binary")
    for name in ("clang", "lld", "clang-offload-bundler", *wrapper):
        if (origin / "bin" / name).exists():
            shutil.copy2(origin / "bin" / name, root / "bin" / name)
    (root / "bin" / "clang++").symlink_to("clang")
    (root / "bin" / "ld.lld").symlink_to("lld")
    for entry in (origin / "lib").iterdir():
        (root / "lib" / entry.name).symlink_to(entry)
    return root / "bin" / "clang++"


def rocm(root: Path, number: int) -> None:
    """A tree of ROCm: device libraries, that minor version, and a header <hip/value.h> whose VALUE it is."""
    write_files(
        root,
        {
            "bin/.hipVersion": f"HIP_VERSION_MAJOR=5\nHIP_VERSION_MINOR={number}\nHIP_VERSION_PATCH=1\n",
            "include/hip/value.h": f"#define VALUE {number}\n",
            "include/hip/hip_version.h": "",
        },
    )
    shutil.copytree(DEVICE_LIBRARIES, root / "amdgcn" / "bitcode")


def watched_compiler(path: Path, version: str, hook: str) -> Path:
    """A compiler whose every pass (`clang -cc1 ...`) goes through a shell script that does `hook` first.

    The script answers `-###` with the real plan, in which it has put itself where clang was. `$*` is the pass's
    command; a `hook` that ends in `exec` or `exit` replaces the pass.
    """
    real = LLVM[version] / "bin" / "clang"
    return script(
        path,
        f"""\
if [ "$1" = -cc1 ]; then
{hook}
exec {real} "$@"
fi
for word; do
    if [ "$word" = '-###' ]; then
        {real}++ "$@" 2>{path}.plan.$$ || {{ status=$?; cat {path}.plan.$$ >&2; rm {path}.plan.$$; exit $status; }}
        sed 's#^ "{real}" "-cc1"# "{path}" "-cc1"#' {path}.plan.$$ >&2
        rm {path}.plan.$$
        exit 0
    fi
done
exec {real}++ "$@"
""",
    )
