"""hip is not amdgpu: commands that make another module than they say are refused, with what to write instead."""

from __future__ import annotations

import pytest
from hip import FAILED, Lab
from hipcache.base.errors import Refused
from hipcache.iree import command
from iree_lab import AMDGPU, HIP, iree, needs_iree, words

__all__ = ["iree"]

DEVICE, TARGET = "--iree-hal-target-device=", "--iree-rocm-target="
REFUSED = {
    "two targets": (
        (*HIP, f"{TARGET}gfx90a"),
        "--iree-rocm-target is given 2 times (gfx942, gfx90a), and iree-compile takes the last",
        "run it once for each target; for this one leave all out but --iree-rocm-target=gfx90a",
    ),
    "two targets, as words of their own": (
        (HIP[0], "--iree-rocm-target", "gfx942", "-iree-rocm-target", "gfx90a"),
        "--iree-rocm-target is given 2 times (gfx942, gfx90a), and iree-compile takes the last",
        "run it once for each target; for this one leave all out but --iree-rocm-target=gfx90a",
    ),
    "a list of targets": (
        (HIP[0], f"{TARGET}gfx942,gfx90a"),
        "--iree-rocm-target=gfx942,gfx90a is a list, and takes one target",
        "run iree-compile once for each: --iree-rocm-target=gfx942, then --iree-rocm-target=gfx90a",
    ),
    "amdgpu's container for hip": (
        (*HIP, "--iree-rocm-container-type=amdgpu"),
        "--iree-rocm-container-type=amdgpu makes a module for hip that hip does not load",
        "leave it out; for the other device write --iree-hal-target-device=amdgpu",
    ),
    "hip's container for amdgpu": (
        (*AMDGPU, "--iree-rocm-container-type=hip"),
        "--iree-rocm-container-type=hip makes a module for amdgpu that amdgpu does not load",
        "leave it out; for the other device write --iree-hal-target-device=hip",
    ),
    "two targets, and an empty one": (
        (*HIP, TARGET, f"{TARGET}gfx90a"),
        "--iree-rocm-target is given 2 times (gfx942, gfx90a), and iree-compile takes the last",
        "run it once for each target; for this one leave all out but --iree-rocm-target=gfx90a",
    ),
    "both devices": (
        (*HIP, f"{DEVICE}amdgpu"),
        "--iree-hal-target-device names hip and amdgpu, and iree-compile makes a module for hip alone",
        "run it once for each: --iree-hal-target-device=hip -o NAME.hip.vmfb, and the same with amdgpu",
    ),
    "a backend that overrules the device": (
        (*AMDGPU, "--iree-hal-target-backends=rocm", "--iree-hal-target-backends=llvm-cpu"),
        "--iree-hal-target-backends=rocm makes a module for hip of one for amdgpu",
        "leave it out: --iree-hal-target-device=amdgpu is enough; for hip write --iree-hal-target-device=hip",
    ),
}
TAKEN = {
    "hip": HIP,
    "amdgpu": AMDGPU,
    "hip's container": (*HIP, "--iree-rocm-container-type=hip"),
    "amdgpu's container": (*AMDGPU, "--iree-rocm-container-type=auto"),
    "a backend alone": ("--iree-hal-target-backends=rocm", HIP[1]),
    "one target, given twice": (*HIP, *HIP),
    "an empty target first": (HIP[0], TARGET, HIP[1]),
    "an empty target behind": (*HIP, TARGET),
    "the processor beside": (*HIP, f"{DEVICE}local"),
    "a backend for the processor": (*AMDGPU, "--iree-hal-target-backends=llvm-cpu"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_another_module_is_refused_with_what_to_write_instead(case: str) -> None:
    arguments, message, hint = REFUSED[case]
    with pytest.raises(Refused) as refused:
        command.check_targets(arguments)
    assert (refused.value.message, refused.value.hint) == (message, hint)


@pytest.mark.parametrize("case", TAKEN)
def test_what_makes_the_module_that_it_says_is_taken(case: str) -> None:
    command.check_targets(TAKEN[case])


@needs_iree
def test_a_refused_command_makes_nothing_and_ends_with_status_1(iree: Lab) -> None:
    arguments, message, hint = REFUSED["two targets"]
    done = iree.hipcache(*words(*arguments))
    assert (done.status, done.out, done.err.decode()) == (1, b"", f"hipcache: {message}\n  {hint}\n")
    assert not (iree.root / "out.vmfb").exists()
    assert iree.counted().outcome == FAILED


@needs_iree
def test_without_checks_iree_compile_gets_all_unchanged(iree: Lab) -> None:
    command = words(*REFUSED["amdgpu's container for hip"][0])
    assert iree.run(command).status == 0, "iree-compile says nothing"
    plain = (iree.root / "out.vmfb").read_bytes()
    (iree.root / "out.vmfb").unlink()
    done = iree.hipcache(*command, env={"HIPCACHE_IREE_CHECKS": "0"})
    assert (done.status, (iree.root / "out.vmfb").read_bytes()) == (0, plain)


@needs_iree
@pytest.mark.parametrize("case", ["an empty target first", "a backend for the processor"])
def test_what_is_taken_is_made_as_iree_compile_makes_it(iree: Lab, case: str) -> None:
    command = words(*TAKEN[case])
    assert iree.run(command).status == 0
    plain = (iree.root / "out.vmfb").read_bytes()
    for _ in range(2):
        (iree.root / "out.vmfb").unlink()
        assert iree.hipcache(*command).status == 0
        assert (iree.root / "out.vmfb").read_bytes() == plain


@needs_iree
def test_a_target_that_iree_does_not_know_is_told_with_the_nearest(iree: Lab) -> None:
    command = words(HIP[0], f"{TARGET}gfx943")
    plain, done = iree.run(command), iree.hipcache(*command)
    hint = (
        b"hipcache: iree-compile does not know --iree-rocm-target=gfx943\n  did you mean --iree-rocm-target=gfx942?\n"
    )
    assert (done.status, done.err) == (plain.status, plain.err + hint)
    silent = iree.hipcache(*command, env={"HIPCACHE_IREE_CHECKS": "0"})
    assert (silent.status, silent.err) == (plain.status, plain.err)
