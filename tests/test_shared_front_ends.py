"""One front end that serves several GPUs: the object, the messages and the dependency file are plain clang's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hip import DEVICE_LIBRARIES, HIT, Lab, in_terminal, kernel, launcher_of_comparisons, rewrite, settle
from hipcache import config
from hipcache.cli.toolchain import FAULT
from hipcache.cli.ways import check_sharing
from hipcache.engine import Engine
from hipcache.engine.opening import open_engine
from hipcache.execution import shared_front_ends
from hipcache.execution.shared_front_ends import SharedFrontEnds
from hipcache.loop.front import make
from hipcache.planning import command
from hipcache.processes.runner import SubprocessRunner, Traced
from hipcache.report import statistics
from hipcache.values import replace
from hipcache.verify import wrong
from shared_lab import ALIKE, build, counts, shared, without

__all__ = ["shared"]
# A function of the device libraries that asks for the number of the GPU.
EXPONENTIAL = """\
#include "hip_in_short.hpp"
extern "C" __device__ float __ocml_exp_f32(float);
extern "C" __global__ void kernel(float* p, int* q) { p[0] = __ocml_exp_f32(p[1]); q[0] = NUMBER; }
"""
LIBRARIES = ("--rocm-path=/usr", f"--rocm-device-lib-path={DEVICE_LIBRARIES}", "-nogpuinc", "-O1")


def test_each_pair_is_compared_once_and_then_shared(shared: Lab) -> None:
    build(shared, 1)
    assert counts(shared)[0] == 0
    for number in range(2, 5):  # another one may lead, whose pair is a new one
        assert build(shared, number).counted.front_ends == 3
    used, checked, different = counts(shared)
    assert (used + checked + sum(without(shared).values()), different) == (8, 0)
    assert 2 <= checked <= 3
    assert used >= 2
    assert "shared front ends" in shared.hipcache("stats").out.decode()
    again = shared.compile("-MD", source="s2.hip")
    assert again.outcome == HIT


def test_a_shared_result_serves_a_later_compile_of_that_gpu_alone(shared: Lab) -> None:
    for number in range(1, 4):
        build(shared, number)
    assert counts(shared)[0] > 0
    for arch in ALIKE:
        assert shared.compile(arch, source="s3.hip").counted.front_ends == 0


def test_the_number_of_the_gpu_is_another_one_too(shared: Lab) -> None:
    for number in (1, 2, 3):
        shared.write("k.hip", EXPONENTIAL.replace("NUMBER", str(number)))
        words = [shared.compiler, *ALIKE, *LIBRARIES, "-cuid=5eed", "-c", "k.hip", "-o", "out.o"]
        assert shared.same(words).status == 0
    used, checked, different = counts(shared)
    assert (used + checked + sum(without(shared).values()), different) == (6, 0)
    assert used > 0


@pytest.mark.parametrize(
    "own", ["__device__ __constant__ const int __oclc_ISA_version", "__device__ int about__oclc_ISA_version"]
)
def test_a_variable_of_the_user_is_not_the_number_of_the_gpu(shared: Lab, own: str) -> None:
    words = [shared.compiler, *ALIKE, *LIBRARIES, "-cuid=5eed", "-c", "k.hip", "-o", "out.o"]
    for more in ("", "", f'extern "C" {own} = 10300;'):
        shared.write("k.hip", f"{EXPONENTIAL.replace('NUMBER', str(len(more)))}{more}\n")
        assert shared.same(words).status == 0
    assert counts(shared)[2] == 0


@pytest.mark.parametrize("number", [10300, 10301, 10306])
def test_a_constant_that_is_the_number_of_a_gpu_is_not_taken_for_it(shared: Lab, number: int) -> None:
    words = [shared.compiler, *ALIKE, *LIBRARIES, "-cuid=5eed", "-c", "k.hip", "-o", "out.o"]
    for value in (1, 2, number):
        shared.write("k.hip", EXPONENTIAL.replace("NUMBER", str(value)))
        assert shared.same(words).status == 0
    assert without(shared).get(shared_front_ends.OTHER_CODE, 0) > 0
    assert counts(shared)[2] == 0


def test_a_source_that_asks_for_the_gpu_is_not_shared(shared: Lab) -> None:
    build(shared, 1)
    build(shared, 2, text=kernel("2", "#ifdef __gfx1031__\n#define MORE 1\nint __device__ more = 1;\n#endif"))
    assert without(shared).get(shared_front_ends.OTHER_TEXT, 0) >= 1


def test_a_pass_does_not_wait_in_vain_again(shared: Lab) -> None:
    build(shared, 1)
    for value in range(3):
        asks = f"#ifdef __gfx1031__\nint __device__ more = {value};\n#endif"
        build(shared, 2, text=kernel(f"{value}", asks))
    told = without(shared)
    assert told[shared_front_ends.AS_BEFORE] >= 2
    assert told[shared_front_ends.OTHER_TEXT] == 1


def test_a_word_with_the_name_of_the_gpu_is_left(shared: Lab) -> None:
    named = 'extern "C" __device__ const char said[] = "target-cpu\\0gfx1030";'
    for number in (1, 2):
        build(shared, number, text=kernel(str(number), named))
    assert counts(shared)[2] == 0


def test_gpus_of_other_features_are_not_alike(shared: Lab) -> None:
    build(shared, 1, "--offload-arch=gfx906", "--offload-arch=gfx908", "--offload-arch=gfx90a")
    assert counts(shared) == (0, 0, 0)
    assert not without(shared)


def test_a_feature_of_the_target_id_divides_them(shared: Lab) -> None:
    build(shared, 1, "--offload-arch=gfx90a:xnack+", "--offload-arch=gfx90a:xnack-")
    assert counts(shared) == (0, 0, 0)


@pytest.mark.parametrize("flag", ["-g", "-fgpu-rdc", "-save-temps", "-S"])
def test_passes_that_say_more_than_the_text_go_alone(shared: Lab, flag: str) -> None:
    shared.write("s1.hip", kernel("1"))
    shared.run([*launcher_of_comparisons(), *shared.words(flag, source="s1.hip")])
    assert counts(shared) == (0, 0, 0)


def test_messages_are_those_of_each_gpu(shared: Lab) -> None:
    text = kernel("1", "#warning said\n")
    assert "said" in build(shared, 1, text=text).messages
    assert without(shared) == {shared_front_ends.MESSAGES: 2}
    shared.write("s2.hip", kernel("2", "#warning said\n"))
    words = shared.words(source="s2.hip")
    plain = in_terminal(words, shared.root, shared.environ)
    assert in_terminal([*launcher_of_comparisons(), *words], shared.root, shared.environ) == plain


@pytest.mark.parametrize("broken", ["int broken(;\n", "#ifdef __gfx1031__\nint broken(;\n#endif\n", "#error x\n"])
def test_a_source_that_fails_fails_as_ever(shared: Lab, broken: str) -> None:
    assert build(shared, 1).status == 0
    for number in (2, 3):
        assert build(shared, number, text=kernel(str(number), broken)).status == 1
    assert counts(shared)[2] == 0


def test_the_setting_switches_them_off(shared: Lab) -> None:
    shared.environ["HIPCACHE_SHARED_FRONT_ENDS"] = "0"
    build(shared, 1)
    assert counts(shared) == (0, 0, 0)


def test_one_use_in_so_many_is_compared_again(shared: Lab) -> None:
    shared.environ["HIPCACHE_PREAMBLE_CHECKS"] = "1"
    for number in range(3):
        build(shared, number)
    assert counts(shared) == (0, 6, 0)


def test_they_get_along_with_preambles(shared: Lab) -> None:
    shared.environ["HIPCACHE_PREAMBLES"] = "1"
    shared.write("own/hip/hip_runtime.h", "")
    shared.write("own/hip/value.hpp", "#pragma once\n#define VALUE 3\ninline int twice(int x) { return 2 * x; }\n")
    head = "#include <hip/value.hpp>\n"
    words = ("-Xclang", "-internal-isystem", "-Xclang", f"{shared.root}/own")
    for number in range(6):
        build(shared, number, *words, text=head + kernel(f"VALUE + {number}"))
    assert counts(shared)[0] > 0
    told: Any = shared.stats()["preambles"]
    assert told["used"] > 0


class Meddling(SubprocessRunner):
    """Changes a header while the engine works."""

    def __init__(self, lab: Lab, kind: str) -> None:
        super().__init__()
        self.lab = lab
        self.kind = kind
        self.texts = 0

    def group(self) -> SubprocessRunner:
        return self

    def trace(self, argv: Sequence[str], **how: Any) -> Traced:
        is_text = "-E" in argv
        self.texts += is_text
        header = self.lab.root / "value.hpp"
        if self.kind == f"before text {self.texts}" and is_text:
            rewrite(header, "#define VALUE 4\n")
        return super().trace(argv, **how)


def compile_in_process(lab: Lab, runner: SubprocessRunner, name: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """What became of shared front ends when the engine compiled that source in this process, and its notes."""
    settle()
    settings = config.load(lab.environ)
    engine = replace(open_engine(settings, lab.environ, racy=0.03), runner=runner)
    argv = lab.words(source=name)
    outcome = make(engine, command.parse(tuple(argv), str(lab.root), lab.environ), None).outcome
    assert statistics.record(settings.dir, outcome)
    lab.count_anew()
    return dict(outcome.preambles), outcome.notes


@pytest.mark.parametrize("which", [1, 2])
def test_a_header_that_changes_between_the_texts(shared: Lab, which: int) -> None:
    build(shared, 1)
    shared.write("value.hpp", "#define VALUE 3\n")
    shared.write("s9.hip", '#include "value.hpp"\n' + kernel("VALUE"))
    told, _ = compile_in_process(shared, Meddling(shared, f"before text {which}"), "s9.hip")
    assert told.get(shared_front_ends.WITHOUT + shared_front_ends.CHANGED, 0) > 0
    assert shared.compile(source="s9.hip").object  # plain clang's of what is there now


def test_a_difference_switches_them_off_for_the_compiler(shared: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    right = build(shared, 1).object
    (shared.root / "out.o").unlink()
    shared.write("s3.hip", kernel("3"))
    shared.environ["HIPCACHE_PREAMBLE_CHECKS"] = "1"
    real = SharedFrontEnds._retargeted

    def other(*how: Any) -> bytes | None:
        made = real(*how)
        return made and made[:-64]

    monkeypatch.setattr(SharedFrontEnds, "_retargeted", other)
    told, notes = compile_in_process(shared, SubprocessRunner(), "s3.hip")
    monkeypatch.undo()
    assert told[shared_front_ends.DIFFERENT] > 0
    assert any("switched off" in note for note in notes)
    check = check_sharing(config.load(shared.environ))
    assert check.state == FAULT
    before = counts(shared)
    assert shared.compile("-MD", source="s1.hip").object == right
    build(shared, 4)
    assert counts(shared) == before


@pytest.mark.parametrize(
    "flags", [("-MMD",), ("-MD", "-MP", "-MT", "other"), ("-std=c++20",), ("-fPIC", "-Wall"), ("-O0",)]
)
def test_other_options_are_shared_too(shared: Lab, flags: tuple[str, ...]) -> None:
    for number in range(1, 4):
        shared.write("k.hip", kernel(str(number)))
        done = shared.compile(*flags)
        assert done.dependencies == done.plain_dependencies
    used, _, different = counts(shared)
    assert used > 0
    assert different == 0


def test_an_edit_of_a_header_is_seen_by_all(shared: Lab) -> None:
    for number in range(1, 4):
        shared.write("value.hpp", f"#define VALUE {number}\n")
        done = build(shared, 1, text='#include "value.hpp"\n' + kernel("VALUE"))
        assert done.counted.front_ends == 3
    assert counts(shared)[0] > 0


def test_a_header_that_appears_on_the_search_path_is_seen_by_all(shared: Lab) -> None:
    flags = ("-Ifirst", "-I.")
    (shared.root / "first").mkdir()
    shared.write("value.hpp", "#define VALUE 1\n")
    for number in range(1, 4):
        shared.write("k.hip", "#include <value.hpp>\n" + kernel(f"VALUE + {number}"))
        before = shared.compile(*flags)
    assert counts(shared)[0] > 0
    shared.write("first/value.hpp", "#define VALUE 7\n")
    assert shared.changed(before, *flags).counted.front_ends == 3


def test_a_result_that_was_found_wrong_is_made_without(shared: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def make_each(engine: Engine, *rest: object) -> None:
        seen.append((engine.sharing, engine.preambles, engine.recache))

    monkeypatch.setattr(wrong.several, "make_each", make_each)
    engine = open_engine(config.load(shared.environ), shared.environ)
    argv = shared.words()
    wrong.make_anew(engine, command.parse(tuple(argv), str(shared.root), shared.environ), argv, str(shared.root))
    assert seen == [(0, 0, True)]
