"""`hipcache verify --compile`: what the store would serve for a build, beside what the compiler makes of it now."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from hip import LAUNCHER, Lab, only_19
from hipcache.verify.comparison import redirected
from test_verify_hits import poison

pytestmark = pytest.mark.archs(1)


def build(lab: Lab, *commands: list[str]) -> Path:
    """A build directory that lists these compiles, as CMake would with hipcache as the launcher."""
    directory = lab.root / "build"
    directory.mkdir()
    listed = [
        {"directory": str(lab.root), "file": "k.hip", "command": shlex.join([*LAUNCHER, *words])} for words in commands
    ]
    (directory / "compile_commands.json").write_text(json.dumps(listed))
    return directory


def verify(lab: Lab, directory: Path, *words: str) -> tuple[int, dict[str, int]]:
    ended = lab.hipcache("verify", "--compile", "-p", directory, "--json", *words)
    assert ended.err == b""
    counts = json.loads(ended.out)["compiles"]
    return ended.status, {end: count for end, count in counts.items() if count}


def state(lab: Lab) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (*lab.root.rglob("*"), *(lab.store / "v2/blobs").rglob("*"))}


@pytest.mark.files
def test_compiles_of_a_store_that_is_right_are_the_same(lab: Lab) -> None:
    """Also with a CUID of hipcache's own, and named by a response file."""
    lab.write("flags", "-O1 -o named.o")
    own = [word for word in lab.words("-MD", "-MF", "deps", output="own.o") if "cuid" not in word]
    commands = [lab.words("-g"), own, [*lab.words()[:-2], "@flags"]]
    for words in (*commands, lab.words("-gsplit-dwarf", "-g", output="split.o")):
        assert lab.hipcache(*words).status == 0
    plain = [lab.compiler, "-c", "plain.cpp"]
    directory = build(lab, *commands, lab.words("-O3"), lab.words("-gsplit-dwarf", "-g", output="split.o"), plain)
    before = state(lab)
    status, ends = verify(lab, directory)
    assert (status, ends.pop("not_stored"), ends.pop("not_compared")) == (0, 1, 1)
    assert ends == {"same": 3}
    assert state(lab) == before, "nothing is written, nor counts as a use"


@only_19
@pytest.mark.archs(2)
def test_a_poisoned_store_is_found_out(lab: Lab) -> None:
    before = lab.warm()
    wrong = poison(lab.store, before.object)
    directory = build(lab, lab.words())
    ended = lab.hipcache("verify", "--compile", cwd=directory)
    assert ended.status == 1
    told, summary = ended.out.decode().splitlines()
    assert told.startswith(f"different: '{lab.root}/out.o' for gfx906 gfx90a: {len(wrong)} bytes from the store")
    assert summary == "1 object recompiled: 1 different"
    (report,) = (lab.store / "v2/reports").iterdir()
    assert (report / "fresh").read_bytes() == before.object
    assert str(report) in told


@only_19
def test_a_sample_is_of_those_that_are_stored(lab: Lab) -> None:
    commands = [lab.words("-O1", output=f"{number}.o") for number in range(3)]
    for words in commands:
        lab.hipcache(*words)
    others = [lab.words("-O3", f"-DOTHER={number}", output=f"other{number}.o") for number in range(3)]
    status, ends = verify(lab, build(lab, *commands, *others), "--sample", "2")
    assert (status, ends["same"]) == (0, 2)


@only_19
@pytest.mark.parametrize(
    "content",
    ["", "{}", "[1]", '[{"directory": "/"}]', "[" * 10_000, r'[{"directory": "/\u0000", "arguments": ["c++", "-c"]}]'],
    ids=["empty", "mapping", "number", "no command", "deep", "no path"],
)
def test_a_list_that_does_not_read_is_told(lab: Lab, content: str) -> None:
    (lab.root / "compile_commands.json").write_text(content)
    ended = lab.hipcache("verify", "--compile")
    assert ended.status == 1
    assert b"compile_commands.json" in ended.err
    assert b"Traceback" not in ended.err


@only_19
def test_a_list_that_is_not_there_is_told(lab: Lab) -> None:
    ended = lab.hipcache("verify", "--compile", "-p", "nowhere")
    assert ended.status == 1
    assert b"cannot read 'nowhere'" in ended.err


@pytest.mark.parametrize(
    ("words", "rest"),
    [
        ("-c k.hip -o out.o", ["-c", "k.hip"]),
        ("-c k.hip -oout.o", ["-c", "k.hip"]),
        ("--output=out.o -c k.hip", ["-c", "k.hip"]),
        ("-MD -MF deps -MT out.o -c k.hip", ["-MD", "-MF", "/x/1.d", "-MT", "out.o", "-c", "k.hip"]),
        ("-MMD -MFdeps -c k.hip", ["-MMD", "-MF", "/x/1.d", "-c", "k.hip"]),
        ("-I -o -D -oX -c -- k.hip", ["-I", "-o", "-D", "-oX", "-c", "--", "k.hip"]),
        ("-object-file -c k.hip", ["-object-file", "-c", "k.hip"]),
    ],
)
def test_the_compiler_writes_elsewhere(words: str, rest: list[str]) -> None:
    assert redirected(words.split(), Path("/x/1.o")) == ["-o", "/x/1.o", *rest]
