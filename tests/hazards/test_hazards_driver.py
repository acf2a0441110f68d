"""Never a wrong object: what the driver finds for itself, and device libraries.

Each test first shows a hit, then makes a change, and compares with a fresh compile of plain clang.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hip import DEVICE_LIBRARIES, HIT, LLVM, PASSED_THROUGH, Lab, kernel, rocm, script
from toolchains import another_cosine

pytestmark = pytest.mark.archs(1)

MATH = """\
#include "hip_in_short.hpp"
extern "C" __device__ float __ocml_cos_f32(float);
extern "C" __global__ void kernel(float* p) { p[0] = __ocml_cos_f32(p[1]); }
"""


def test_a_configuration_file_that_is_named_is_read_anew(lab: Lab) -> None:
    config = lab.write("own.cfg", "-DVALUE=1\n")
    lab.write("k.hip", kernel("VALUE"))
    before = lab.warm("--config", config)
    config.write_text("-DVALUE=2\n")
    lab.changed(before, "--config", config)


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
    before = lab.warm("-DVALUE=1", env={"CCC_OVERRIDE_OPTIONS": "#x-DVALUE=1 +-DVALUE=3"})
    lab.changed(before, "-DVALUE=1", env={"CCC_OVERRIDE_OPTIONS": "#x-DVALUE=1 +-DVALUE=4"})
    lab.changed(before, "-DVALUE=1")


def test_an_override_that_rewrites_words_is_left_to_the_driver(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE"))
    for value in "34":
        made = lab.compile("-DVALUE=1", env={"CCC_OVERRIDE_OPTIONS": f"#s/-DVALUE=1/-DVALUE={value}/"})
        assert made.counted.reason == "plan"


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ("#^-mllvm", ["-inline-threshold=10"]),
        ("^-I", ["-Wall"]),
        ("^-include ^h.h", ["-x", "hip", "-fno-such-option"]),
        ("#^-Xarch_host", ["-DX=1"]),
    ],
)
def test_an_override_that_would_take_the_next_word_for_its_value_is_left_to_the_driver(
    lab: Lab, edits: str, words: list[str]
) -> None:
    lab.write("h.h", "")
    clang, *rest = lab.words()
    made = lab.same([clang, *words, *rest], env={"CCC_OVERRIDE_OPTIONS": edits})
    assert made.counted.reason == "plan"


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


def libraries(tmp_path: Path, name: str = "rocm") -> Path:
    """A ROCm tree of its own, with copies of the device libraries. Returns its root."""
    root = tmp_path / name
    shutil.copytree(DEVICE_LIBRARIES, root / "amdgcn" / "bitcode")
    return root


def change(root: Path) -> None:
    """Another cosine in `ocml.bc`, of the same modification time."""
    ocml = root / "amdgcn" / "bitcode" / "ocml.bc"
    old = ocml.stat()
    ocml.write_bytes(another_cosine())
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
    change(root)
    after = cosine.same(command, env=env)
    assert after.object != first.object
    assert after.counted.missed == {"gfx906"}
    assert after.counted.served == {"host"}


@pytest.mark.parametrize("way", ["rocm-path", "ROCM_PATH", "HIP_DEVICE_LIB_PATH"])
def test_other_device_libraries_in_another_place_are_seen(cosine: Lab, tmp_path: Path, way: str) -> None:
    one, two = libraries(tmp_path, "one"), libraries(tmp_path, "two")
    change(two)
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
