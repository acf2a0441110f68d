"""Never a wrong object: the compiler, its tools, and the architectures that the machine has.

Each test first shows a hit, then makes a change, and compares with a fresh compile of plain clang.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace as with_changes
from pathlib import Path

import pytest
from hip import BARE, CUID, HIT, LLVM, Lab, kernel, only_19, replace, script, since_18, toolchain
from toolchains import another

pytestmark = pytest.mark.archs(1)


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


@since_18
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
    name = next((LLVM[lab.version] / "lib").glob(f"libclang-cpp.so.{lab.version}*")).name
    library = tmp_path / "llvm" / "lib" / name
    library.unlink()
    shutil.copy2(LLVM[lab.version] / "lib" / name, library)
    before = lab.warm()
    content = library.read_bytes()
    said = lab.run([lab.compiler, "-dumpversion"]).out.strip()  # stands in the object as the producer
    if int(lab.version) >= 20:
        pytest.skip("this clang has it from another library")
    replace(library, content.replace(said, said[:-1] + b"9"))
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
    other = another(lab.version)
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
    (first / "clang++").symlink_to(LLVM[another(lab.version)] / "bin" / "clang++")
    lab.changed(before, env=env)


# What the driver reads by itself


def test_a_configuration_file_that_appears_beside_the_compiler_is_seen(lab: Lab, tmp_path: Path) -> None:
    lab = copied(lab, tmp_path)
    (tmp_path / "llvm" / "bin" / "own-clang++").symlink_to("clang")
    lab = with_changes(lab, compiler=str(tmp_path / "llvm" / "bin" / "own-clang++"))
    lab.write("k.hip", kernel("VALUE", "#ifndef VALUE\n#define VALUE 1\n#endif"))
    before = lab.warm("-target", "x86_64-pc-linux-gnu")
    for name in ("own-clang++.cfg", "own.cfg", "clang++.cfg"):
        (tmp_path / "llvm" / "bin" / name).write_text("-DVALUE=2\n")
    lab.changed(before, "-target", "x86_64-pc-linux-gnu")


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
