"""Never a wrong object: flags.

Each test first shows a hit, then makes a change, and compares with a fresh compile of plain clang.
"""

from __future__ import annotations

import re

import pytest
from hip import BARE, HIT, LLVM, Lab, kernel

pytestmark = pytest.mark.archs(1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["-DVALUE=1"], ["-DVALUE=2"]),
        (["-D", "VALUE=1"], ["-D", "VALUE=2"]),
        (["-DVALUE=1", "-UVALUE", "-DVALUE=3"], ["-DVALUE=1"]),
        (["-DVALUE=1", "-O1"], ["-DVALUE=1", "-O3"]),
        (["-DVALUE=1", "-fPIC"], ["-DVALUE=1", "-fno-pic", "-fno-pie"]),
        (["-DVALUE=1", "-mllvm", "-inline-threshold=1", "-g"], ["-DVALUE=1", "-mllvm", "-inline-threshold=2"]),
        (["-DVALUE=__cplusplus", "-std=c++14"], ["-DVALUE=__cplusplus", "-std=c++17"]),
    ],
)
def test_another_flag_is_another_object(lab: Lab, one: list[str], other: list[str]) -> None:
    lab.write("k.hip", kernel("VALUE"))
    lab.changed(lab.warm(*one), *other)


@pytest.mark.archs(2)
@pytest.mark.parametrize(
    ("flag", "missed"),
    [
        (["-Xarch_host", "-DVALUE=2"], {"host"}),
        (["-Xarch_device", "-DVALUE=2"], {"gfx906", "gfx90a"}),
        (["-Xarch_gfx906", "-DVALUE=2"], {"gfx906"}),
    ],
    ids=["host", "device", "gfx906"],
)
def test_a_flag_for_one_side_compiles_that_side_alone(lab: Lab, flag: list[str], missed: set[str]) -> None:
    lab.write("k.hip", kernel("VALUE", "#ifndef VALUE\n#define VALUE 1\n#endif"))
    after = lab.changed(lab.warm(), *flag)
    assert after.counted.missed == missed
    assert lab.compile(*flag).object == after.object


def test_absolute_paths_in_messages_are_those_of_this_directory(lab: Lab) -> None:
    for name in ("one", "two", "one"):
        lab.write(f"{name}/hip_in_short.hpp", (lab.root / "hip_in_short.hpp").read_bytes())
        lab.write(f"{name}/k.hip", kernel("1", "#warning said"))
        made = lab.compile("-fdiagnostics-absolute-paths", "-ffile-compilation-dir=.", cwd=lab.root / name)
        assert f"/{name}/k.hip" in made.messages
    assert made.outcome == HIT


def test_a_format_of_messages_is_not_served_for_another_one(lab: Lab) -> None:
    lab.write("k.hip", kernel("1", "#warning said"))
    usual = lab.warm()
    other = lab.warm("-fdiagnostics-format=msvc")
    assert other.messages != usual.messages
    assert lab.compile("-fdiagnostics-format=sarif").counted.reason == "compiler_option"


@pytest.mark.parametrize("flag", ["-fprofile-use=runs", "-fprofile-instr-use=runs/default.profdata"])
def test_another_profile_is_another_object(lab: Lab, flag: str) -> None:
    lab.write(
        "k.hip", kernel("1") + 'extern "C" int many(int n) { int s = 0; while (n-- > 0) s += n * n; return s; }\n'
    )
    (lab.root / "runs").mkdir()
    _write_profile(lab, 1, 0)
    before = lab.warm(flag)
    _write_profile(lab, 1, 100000)
    after = lab.changed(before, flag)
    assert "host" in after.counted.missed
    (lab.root / "runs/default.profdata").unlink()
    gone = lab.compile(flag)
    assert (gone.status, gone.outcome) == (1, "failed")


def _write_profile(lab: Lab, calls: int, rounds: int) -> None:
    """As if a program had called the function so often, and gone round its loop."""
    hashes = lab.run(
        [lab.compiler, *BARE, "--offload-host-only", "-fprofile-instr-generate", "-S", "-emit-llvm", "k.hip", "-o", "-"]
    ).out.decode()
    (found,) = set(re.findall(r"@__profd_many = .*?i64 -?\d+, i64 (\d+)", hashes))
    text = f"many\n{found}\n2\n{calls}\n{rounds}\n"
    (lab.root / "runs/text").write_text(text)
    merge = [LLVM[lab.version] / "bin/llvm-profdata", "merge", "runs/text", "-o", "runs/default.profdata"]
    assert lab.run(merge).status == 0


@pytest.mark.archs(2)
def test_a_flag_for_one_arch_compiles_that_arch_alone(lab: Lab) -> None:
    lab.write("k.hip", kernel("1"))
    before = lab.warm("-O2")
    after = lab.changed(before, "-O2", "-Xarch_gfx906", "-O0")
    assert after.counted.missed == {"gfx906"}


def test_another_output_name_is_a_hit(lab: Lab) -> None:
    lab.warm()
    assert lab.compile(output="other.o").outcome == HIT


def test_a_response_file_that_changed_is_read_anew(lab: Lab) -> None:
    lab.write("k.hip", kernel("VALUE"))
    lab.write("inner.rsp", "-DVALUE=1\n")
    response = lab.write("flags.rsp", "@inner.rsp -DOTHER='a b'\n")
    before = lab.warm("@flags.rsp")
    lab.write("inner.rsp", "-DVALUE=2\n")
    between = lab.changed(before, "@flags.rsp")
    response.write_text("-DVALUE=3\n")
    lab.changed(between, "@flags.rsp")
