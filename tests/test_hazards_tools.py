"""Never a wrong object, part 2: the compiler, its tools, its libraries, and what the driver finds for itself.

Each test first shows a hit, then makes a change, and compares with a fresh compile of plain clang.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace as with_changes
from pathlib import Path

import pytest
from hip import (
    BARE,
    CUID,
    DEVICE_LIBRARIES,
    HIT,
    LLVM,
    PASSED_THROUGH,
    Lab,
    kernel,
    only_19,
    replace,
    rocm,
    script,
    toolchain,
)

pytestmark = [pytest.mark.takes_turns("lab"), pytest.mark.archs(1)]

MATH = """\
#include "hip_in_short.hpp"
extern "C" __device__ float __ocml_cos_f32(float);
extern "C" __global__ void kernel(float* p) { p[0] = __ocml_cos_f32(p[1]); }
"""


def copied(lab: Lab, tmp_path: Path) -> Lab:
    return with_changes(lab, compiler=str(toolchain(tmp_path / "llvm", lab.version)))


# Programs


@pytest.mark.archs(2)
def test_a_compiler_replaced_by_another_of_the_same_size_and_time_compiles_again(lab: Lab, tmp_path: Path) -> None:
    lab = copied(lab, tmp_path)
    lab.warm()
    clang = tmp_path / "llvm" / "bin" / "clang"
    content = bytearray(clang.read_bytes())
    at = content.rindex(b".note.gnu.build-id")  # a section's name, which nobody looks up
    content[at : at + 5] = b".NOTE"
    replace(clang, bytes(content))
    assert lab.compile().counted.missed == {"gfx906", "gfx90a", "host"}


@pytest.mark.parametrize("in_place", [False, True], ids=["replaced", "in-place"])
def test_a_linker_replaced_by_another_of_the_same_size_and_time_is_seen(
    lab: Lab, tmp_path: Path, in_place: bool
) -> None:
    lab = copied(lab, tmp_path)
    lld = tmp_path / "llvm" / "bin" / "lld"
    lines = [f'exec {LLVM[lab.version]}/bin/lld "$@" {more}\n' for more in ("--build-id=none", "--build-id=0xab")]
    assert len(lines[0]) == len(lines[1])
    script(lld, lines[0])
    before = lab.warm()
    if in_place:
        old = lld.stat()
        lld.write_text("#!/bin/sh\n" + lines[1])
        os.utime(lld, ns=(old.st_atime_ns, old.st_mtime_ns))
    else:
        replace(lld, b"#!/bin/sh\n" + lines[1].encode())
    after = lab.changed(before)
    assert "host" in after.counted.served


@pytest.mark.parametrize("way", ["by path", "on PATH", "beside it"])
def test_a_linker_behind_a_script_is_seen(lab: Lab, tmp_path: Path, way: str) -> None:
    lab = copied(lab, tmp_path)
    directory = tmp_path / "llvm" / "bin"
    lld = directory / "lld"
    inner = {"by path": tmp_path / "inner", "on PATH": tmp_path / "path" / "inner", "beside it": directory / "inner"}[
        way
    ]
    inner.parent.mkdir(exist_ok=True)
    named = {"by path": str(inner), "on PATH": "inner", "beside it": '"${0%/*}/inner"'}[way]
    environ = {"PATH": f"{tmp_path}/path:{lab.environ['PATH']}"}
    script(lld, f'exec {named} "$@"\n')
    script(inner, f'exec {LLVM[lab.version]}/bin/lld "$@" --build-id=none\n')
    before = lab.warm(env=environ)
    script(inner, f'exec {LLVM[lab.version]}/bin/lld "$@" --build-id=0xab\n')
    lab.changed(before, env=environ)


@only_19
def test_a_variable_that_the_bundler_reads_is_seen(lab: Lab) -> None:
    before = lab.warm()
    assert lab.compile(env={"OFFLOAD_BUNDLER_COMPRESS": "1"}).object != before.object


def test_a_bundler_replaced_by_another_of_the_same_size_and_time_is_seen(lab: Lab, tmp_path: Path) -> None:
    lab = copied(lab, tmp_path)
    bundler = tmp_path / "llvm" / "bin" / "clang-offload-bundler"
    real = LLVM[lab.version] / "bin" / "clang-offload-bundler"
    lines = [f'exec {real} "$@" {more}\n' for more in ("-bundle-align=4096", "-bundle-align=8192")]
    script(bundler, lines[0])
    before = lab.warm()
    replace(bundler, b"#!/bin/sh\n" + lines[1].encode())
    # Every unit is served: the bundler does not reach into them. The object is made anew.
    assert lab.compile().object != before.object


def test_a_library_that_the_compiler_loads_replaced_by_one_of_the_same_size_and_time_is_seen(
    lab: Lab, tmp_path: Path
) -> None:
    lab = copied(lab, tmp_path)
    name = {"15": "libclang-cpp.so.15", "19": "libclang-cpp.so.19.1"}[lab.version]
    library = tmp_path / "llvm" / "lib" / name
    library.unlink()
    shutil.copy2(LLVM[lab.version] / "lib" / name, library)
    before = lab.warm()
    content = library.read_bytes()
    old = {"15": b"15.0.6", "19": b"19.1.7"}[lab.version]  # stands in the object as the producer
    replace(library, content.replace(old, old[:-1] + b"9"))
    lab.changed(before)


@pytest.mark.archs(2)
def test_a_library_that_appears_earlier_in_the_library_path_compiles_again(lab: Lab, tmp_path: Path) -> None:
    directory = tmp_path / "libraries"
    directory.mkdir()
    env = {"LD_LIBRARY_PATH": str(directory)}
    lab.warm(env=env)
    answer = subprocess.run(["ldd", LLVM[lab.version] / "bin" / "clang"], capture_output=True, text=True, check=True)
    libffi = next(line.split()[2] for line in answer.stdout.splitlines() if "libffi" in line)
    library = directory / Path(libffi).name
    shutil.copy2(libffi, library)
    assert lab.compile(env=env).outcome == HIT, "the same library in another place is the same compiler"
    library.write_bytes(library.read_bytes() + b"\0")
    assert lab.compile(env=env).counted.missed == {"gfx906", "gfx90a", "host"}


@pytest.mark.archs(2)
def test_a_preloaded_library_replaced_by_one_of_the_same_size_and_time_is_seen(lab: Lab) -> None:
    made = []
    for value in ("1", "2"):
        lab.write("preloaded.c", f"int its_number = {value};\n")
        words = [lab.compiler, "-x", "c", "-shared", "-fPIC", "preloaded.c", "-o", f"{value}.so"]
        assert lab.run(words).status == 0
        made.append((lab.root / f"{value}.so").read_bytes())
    library = lab.write("preloaded.so", made[0])
    env = {"LD_PRELOAD": str(library)}
    lab.warm(env=env)
    replace(library, made[1])
    assert lab.compile(env=env).counted.missed == {"gfx906", "gfx90a", "host"}


@pytest.mark.archs(2)
def test_a_library_that_appears_in_the_working_directory_where_the_library_path_names_it(lab: Lab) -> None:
    env = {"LD_LIBRARY_PATH": "/nowhere:"}
    lab.warm(env=env)
    answer = subprocess.run(["ldd", LLVM[lab.version] / "bin" / "clang"], capture_output=True, text=True, check=True)
    libffi = next(line.split()[2] for line in answer.stdout.splitlines() if "libffi" in line)
    lab.write(Path(libffi).name, Path(libffi).read_bytes() + b"\0")
    assert lab.compile(env=env).counted.missed == {"gfx906", "gfx90a", "host"}


def test_a_link_to_the_compiler_that_is_switched_is_seen(lab: Lab, tmp_path: Path) -> None:
    link = tmp_path / "clang++"
    other = {"15": "19", "19": "15"}[lab.version]
    lab = with_changes(lab, compiler=str(link))
    link.symlink_to(LLVM[lab.version] / "bin" / "clang++")
    before = lab.warm()
    link.unlink()
    link.symlink_to(LLVM[other] / "bin" / "clang++")
    lab.changed(before)


def test_another_compiler_that_comes_first_on_the_path_is_seen(lab: Lab, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
    (second / "clang++").symlink_to(LLVM[lab.version] / "bin" / "clang++")
    lab = with_changes(lab, compiler="clang++")
    env = {"PATH": f"{first}:{second}:{os.environ['PATH']}"}
    before = lab.warm(env=env)
    (first / "clang++").symlink_to(LLVM[{"15": "19", "19": "15"}[lab.version]] / "bin" / "clang++")
    lab.changed(before, env=env)


# What the driver reads by itself


def test_a_configuration_file_that_is_named_is_read_anew(lab: Lab) -> None:
    config = lab.write("own.cfg", "-DVALUE=1\n")
    lab.write("k.hip", kernel("VALUE"))
    before = lab.warm("--config", config)
    config.write_text("-DVALUE=2\n")
    lab.changed(before, "--config", config)


def test_a_configuration_file_that_appears_beside_the_compiler_is_seen(lab: Lab, tmp_path: Path) -> None:
    lab = copied(lab, tmp_path)
    (tmp_path / "llvm" / "bin" / "own-clang++").symlink_to("clang")
    lab = with_changes(lab, compiler=str(tmp_path / "llvm" / "bin" / "own-clang++"))
    lab.write("k.hip", kernel("VALUE", "#ifndef VALUE\n#define VALUE 1\n#endif"))
    before = lab.warm("-target", "x86_64-pc-linux-gnu")
    for name in ("own-clang++.cfg", "own.cfg", "clang++.cfg"):
        (tmp_path / "llvm" / "bin" / name).write_text("-DVALUE=2\n")
    lab.changed(before, "-target", "x86_64-pc-linux-gnu")


def test_a_file_that_a_configuration_file_names_is_read_anew(lab: Lab) -> None:
    lab.write("own.cfg", "@inner.cfg\n")
    inner = lab.write("inner.cfg", "-DVALUE=1\n")
    lab.write("k.hip", kernel("VALUE"))
    flags = ("--config", lab.root / "own.cfg")
    before = lab.warm(*flags)
    inner.write_text("-DVALUE=2\n")
    lab.changed(before, *flags)


@pytest.mark.parametrize("kind", ["user", "system"])
def test_a_configuration_file_that_appears_in_a_directory_for_them_is_seen(lab: Lab, kind: str) -> None:
    lab.write("k.hip", kernel("VALUE", "#ifndef VALUE\n#define VALUE 1\n#endif"))
    (lab.root / "settings").mkdir()
    flags = (f"--config-{kind}-dir={lab.root}/settings", *(["--config", "own.cfg"] if lab.version == "15" else []))
    if lab.version == "15":  # which reads one by itself only where the compiler's name has a target
        lab.write("settings/own.cfg", "-DVALUE=1\n")
    before = lab.warm(*flags)
    for name in ("own.cfg", "clang++.cfg", "x86_64-pc-linux-gnu-clang++.cfg"):
        lab.write(f"settings/{name}", "-DVALUE=2\n")
    lab.changed(before, *flags)


def test_a_configuration_file_that_asks_for_a_second_output_is_left_to_the_compiler(lab: Lab) -> None:
    config = lab.write("own.cfg", "-ftime-trace\n")
    assert lab.compile("--config", config).outcome == PASSED_THROUGH


@pytest.mark.parametrize("variable", ["CPATH", "CPLUS_INCLUDE_PATH"])
def test_an_include_path_of_the_environment_is_part_of_the_key(lab: Lab, variable: str) -> None:
    for number in (1, 2):
        lab.write(f"v{number}/value.hpp", f"#define VALUE {number}\n")
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    before = lab.warm(env={variable: "v1"})
    lab.changed(before, env={variable: "v2"})


@pytest.mark.parametrize("variable", ["CPATH", "CPLUS_INCLUDE_PATH"])
def test_a_header_that_appears_in_an_include_path_of_the_environment_is_seen(lab: Lab, variable: str) -> None:
    (lab.root / "v1").mkdir()
    lab.write("v2/value.hpp", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    env = {variable: "v1:v2"}
    before = lab.warm(env=env)
    lab.write("v1/value.hpp", "#define VALUE 2\n")
    lab.changed(before, env=env)


def test_options_overridden_by_the_environment_are_the_ones_that_count(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE"))
    before = lab.warm("-DVALUE=1", env={"CCC_OVERRIDE_OPTIONS": "#s/-DVALUE=1/-DVALUE=3/"})
    lab.changed(before, "-DVALUE=1", env={"CCC_OVERRIDE_OPTIONS": "#s/-DVALUE=1/-DVALUE=4/"})
    lab.changed(before, "-DVALUE=1")


@pytest.mark.parametrize("more", ["+-S", "+--cuda-device-only", "+-save-temps", "+-flto", "+-MD", "+-gsplit-dwarf"])
def test_an_override_that_makes_another_kind_of_output_is_obeyed(lab: Lab, more: str) -> None:
    lab.same(lab.words(), env={"CCC_OVERRIDE_OPTIONS": "#" + more})


def test_what_the_driver_says_about_overrides_is_shown(lab: Lab) -> None:
    env = {"CCC_OVERRIDE_OPTIONS": "+-DVALUE=1"}
    assert "Adding argument" in lab.compile(env=env).messages
    assert "Adding argument" in lab.compile(env=env).messages


def test_a_gcc_that_appears_and_that_clang_would_choose_is_seen(lab: Lab, tmp_path: Path) -> None:
    gcc = tmp_path / "gcc"

    def install(version: int) -> None:
        base = gcc / "lib" / "gcc" / "x86_64-linux-gnu" / str(version)
        base.mkdir(parents=True)
        (base / "crtbegin.o").touch()
        include = gcc / "include" / "c++" / str(version)
        include.mkdir(parents=True)
        (include / "value.hpp").write_text(f"#define VALUE {version}\n")

    install(11)
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    flag = f"--gcc-toolchain={gcc}"
    before = lab.warm(flag)
    install(12)
    lab.changed(before, flag)


def test_a_new_prefix_directory_with_another_linker_is_seen(lab: Lab, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    prefix.mkdir()
    lab.warm("-B", prefix)
    script(prefix / "lld", f'exec {LLVM[lab.version]}/bin/lld "$@" --build-id=0xab\n')
    lab.compile("-B", prefix)


# Device libraries


def libraries(tmp_path: Path, name: str = "rocm") -> Path:
    """A ROCm tree of its own, with copies of the device libraries. Returns its root."""
    root = tmp_path / name
    shutil.copytree(DEVICE_LIBRARIES, root / "amdgcn" / "bitcode")
    return root


def change(root: Path, version: str) -> None:
    """Another cosine in `ocml.bc`, of the same modification time."""
    ocml = root / "amdgcn" / "bitcode" / "ocml.bc"
    old = ocml.stat()
    # LLVM 15's tools write what both compilers can read.
    tools = LLVM["15"] / "bin"
    text = root / "cos.ll"
    text.write_text(
        'target triple = "amdgcn-amd-amdhsa"\n'
        "define protected float @__ocml_cos_f32(float %x) { %y = fmul float %x, 4.25e+01 ret float %y }\n"
    )
    subprocess.run([tools / "llvm-link", "-S", "--override", text, ocml, "-o", root / "all.ll"], check=False)
    subprocess.run([tools / "llvm-as", text, "-o", root / "cos.bc"], check=True)
    subprocess.run([tools / "llvm-link", ocml, "--override", root / "cos.bc", "-o", ocml], check=True)
    os.utime(ocml, ns=(old.st_atime_ns, old.st_mtime_ns))


def compile_with(lab: Lab, *flags: str | Path) -> list[str]:
    """A command line with device libraries; `-cuid=` as elsewhere."""
    words = [lab.compiler, "--offload-arch=gfx906", "-nogpuinc", "-O2", "-cuid=5eed", *map(str, flags)]
    return [*words, "-c", "k.hip", "-o", "out.o"]


@pytest.fixture
def cosine(lab: Lab) -> Lab:
    lab.write("k.hip", MATH)
    return lab


WAYS = {
    "rocm-path": lambda root: ([f"--rocm-path={root}"], {}),
    "rocm-device-lib-path": lambda root: ([f"--rocm-device-lib-path={root}/amdgcn/bitcode"], {}),
    "hip-device-lib-path": lambda root: ([f"--hip-device-lib-path={root}/amdgcn/bitcode"], {}),
    "ROCM_PATH": lambda root: ([], {"ROCM_PATH": str(root)}),
    "HIP_DEVICE_LIB_PATH": lambda root: ([], {"HIP_DEVICE_LIB_PATH": f"{root}/amdgcn/bitcode"}),
}


@pytest.mark.archs(2)
@pytest.mark.parametrize("way", WAYS)
def test_device_libraries_changed_in_place_are_seen(cosine: Lab, tmp_path: Path, way: str) -> None:
    root = libraries(tmp_path)
    flags, env = WAYS[way](root)
    command = compile_with(cosine, *flags)
    first = cosine.same(command, env=env)
    assert first.status == 0, first.messages
    assert cosine.same(command, env=env).outcome == HIT
    change(root, cosine.version)
    after = cosine.same(command, env=env)
    assert after.object != first.object
    assert after.counted.missed == {"gfx906"}
    assert after.counted.served == {"host"}


@pytest.mark.parametrize("way", WAYS)
def test_other_device_libraries_in_another_place_are_seen(cosine: Lab, tmp_path: Path, way: str) -> None:
    one, two = libraries(tmp_path, "one"), libraries(tmp_path, "two")
    change(two, cosine.version)
    flags, env = WAYS[way](one)
    first = cosine.same(compile_with(cosine, *flags), env=env)
    assert cosine.same(compile_with(cosine, *flags), env=env).outcome == HIT
    flags, env = WAYS[way](two)
    after = cosine.same(compile_with(cosine, *flags), env=env)
    assert after.object != first.object


def test_the_same_device_libraries_in_another_place_are_a_hit(cosine: Lab, tmp_path: Path) -> None:
    for name in ("one", "two"):
        libraries(tmp_path, name)
    outcomes = [
        cosine.same(compile_with(cosine, f"--rocm-device-lib-path={tmp_path}/{name}/amdgcn/bitcode")).outcome
        for name in ("one", "two")
    ]
    assert outcomes[1] == HIT


@pytest.mark.archs(2)
def test_hip_of_another_path_is_read_anew(lab: Lab, tmp_path: Path) -> None:
    for number in (1, 2):
        rocm(tmp_path / f"hip{number}", number)
    lab.write("k.hip", kernel("VALUE", "#include <hip/value.h>"))
    command = [lab.compiler, "--offload-arch=gfx906", "-O2", "-cuid=5eed", "-c", "k.hip", "-o", "out.o"]
    ways: list[tuple[str, list[str]]] = [("ROCM_PATH", []), ("", ["--hip-path={root}"]), ("", ["--rocm-path={root}"])]
    if lab.version != "15":  # which does not look at it
        ways.append(("HIP_PATH", []))
    for variable, flags in ways:
        found = []
        for number in (1, 1, 2):
            root = str(tmp_path / f"hip{number}")
            env = {variable: root} if variable else {}
            words = [
                *command,
                *(flag.format(root=root) for flag in flags),
                f"--rocm-device-lib-path={root}/amdgcn/bitcode",
            ]
            found.append(lab.same(words, env=env))
        assert found[0].status == 0, found[0].messages
        assert found[1].outcome == HIT
        assert found[2].object != found[0].object


# Architectures


def fake_detector(path: Path, *archs: str) -> Path:
    return script(path, "".join(f"echo {arch}\n" for arch in archs))


@pytest.mark.archs(2)
@only_19
def test_native_is_what_the_machine_has_now(lab: Lab, tmp_path: Path) -> None:
    tool = fake_detector(tmp_path / "amdgpu-arch", "gfx906")
    flags = ("--offload-arch=native", f"--amdgpu-arch-tool={tool}")
    before = lab.warm(*flags)
    assert before.counted.served == {"gfx906", "host"}
    fake_detector(tool, "gfx90a")
    after = lab.changed(before, *flags)
    assert after.counted.missed == {"gfx90a"}


@pytest.mark.archs(2)
@only_19
def test_native_of_a_detector_on_the_path_is_what_the_machine_has_now(lab: Lab, tmp_path: Path) -> None:
    lab = copied(lab, tmp_path)
    tool = fake_detector(tmp_path / "llvm" / "bin" / "amdgpu-arch", "gfx906")
    before = lab.warm("--offload-arch=native")
    fake_detector(tool, "gfx906", "gfx90a")
    after = lab.changed(before, "--offload-arch=native")
    assert after.counted.missed == {"gfx90a"}
    assert after.counted.served == {"gfx906", "host"}


@pytest.mark.archs(2)
@only_19
@pytest.mark.parametrize("way", ["response-file", "config-file", "override"])
def test_native_that_is_not_on_the_command_line_is_what_the_machine_has_now(lab: Lab, tmp_path: Path, way: str) -> None:
    machine = tmp_path / "machine"
    machine.write_text("gfx906\n")
    tool = script(tmp_path / "amdgpu-arch", f"while read arch; do echo $arch; done <{machine}\n")
    options = f"--offload-arch=native\n--amdgpu-arch-tool={tool}\n"
    lab.write("flags.txt", options)
    flags, env = ["@flags.txt"], {}
    if way == "config-file":
        flags = ["--config", str(lab.root / "flags.txt")]
    elif way == "override":
        flags, env = [f"--amdgpu-arch-tool={tool}"], {"CCC_OVERRIDE_OPTIONS": "#+--offload-arch=native"}
    for path in (machine, tool, lab.root / "flags.txt"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    command = [lab.compiler, *BARE, CUID, *flags, "-c", "k.hip", "-o", "out.o"]
    for _ in range(3):
        before = lab.same(command, env=env)
    assert before.counted.served == {"gfx906", "host"}
    machine.write_text("gfx90a\n")
    assert lab.same(command, env=env).object != before.object


@only_19
def test_native_without_a_gpu_fails_as_it_does_alone(lab: Lab, tmp_path: Path) -> None:
    tool = script(tmp_path / "amdgpu-arch", "exit 1\n")
    ended = lab.compile("--offload-arch=native", f"--amdgpu-arch-tool={tool}")
    assert ended.status != 0
