"""Never a wrong object: architectures and CUIDs.

Each test first shows a hit, then makes a change, and compares with a fresh compile of plain clang.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hip import (
    BARE,
    CUID,
    DEVICE_LIBRARIES,
    FAILED,
    HIT,
    LAUNCHER,
    MISS,
    PARTIAL,
    PASSED_THROUGH,
    Lab,
    kernel,
    only_19,
    since_18,
    since_19,
    with_19,
)
from hipcache.clang.cuid import make_cuid, options

pytestmark = pytest.mark.archs(1)

# Architectures


@pytest.mark.new_driver
@pytest.mark.archs(2)
def test_order_and_repetition_of_architectures_do_not_change_a_unit(lab: Lab) -> None:
    lab.warm("--offload-arch=gfx906", "--offload-arch=gfx90a")
    for archs in (
        ["--offload-arch=gfx90a", "--offload-arch=gfx906"],
        ["--offload-arch=gfx906", "--offload-arch=gfx90a", "--offload-arch=gfx906"],
        ["--cuda-gpu-arch=gfx90a", "--offload-arch=gfx906"],
        ["--offload-arch=gfx906,gfx90a"],
        ["--offload-arch=gfx906", "--offload-arch=gfx1030", "--no-offload-arch=gfx1030", "--offload-arch=gfx90a"],
    ):
        again = lab.compile(*archs)
        assert (again.status, again.counted.missed) == (0, frozenset()), archs


@pytest.mark.new_driver
@pytest.mark.archs(2)
def test_an_architecture_added_is_compiled_alone(lab: Lab) -> None:
    lab.warm("--offload-arch=gfx906")
    more = lab.compile("--offload-arch=gfx906", "--offload-arch=gfx90a")
    assert more.outcome == PARTIAL
    assert more.counted.missed == {"gfx90a"}
    assert more.counted.served == {"gfx906", "host"}


@pytest.mark.new_driver
@pytest.mark.archs(2)
def test_a_subset_of_the_architectures_is_a_hit(lab: Lab) -> None:
    lab.warm("--offload-arch=gfx906", "--offload-arch=gfx90a", "--offload-arch=gfx1030")
    for archs in (["gfx90a"], ["gfx1030", "gfx906"]):
        assert lab.compile(*(f"--offload-arch={arch}" for arch in archs)).outcome == HIT


@pytest.mark.new_driver
@pytest.mark.archs(2)
def test_feature_suffixes_are_architectures_of_their_own(lab: Lab) -> None:
    found = {}
    for arch in ("gfx90a", "gfx90a:xnack+", "gfx90a:xnack-", "gfx90a:sramecc+:xnack-"):
        made = lab.compile(f"--offload-arch={arch}")
        assert made.outcome != HIT
        found[arch] = made.object
    assert len(set(found.values())) == len(found)
    both = lab.compile("--offload-arch=gfx90a:xnack+", "--offload-arch=gfx90a:xnack-")
    assert both.outcome == HIT
    assert both.counted.served == {"gfx90a:xnack+", "gfx90a:xnack-", "host"}


@pytest.mark.new_driver
@pytest.mark.archs(2)
@since_19
def test_a_generic_architecture_is_one_of_its_own(lab: Lab) -> None:
    before = lab.compile("--offload-arch=gfx9-generic", "-mcode-object-version=6")
    again = lab.compile("--offload-arch=gfx9-generic", "-mcode-object-version=6")
    assert again.object == before.object
    assert (before.status, before.outcome, again.outcome) == (0, MISS, HIT)


# CUIDs


STATIC = """\
#include "hip_in_short.hpp"
static __device__ int counter = START;
__global__ void NAME(int* p) { p[0] = counter; }
void* NAME_address() { return (void*)&counter; }
"""


def plain_with(lab: Lab, words: list[str], cuid: str) -> bytes:
    assert lab.run([*words, f"-cuid={cuid}"]).status == 0
    return (lab.root / words[words.index("-o") + 1]).read_bytes()


@pytest.mark.new_driver
@pytest.mark.archs(2)
def test_without_a_cuid_of_the_user_the_object_has_one_that_does_not_name_the_architectures(lab: Lab) -> None:
    lab.write("k.hip", STATIC.replace("NAME", "one").replace("START", "1"))
    for archs in (["--offload-arch=gfx906"], ["--offload-arch=gfx90a", "--offload-arch=gfx906"]):
        words = [lab.compiler, *archs, *BARE, "-c", "k.hip", "-o", "out.o"]
        assert lab.hipcache(*words).status == 0
        made = (lab.root / "out.o").read_bytes()
        cuid = make_cuid(str(lab.root / "k.hip"), str(lab.root / "out.o"), options(words[1:], str(lab.root)))
        assert made == plain_with(lab, words, cuid)


@pytest.mark.new_driver
@pytest.mark.archs(2)
def test_two_objects_of_one_source_link_together(lab: Lab) -> None:
    objects = []
    for name in ("one", "two"):
        lab.write("k.hip", STATIC)
        words = [lab.compiler, "--offload-arch=gfx906", *BARE, f"-DNAME={name}", f"-DNAME_address={name}_address"]
        assert lab.hipcache(*words, "-DSTART=1", "-c", "k.hip", "-o", f"{name}.o").status == 0
        objects.append(f"{name}.o")
    ended = lab.run([lab.compiler, "-nostdlib", "-r", *objects, "-o", "both.o"])
    assert ended.status == 0, ended.err


@pytest.mark.new_driver
@pytest.mark.archs(2)
def test_two_objects_of_one_source_that_differ_only_in_their_names_link_together(lab: Lab) -> None:
    text = "static __global__ void f(int* p) { p[0] = 1; }\nstatic void* volatile address = (void*)f;\n"
    lab.write("k.hip", '#include "hip_in_short.hpp"\n' + text)
    for name in ("one.o", "two.o"):
        ended = lab.hipcache(lab.compiler, "--offload-arch=gfx906", *BARE, "-c", "k.hip", "-o", name)
        assert ended.status == 0, ended.err
    ended = lab.run([lab.compiler, "-nostdlib", "-r", "one.o", "two.o", "-o", "both.o"])
    assert ended.status == 0, ended.err


@pytest.mark.new_driver
@pytest.mark.archs(2)
def test_two_sources_of_one_name_in_two_directories_link_together(lab: Lab) -> None:
    for name in ("one", "two"):
        lab.write(f"{name}/k.hip", STATIC.replace("NAME", name).replace("START", "1"))
        words = [lab.compiler, "--offload-arch=gfx906", *BARE, "-I", str(lab.root), "-c", "k.hip", "-o", "k.o"]
        assert lab.hipcache(*words, cwd=lab.root / name).status == 0
    ended = lab.run([lab.compiler, "-nostdlib", "-r", "one/k.o", "two/k.o", "-o", "both.o"])
    assert ended.status == 0, ended.err


@with_19
def test_without_cuids_of_the_driver_a_warning_about_ours_is_no_error(lab: Lab) -> None:
    lab.write("k.hip", STATIC.replace("NAME", "one").replace("START", "1"))
    command = [word for word in lab.words("--offload-new-driver", "-Werror") if word != CUID]
    assert lab.same(command).outcome == MISS
    assert lab.same(command).outcome == HIT
    failed = lab.same([*command, "-lm"])
    assert (failed.status, failed.outcome) == (1, FAILED)


PROGRAM = """
#include <hip/hip_runtime.h>
#include <cstdio>
static __device__ int counter = 1;
static __global__ void count(int* p) { p[0] = counter + NUMBER; }
MORE
const void* WHICH() { return (const void*)count; }
#ifdef MAIN
const void* other();
int main() {
    int devices = 0;
    const char* said = hipGetErrorName(hipGetDeviceCount(&devices));
    return std::printf("%d %s\\n", WHICH() != other(), said) < 0;
}
#endif
"""


MANAGED = """__attribute__((managed)) int WHICH_shared = 3;
__global__ void WHICH_change(int* p) { WHICH_shared = p[0]; }
"""


@pytest.mark.sampled(2)
@pytest.mark.archs(2)
@pytest.mark.parametrize("more", ["", MANAGED], ids=["device", "managed"])
def test_two_objects_of_one_source_are_one_program_with_the_real_library(lab: Lab, more: str) -> None:
    """As far as a machine without a GPU can show: it starts, and ends as plain clang's (with a managed variable that
    is a fault in the library)."""
    lab.write("k.hip", PROGRAM.replace("MORE", more))
    flags = ["--offload-arch=gfx906", "--rocm-path=/usr", f"--rocm-device-lib-path={DEVICE_LIBRARIES}", "-O1"]
    ends = []
    for launcher in ((), LAUNCHER, LAUNCHER):
        for name, number, main in (("first", "1", ["-DMAIN"]), ("other", "2", [])):
            names = [f"-DWHICH={name}", f"-DWHICH_shared={name}_shared", f"-DWHICH_change={name}_change"]
            words = [lab.compiler, *flags, *names, f"-DNUMBER={number}", *main, "-c", "k.hip", "-o", f"{name}.o"]
            ended = lab.run([*launcher, *words])
            assert ended.status == 0, ended.err
            outcome = lab.counted().outcome
        linked = lab.run([lab.compiler, "first.o", "other.o", "-o", "program", "-lamdhip64"])
        assert linked.status == 0, linked.err
        ran = lab.run(["./program"])
        ends.append(replace(ran, err=re.sub(rb"\d+ us:", b"us:", ran.err)))  # the library's clock
    assert outcome == HIT
    assert ends[1:] == [ends[0]] * 2
    assert more or ends[0].out == b"1 hipErrorNoDevice\n"


@pytest.mark.new_driver
@pytest.mark.parametrize("choice", ["-cuid=mine", "-fuse-cuid=none"])
def test_a_cuid_that_the_user_chose_is_kept(lab: Lab, choice: str) -> None:
    lab.write("k.hip", STATIC.replace("NAME", "one").replace("START", "1"))
    lab.compile(choice)
    assert lab.compile(choice).outcome == HIT


@pytest.mark.new_driver
@pytest.mark.archs(2)
@only_19
def test_a_cuid_that_is_to_be_a_hash_is_the_one_that_does_not_name_the_architectures(lab: Lab) -> None:
    objects = []
    for flags in ([], ["-fuse-cuid=hash"]):
        words = [lab.compiler, "--offload-arch=gfx906", *BARE, *flags, "-c", "k.hip", "-o", "out.o"]
        assert lab.hipcache(*words).status == 0
        objects.append((lab.root / "out.o").read_bytes())
    assert objects[0] == objects[1]


@pytest.mark.new_driver
@since_18
def test_another_cuid_is_another_object(lab: Lab) -> None:
    lab.write("k.hip", STATIC.replace("NAME", "one").replace("START", "1"))
    lab.changed(lab.warm("-cuid=mine"), "-cuid=yours")


RDC = ["-fgpu-rdc", "-fuse-cuid=none"]
COUNTER = """\
#include "hip_in_short.hpp"
static __device__ int counter = 3;
void* address() { return (void*)&counter; }
"""


@pytest.mark.new_driver
@pytest.mark.archs(2)
def test_without_a_cuid_all_passes_have_seen_the_same_file(lab: Lab) -> None:
    lab.write("k.hip", COUNTER)
    first = lab.compile(*RDC)
    # The same content in another file, as in a second checkout: names of static variables have its inode.
    (lab.root / "k.hip").rename(lab.root / "old.hip")
    lab.write("k.hip", COUNTER)
    made = lab.compile(*RDC, "--offload-arch=gfx906", "--offload-arch=gfx90a", "--offload-arch=gfx1030")
    assert made.counted.missed == {"gfx906", "gfx90a", "gfx1030", "host"}
    assert made.object != first.object
    assert lab.compile(*RDC).outcome == HIT


@pytest.mark.new_driver
@pytest.mark.archs(2)
def test_without_a_cuid_what_names_a_headers_inode_is_not_kept(lab: Lab) -> None:
    header = "static __device__ int more = 4;\nstatic void* there() { return (void*)&more; }\n"
    lab.write("more.hpp", header)
    # (One variable: clang writes several in the order of their addresses in memory.)
    lab.write("k.hip", '#include "hip_in_short.hpp"\n#include "more.hpp"\nvoid* other() { return there(); }\n')
    lab.compile(*RDC)
    (lab.root / "more.hpp").rename(lab.root / "old.hpp")
    lab.write("more.hpp", header)
    assert lab.compile(*RDC).counted.missed == {"gfx906", "gfx90a", "host"}


@pytest.mark.new_driver
def test_a_cuid_without_a_value_is_left_to_the_compiler(lab: Lab) -> None:
    """clang makes one of all words of the command, and `-###` would be one of them."""
    lab.write("k.hip", kernel("1", "static __attribute__((device)) int s; int *g() { return &s; }"))
    assert lab.compile("-fgpu-rdc", "-cuid=").counted.reason == "compiler_option"


@pytest.mark.new_driver
@pytest.mark.archs(2)
def test_a_random_cuid_is_left_to_the_compiler(lab: Lab) -> None:
    words = [lab.compiler, "--offload-arch=gfx906", *BARE, "-fuse-cuid=random", "-c", "k.hip", "-o", "out.o"]
    assert lab.hipcache(*words).status == 0
    counted = lab.counted()
    assert (counted.outcome, counted.reason) == (PASSED_THROUGH, "random_cuid")


@pytest.mark.new_driver
@pytest.mark.archs(2)
def test_the_first_compile_of_all_is_a_miss_of_every_unit(lab: Lab) -> None:
    first = lab.compile(CUID)
    assert first.outcome == MISS
    assert first.counted.missed == {"gfx906", "gfx90a", "host"}
    assert (first.counted.front_ends, first.counted.back_ends) == (2, 2)
