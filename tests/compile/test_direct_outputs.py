"""Direct hits that write more than one object: several outputs, executable ones, those of several sources."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from blake3 import blake3
from direct_lab import Direct, direct
from hip import ARCHS, BARE, CUID, HIP_IN_SHORT, HIT, LAUNCHER, Ended, Lab, kernel, only_15, only_19, settle

__all__ = ["direct"]

SEPARATE = ("--offload-device-only", "--no-gpu-bundle-output")
FILES = {"k-hip-amdgcn-amd-amdhsa-gfx906.out", "k-hip-amdgcn-amd-amdhsa-gfx90a.out"}

Written = dict[str, tuple[bytes, int]]


def words(lab: Lab, *flags: str, source: str = "k.hip") -> list[str]:
    archs = () if any("-arch=" in flag for flag in flags) else ARCHS
    return [lab.compiler, *archs, *BARE, CUID, *flags, "-c", source]


def run(lab: Lab, argv: list[str | Path]) -> Ended:
    return lab.run(["sh", "-c", 'umask 027; exec "$@"', "sh", *argv])


def written(lab: Lab, argv: list[str | Path], before: set[str]) -> tuple[Ended, Written]:
    """How it ended, and the content and mode of all that is new."""
    ended = run(lab, argv)
    new = {path for path in lab.root.iterdir() if path.name not in before}
    found = {path.name: (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) for path in new}
    return ended, found


def served(direct: Direct, command: list[str]) -> Written:
    """What is written by a direct hit, which is the same as by plain clang and by the engine."""
    lab = direct.lab
    before = {path.name for path in lab.root.iterdir()}
    rules: Written = {}

    def run(*launcher: str) -> Written:
        settle()
        ended, found = written(lab, [*launcher, *command], before)
        for name in found:
            (lab.root / name).unlink()
        assert ended.status == 0, ended.err
        rules.clear()
        rules.update({name: content for name, content in found.items() if name.endswith(".d")})
        return {name: content for name, content in found.items() if not name.endswith(".d")}

    plain, cached = lab.by_both(run, command)
    assert [cached, run(*LAUNCHER), run(str(direct.program))] == [plain] * 3
    return {**plain, **rules}


def ask(direct: Direct, command: list[str]) -> bool:
    ended = run(direct.lab, [direct.program, *command])
    assert ended.status in (0, 99), ended.err
    return ended.status == 0


@pytest.mark.parametrize("more", [(), ("-MD",)], ids=["plain", "with a dependency file"])
def test_one_executable_for_each_architecture(direct: Direct, more: tuple[str, ...]) -> None:
    lab, command = direct.lab, words(direct.lab, *SEPARATE, *more)
    found = served(direct, command)
    assert {name: mode for name, (_, mode) in found.items() if not name.endswith(".d")} == dict.fromkeys(FILES, 0o750)
    assert len(found) == 2 + (len(more) if int(lab.version) < 20 else 0)
    lab.write("value.hpp", '#include "hip_in_short.hpp"\n#define VALUE 2\n')
    assert not ask(direct, command)


@only_19
@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        ("--offload-arch=gfx906 --offload-device-only --no-gpu-bundle-output -o one.hsaco", 0o750),
        ("--offload-device-only --no-gpu-bundle-output -S", 0o640),
        ("--offload-device-only --no-gpu-bundle-output -emit-llvm -MMD -MF all.d", 0o640),
    ],
)
def test_other_shapes_of_outputs(direct: Direct, flags: str, mode: int) -> None:
    found = served(direct, words(direct.lab, *flags.split()))
    assert {here for name, (_, here) in found.items() if not name.endswith(".d")} == {mode}


Damage = Callable[[Path], object]
DAMAGES: dict[str, Damage] = {
    "gone": Path.unlink,
    "cut": lambda blob: blob.write_bytes(blob.read_bytes()[:-1]),
    "changed": lambda blob: blob.write_bytes(blob.read_bytes()[:-1] + b"?"),
}


@pytest.mark.files
@only_19
@pytest.mark.sampled(2)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("damage", DAMAGES)
def test_where_one_of_them_cannot_be_had_all_are_made_anew(direct: Direct, damage: str, which: int) -> None:
    lab, command = direct.lab, words(direct.lab, *SEPARATE)
    found = served(direct, command)
    name = blake3(found[sorted(found)[which]][0]).hexdigest()
    DAMAGES[damage](lab.store / "v2/blobs" / name)
    before = {path.name for path in lab.root.iterdir()}
    ended, partial = written(lab, [direct.program, *command], before)
    assert ended.status == 99
    # A blob that is gone or has another size is missed before anything is written; a changed one as it is copied.
    written_by_then = sorted(found)[: which if damage == "changed" else 0]
    assert partial == {name: found[name] for name in written_by_then}, "each is whole or not there"
    for name in partial:
        (lab.root / name).write_text("old")
    ended, again = written(lab, [*LAUNCHER, *command], before)
    assert (ended.status, {name: content for name, (content, _) in again.items()}) == (
        0,
        {name: content for name, (content, _) in found.items()},
    )


@only_19
@pytest.mark.parametrize("kind", ["a link", "a directory"])
def test_a_later_output_that_is_no_plain_file_is_the_engines_affair(direct: Direct, kind: str) -> None:
    lab, command = direct.lab, words(direct.lab, *SEPARATE)
    found = served(direct, command)
    place = lab.root / max(FILES)
    if kind == "a link":
        lab.write("target", "kept")
        place.symlink_to("target")
    else:
        place.mkdir()
    assert not ask(direct, command)
    assert not (lab.root / min(FILES)).exists(), "nothing is written before all places were looked at"
    if kind == "a link":
        assert run(lab, [*LAUNCHER, *command]).status == 0
        assert (place.read_bytes(), (lab.root / "target").read_text()) == (found[place.name][0], "kept")
    else:
        shutil.rmtree(place)
        assert ask(direct, command)


@only_19
def test_several_outputs_are_counted_and_told_of_as_one_compile(direct: Direct) -> None:
    lab, command = direct.lab, words(direct.lab, *SEPARATE)
    served(direct, command)
    lab._seen = lab.stats()
    assert ask(direct, command)
    counted = lab.counted()
    assert (counted.outcome, counted.missed, counted.served) == (HIT, frozenset(), {"gfx906", "gfx90a"})
    assert ": hit" in lab.hipcache("explain", min(FILES)).out.decode().splitlines()[0]


# Several sources


@pytest.fixture
def sources(direct: Direct) -> Direct:
    """Two that warn, the second one with a header of its own; and another `k.hip`."""
    lab = direct.lab
    lab.write("k.hip", kernel("1", "#warning first"))
    lab.write("l.hip", kernel("VALUE", '#include "own.hpp"\n#warning second'))
    lab.write("own.hpp", "#define VALUE 3\n")
    lab.write("sub/hip_in_short.hpp", HIP_IN_SHORT)
    lab.write("sub/k.hip", kernel("2"))
    return direct


def both(lab: Lab, *flags: str) -> list[str]:
    return [lab.compiler, *ARCHS, *BARE, CUID, *flags, "-c", "k.hip", "l.hip"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("flags", "files"),
    [
        ("-MD", {"k.o", "k.d", "l.o", "l.d"}),
        ("-MMD -MF all.d", {"k.o", "l.o", "all.d"}),
        (
            "--offload-device-only --no-gpu-bundle-output",
            {f"{name}-hip-amdgcn-amd-amdhsa-{arch}.out" for name in "kl" for arch in ("gfx906", "gfx90a")},
        ),
    ],
)
def test_all_objects_of_one_command_are_one_direct_hit(sources: Direct, flags: str, files: set[str]) -> None:
    lab, command = sources.lab, both(sources.lab, *flags.split())
    assert set(served(sources, command)) == files
    assert lab.hipcache("stats", "--zero").status == 0
    ended = run(lab, [sources.program, *command])
    plain = run(lab, command)
    assert (ended.status, ended.err) == (0, plain.err)
    assert lab.stats()["compiles"]["hit"] == 2  # type: ignore[index]
    for name in sorted(file for file in files if file.endswith(("gfx906.out", ".o"))):
        assert ": hit" in lab.hipcache("explain", name).out.decode().splitlines()[0]
    for name in ("own.hpp", "l.hip", "k.hip"):
        text = (lab.root / name).read_text()
        lab.write(name, text + f"int host_{len(name)}{name[0]}() {{ return 1; }}\n")
        assert not ask(sources, command), name
        for file in files:
            (lab.root / file).unlink()
        served(sources, command)
        run(lab, command)


@only_19
def test_of_two_sources_of_one_name_the_last_ones_object_is_left(sources: Direct) -> None:
    lab = sources.lab
    command = [lab.compiler, *ARCHS, *BARE, CUID, "-MD", "-c", "k.hip", "sub/k.hip"]
    found = served(sources, command)
    assert found["k.o"] == served(sources, [*command[:-2], "sub/k.hip"])["k.o"]


@only_19
def test_a_dependency_file_in_an_objects_place_is_the_engines_affair(sources: Direct) -> None:
    """What is left depends on the order in which all is written."""
    lab, left = sources.lab, []
    lab.write("sub/link", "")
    for place in ("k.o", "sub/../k.o"):
        command = both(lab, "-MD", "-MF", place)
        for launcher in ((), LAUNCHER, LAUNCHER, LAUNCHER):
            settle()
            assert run(lab, [*launcher, *command]).status == 0
            left.append(((lab.root / "k.o").read_bytes()[:8], (lab.root / "l.o").read_bytes()))
        assert not ask(sources, command)
    assert left == [left[0]] * 8


@only_15
@pytest.mark.skipif(not Path("/usr/bin/hipcc").exists(), reason="no hipcc here")
def test_several_sources_of_hipcc_are_one_direct_hit(sources: Direct) -> None:
    lab = sources.lab
    lab.compiler = "/usr/bin/hipcc"
    command = both(lab)
    assert set(served(sources, command)) == {"k.o", "l.o"}
    assert ask(sources, command)
    assert not ask(sources, [*command[:-2], "l.hip", "k.hip"])
