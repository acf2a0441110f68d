"""Compilers and trees of ROCm that a test may change."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hip_toolchain import chosen, hips_own, installed
from rewriting import script, write_files


class _Installed(dict[str, Path]):
    """A test of a clang that is not there is skipped."""

    def __missing__(self, version: str) -> Path:
        pytest.skip(f"clang {version} is not installed", allow_module_level=True)


#: LLVM's directories, by version.
LLVM = _Installed({version: toolchain.root for version, toolchain in installed().items()})
#: Versions of the clangs that each test meets: HIP's own first (see hip_toolchain).
COMPILERS = tuple(toolchain.version for toolchain in chosen())
DEVICE_LIBRARIES = hips_own().device_libraries or Path("/nonexistent")
#: Behind the version of a clang that compiles with the new offload driver.
BY_NEW_DRIVER = "-new"
#: With which HIP's own clang finds HIP.
HIP_FLAGS = hips_own().flags
#: Versions whose links by the new offload driver are cached.
LINKING = tuple(version for version in (*COMPILERS, "22") if int(version) >= 19)
#: (version of clang, flags that choose the driver) for relocatable device code.
OLD, OLD_19, NEW = (COMPILERS[0], ()), (COMPILERS[-1], ()), (LINKING[0], ("--offload-new-driver",))


def another(version: str) -> str:
    """The version of another clang: of those that tests meet, if it can be."""
    others = [one for one in (*COMPILERS, *LLVM) if one != version]
    if not others:
        pytest.skip("there is one clang here")
    return others[0]


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
    (root / "bin" / "llvm-objcopy").symlink_to(origin / "bin" / "llvm-objcopy")  # the bundler starts it
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


@cache
def another_cosine() -> bytes:
    """`ocml.bc` of the device libraries with another cosine."""
    # The oldest tools write what both compilers can read.
    tools = LLVM[COMPILERS[0]] / "bin"
    function = "define protected float @__ocml_cos_f32(float %x) { %y = fmul float %x, 4.25e+01 ret float %y }\n"
    with tempfile.TemporaryDirectory() as name:
        text, module, made = (Path(name, f"cos.{suffix}") for suffix in ("ll", "bc", "all.bc"))
        text.write_text(f'target triple = "amdgcn-amd-amdhsa"\n{function}')
        subprocess.run([tools / "llvm-as", text, "-o", module], check=True)
        words = [tools / "llvm-link", DEVICE_LIBRARIES / "ocml.bc", "--override", module, "-o", made]
        subprocess.run(words, check=True)
        return made.read_bytes()


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
