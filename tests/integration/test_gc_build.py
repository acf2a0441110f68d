"""What the objects of a build used: it stays in `hipcache gc --not-used-by BUILD`, where all does if that is not known,
and goes with `hipcache export --used-by BUILD`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from hip import ENGINE_ALONE, HIT, LAUNCHER, MISS, Lab, only_19
from hipcache.base.errors import HipcacheError
from hipcache.base.keys import digest_file
from hipcache.cli.build_directory import Build, all_used_by, used_by
from hipcache.store import archive
from hipcache.store.layout import action_name, blob_name
from hipcache.store.local import LocalStore
from programs import Program

pytestmark = [only_19, pytest.mark.archs(1)]


def build(lab: Lab, name: str, *commands: list[str]) -> Path:
    """A build directory that lists these compiles, as CMake would with hipcache as the launcher."""
    directory = lab.root / name
    directory.mkdir(exist_ok=True)
    listed = [
        {"directory": str(lab.root), "file": "k.hip", "command": shlex.join([*LAUNCHER, *words])} for words in commands
    ]
    (directory / "compile_commands.json").write_text(json.dumps(listed))
    return directory


def entries(lab: Lab) -> set[str]:
    top = lab.store / "v2"
    found = [path for tree in ("actions", "blobs", "history") for path in (top / tree).rglob("*") if path.is_file()]
    return {str(path.relative_to(top)) for path in found}


def gc(lab: Lab, *words: str | Path) -> str:
    ended = lab.hipcache("gc", *words)
    assert (ended.status, ended.err) == (0, b""), ended
    return ended.out.decode()


def refused(lab: Lab, build: Path) -> str:
    """The error; nothing is removed."""
    before = entries(lab)
    ended = lab.hipcache("gc", "--not-used-by", build)
    assert (ended.status, ended.out) == (1, b"")
    assert entries(lab) == before
    return ended.err.decode()


@pytest.mark.files
def test_what_a_build_used_stays_and_is_served_by_the_launcher_and_by_the_engine(lab: Lab) -> None:
    mine, other = lab.root / "mine", lab.root / "other"
    mine.mkdir(), other.mkdir()
    lab.write("other.hip", (lab.root / "k.hip").read_text().replace("* 3", "* 4"))
    for words in (("-O1", "-MD"), ("-O2", "-MD")):  # of the first one nothing is left in the build
        lab.compile(*words, output="mine/k.o")
        lab.compile(*words, output="mine/k.o")
    lab.compile("-O2", source="other.hip", output="other/k.o")
    directory = build(lab, "mine", lab.words("-O2", output="mine/k.o"), [lab.compiler, "-c", "plain.cpp"])
    before = entries(lab)
    told = gc(lab, "--not-used-by", directory, "--dry-run")
    assert entries(lab) == before
    freed = gc(lab, "--not-used-by", directory)
    assert freed.split(";")[0] == f"freed {told.split(' in ')[0]}"
    assert not freed.startswith("freed 0 ")
    assert len(entries(lab)) < len(before)
    assert lab.hipcache("verify").status == 0
    lab.count_anew()
    assert lab.compile("-O2", "-MD", output="mine/k.o").outcome == HIT
    again = lab.run([*ENGINE_ALONE, *lab.words("-O2", "-MD", output="mine/k.o")])
    assert (again.status, lab.counted().outcome) == (0, HIT)
    assert lab.compile("-O1", "-MD", output="mine/k.o").outcome == MISS
    assert lab.compile("-O2", source="other.hip", output="other/k.o").outcome == MISS
    assert gc(lab, "--not-used-by", directory / "compile_commands.json").startswith("freed ")


@pytest.mark.files
def test_where_it_is_not_known_nothing_is_removed(lab: Lab) -> None:
    lab.compile(output="known.o")
    lab.compile(output="known.o")
    known, unknown = lab.words(output="known.o"), lab.words(output="unknown.o")
    bare = lab.root / "bare"
    bare.mkdir()
    assert "cannot read" in refused(lab, bare) and "EXPORT_COMPILE_COMMANDS" in refused(lab, bare)
    assert "lists no HIP compile" in refused(lab, build(lab, "plain", [lab.compiler, "-c", "plain.cpp"]))
    assert "knows no object of" in refused(lab, build(lab, "new", unknown))
    both = build(lab, "both", known, unknown)
    assert gc(lab, "--not-used-by", both, "--dry-run"), "one that was not built has used nothing"
    lab.write("unknown.o", "made by another compiler")
    told = refused(lab, both)
    assert (
        "which entries an object of" in told and "unknown.o" in told and "nothing was changed; build it again" in told
    )


def test_links_of_device_code_below_the_directory_count(lab: Lab) -> None:
    program = Program(lab, archs=lab.archs)
    program.build()
    common = [lab.compiler, *lab.archs, "-nogpuinc", "-nogpulib", "-O2", "-fgpu-rdc"]
    commands = [
        [*common, *define, f"-cuid={name}", "-c", f"{name}.hip", "-o", f"{name}.o"]
        for name, define in (("one", ["-DDEVICE=1"]), ("two", []))
    ]
    for words in commands * 2:
        assert lab.hipcache(*words).status == 0
    lab.count_anew()
    program.warm()
    lab.compile("-O3", output="k.o")
    directory = build(lab, ".", *commands)
    (lab.root / "k.o").unlink()
    gc(lab, "--not-used-by", directory)
    _, counted = program.link()
    assert counted.outcome == HIT


@pytest.mark.files
def test_a_store_that_has_lost_its_records_keeps_the_rest(lab: Lab) -> None:
    lab.warm()
    store = LocalStore(lab.store, max_bytes=0)
    built = Build("build", str(lab.root), frozenset([str(lab.root / "out.o")]))
    names = all_used_by(built, store, "", int)
    assert blob_name(digest_file(lab.root / "out.o")) in names
    assert "tools/any" in names and blob_name("0" * 64) not in names
    for name in [name for name in entries(lab) if name.startswith("actions/")]:
        store.remove_action(name.removeprefix("actions/"))
    assert action_name("0" * 64) not in names
    with pytest.raises(HipcacheError, match="knows no object"):
        used_by(built, store, "", int)


@pytest.mark.files
def test_what_a_build_used_goes_with_export_and_serves_elsewhere(lab: Lab) -> None:
    mine = lab.root / "mine"
    mine.mkdir()
    lab.compile("-O1", output="k.o")
    for _ in range(2):
        lab.compile("-O2", output="mine/k.o")
    directory = build(lab, "mine", lab.words("-O2", output="mine/k.o"), lab.words(output="mine/other.o"))
    (mine / "other.o").write_text("made by another compiler")
    ended = lab.hipcache("export", "--used-by", directory, lab.root / "all.tar.gz")
    assert ended.err.decode() == (
        f"1 object of '{directory}' left out: not known to the store, such as '{mine}/other.o'\n"
    )
    assert ended.status == 0
    names = {f"{entry.tree}/{entry.name}" for entry in archive.read(lab.root / "all.tar.gz")}
    assert names < entries(lab)
    there = {"HIPCACHE_DIR": str(lab.root / "there")}
    assert lab.hipcache("import", lab.root / "all.tar.gz", env=there).status == 0
    lab.environ.update(there)
    lab.count_anew()
    assert lab.compile("-O2", output="mine/k.o").outcome == HIT
    assert lab.compile("-O1", output="k.o").outcome == MISS
    ended = lab.hipcache("export", "--used-by", build(lab, "new", lab.words(output="new/k.o")), lab.root / "b.tar.gz")
    assert (ended.status, b"knows no object of" in ended.err) == (1, True)
    assert not (lab.root / "b.tar.gz").exists()


NAMES = "gfx803 gfx900 gfx902 gfx904 gfx906 gfx908 gfx909 gfx90a gfx90c gfx1010 gfx1011 gfx1012 gfx1013 gfx1030 gfx1031"
NAMES += " gfx1032 gfx1033 gfx1034 gfx1035 gfx1036 gfx1100 gfx1101"


def test_a_store_too_small_for_a_build_of_22_architectures_keeps_serving_what_fits(lab: Lab) -> None:
    """In files: before one such compile is packed it takes more than all packs here."""
    lab.environ["HIPCACHE_PACKS"] = "0"
    lab.archs = tuple(f"--offload-arch={name}" for name in NAMES.split())
    table = "".join(f"0x{digest_file(__file__)[:at]}, " for at in range(1, 16))

    def hits(*sources: int) -> int:
        for number in sources:
            text = f"__constant__ unsigned long table{number}[] = {{{table} {number}}};\n"
            lab.write(f"s{number}.hip", f'#include "k.hip"\n{text}')
            assert lab.hipcache(*lab.words(source=f"s{number}.hip")).status == 0
        compiles = lab.stats()["compiles"]
        assert isinstance(compiles, dict)
        return int(compiles[HIT])

    assert hits(*range(5)) == 0
    held = LocalStore(lab.store, max_bytes=0).size().bytes
    lab.hipcache("clear", "--yes")
    lab.environ["HIPCACHE_MAX_SIZE"] = str(held * 8 // 10)
    hits(*range(5))
    assert hits(*range(5)) >= 2
    assert LocalStore(lab.store, max_bytes=0).size().bytes <= held * 8 // 10
