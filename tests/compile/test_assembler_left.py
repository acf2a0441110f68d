"""Sources of the GPU's assembler that pass through, or of which nothing is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from assembler_lab import AS, GPU, SOURCE, is_direct, kernel, warm, words
from hip import FAILED, LAUNCHER, MISS, PASSED_THROUGH, Lab, settle
from hipcache.app import front
from hipcache.base.errors import PassThrough
from hipcache.base.values import replace
from hipcache.build.context import open_context
from hipcache.clang import assembler
from hipcache.clang.command import parse
from hipcache.config import Config
from hipcache.direct.provenance import Indirect
from hipcache.processes.runner import Completed, SubprocessRunner

__all__ = ["kernel"]

READING = {
    "include": '.include "more.inc"\n',
    "in capitals": '.INCBIN "more.inc"\n',
    "in quotes": '".incbin" "more.inc"\n',
    "by a macro": '.macro m p\n.inc\\p "more.inc"\n.endm\nm bin\n',
    "two pieces": '.macro m p q\n\\p\\q "more.inc"\n.endm\nm .inc bin\n',
    "pieces with nothing between": '.macro m p\n\\p\\()bin "more.inc"\n.endm\nm .inc\n',
    "a piece with a line of its own": '.macro m p q\na\\p\\q "more.inc"\n.endm\nm "x: ; .inc" "bin"\n',
    "in a loop": '.irp x,inc\n.\\x\\()bin "more.inc"\n.endr\n',
    "by letters": '.irpc x,b\n.inc\\x\\()in "more.inc"\n.endr\n',
    "a macro made by a macro": ('.macro o v\n.macro m p q\n\\\\v "more.inc"\n.endm\n.endm\no "p\\q"\nm .inc bin\n'),
}


@pytest.mark.parametrize("way", READING)
def test_what_reads_another_file_passes_through(kernel: Lab, way: str) -> None:
    """(The pieces that clang 15 or 19 does not put together so are refused by it.)"""
    for value in "12":
        kernel.write("more.inc", f".byte {value}\n")
        kernel.write("k.s", SOURCE + READING[way])
        found = kernel.same(words(kernel)).counted
        assert (found.outcome, found.reason) == (PASSED_THROUGH, "assembler_files")


HARMLESS = {
    "a macro with operands": ".macro add d a b:req\nv_add_u32 \\d, \\a, v[\\b+1]\n.endm\nadd v0, v1, 2\n",
    "a label of its own": ".macro wait\nlabel_\\@:\ns_cbranch_scc0 label_\\@\n.endm\nwait\nwait\n",
    "a string without macros": '.section .note\n.ascii "\\001\\002\\"x\\\\y"\n',
    "a path of headers": ';/usr/include/stdio.h\n.section .note\n.asciz "/usr/include/x.h"\n',
}


@pytest.mark.parametrize("text", HARMLESS)
def test_macros_and_strings_that_read_nothing_are_kept(kernel: Lab, text: str) -> None:
    kernel.write("k.s", SOURCE + HARMLESS[text])
    warm(kernel, words(kernel))


def test_messages_are_clangs_and_nothing_is_kept_with_them(kernel: Lab) -> None:
    for line in ('.warning "take care"\n', '.print "said"\n'):
        kernel.write("k.s", SOURCE + line)
        for _ in range(2):
            assert kernel.same(words(kernel)).counted.reason == "job_output"
    kernel.write("k.s", SOURCE)
    assert kernel.same([*words(kernel), "-MD"]).counted.reason == "job_output"
    kernel.write("k.s", SOURCE + "no_such_instruction v0\n")
    for _ in range(2):
        failed = kernel.same(words(kernel))
        assert (failed.outcome, failed.status) == (FAILED, 1)
        assert "no_such_instruction" in failed.messages


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ((*AS, "-mllvm", "-opt-bisect-limit=3"), "compiler_option"),
        ((*AS, "-gsplit-dwarf", "-g"), "compiler_option"),
        ((*AS, "-save-temps"), "save_temps"),
        ((*AS, "-v"), "asks_driver"),
        (("-x", "assembler-with-cpp", *GPU, "-mcpu=gfx90a"), "not_hip"),
        ((*AS, "--serialize-diagnostics", "x.dia"), "side_output"),
    ],
)
def test_what_is_not_understood_passes_through(kernel: Lab, flags: tuple[str, ...], reason: str) -> None:
    outputs = []
    for launcher in ((), LAUNCHER):
        ended = kernel.run([*launcher, *words(kernel, *flags)])
        outputs.append((ended.status, ended.out, (kernel.root / "out.o").exists()))
    assert outputs[0] == outputs[1]
    assert kernel.counted().reason == reason


def test_a_small_one_is_left_to_the_compiler_at_once(kernel: Lab, tmp_path: Path) -> None:
    kernel.write("k.s", SOURCE[:1000])
    assert kernel.same(words(kernel)).counted.reason == "not_hip"
    assert is_direct(kernel, words(kernel), tmp_path / "alone"), "without the engine"


def test_the_assembler_of_the_host_passes_through(lab: Lab) -> None:
    lab.write("k.s", "nop\n")
    assert lab.same(words(lab, "-Dx")).counted.reason == "not_hip"


def test_one_among_other_sources_passes_through(kernel: Lab) -> None:
    command = [kernel.compiler, *GPU, "-mcpu=gfx90a", "-nogpuinc", "-nogpulib", "-c", "k.s", "k.hip"]
    ended = []
    for launcher in ((), LAUNCHER):
        (kernel.root / "k.o").unlink(missing_ok=True)
        found = kernel.run([*launcher, *command])
        ended.append((found, (kernel.root / "k.o").exists()))
    assert ended[0] == ended[1]
    assert kernel.counted().outcome in (FAILED, PASSED_THROUGH)


class Editing(SubprocessRunner):
    """Somebody edits the source before, or after, the assembler reads it."""

    def __init__(self, source: Path, when: str) -> None:
        super().__init__()
        self.source, self.when = source, when

    def group(self, servers: object = None) -> Editing:
        return self

    def run(self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Completed:
        if "-cc1as" not in argv:
            return super().run(argv, cwd=cwd, env=env)
        if self.when == "before":
            self.edit()
        done = super().run(argv, cwd=cwd, env=env)
        if self.when == "after":
            self.edit()
        return done

    def edit(self) -> None:
        self.source.write_text(SOURCE + "s_nop 1\n")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_source_that_changes_while_it_is_assembled_is_not_kept(kernel: Lab, when: str) -> None:
    runner = Editing(kernel.root / "k.s", when)
    settle()
    context = replace(open_context(Config(dir=kernel.store), kernel.environ, racy=0.03), runner=runner)
    command = parse(tuple(words(kernel)), str(kernel.root), kernel.environ)
    (done,), _ = front.make_each(context, [command], None)
    assert any("changed while" in note for note in done.outcome.notes)
    assert isinstance(done.provenance, Indirect)
    assert "changed while" in done.provenance.why
    for text in (SOURCE, SOURCE + "s_nop 1\n"):
        kernel.write("k.s", text)
        assert kernel.same(words(kernel)).outcome == MISS


JOB = ("clang", "-cc1as", "-triple", "amdgcn-amd-amdhsa", "-filetype", "obj", "-o", "k.o", "k.s")


@pytest.mark.parametrize(
    ("jobs", "reason"),
    [
        ([], "plan"),
        ([JOB, JOB], "plan"),
        ([("clang", "-cc1", *JOB[2:])], "plan"),
        ([(*JOB, "second.s")], "plan"),
        ([("clang", "-cc1as", "-triple", "x86_64", *JOB[4:])], "plan"),
        ([(*JOB[:5], "asm", *JOB[6:])], "plan"),
        ([(*JOB, "-as-secure-log-file", "x")], "compiler_option"),
        ([(*JOB, "-mllvm", "-debug")], "compiler_option"),
    ],
)
def test_another_plan_is_not_understood(jobs: list[tuple[str, ...]], reason: str) -> None:
    assert assembler.parse([JOB]).output == "k.o"
    with pytest.raises(PassThrough) as left:
        assembler.parse(jobs)
    assert left.value.reason == reason
