"""What passes write beside their output is kept with them, and is plain clang's."""

from __future__ import annotations

from pathlib import Path

import pytest
from blake3 import blake3
from direct_lab import Direct
from hip import ARCHS, HIT, LAUNCHER, Lab, kernel, skip_if_bitcode_is_covered, skip_without_coverage
from shapes_lab import Left, same, warm, words

pytestmark = pytest.mark.archs(1)

OPTIONS = [
    *("-g -gsplit-dwarf", "-fsave-optimization-record", "-fstack-usage", "--coverage"),
    "-Wall --serialize-diagnostics x.dia",
]
ONE_ARCH = "--offload-arch=gfx906"
WARNS = "int odd() { int unused; return 1; }\n"
SOURCE = kernel("VALUE", '#include "value.hpp"') + WARNS + "__global__ void more(int* p) { p[2] = p[3]; }\n"

ENDS = [
    "-g -gsplit-dwarf -c",
    "-g -gsplit-dwarf -c -o sub.o -MD",
    "-g1 -gsplit-dwarf=split -gz -c -o out.o",
    "-g -gsplit-dwarf -c -fgpu-rdc",
    "-g -gsplit-dwarf -c -flto",
    "-g -gsplit-dwarf -c --offload-new-driver",
    "-g -gsplit-dwarf -c --offload-device-only",
    "-g -gsplit-dwarf -c --offload-device-only --no-gpu-bundle-output --offload-arch=gfx908:xnack+",
    "-g -gsplit-dwarf -S",
    "-gsplit-dwarf -c -o out.o",
    "-fsave-optimization-record -c",
    "-fsave-optimization-record -c -o out.o -g -gsplit-dwarf -fstack-usage -MMD",
    "-foptimization-record-file=x.yaml -foptimization-record-passes=inline -c",
    "-foptimization-record-file=x.yaml --offload-device-only -c",
    "-fsave-optimization-record -c -fgpu-rdc -flto",
    "-fstack-usage -c -o out.o",
    "-fstack-usage -c --offload-device-only",
    "-Wall --serialize-diagnostics x.dia -c",
    "-Wall -serialize-diagnostics x.dia -c -fgpu-rdc -o out.o",
    "-Wall --serialize-diagnostics y.dia -S --serialize-diagnostics x.dia",
    "--coverage -c -o out.o",
    "--coverage -g -S",
    "-ftest-coverage -c -fgpu-rdc",
    "-fprofile-arcs -c --offload-host-only",
]


@pytest.fixture
def written(lab: Lab) -> Lab:
    lab.write("value.hpp", "#define VALUE 1\n")
    lab.write("k.hip", SOURCE)
    return lab


def of(option: str) -> list[str]:
    return [*option.split(), "-c", "-o", "out.o"]


def beside(left: Left) -> dict[str, bytes]:
    return {name: content for name, (content, _) in left.files.items() if name != "out.o"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.archs(2)
def test_all_files_are_plain_clangs_and_served_again(written: Lab, end: str) -> None:
    skip_if_bitcode_is_covered(written, end)
    assert warm(written, *end.split()).files


@pytest.mark.parametrize("option", OPTIONS)
def test_an_architecture_added_is_compiled_alone_and_fewer_are_served(written: Lab, option: str) -> None:
    warm(written, *of(option), ONE_ARCH)
    _, counted = same(written, *of(option), *ARCHS)
    assert counted.missed == {"gfx90a"}
    _, counted = same(written, *of(option), "--offload-arch=gfx90a")
    assert counted.outcome == HIT
    _, counted = same(written, *of(option), ONE_ARCH)
    assert counted.outcome == HIT


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.archs(2)
def test_an_edit_is_seen_in_every_file(written: Lab, option: str) -> None:
    before = warm(written, *of(option))
    written.write("k.hip", "\n" + SOURCE + "int another(int a) { return a; }\n")
    after, counted = same(written, *of(option))
    assert beside(after) != beside(before)
    assert "host" in counted.missed
    written.write("value.hpp", "\n/* a line more */\n#define VALUE 7\n")
    same(written, *of(option))
    written.write("value.hpp", "#define VALUE 1\n")
    written.write("k.hip", SOURCE)
    again, counted = same(written, *of(option))
    assert (again, counted.outcome) == (before, HIT)


def test_an_edit_of_a_comment_that_moves_code_is_seen(written: Lab) -> None:
    line = "int call(int a); int two(int a) { return /**/ call(a) + call(a + 1); }\n"
    written.write("k.hip", SOURCE + line)
    before = warm(written, *of("-fsave-optimization-record"))
    written.write("k.hip", SOURCE + line.replace("/**/", "/* longer */"))
    after, _ = same(written, *of("-fsave-optimization-record"))
    assert beside(after) != beside(before)


def test_another_flag_is_another_file(written: Lab) -> None:
    for option in OPTIONS:
        before = warm(written, *of(option))
        after, counted = same(written, *of(option), "-O0")
        assert after != before
        assert "host" in counted.missed
    same(written, *of("-g"))
    same(written, *of("-fsave-optimization-record"), "-foptimization-record-passes=nothing")


@pytest.mark.archs(2)
def test_another_name_of_the_object_is_in_it(written: Lab) -> None:
    first = warm(written, "-g", "-gsplit-dwarf", "-c", "-o", "one.o")
    other = warm(written, "-g", "-gsplit-dwarf", "-c", "-o", "two.o")
    assert sorted(first.files) == ["one.dwo", "one.o", "one_gfx906.dwo", "one_gfx90a.dwo"]
    assert first.files["one.o"] != other.files["two.o"]


@pytest.mark.parametrize("option", OPTIONS)
def test_the_same_in_another_directory(written: Lab, option: str) -> None:
    before = warm(written, *of(option))
    for name in ("k.hip", "value.hpp", "hip_in_short.hpp"):
        written.write(f"other/{name}", (written.root / name).read_bytes())
    there, _ = same(written, *of(option), cwd=written.root / "other")
    assert sorted(there.files) == sorted(before.files)


@pytest.mark.parametrize("option", OPTIONS)
def test_files_that_name_their_checkout_are_not_shared_under_a_base_directory(lab: Lab, option: str) -> None:
    for name in ("one", "two", "one"):
        root = lab.root / name
        lab.write(root / "hip_in_short.hpp", (lab.root / "hip_in_short.hpp").read_bytes())
        source = lab.write(root / "k.hip", kernel("1"))
        line = [*of(option)[:-1], str(root / "out.o"), "-x", "hip", str(source)]
        command = [word for word in words(lab, *line) if word != "k.hip"]
        found = []
        for launcher in ((), LAUNCHER):
            ended = lab.run([*launcher, *command], cwd=root, env={"HIPCACHE_BASEDIR": str(root)})
            skip_without_coverage(ended.err)
            assert ended.status == 0
            new = [path for path in sorted(root.iterdir()) if path.suffix not in (".hip", ".hpp")]
            found.append({path.name: path.read_bytes() for path in new})
            for path in new:
                path.unlink()
        assert found[0] == found[1]


def test_a_file_that_the_user_deleted_comes_back(written: Lab) -> None:
    before = warm(written, *of("-g -gsplit-dwarf"))
    for name in sorted(beside(before)):
        assert written.hipcache(*words(written, *of("-g -gsplit-dwarf"))).status == 0
        (written.root / name).unlink()
        assert written.hipcache(*words(written, *of("-g -gsplit-dwarf"))).status == 0
        assert (written.root / name).read_bytes() == beside(before)[name]


@pytest.mark.files
@pytest.mark.parametrize("damage", [None, b"", b"damaged"])
def test_an_entry_that_is_lost_or_damaged_is_made_anew(written: Lab, damage: bytes | None) -> None:
    command = words(written, *of("-g -gsplit-dwarf -fstack-usage"))
    before = warm(written, *of("-g -gsplit-dwarf -fstack-usage"))
    for path in [path for path in sorted((written.store / "v2/blobs").rglob("*")) if path.is_file()]:
        if damage is None:
            path.unlink(missing_ok=True)
        elif path.exists():
            path.chmod(0o644)
            path.write_bytes(damage)
        assert written.hipcache(*command).status == 0
        for name, (content, _) in before.files.items():
            assert (written.root / name).read_bytes() == content
            (written.root / name).unlink()


def test_a_store_that_cannot_be_written_serves_what_was_compiled(written: Lab) -> None:
    for _ in range(2):
        same(written, *of("-g -gsplit-dwarf"), env={"HIPCACHE_READONLY": "1"})


def test_passes_that_write_none_leave_what_is_there(written: Lab) -> None:
    written.write("k.hip", '#include "hip_in_short.hpp"\nextern "C" __device__ int f(int a) { return a; }\n')
    assert not beside(warm(written, *of("-fstack-usage")))
    written.write("out.su", "old")
    same(written, *of("-fstack-usage"))
    assert (written.root / "out.su").read_text() == "old"


@pytest.mark.archs(2)
def test_of_passes_that_write_one_file_the_last_one_stays(written: Lab) -> None:
    written.write("k.hip", SOURCE + "#ifdef __gfx90a__\n__global__ void only(int* p) { p[1] = 3; }\n#endif\n")
    end = ["-foptimization-record-file=x.yaml", "-O2", "-c", "--offload-device-only", "-o", "out.o"]
    assert b"only" in beside(warm(written, *end))["x.yaml"]
    same(written, *end, "--offload-arch=gfx90a", "--offload-arch=gfx1030")


def test_a_link_is_written_through(written: Lab) -> None:
    before = warm(written, *of("-foptimization-record-file=x.yaml"))
    (written.root / "x.yaml").symlink_to("target")
    for launcher in ((), LAUNCHER):
        (written.root / "target").write_text("old")
        assert written.run([*launcher, *words(written, *of("-foptimization-record-file=x.yaml"))]).status == 0
        assert (written.root / "x.yaml").is_symlink()
        assert (written.root / "target").read_bytes() == beside(before)["x.yaml"]


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/null", "out.o", "./out.o", "out.d"])
def test_what_is_no_file_of_its_own_is_left_to_the_compiler(written: Lab, name: str) -> None:
    _, counted = same(written, *of(f"-foptimization-record-file={name}"), "-MD")
    assert counted.reason == "side_output"


@pytest.mark.parametrize("more", ["-lunused", "--no-such-option"])
def test_messages_of_the_driver_itself_are_in_its_file_as_ever(written: Lab, more: str) -> None:
    _, counted = same(written, *of("-Wall --serialize-diagnostics x.dia"), more)
    assert counted.outcome in ("passed_through", "failed")
    written.write("words", "--serialize-diagnostics x.dia")
    ended, counted = same(written, *of("-Wall @words"))
    assert (ended.status, counted.reason) == (0, "side_output")


def test_a_place_that_does_not_exist_is_plain_clangs_error(written: Lab) -> None:
    ended, _ = same(written, *of("-foptimization-record-file=nowhere/x.yaml"))
    assert ended.status != 0


@pytest.mark.parametrize("option", OPTIONS)
def test_an_object_that_cannot_be_written_is_plain_clangs_error(written: Lab, option: str) -> None:
    (written.root / "taken.o").mkdir()
    for more in (["-o", "taken.o"], ["-o", "nowhere/out.o"], ["-o", "out.o", "-MD", "-MF", "nowhere/out.d"]):
        ended, _ = same(written, *option.split(), "-c", *more)
        assert ended.status != 0


def test_an_error_leaves_what_plain_clang_leaves(written: Lab) -> None:
    for option in OPTIONS:
        warm(written, *of(option))
        written.write("value.hpp", "#ifdef __HIP_DEVICE_COMPILE__\n#define VALUE 1\n#endif\n")
        ended, counted = same(written, *of(option))
        assert (ended.status, counted.outcome) == (1, "failed")
        written.write("value.hpp", "#define VALUE 1\n")


def test_messages_in_a_file_are_served_by_the_engine(written: Lab, tmp_path: Path) -> None:
    """For them the driver removes a file as it plans: that is no mere look."""
    direct = Direct(written, tmp_path / "alone")
    written.warm("-Wall", "--serialize-diagnostics", "x.dia")
    assert not direct.ask("-Wall", "--serialize-diagnostics", "x.dia")


@pytest.mark.files
@pytest.mark.parametrize("option", [option for option in OPTIONS if "diagnostics" not in option])
def test_they_come_with_direct_hits(written: Lab, option: str, tmp_path: Path) -> None:
    direct, flags = Direct(written, tmp_path / "alone"), option.split()
    there = set(written.root.iterdir())
    written.warm(*flags)
    found = {path: path.read_bytes() for path in written.root.iterdir() if path not in there and path.suffix != ".o"}
    assert found
    for path in found:
        path.unlink()
    assert direct.ask(*flags)
    assert {path: path.read_bytes() for path in found} == found
    lost = min(found)
    name = blake3(found[lost]).hexdigest()
    (written.store / "v2/blobs" / name).unlink()
    lost.unlink()
    assert not direct.ask(*flags)
    assert not lost.exists()


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("-g -gsplit-dwarf=single", "temporary_names"),
        ("-g -gsplit-dwarf -foffload-lto", "temporary_names"),
        ("--coverage -flto", "coverage"),
        ("-fstack-usage -Xclang -stack-usage-file -Xclang other.su", "side_output"),
        ("--coverage -emit-llvm", "coverage"),
    ],
)
def test_what_is_not_the_same_twice_is_left_to_the_compiler(written: Lab, option: str, reason: str) -> None:
    ended = written.hipcache(*words(written, *of(option)))
    skip_without_coverage(ended.err)
    assert ended.status == 0
    assert written.counted().reason == reason
