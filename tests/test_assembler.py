"""Sources of the GPU's assembler: an object each, plain clang's, served while nothing has changed that shows in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from hip import FAILED, HIT, LAUNCHER, LLVM, MISS, PASSED_THROUGH, Compiled, Lab, script, settle, toolchain
from hipcache.config import Config
from hipcache.engine.opening import open_engine
from hipcache.errors import PassThrough
from hipcache.loop import several
from hipcache.planning import assembler
from hipcache.planning.command import parse
from hipcache.processes.runner import Completed, SubprocessRunner
from hipcache.values import replace

pytestmark = pytest.mark.takes_turns("lab")

SOURCE = (
    """\
    .text
    .globl kernel
    .p2align 8
    .type kernel,@function
kernel:
    s_load_dword s0, s[4:5], 0x0
    s_waitcnt lgkmcnt(0)
    v_add_u32 v0, s0, v0
    s_endpgm
"""
    + ("; " + "a line of a large kernel " * 4 + "\n") * (assembler.WORTH // 100)
)
GPU = ("-target", "amdgcn-amd-amdhsa")
AS = ("-x", "assembler", *GPU, "-mcpu=gfx90a")


def words(lab: Lab, *flags: str, source: str = "k.s", output: str = "out.o") -> list[str]:
    return [str(LLVM[lab.version] / "bin/clang"), *(flags or AS), "-c", source, "-o", output]


@pytest.fixture
def kernel(lab: Lab) -> Lab:
    lab.write("k.s", SOURCE)
    return lab


def warm(lab: Lab, command: list[str], cwd: Path | None = None) -> Compiled:
    """Served from now on, as the second one shows."""
    first = lab.same(command, cwd=cwd)
    assert (first.outcome, first.counted.missed) == (MISS, {"gfx90a"})
    second = lab.same(command, cwd=cwd)
    assert (second.outcome, second.counted.served) == (HIT, {"gfx90a"})
    return second


def is_direct(lab: Lab, command: list[str], place: Path) -> bool:
    """Does the native launcher serve it, beside an engine that does nothing?"""
    if not place.exists():
        place.mkdir()
        shutil.copy(LAUNCHER[0], place)
        script(place / "hipcache-engine", "exit 99\n")
    (lab.root / "out.o").unlink(missing_ok=True)
    ended = lab.run([place / "hipcache", *command])
    assert ended.status in (0, 99), ended.err
    assert (lab.root / "out.o").exists() == (ended.status == 0)
    lab.counted()
    return ended.status == 0


FORMS = {
    "as Tensile does": AS,
    "by the name alone": ("--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a"),
    "a version of code objects": (*AS, "-mcode-object-version=4"),
    "the width of a wave": (*AS[:-1], "-mcpu=gfx90a", "-mwavefrontsize64"),
    "an option of the assembler": (*AS, "-Wa,--noexecstack", "-Wa,-I,nowhere", "-Wa,-defsym,A=1"),
    "debug information": (*AS, "-g"),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_object_is_plain_clangs_and_the_next_one_runs_no_assembler(kernel: Lab, form: str, tmp_path: Path) -> None:
    command = words(kernel, *FORMS[form])
    warm(kernel, command)
    assert is_direct(kernel, command, tmp_path / "alone")
    served = (kernel.root / "out.o").read_bytes()
    assert kernel.run(command).status == 0
    assert (kernel.root / "out.o").read_bytes() == served


CHANGES: dict[str, Callable[[Lab], object]] = {
    "an edit of the source": lambda lab: lab.write("k.s", SOURCE.replace("v0, s0", "v1, s0")),
    "a definition in the environment of the driver": lambda lab: lab.environ.update(
        CCC_OVERRIDE_OPTIONS="#+-Wa,-defsym,B=2"
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_a_miss(kernel: Lab, change: str, tmp_path: Path) -> None:
    command = words(kernel)
    warm(kernel, command)
    assert is_direct(kernel, command, tmp_path / "alone")
    CHANGES[change](kernel)
    assert not is_direct(kernel, command, tmp_path / "alone")
    assert kernel.same(command).outcome == MISS


def test_another_architecture_is_another_object(kernel: Lab) -> None:
    before = warm(kernel, words(kernel))
    after = kernel.same(words(kernel, *AS[:-1], "-mcpu=gfx906"))
    assert (after.outcome, after.counted.missed) == (MISS, {"gfx906"})
    assert after.object != before.object


def test_a_source_written_anew_is_served_by_its_text(kernel: Lab, tmp_path: Path) -> None:
    command = words(kernel)
    warm(kernel, command)
    (kernel.root / "k.s").unlink()
    kernel.write("k.s", SOURCE)
    assert is_direct(kernel, command, tmp_path / "alone")
    assert kernel.same(command).outcome == HIT


def test_without_debug_information_directory_and_name_do_not_matter(kernel: Lab) -> None:
    warm(kernel, words(kernel))
    kernel.write("other/x.s", SOURCE)
    assert kernel.same(words(kernel, source="x.s"), cwd=kernel.root / "other").outcome == HIT


@pytest.mark.parametrize(
    ("flags", "before"),
    [((*AS, "-g"), ""), (AS, '.file 1 "a.c"\n'), (AS, '.FILE 1 "a.c"\n')],
    ids=["-g", "file", "FILE"],
)
def test_debug_information_is_of_one_directory(kernel: Lab, flags: tuple[str, ...], before: str) -> None:
    text = before + SOURCE.replace("s_endpgm", ".loc 1 7\n s_endpgm" if before else "s_endpgm")
    kernel.write("k.s", text)
    kernel.write("other/k.s", text)
    first = warm(kernel, words(kernel, *flags))
    other = kernel.same(words(kernel, *flags), cwd=kernel.root / "other")
    assert (other.outcome, other.object != first.object) == (MISS, True)
    kernel.write("x.s", text)
    assert kernel.same(words(kernel, *flags, source="x.s")).outcome == MISS


def test_another_assembler_is_a_miss(kernel: Lab, tmp_path: Path) -> None:
    clang = toolchain(tmp_path / "llvm", kernel.version).with_name("clang")
    command = [str(clang), *words(kernel)[1:]]
    warm(kernel, command)
    with clang.open("ab") as file:
        file.write(b"\0")
    assert not is_direct(kernel, command, tmp_path / "alone")
    assert kernel.same(command).outcome == MISS


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


def test_an_object_that_is_a_link_is_written_through(kernel: Lab) -> None:
    warm(kernel, words(kernel))
    (kernel.root / "out.o").unlink()
    (kernel.root / "out.o").symlink_to("real.o")
    assert kernel.run([*LAUNCHER, *words(kernel)]).status == 0
    assert kernel.counted().reason == "linked_output"
    assert (kernel.root / "out.o").is_symlink()
    assert (kernel.root / "real.o").read_bytes()


def test_where_nothing_can_be_written_the_error_is_clangs(kernel: Lab) -> None:
    warm(kernel, words(kernel))
    for output in ("nowhere/out.o", "."):
        ended = [kernel.run([*launcher, *words(kernel, output=output)]) for launcher in ((), LAUNCHER)]
        assert ended[0] == ended[1]
        assert ended[0].status == 1
        assert kernel.counted().outcome in (FAILED, PASSED_THROUGH)


def test_a_damaged_object_is_made_anew(kernel: Lab, tmp_path: Path) -> None:
    command = words(kernel)
    obj = warm(kernel, command).object
    damaged = [path for path in (kernel.store / "v1/blobs").rglob("*") if path.is_file() and path.read_bytes() == obj]
    for path in damaged:
        path.chmod(0o644)
        path.write_bytes(obj[:-1] + bytes([obj[-1] ^ 1]))
    assert damaged
    assert not is_direct(kernel, command, tmp_path / "alone")
    assert kernel.same(command).outcome == MISS
    assert kernel.same(command).outcome == HIT


def test_a_source_that_is_gone_is_clangs_error(kernel: Lab) -> None:
    warm(kernel, words(kernel))
    (kernel.root / "k.s").unlink()
    assert kernel.same(words(kernel)).status == 1


def test_explain_and_stats_tell_of_it(kernel: Lab) -> None:
    warm(kernel, words(kernel))
    kernel.write("k.s", SOURCE + "s_nop 0\n")
    kernel.same(words(kernel))
    told = kernel.hipcache("explain", "out.o").out.decode()
    assert "gfx90a  miss" in told
    assert "the source changed" in told
    stats = json.loads(kernel.hipcache("stats", "--json").out)
    assert stats["units"]["gfx90a"] == {"hits": 1, "misses": 2}
    assert stats["jobs"]["backend"] == {"hits": 1, "misses": 2}
    assert stats["jobs"]["frontend"] == {"hits": 0, "misses": 0}


class Editing(SubprocessRunner):
    """Somebody edits the source before, or after, the assembler reads it."""

    def __init__(self, source: Path, when: str) -> None:
        super().__init__()
        self.source, self.when = source, when

    def group(self) -> Editing:
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
    engine = replace(open_engine(Config(dir=kernel.store), kernel.environ, racy=0.03), runner=runner)
    command = parse(tuple(words(kernel)), str(kernel.root), kernel.environ)
    (done,), _ = several.make_each(engine, [command], None)
    assert any("changed while" in note for note in done.outcome.notes)
    assert done.provenance is None
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
