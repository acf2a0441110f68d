"""Compiles of one side, to assembly or bitcode, with relocatable device code: all that plain clang leaves, cached."""

from __future__ import annotations

from dataclasses import replace as with_changes
from pathlib import Path

import pytest
from hip import ARCHS, CUID, HIT, LAUNCHER, LLVM, Lab, kernel, script, settle, since_19, toolchain
from shapes_lab import ENDS, SOURCE, same, warm, words

pytestmark = pytest.mark.archs(1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.archs(2)
def test_all_files_are_plain_clangs_and_served_again(lab: Lab, end: str) -> None:
    lab.write("k.hip", kernel("1") + SOURCE)
    assert warm(lab, *end.split()).files


@since_19
@pytest.mark.parametrize("more", ["", "--offload-device-only"])
@pytest.mark.archs(2)
def test_a_compressed_bundle_is_the_bundlers(lab: Lab, more: str) -> None:
    plain = warm(lab, *more.split(), "-c", "-o", "out.o")
    packed, counted = same(lab, *more.split(), "-c", "-o", "out.o", "--offload-compress")
    assert packed.status == 0, packed.err
    assert packed.one != plain.one
    assert not counted.missed


@pytest.mark.archs(2)
def test_the_devices_side_alone_is_served_from_a_compile_of_both(lab: Lab) -> None:
    warm(lab, "-c", "-o", "out.o")
    _, counted = same(lab, "-c", "--offload-device-only", "-o", "out.o")
    assert (counted.outcome, counted.served) == (HIT, {"gfx906", "gfx90a"})


def test_the_hosts_side_alone_has_no_gap_for_a_fat_binary(lab: Lab) -> None:
    both = warm(lab, "-c", "-o", "out.o")
    alone, counted = same(lab, "-c", "--offload-host-only", "-o", "out.o")
    assert counted.missed == {"host"}
    assert alone.one != both.one
    again, counted = same(lab, "-c", "-o", "out.o")
    assert (again, counted.outcome) == (both, HIT)


def test_an_architecture_added_is_compiled_alone(lab: Lab) -> None:
    for end in ("-c -fgpu-rdc -o out.o", "-S --offload-device-only"):
        warm(lab, *end.split(), "--offload-arch=gfx906")
        _, counted = same(lab, *end.split(), *ARCHS)
        assert counted.missed == {"gfx90a"}


@pytest.mark.parametrize("end", ["-c -fgpu-rdc -o out.o", "-S -o out.s", "-c --offload-device-only -o out.o"])
def test_messages_are_plain_clangs(lab: Lab, end: str) -> None:
    text = "#pragma unroll 4\nfor (int i = 0; i < p[5]; ++i) { if (p[i]) break; p[i] = 1; }"
    unused = f"__global__ void talks(int* p) {{ int unused = 1;\n{text}\n}}\n"
    lab.write("k.hip", kernel("1") + unused)
    assert b"unused" in warm(lab, *end.split(), "-Wall").err


@pytest.mark.parametrize("end", ["-c -fgpu-rdc -o out.o", "-S -o out.s", "-c --offload-host-only -o out.o"])
def test_a_header_that_changed_is_seen_and_an_error_is_plain_clangs(lab: Lab, end: str) -> None:
    lab.write("k.hip", kernel("VALUE", '#include "value.hpp"'))
    lab.write("value.hpp", "#define VALUE 1\n")
    before = warm(lab, *end.split())
    lab.write("value.hpp", "#define VALUE 2\n")
    after, _ = same(lab, *end.split())
    assert after.one != before.one
    lab.write("k.hip", kernel("nothing"))
    ended, counted = same(lab, *end.split())
    assert (ended.status, counted.outcome) == (1, "failed")


def test_an_object_that_cannot_be_written_leaves_what_plain_clang_leaves(lab: Lab) -> None:
    (lab.root / "taken.o").mkdir()
    for more in (["-o", "taken.o"], ["-o", "nowhere/out.o"], ["-o", "taken.o", "--offload-host-only"]):
        ended, _ = same(lab, "-c", "-MD", "-MF", "rules.d", *more)
        assert ended.status != 0


def test_what_ends_otherwise_shares_no_entry(lab: Lab) -> None:
    ends = ["-c -fgpu-rdc -o o", "-c -emit-llvm -o o", "-S -o o", "-S -emit-llvm -o o", "-c -o o", "-S -fgpu-rdc -o o"]
    ends += ["-c -fgpu-rdc --offload-new-driver -o o", "-c -fgpu-rdc -foffload-lto -o o"]
    ends += ["-c -fgpu-rdc -foffload-lto=thin -o o"]
    found = [same(lab, *end.split())[0].one for end in ends]
    assert len(set(found)) == len(ends)


@pytest.mark.archs(2)
def test_bitcode_that_names_its_checkout_is_not_shared_under_a_base_directory(lab: Lab) -> None:
    # A name in bitcode is no row of bytes: it cannot be looked for.
    found = []
    for name in ("one", "two", "one"):
        source = lab.write(f"{name}/k.hip", kernel("sizeof(__FILE__)", '#include "../hip_in_short.hpp"'))
        env = {"HIPCACHE_BASEDIR": str(lab.root / name)}
        more = ("-x", "hip", source, "-I", str(lab.root), "-c", "-fgpu-rdc", "-o", "out.o")
        line = [word for word in words(lab, *more) if word != "k.hip"]
        settle()
        assert lab.run(line).status == 0
        plain = (lab.root / "out.o").read_bytes()
        assert lab.hipcache(*line, env=env).status == 0
        assert (lab.root / "out.o").read_bytes() == plain
        found.append(lab.counted().missed >= {"gfx906", "gfx90a"})
    assert found == [True, True, False]


def test_bitcode_of_the_users_own_that_changed_is_linked_in_anew(lab: Lab) -> None:
    lab.write(
        "k.hip", kernel("twice(p[2])", 'extern "C" __device__ int twice(int);').partition('extern "C" int host')[0]
    )
    end = ["-c", "--offload-device-only", "--offload-arch=gfx906", "-o", "out.o"]
    end += ["-Xclang", "-mlink-bitcode-file", "-Xclang", "own.bc"]
    objects = []
    for factor in (2, 3):
        lab.write("own.c", f"int twice(int a) {{ return a * {factor}; }}\n")
        made = [lab.compiler, "-x", "c", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx906", "-nogpulib", "-emit-llvm"]
        assert lab.run([*made, "-O1", "-c", "own.c", "-o", "own.bc"]).status == 0
        objects.append(warm(lab, *end).one)
    assert objects[0] != objects[1]


def test_the_program_that_writes_an_objects_sections_is_in_the_bundles_key(lab: Lab, tmp_path: Path) -> None:
    lab = with_changes(lab, compiler=str(toolchain(tmp_path / "llvm", lab.version)))
    real = LLVM[lab.version] / "bin" / "llvm-objcopy"
    script(tmp_path / "llvm" / "bin" / "llvm-objcopy", f'exec {real} "$@"\n')
    before = warm(lab, "-c", "-fgpu-rdc", "-o", "out.o")
    script(tmp_path / "llvm" / "bin" / "llvm-objcopy", f'exec {real} --strip-unneeded "$@"\n')
    after, counted = same(lab, "-c", "-fgpu-rdc", "-o", "out.o")
    assert after.one != before.one
    assert not counted.missed


@pytest.mark.parametrize("end", ["-c -fgpu-rdc", "-c --offload-device-only", "-S"])
def test_a_link_that_the_bundler_writes_through_is_left_to_it(lab: Lab, end: str) -> None:
    warm(lab, *end.split(), "-o", "out.o")
    found = []
    for launcher in ((), LAUNCHER):
        (lab.root / "target").write_text("old")
        (lab.root / "out.o").symlink_to("target")
        assert lab.run([*launcher, *words(lab, *end.split(), "-o", "out.o")]).status == 0
        paths = lab.root / "out.o", lab.root / "target"
        found.append([(path.is_symlink(), path.read_bytes()) for path in paths])
        for path in paths:
            path.unlink()
    assert found[0] == found[1]
    assert lab.counted().reason == "linked_output"


def test_objects_of_one_link_have_different_cuids_that_stay(lab: Lab) -> None:
    lab.write("k.hip", kernel("1") + SOURCE + "void* address() { return (void*)&table; }\n")
    line = [word for word in words(lab, "-c", "-fgpu-rdc") if word != CUID]
    found: dict[str, set[bytes]] = {"one.o": set(), "two.o": set()}
    for _ in range(2):
        for name, seen in found.items():
            assert lab.hipcache(*line, "-o", name).status == 0
            seen.add((lab.root / name).read_bytes())
    assert all(len(seen) == 1 for seen in found.values())
    assert found["one.o"] != found["two.o"]


@pytest.mark.parametrize(
    "end", [["-S", "--offload-device-only", "--offload-arch=gfx906", "-o", "-"], ["-S", "-o", "-"]]
)
def test_standard_output_is_left_to_the_compiler(lab: Lab, end: list[str]) -> None:
    _, counted = same(lab, *end)
    assert (counted.outcome, counted.reason) == ("passed_through", "standard_streams")


LTO = pytest.mark.parametrize("kind", ["-foffload-lto", "-foffload-lto=thin"])


@LTO
@pytest.mark.archs(2)
def test_by_device_lto_an_edit_that_leaves_the_bitcode_runs_no_lto(lab: Lab, kind: str) -> None:
    lab.write("k.hip", kernel("1") + SOURCE)
    first = warm(lab, "-c", kind, "-o", "out.o")
    lab.write("k.hip", kernel("1") + SOURCE + "int of_the_host() { return 4; }\n")
    second, counted = same(lab, "-c", kind, "-o", "out.o")
    assert second.one != first.one
    assert (counted.front_ends, counted.back_ends) == (2, 0)
    lab.write("k.hip", kernel("\n#ifdef __gfx90a__\n2+\n#endif\n1") + SOURCE)
    third, counted = same(lab, "-c", kind, "-o", "out.o")
    assert third.one != first.one
    assert counted.back_ends == 1
    assert "gfx906" not in counted.missed or counted.front_ends == 2


@LTO
def test_by_device_lto_what_the_pass_and_the_flags_say_is_plain_clangs(lab: Lab, kind: str) -> None:
    lab.write("k.hip", kernel("1", "#warning said") + SOURCE)
    for more in ([], ["-O3"], ["-Rpass=inline"], ["-g"], ["-fgpu-sanitize", "-fsanitize=undefined"]):
        warm(lab, "-c", kind, "-o", "out.o", *more)
    # What the linker has to say, which it says without the source.
    loop = "\n#pragma unroll\nfor (int i = 0; i < p[9]; ++i) if (p[i] == 7) { p[i] += i; break; }"
    lab.write("k.hip", kernel("1") + SOURCE.replace("table[p[0]] = ", loop + " table[p[0]] = "))
    assert b"lld: warning" in warm(lab, "-c", kind, "-o", "out.o").err


@pytest.mark.archs(2)
def test_by_device_lto_another_linker_links_again(lab: Lab, tmp_path: Path) -> None:
    compiler = toolchain(tmp_path / "llvm", lab.version)
    lab = with_changes(lab, compiler=str(compiler))
    lld = tmp_path / "llvm" / "bin" / "lld"
    lld.unlink()
    script(lld, f'exec {LLVM[lab.version]}/bin/lld "$@" --build-id=none\n')
    before = warm(lab, "-c", "-foffload-lto", "-o", "out.o")
    script(lld, f'exec {LLVM[lab.version]}/bin/lld "$@" --build-id=0xab\n')
    after, counted = same(lab, "-c", "-foffload-lto", "-o", "out.o")
    assert after.one != before.one
    assert counted.back_ends == 2
