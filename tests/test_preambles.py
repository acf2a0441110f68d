"""Precompiled preambles: the object, the messages and the dependency file are plain clang's, whatever happens to a
header or to the store. Each compile here is compared with plain clang's (`lab.same`)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hip import DEVICE_LIBRARIES, Compiled, Lab, only_19, rewrite, settle
from hipcache import config
from hipcache.engine import Engine
from hipcache.engine.opening import open_engine
from hipcache.execution.preamble_values import Candidate, Preamble
from hipcache.execution.read_files import Headers
from hipcache.inputs.observing import Observed
from hipcache.loop.front import make
from hipcache.planning import command, preamble
from hipcache.processes.runner import SubprocessRunner, Traced
from hipcache.processes.slots import SharedSlots, runtime_directory
from hipcache.values import replace

pytestmark = pytest.mark.archs(1)
# One device and the host.
BOTH = 2
NEVER_CHECKED = "999999999"


@pytest.fixture
def prelab(lab: Lab) -> Lab:
    """A lab whose front ends may use preambles, none of which is checked by chance. What the tests count are the passes
    of one architecture and the host's, in a full run too."""
    lab.archs = lab.archs[:1]
    lab.environ |= {"HIPCACHE_PREAMBLES": "1", "HIPCACHE_PREAMBLE_CHECKS": NEVER_CHECKED}
    lab.write("inc/value.hpp", "#pragma once\n#define VALUE 3\ninline int twice(int x) { return 2 * x; }\n")
    return lab


def source(lab: Lab, number: int, head: str = "", body: str = "") -> str:
    name = f"s{number}.hip"
    text = f"// {number}\n#include <hip_in_short.hpp>\n#include <value.hpp> // values\n{head}"
    text += f'extern "C" __global__ void k(int* p) {{ p[0] = VALUE * {number} + __LINE__; }}\n'
    text += f'extern "C" int host() {{ return twice(VALUE) + {number}; }}\n{body}'
    lab.write(name, text)
    return name


def words(lab: Lab) -> list[str]:
    return [f"-I{lab.root}/first", f"-I{lab.root}/inc", f"-I{lab.root}", "-MD"]


def build(lab: Lab, number: int, *flags: str, head: str = "", body: str = "") -> Compiled:
    done = lab.compile(*words(lab), *flags, source=source(lab, number, head, body))
    assert done.dependencies == done.plain_dependencies
    return done


def counts(lab: Lab) -> dict[str, int]:
    found = lab.stats()["preambles"]
    assert isinstance(found, dict)
    return found


def prepare(lab: Lab, *flags: str, head: str = "") -> None:
    """After that there is a preamble for the device and for the host. (It takes two sources; where something else on
    the machine touches a directory above meanwhile, nothing is kept, and it takes some more, or another store.)"""
    for _ in range(3):
        for number in range(91, 98):
            build(lab, number, *flags, head=head)
            if number > 91 and counts(lab)["made"] >= BOTH:
                break
        if counts(lab) == {"used": 0, "made": BOTH, "checked": BOTH, "different": 0}:
            return
        shutil.rmtree(lab.store)
    raise AssertionError("no preamble is made")


def test_one_is_made_by_the_second_source_and_used_by_the_third(prelab: Lab) -> None:
    build(prelab, 1)
    assert not any(counts(prelab).values())
    build(prelab, 2)
    assert counts(prelab) == {"used": 0, "made": BOTH, "checked": BOTH, "different": 0}
    build(prelab, 3)
    assert counts(prelab)["used"] == BOTH
    assert "precompiled preambles" in prelab.hipcache("stats").out.decode()
    assert build(prelab, 3).outcome == "hit"


def test_sources_that_are_compiled_at_once_make_it_once(prelab: Lab) -> None:
    """(Where something else on the machine touches a directory above, it is not kept, and another one makes it.)"""
    found = []
    for _ in range(3):
        build(prelab, 1)
        names = [source(prelab, number) for number in range(2, 6)]
        commands = [prelab.words(*words(prelab), source=name, output=f"{name}.o") for name in names]
        with ThreadPoolExecutor(len(commands)) as pool:
            ended = list(pool.map(lambda one: prelab.hipcache(*one), commands))
        assert [one.status for one in ended] == [0] * len(commands)
        made = [(prelab.root / f"{name}.o").read_bytes() for name in names]
        for words_of_it, name, content in zip(commands, names, made, strict=True):
            assert prelab.run(words_of_it).status == 0
            assert (prelab.root / f"{name}.o").read_bytes() == content
        found.append(counts(prelab)["made"])
        if found[-1] == BOTH:
            return
        shutil.rmtree(prelab.store)
    raise AssertionError(found)


def test_a_pass_that_waits_for_a_slot_uses_what_another_source_makes_meanwhile(prelab: Lab) -> None:
    """Two sources at once. The only slot is taken until both have missed the same preambles. (A pass does not wait for
    one while the slot is free, so where the machine is busy not all of them use one.)"""
    runtime = prelab.root / "run"
    runtime.mkdir(mode=0o700)
    prelab.environ |= {"HIPCACHE_JOBS": "1", "XDG_RUNTIME_DIR": str(runtime)}
    build(prelab, 3, "-g")  # goes without; tests' engines need a first one before two at once
    names = [source(prelab, number) for number in (1, 2)]
    commands = [prelab.words(*words(prelab), source=name, output=f"{name}.o") for name in names]
    for _ in range(3):
        with ThreadPoolExecutor(len(commands)) as pool:
            with SharedSlots(1, runtime_directory(prelab.environ)).hold():
                tasks = [pool.submit(prelab.hipcache, *one) for one in commands]
                for _ in range(1200):
                    records = [path for path in prelab.store.rglob("actions/*/*") if path.is_file()]
                    if sum(b'"wanted":2' in path.read_bytes() for path in records) >= 2 * BOTH:
                        break
                    time.sleep(0.05)
            assert [one.result().status for one in tasks] == [0, 0]
        for command_of_it, name in zip(commands, names, strict=True):
            made = (prelab.root / f"{name}.o").read_bytes()
            assert prelab.run(command_of_it).status == 0
            assert (prelab.root / f"{name}.o").read_bytes() == made
        found = counts(prelab)
        if found["made"] == BOTH and found["used"]:
            return
        shutil.rmtree(prelab.store)
    raise AssertionError(found)


def test_a_longer_one_is_made_when_it_would_have_saved_as_much_as_it_costs(prelab: Lab) -> None:
    prelab.write("inc/more.hpp", "#pragma once\n" + "".join(f"void more_{number}();\n" for number in range(300)))
    prepare(prelab)
    build(prelab, 1, head="#include <more.hpp>\n")
    assert counts(prelab) == {"used": BOTH, "made": BOTH, "checked": BOTH, "different": 0}
    for number in range(2, 60):
        build(prelab, number, head="#include <more.hpp>\n")
        if counts(prelab)["made"] == 2 * BOTH:
            break
    else:
        raise AssertionError(counts(prelab))
    used = counts(prelab)["used"]
    build(prelab, 60, head="#include <more.hpp>\n")
    assert counts(prelab)["used"] == used + BOTH


def test_after_edits_of_its_last_header_one_without_that_header_serves(prelab: Lab) -> None:
    """Who edits a header again and again does not pay for a preamble each time."""
    prepare(prelab)
    value = "#pragma once\n#define VALUE {}\ninline int twice(int x) {{ return x; }}\n"
    for number in range(4, 7):
        prelab.write("inc/value.hpp", value.format(number))
        settle()
        build(prelab, number)
    assert counts(prelab) == {"used": 2 * BOTH, "made": 2 * BOTH, "checked": 2 * BOTH, "different": 0}


def test_a_longer_one_is_due_by_the_seconds_that_were_spent_without_it() -> None:
    shorter = Candidate("1", ("<a>",), 10, cost=3.0)
    longer = Candidate("2", ("<a>", "<b>"), 20, wanted=1)
    assert not replace(longer, wanted=0).is_due(None)
    assert longer.is_due(None)
    assert not longer.is_due(None, noted=1)
    assert replace(longer, wanted=2).is_due(None, noted=1)
    assert not replace(longer, wanted=9, spent=2.9).is_due(shorter)
    assert replace(longer, spent=3.0).is_due(shorter)


def test_a_longer_one_could_save_the_time_for_the_headers_that_it_has_besides() -> None:
    sizes = {"source": 9000, "all": 1000, "more": 1500, "small": 10}
    headers = Headers(("all",), Observed(), None)
    one = Preamble(Candidate("1", ("<all>",), 10, cost=6.0), Path(), headers)  # a pass without it takes 2 s
    for read, seconds in ((), 0.0), (("small",), 0.02), (("more",), 3.0), (("more", "small"), 3.02):
        assert one.could_save(5.0, ["source", "all", *read], sizes.__getitem__) == pytest.approx(seconds)
    assert one.could_save(0.5, ["source", "all", "more"], sizes.__getitem__) == 0.5, "no more than the pass takes"


@pytest.mark.parametrize("record", [b"", b"[]", b"{", b'{"wanted": null}', b'{"outputs": 1}', b'{"spent": "much"}'])
def test_a_damaged_record_of_one_counts_for_none(record: bytes) -> None:
    one = Candidate("1", ("<a>",), 10)
    assert one.with_record(record) == one
    known = replace(one, wanted=2, spent=1.5, cost=4.25, outputs=("x", "y", "z"), reordered=True, why="why")
    assert one.with_record(known.record()) == known


def test_the_setting_switches_them_off(prelab: Lab) -> None:
    prelab.environ["HIPCACHE_PREAMBLES"] = "0"
    for number in range(3):
        build(prelab, number)
    assert not any(counts(prelab).values())


def test_without_the_setting_they_are_on(prelab: Lab) -> None:
    prepare(prelab)
    del prelab.environ["HIPCACHE_PREAMBLES"]
    build(prelab, 1)
    assert counts(prelab)["used"] == BOTH


def test_an_edit_of_the_same_source_uses_one(prelab: Lab) -> None:
    build(prelab, 1)
    build(prelab, 1, body="int more() { return 1; }\n")
    done = build(prelab, 1, body="int more() { return 2; }\n")
    assert counts(prelab)["used"] == BOTH
    assert done.counted.back_ends == 0, "the bitcode is as before"


@pytest.mark.parametrize("where", ["header", "source"])
def test_a_file_that_is_changed_in_place_with_its_times_restored(prelab: Lab, where: str) -> None:
    prepare(prelab)
    before = build(prelab, 1)
    changed = prelab.root / ("inc/value.hpp" if where == "header" else "s1.hip")
    rewrite(changed, changed.read_text().replace("VALUE 3", "VALUE 4").replace("VALUE * 1", "VALUE * 7"))
    after = prelab.compile(*words(prelab), source="s1.hip")
    assert after.object != before.object
    assert build(prelab, 2).object


def test_a_header_that_the_leading_includes_find_elsewhere_by_now(prelab: Lab) -> None:
    prepare(prelab)
    before = build(prelab, 1)
    prelab.write("first/value.hpp", "#pragma once\n#define VALUE 5\ninline int twice(int x) { return 3 * x; }\n")
    prelab.changed(before, *words(prelab), source="s1.hip")


def test_an_include_behind_the_leading_ones_that_is_shadowed(prelab: Lab) -> None:
    prelab.write("inc/late.hpp", "#define LATE 1\n")
    late = "int between;\n#include <late.hpp>\nint late() { return LATE; }\n"
    prepare(prelab)
    before = build(prelab, 1, body=late)
    assert counts(prelab)["used"] == BOTH
    prelab.write("first/late.hpp", "#define LATE 2\n")
    prelab.changed(before, *words(prelab), source="s1.hip")


def test_a_file_that_a_header_asks_for_appears(prelab: Lab) -> None:
    prelab.write(
        "inc/value.hpp",
        "#pragma once\n#if __has_include(<option.hpp>)\n#define VALUE 8\n#else\n#define VALUE 3\n#endif\n"
        "inline int twice(int x) { return 2 * x; }\n",
    )
    prepare(prelab)
    before = build(prelab, 1)
    prelab.write("inc/option.hpp", "")
    prelab.changed(before, *words(prelab), source="s1.hip")


def test_headers_that_are_included_once_more(prelab: Lab) -> None:
    prepare(prelab)
    build(prelab, 1, body="#include <value.hpp>\n#include <hip_in_short.hpp>\nint last() { return VALUE; }\n")
    assert counts(prelab)["used"] == BOTH


@pytest.mark.parametrize(
    "line",
    [
        "inline int number() { return __COUNTER__; }",
        "inline const char* when() { return __TIME__ __DATE__; }",
        "#pragma pack(1)",
        "#pragma clang fp contract(off)",
        '_Pragma("pack(1)")',
        "inline const char* base() { return __BASE_FILE__; }",
    ],
)
def test_no_header_is_precompiled_that_reaches_beyond_itself(prelab: Lab, line: str) -> None:
    header = prelab.root / "hip_in_short.hpp"
    header.write_text(header.read_text() + line + "\n")
    for number in range(3):
        build(prelab, number, "-Wno-date-time")
    assert not any(counts(prelab).values())


def test_counters_of_the_source_begin_at_zero(prelab: Lab) -> None:
    prepare(prelab)
    build(prelab, 1, body="int first() { return __COUNTER__; }\nint second() { return __COUNTER__; }\n")
    assert counts(prelab)["used"] == BOTH


@pytest.mark.parametrize(
    "flags",
    [
        ["-g"],
        ["-gline-tables-only"],
        ["-fretain-comments-from-system-headers"],
        ["-std=c++20"],
        ["-DBASE=__BASE_FILE__"],
    ],
)
def test_passes_that_go_without(prelab: Lab, flags: Sequence[str]) -> None:
    for number in range(3):
        build(prelab, number, *flags)
    assert not any(counts(prelab).values())


def test_a_relative_search_path_goes_without(prelab: Lab) -> None:
    for number in range(3):
        prelab.compile("-Iinc", "-I.", "-MD", source=source(prelab, number))
    assert not any(counts(prelab).values())


@pytest.mark.parametrize("head", ["#pragma once\n", "#ifndef GUARD\n#define GUARD\n#endif\n", "#define VALUE_2 1\n"])
def test_what_is_no_include_ends_the_block(prelab: Lab, head: str) -> None:
    prepare(prelab)
    build(prelab, 1, head=head)
    name = prelab.write("guarded.hip", f"{head}#include <hip_in_short.hpp>\n#include <value.hpp>\nint x = VALUE;\n")
    prelab.compile(*words(prelab), source=name.name)


WARNS = "[[nodiscard]] int kept();\nvoid dropped() { kept(); }\n"


def test_a_pass_that_warns_uses_one(prelab: Lab) -> None:
    prepare(prelab)
    assert "warning" in build(prelab, 1, body=WARNS).messages
    assert counts(prelab)["used"] == BOTH


def test_sources_that_warn_have_one_made(prelab: Lab) -> None:
    header = prelab.root / "inc/value.hpp"
    header.write_text(header.read_text() + "[[deprecated]] int olden(int);\n[[nodiscard]] int kept();\n")
    body = "#define VALUE 4\nint dropped() { kept(); return olden(3); }\n"
    for number in (1, 2, 3):
        told = build(prelab, number, "-Wall", "-Wextra", body=body).messages
        assert told.count("declared here") + told.count("deprecated here") >= 1, "notes are in the header"
    assert counts(prelab) == {"used": BOTH, "made": BOTH, "checked": BOTH, "different": 0}


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (
            "template <class T> int narrow(T x) { unsigned z = 3; return z < (int)x; }\n",
            "int n = narrow(1.5);\n",
        ),
        ("static int lonely() { return 1; }\n", ""),
        ("#define PASTE(a) a##1\n", "int f() { int PASTE(x); return 0; }\n"),
        ("", "#define GIVEN 7\n"),
        ("", "#define __HIP__ 7\n"),
    ],
    ids=["template", "unused", "pasted", "command line", "built in"],
)
def test_messages_with_a_place_that_is_told_otherwise(prelab: Lab, header: str, body: str) -> None:
    path = prelab.root / "inc/value.hpp"
    path.write_text(path.read_text() + header)
    for number in (91, 92, 93):
        build(prelab, number, "-Wall", "-Wextra", "-DGIVEN=2")
        if number > 91 and counts(prelab)["made"] >= BOTH:
            break
    assert "warning" in build(prelab, 1, "-Wall", "-Wextra", "-DGIVEN=2", body=body).messages
    assert counts(prelab)["different"] == 0


@pytest.mark.parametrize("option", ["-isystem", "-I"])
@pytest.mark.parametrize("line", ["clang diagnostic ignored", "GCC diagnostic ignored", "clang diagnostic error"])
def test_a_header_that_switches_a_warning(prelab: Lab, line: str, option: str) -> None:
    """The state lasts beyond the header, and so beyond the preamble."""
    prelab.write("sys/state.hpp", f'#pragma {line} "-Wunused-result"\n#pragma {line} "-Wunused-value"\n')
    flags = [f"{option}{prelab.root}/sys", "-Wall"]
    for number in range(91, 95):
        build(prelab, number, *flags, head="#include <state.hpp>\n")
    done = prelab.compile(*words(prelab), *flags, source=source(prelab, 1, "#include <state.hpp>\n", WARNS))
    assert done.status == (line == "clang diagnostic error")
    assert counts(prelab)["different"] == 0


@pytest.mark.parametrize(
    "flags",
    [
        ["-fcolor-diagnostics"],
        ["-fno-show-source-location"],
        ["-fdiagnostics-show-note-include-stack"],
        ["-fdiagnostics-absolute-paths"],
        ["-fno-caret-diagnostics"],
        ["-fdiagnostics-format=vi"],
        ["-Wno-everything"],
        ["-ferror-limit=1", "-fmessage-length=40"],
    ],
)
def test_messages_of_another_format(prelab: Lab, flags: Sequence[str]) -> None:
    header = prelab.root / "inc/value.hpp"
    header.write_text(header.read_text() + "[[deprecated]] int olden(int);\n")
    for number in (1, 2, 3):
        build(prelab, number, "-Wall", *flags, body=WARNS + "int o() { return olden(2); }\n")
    assert counts(prelab)["different"] == 0


@pytest.mark.parametrize(
    "head",
    [
        "/* one /* two */\n",
        "// bad \udcff bytes\n",
        "/* bad \udcff */\n",
        "// no comment any more\r#define HIDDEN 1\n",
    ],
    ids=["comment in comment", "bytes", "bytes between", "carriage return"],
)
def test_a_comment_that_the_pass_must_read_itself(prelab: Lab, head: str) -> None:
    prepare(prelab)
    text = f"#include <hip_in_short.hpp>\n{head}#include <value.hpp>\n"
    text += "#ifdef HIDDEN\nint hidden = 1;\n#endif\nint x = VALUE;\n"
    for number in range(4):
        (prelab.root / f"c{number}.hip").write_bytes((text + f"int y = {number};\n").encode("utf-8", "surrogateescape"))
        prelab.compile(*words(prelab), "-Wall", "-pedantic", source=f"c{number}.hip")
    assert counts(prelab)["different"] == 0


def test_a_source_that_fails(prelab: Lab) -> None:
    prepare(prelab)
    done = prelab.compile(*words(prelab), source=source(prelab, 1, body="int wrong() { return nothing; }\n"))
    assert done.status != 0


def test_the_host_goes_without_where_a_header_initializes_something(prelab: Lab) -> None:
    header = prelab.root / "inc/value.hpp"
    header.write_text(header.read_text() + "int told();\nstatic int kept = told();\ninline int also = told();\n")
    for number in (1, 2):
        build(prelab, number, "-std=c++17", body="int own = told();\n")
    assert counts(prelab) == {"used": 0, "made": 1, "checked": 1, "different": 0}
    build(prelab, 3, "-std=c++17", body="int own = told();\n")
    assert counts(prelab)["used"] == 1


def test_two_compilers(prelab: Lab) -> None:
    other = replace_compiler(prelab)
    for number in (1, 2, 3):
        prelab.count_anew()
        build(prelab, number)
        other.count_anew()
        other.compile(*words(other), source=source(other, number))
    assert counts(prelab) == {"used": 2 * BOTH, "made": 2 * BOTH, "checked": 2 * BOTH, "different": 0}


def replace_compiler(lab: Lab) -> Lab:
    version = {"15": "19", "19": "15"}[lab.version]
    compiler = lab.compiler.replace(f"llvm-{lab.version}", f"llvm-{version}")
    return Lab(lab.root, version, compiler, lab.environ, lab.archs)


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_preamble_in_the_store_is_none(prelab: Lab, damage: str) -> None:
    prepare(prelab)
    blobs = [path for path in (prelab.store / "v1/blobs").rglob("*") if path.is_file()]
    large = [path for path in blobs if path.stat().st_size > 100_000]
    assert len(large) == BOTH
    for path in large:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 255
        if damage == "gone":
            path.unlink()
        else:
            path.write_bytes(content if damage == "flipped" else content[: len(content) // 2])
    build(prelab, 1)
    assert counts(prelab)["used"] == 0
    build(prelab, 2)
    assert counts(prelab)["used"] == BOTH


def test_each_use_is_checked_where_that_is_asked_for(prelab: Lab) -> None:
    prelab.environ["HIPCACHE_PREAMBLE_CHECKS"] = "1"
    for number in range(4):
        build(prelab, number)
    assert counts(prelab) == {"used": 0, "made": BOTH, "checked": 3 * BOTH, "different": 0}


# Through the engine in this process, with processes that somebody meddles with


class Meddling(SubprocessRunner):
    """Does something after each traced process."""

    def __init__(self, lab: Lab, kind: str) -> None:
        super().__init__()
        self.lab = lab
        self.kind = kind

    def group(self) -> SubprocessRunner:
        return self

    def trace(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: int = -3) -> Traced:
        traced = super().trace(argv, cwd=cwd, env=env, stdin=stdin)
        if self.kind == "header" and "-emit-pch" in argv:
            header = self.lab.root / "inc/value.hpp"
            rewrite(header, header.read_text().replace("VALUE 3", "VALUE 6"))
        if self.kind == "object" and "-include-pch" in argv and "-emit-obj" in argv:
            output = Path(argv[argv.index("-o") + 1])
            output.write_bytes(output.read_bytes() + b"more")
        return traced


def compile_in_process(lab: Lab, engine: Engine, number: int) -> bytes:
    argv = lab.words(*words(lab), source=source(lab, number))
    settle()
    done = make(engine, command.parse(tuple(argv), str(lab.root), lab.environ), None)
    preambles = dict(done.outcome.preambles)
    lab.environ["COUNTED"] = repr(preambles)
    return (lab.root / "out.o").read_bytes()


def engine_of(lab: Lab, kind: str) -> Engine:
    return replace(open_engine(config.load(lab.environ), lab.environ, racy=0.03), runner=Meddling(lab, kind))


def test_a_header_that_changes_while_the_preamble_is_made(prelab: Lab) -> None:
    engine = engine_of(prelab, "header")
    compile_in_process(prelab, engine, 1)
    compile_in_process(prelab, engine, 2)
    assert "made" not in prelab.environ.pop("COUNTED")
    done = build(prelab, 3)
    assert counts(prelab)["used"] == 0
    assert done.status == 0


def test_a_difference_switches_preambles_off_for_the_compiler(prelab: Lab) -> None:
    plain = build(prelab, 2).object
    engine = engine_of(prelab, "object")
    assert compile_in_process(prelab, engine, 1)
    (prelab.root / "s2.hip").unlink()
    assert "'different': 1" in prelab.environ.pop("COUNTED")
    assert build(prelab, 2).object == plain
    before = counts(prelab)
    build(prelab, 3)
    build(prelab, 4)
    assert counts(prelab) == before


# With the header that newer drivers put before each source


@only_19
def test_the_drivers_own_header(prelab: Lab) -> None:
    flags = ["--rocm-path=/usr", f"--rocm-device-lib-path={DEVICE_LIBRARIES}", "-cuid=5eed", "--offload-arch=gfx906"]
    for number in range(4):
        name = f"w{number}.hip"
        text = f"__device__ __attribute__((used)) float root(float x) {{ return sqrtf(x + {number}); }}\n"
        prelab.write(name, text)
        command_line = [prelab.compiler, "-x", "hip", "-O2", *flags, "-MD", "-c", name, "-o", "out.o"]
        done = prelab.same(command_line)
        assert done.dependencies == done.plain_dependencies
    found = counts(prelab)
    assert found["made"] == found["checked"] == BOTH
    assert found["used"] == 2 * BOTH


# Texts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "#include <a>\n#include <b.h> // b\n\n/* c\n * d */\n  #  include\t<c/d.hpp>\nint x;\n",
            ["<a>", "<b.h>", "<c/d.hpp>"],
        ),
        ('#include <a>\n#include "b"\n#include <c>\n', ["<a>", '"b"', "<c>"]),
        ('#include <a>\n#include "b>\n#include <c>\n', ["<a>"]),
        ("#include <a>\n#include <b>", ["<a>"]),
        ("// x \\\n#include <a>\n", []),
        ("#include <a> // x \\\n#include <b>\n", []),
        ("\ufeff#include <a>\n", []),
        ("#include <a>\r\n#include <b>\r\n", []),
        ("/* ??/\n*/\n#include <a>\n", []),
        ("#include NAME\n#include <a>\n", []),
        ("#include_next <a>\n", []),
        ("/* open\n#include <a>\n", []),
        ("#if 1\n#include <a>\n#endif\n", []),
        ("#include <a>\n// x\r#include <b>\n#include <c>\n", ["<a>"]),
        ("#include <a>\n/* x /* y */\n#include <c>\n", ["<a>"]),
        ("#include <a>\n// \u00a9 one\n#include <c>\n", ["<a>", "<c>"]),
        ("#include <a>\n// \udcff one\n#include <c>\n", ["<a>"]),
    ],
)
def test_leading_includes(text: str, names: list[str]) -> None:
    found = preamble.leading(text.encode("utf-8", "surrogateescape"))
    assert list(found.names) == names
    assert all(text.encode("utf-8", "surrogateescape")[:end].endswith(b"\n") for end in found.ends)


def test_a_long_comment_without_an_end_takes_no_long_time() -> None:
    assert preamble.leading(b"/*" + b"* " * 30000).names == ()


@pytest.mark.parametrize(
    ("text", "system", "good"),
    [
        ("#pragma once\n", False, True),
        ("#pragma GCC visibility push(default)\n#pragma GCC visibility pop\n", True, True),
        ("#pragma GCC visibility push(default)\n", False, False),
        ("# pragma pack(push, 1)\n", True, False),
        ("#pragma STDC FP_CONTRACT ON\n", True, False),
        ("#pragma nv_diag_suppress 108\n#pragma region x\n#pragma warning(push)\n", False, True),
        (
            '#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored "-Wall"\n#pragma GCC diagnostic pop\n',
            False,
            True,
        ),
        ("#pragma GCC diagnostic push\n", False, False),
        ("#pragma clang diagnostic pop\n#pragma clang diagnostic push\n", False, False),
        ('#pragma clang diagnostic ignored "-Wall"\n', False, True),
        ("#pragma clang diagnostic push\n", True, False),
        ('#pragma clang diagnostic ignored "-Wall"\n', True, True),
        ("int __COUNTER__X;\n", False, True),
        ("int x = __COUNTER__;\n", True, False),
        ('#pragma push_macro("X")\n#undef X\n#pragma pop_macro("X")\n', True, True),
        ('#pragma push_macro("X")\n', True, False),
        ('_Pragma("push_macro(\\"X\\")")\n', True, False),
        ("#pragma GCC visibility push(hidden)\n", True, False),
        ("#if A\n#pragma GCC diagnostic push\n#else\n#pragma GCC diagnostic pop\n#endif\n", True, False),
        ("#if A\n#pragma GCC diagnostic push\n#endif\n#if A\n#pragma GCC diagnostic pop\n#endif\n", True, True),
        ('__attribute__((section("x"))) extern int x;\n', False, False),
        ("static auto x = [](int y) { return y; };\n", True, False),
        ("inline int x() { return [] { return 1; }(); }\n", False, True),
    ],
)
def test_what_headers_may_hold(text: str, system: bool, good: bool) -> None:
    assert (preamble.fault(text.encode(), system=system) == "") == good


def test_a_header_of_the_users_that_switches_a_warning_for_itself(prelab: Lab) -> None:
    header = prelab.root / "inc/value.hpp"
    own = (
        '#pragma nv_diag_suppress 108\n#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored "-Wunused-result"\n'
    )
    own += "[[nodiscard]] int kept();\ninline void quiet() { kept(); }\n#pragma GCC diagnostic pop\n"
    header.write_text(header.read_text() + own)
    for number in (1, 2, 3):
        assert "warning" in build(prelab, number, body="void dropped() { kept(); }\n").messages
    assert counts(prelab) == {"used": BOTH, "made": BOTH, "checked": BOTH, "different": 0}


def quoting(lab: Lab, number: int, name: str = "deep/quoted.hpp") -> str:
    """The path of a source in a directory of its own, whose first include is in quotes."""
    text = f'// {number}\n#include "{name}"\n#include <hip_in_short.hpp>\n#include "{name}"\n'
    text += f'extern "C" __global__ void k(int* p) {{ p[0] = QUOTED * {number} + __LINE__; }}\n'
    return str(lab.write(f"src/q{number}.hip", text + 'extern "C" const char* host() { return file(); }\n'))


QUOTED = '#pragma once\n#include "next.hpp"\n#define QUOTED {}\ninline const char* file() {{ return __FILE__; }}\n'


def quote(lab: Lab, place: str, number: int = 7) -> None:
    lab.write(f"{place}/deep/next.hpp", f"enum {{ next = {number} }};\n")
    lab.write(f"{place}/deep/quoted.hpp", QUOTED.format(number))


def quoted(lab: Lab, number: int, *flags: str, name: str = "deep/quoted.hpp") -> Compiled:
    done = lab.compile(*words(lab), *flags, source=quoting(lab, number, name))
    assert done.dependencies == done.plain_dependencies
    return done


@pytest.mark.parametrize("place", ["src", "inc", "src/.."])
def test_a_header_in_quotes(prelab: Lab, place: str) -> None:
    quote(prelab, place)
    name = "../deep/quoted.hpp" if place == "src/.." else "deep/quoted.hpp"
    for number in (1, 2, 3):
        quoted(prelab, number, name=name)
    assert counts(prelab) == {"used": BOTH, "made": BOTH, "checked": BOTH, "different": 0}


def test_a_header_in_quotes_that_appears_beside_the_source(prelab: Lab) -> None:
    quote(prelab, "inc")
    for number in (1, 2):
        quoted(prelab, number)
    before = quoted(prelab, 3)
    assert counts(prelab)["used"] == BOTH
    quote(prelab, "src", 8)
    prelab.changed(before, *words(prelab), source=str(prelab.root / "src/q3.hip"))


def test_a_header_in_quotes_that_is_gone_from_beside_the_source(prelab: Lab) -> None:
    quote(prelab, "src", 8)
    quote(prelab, "inc")
    for number in (1, 2):
        quoted(prelab, number)
    before = quoted(prelab, 3)
    assert counts(prelab)["used"] == BOTH
    (prelab.root / "src/deep/quoted.hpp").unlink()
    prelab.changed(before, *words(prelab), source=str(prelab.root / "src/q3.hip"))


def test_the_same_name_in_quotes_is_another_header_in_another_directory(prelab: Lab) -> None:
    quote(prelab, "src", 8)
    for number in (1, 2, 3):
        quoted(prelab, number)
    assert counts(prelab)["used"] == BOTH
    quote(prelab, "other/src", 9)
    text = Path(quoting(prelab, 4)).read_text()
    prelab.compile(*words(prelab), source=str(prelab.write("other/src/q4.hip", text)))
    assert counts(prelab)["used"] == BOTH


def test_headers_in_quotes_that_go_without(prelab: Lab) -> None:
    """Directories for names in quotes alone; a source that is named by a relative path."""
    quote(prelab, "inc")
    for number in (1, 2, 3):
        quoted(prelab, number, f"-iquote{prelab.root}/nowhere")
        quoting(prelab, number)
        prelab.compile(*words(prelab), "-O1", source=f"src/q{number}.hip")
    assert not any(counts(prelab).values())


def test_a_header_in_quotes_that_goes_on_to_the_next_of_its_name(prelab: Lab) -> None:
    quote(prelab, "inc")
    prelab.write("first/deep/quoted.hpp", "#include_next <deep/quoted.hpp>\n#define FIRST 1\n")
    for number in (1, 2, 3):
        assert quoted(prelab, number).object
    assert counts(prelab)["used"] == BOTH
