"""What `hipcache hipcc` leaves to hipcc."""

from __future__ import annotations

import os
import re
import shutil

import pytest
from hip import ARCHS, BARE, CUID, DEVICE_LIBRARIES, HIT, MISS, PASSED_THROUGH, Lab, script, settle
from hipcache import processes
from hipcc_lab import SOURCE, lab, pass_wrapper, words

__all__ = ["lab"]
pytestmark = pytest.mark.skipif(not shutil.which("hipcc"), reason="hipcc is not installed")


def test_a_second_command_in_hipccs_variable_is_run_by_hipcc(lab: Lab) -> None:
    pass_wrapper(lab, words(), env={"HIPCC_COMPILE_FLAGS_APPEND": "-DVALUE=7 -c k.cpp -o other.o; true"})


def test_a_link_is_left_to_hipcc(lab: Lab) -> None:
    lab.same(words("-fPIC"))
    linked = lab.hipcache("hipcc", "-shared", "out.o", "-o", "lib.so")
    assert linked.status == 0, linked.err
    assert (lab.root / "lib.so").exists()
    assert lab.counted().reason == "link"


def test_a_program_of_relocatable_code_is_cached_as_clangs(lab: Lab) -> None:
    lab.write("k.hip", SOURCE + "int main() { return 0; }\n")
    command = [
        "hipcc",
        *ARCHS,
        *BARE,
        CUID,
        "-fgpu-rdc",
        "k.hip",
        "-o",
        "program",
        "-Wl,--unresolved-symbols=ignore-all",
    ]
    assert lab.run(command).status == 0
    plain = (lab.root / "program").read_bytes()
    for expected in (MISS, HIT):
        settle()
        (lab.root / "program").unlink()
        assert lab.hipcache(*command).status == 0
        assert (lab.root / "program").read_bytes() == plain
        counted = lab.counted()
        assert counted.outcome == expected
        assert "link" in (counted.served if expected == HIT else counted.missed)


def test_questions_to_hipcc_are_left_to_hipcc(lab: Lab) -> None:
    assert b"HIP version" in lab.hipcache("hipcc", "--version").out
    assert lab.counted().outcome == PASSED_THROUGH


def test_plain_c_is_left_to_hipcc(lab: Lab) -> None:
    lab.write("x.c", "int x(void) { return 1; }\n")
    pass_wrapper(lab, words(source="x.c"), "not_hip")


def test_hipcc_that_prints_something_is_left_alone(lab: Lab) -> None:
    pass_wrapper(lab, words(), env={"HIPCC_VERBOSE": "1"})
    talks = script(lab.root / "hipcc", 'echo talks >&2\nexec /usr/bin/hipcc "$@"\n')
    pass_wrapper(lab, words(hipcc=str(talks)))


@pytest.mark.skipif(os.path.exists(processes.GPUS[0]), reason="this machine has a GPU")
def test_hipcc_that_complains_about_a_missing_gpu_is_left_alone(lab: Lab) -> None:
    """Debian's rocm_agent_enumerator does, where nobody names an architecture."""
    command = [word for word in words() if "-arch=" not in word]
    if not lab.run(command).err:
        pytest.skip("this hipcc does not")
    ended = lab.hipcache(*command)
    assert ended.status == 0
    assert lab.counted().reason == "wrapper"
    assert b"--offload-arch=" in lab.hipcache("explain", "out.o").out


@pytest.mark.parametrize("look", ["[ -e {} ]", "head -c 1 {} >/dev/null"])
def test_hipcc_that_looks_at_a_device_is_left_alone(lab: Lab, look: str) -> None:
    """There may be no GPU here: another device stands for it."""
    asks = script(lab.root / "hipcc", f'{look.format("/dev/zero")}\nexec /usr/bin/hipcc "$@"\n')
    pass_wrapper(lab, words(hipcc=str(asks)))


@pytest.mark.parametrize("look", ["[ -e {} ]", "cat {} 2>/dev/null"])
def test_hipcc_that_finds_no_device_is_cached(lab: Lab, look: str) -> None:
    """There, the next look finds that one came."""
    asks = script(lab.root / "hipcc", f'{look.format("/dev/hipcache-none")}\nexec /usr/bin/hipcc "$@"\n')
    assert [lab.same(words(hipcc=str(asks))).outcome for _ in range(2)] == [MISS, HIT]


def test_hipcc_for_nvidia_is_left_alone(lab: Lab) -> None:
    nvcc = script(lab.root / "bin-nvcc", 'while [ "$1" ]; do [ "$1" = -o ] && echo nvidia >"$2"; shift; done\n')
    (lab.root / "cuda" / "bin").mkdir(parents=True)
    nvcc.rename(lab.root / "cuda" / "bin" / "nvcc")
    cuda = {"CUDA_PATH": str(lab.root / "cuda")}
    for platform in ("nvidia", "nvcc"):
        pass_wrapper(lab, words(), "nvidia", env={"HIP_PLATFORM": platform, **cuda})
    (lab.root / "nvcc").symlink_to("/bin/true")
    by_itself = script(lab.root / "hipcc", 'exec ./nvcc "$@"\n')
    pass_wrapper(lab, words(hipcc=str(by_itself)), "nvidia")


def test_a_response_file_is_left_to_hipcc(lab: Lab) -> None:
    lab.write("more.rsp", "-DVALUE=4\n")
    ended = lab.hipcache(*words("@more.rsp"))
    assert ended.status == 0, ended.err
    assert lab.counted().reason == "wrapper"


def test_a_script_named_hipcc_that_goes_on_after_the_compile_is_left_alone(lab: Lab) -> None:
    later = script(lab.root / "hipcc", '/usr/bin/hipcc "$@" && printf more >>out.o\n')
    pass_wrapper(lab, words(hipcc=str(later)))
    assert (lab.root / "out.o").read_bytes().endswith(b"more")


@pytest.mark.parametrize("line", ["", "cd .\n"])
def test_a_script_named_hipcc_that_becomes_hipcc_is_hipcc(lab: Lab, line: str) -> None:
    hipcc = script(lab.root / "hipcc", f'{line}exec /usr/bin/hipcc -DVALUE=6 "$@"\n')
    assert [lab.same(words(hipcc=str(hipcc))).outcome for _ in range(2)] == [MISS, HIT]


@pytest.mark.parametrize(
    "line",
    ["echo x >file", "mkdir directory", "set -m; (:) & wait", "exec /usr/bin/setsid true", "ulimit -s 5120", "exit 3"],
)
def test_a_script_named_hipcc_that_does_more_than_compile_runs_once(lab: Lab, line: str) -> None:
    hipcc = script(lab.root / "hipcc", f'{line}\nexec /usr/bin/hipcc "$@"\n')
    ended = lab.hipcache(*words(hipcc=str(hipcc)))
    assert ended.status == (3 if "exit" in line else 0), ended.err
    assert lab.counted().reason == "wrapper"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--offload-arch=gfx1100",), "cannot find ROCm device library for gfx1100"),
        (("--offload-arch=gfx90f",), "gfx90f"),
        (("--no-such-option",), "no-such-option"),
    ],
    ids=["an architecture that the device libraries do not cover", "one that is none", "an unknown option"],
)
def test_bad_input_is_told_in_hipccs_own_words(lab: Lab, flags: tuple[str, ...], said: str) -> None:
    lab.write("h.cpp", "#include <hip/hip_runtime.h>\n")
    archs = () if "arch" in flags[0] else ("--offload-arch=gfx906",)
    if "gfx1100" in flags[0] and list(DEVICE_LIBRARIES.glob("*1100*")):
        pytest.skip("these do")
    failed = lab.same(["hipcc", *archs, *flags, CUID, "-c", "h.cpp", "-o", "out.o"])
    assert failed.status != 0
    # Some hipcc say the command, too.
    assert len(re.findall(rf"error: .*{said}", failed.messages)) == 1


def test_no_hipcc_at_all_is_said(lab: Lab) -> None:
    ended = lab.hipcache(*words(hipcc="/nowhere/hipcc"))
    assert ended.status == 127
    assert b"cannot run the compiler '/nowhere/hipcc'" in ended.err
