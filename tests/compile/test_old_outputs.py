"""Outputs that are there already, with other names and another mode: written into or replaced, as by clang's tools."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hip import HIT, LAUNCHER, Lab, kernel, only_19, skip_without_coverage

pytestmark = pytest.mark.archs(1)

OUTPUTS = ("out.o", "out.gcno", "out.su", "out.opt.yaml", "out.dwo", "out.dia")


def old(root: Path, mode: int, *, links: bool) -> None:
    """Put old files in the places of all outputs; `links`: with second names."""
    for name in OUTPUTS:
        for path in (root / name, root / f"{name}.link"):
            path.unlink(missing_ok=True)
        (root / name).write_text("old")
        (root / name).chmod(mode)
        if links:
            os.link(root / name, root / f"{name}.link")


def found(root: Path) -> Iterator[tuple[str, int, int, bytes]]:
    for path in sorted(root.glob("out.*")):
        yield path.name, path.stat().st_mode, path.stat().st_nlink, path.read_bytes()


def check(lab: Lab, *flags: str, links: bool) -> None:
    """Compare plain clang with a miss, and with what follows it."""
    lab.write("k.hip", kernel("1"))
    ends = ("-c",) if not {"-S", "-E"} & set(flags) else ()
    words = [word for word in lab.words(*flags) if word != "-c" or ends]

    def run(*launcher: str) -> list[tuple[str, int, int, bytes]]:
        old(lab.root, 0o640, links=links)
        ended = lab.run([*launcher, *words])
        skip_without_coverage(ended.err)
        assert ended.status == 0
        return list(found(lab.root))

    outputs = [lab.root / f"{name}{more}" for name in OUTPUTS for more in ("", ".link")]
    plain, cached = lab.by_both(run, [*words, f"links: {links}"], without=outputs)
    assert [cached, run(*LAUNCHER), run(*LAUNCHER)] == [plain] * 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize(
    "flags",
    [
        *("-c", "-S", "-E", "-emit-llvm", "--cuda-device-only", "-fgpu-rdc", "--cuda-host-only -S"),
        "--cuda-device-only --no-gpu-bundle-output",
    ],
)
def test_an_old_output_is_written_into_or_replaced(lab: Lab, flags: str, links: bool) -> None:
    check(lab, *flags.split(), links=links)


@pytest.mark.parametrize(
    "flags",
    [
        "--coverage",
        "-fstack-usage",
        "-fsave-optimization-record",
        "-gsplit-dwarf -g",
        "--serialize-diagnostics out.dia",
    ],
)
def test_an_old_file_beside_the_output_is_written_into_or_replaced(lab: Lab, flags: str) -> None:
    check(lab, *flags.split(), links=True)


@only_19
def test_a_link_in_the_place_of_the_file_for_messages_is_replaced(lab: Lab) -> None:
    lab.write("k.hip", kernel("1"))
    for launcher in ((), LAUNCHER, LAUNCHER):
        (lab.root / "target").write_text("old")
        (lab.root / "out.dia").unlink(missing_ok=True)
        (lab.root / "out.dia").symlink_to("target")
        assert lab.run([*launcher, *lab.words("--serialize-diagnostics", "out.dia")]).status == 0
        assert (lab.root / "target").read_text() == "old"
        assert not (lab.root / "out.dia").is_symlink()


@only_19
def test_an_output_that_is_like_a_new_one_is_served_directly(lab: Lab) -> None:
    for flags in ((), ("--cuda-device-only", "--no-gpu-bundle-output")):
        lab.warm(*flags)
        before = (lab.root / "out.o").stat()
        assert lab.hipcache(*lab.words(*flags)).status == 0
        assert lab.counted().outcome == HIT
        assert (lab.root / "out.o").stat().st_ino != before.st_ino


@only_19
def test_an_old_code_object_of_the_assembler_is_written_into(lab: Lab) -> None:
    lab.write("k.s", '.amdgcn_target "amdgcn-amd-amdhsa--gfx906"\ns_endpgm\n' + "s_nop 0\n" * 40_000)
    words = [lab.compiler, "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx906", "-c", "k.s", "-o", "out.o"]
    made = []
    for launcher in ((), LAUNCHER, LAUNCHER):
        old(lab.root, 0o640, links=True)
        assert lab.run([*launcher, *words]).status == 0
        made.append(list(found(lab.root)))
    assert made[1:] == [made[0]] * 2
