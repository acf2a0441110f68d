"""Host LTO (-flto): the host's output is bitcode, and takes the fat binary whole."""

from __future__ import annotations

from dataclasses import replace as with_changes
from pathlib import Path

import pytest
from direct_lab import Direct
from hip import ARCHS, HIT, LAUNCHER, LLVM, PARTIAL, Compiled, Lab, kernel, replace, script, since_18, toolchain

pytestmark = pytest.mark.archs(1)

ARCH = ("--offload-arch=gfx906",)
SIDES = kernel("1") + '#ifndef __HIP_DEVICE_COMPILE__\n#include "host.hpp"\n#endif\n'


@pytest.fixture
def warm(lab: Lab) -> tuple[Lab, Compiled]:
    lab.write("k.hip", SIDES)
    lab.write("host.hpp", "inline int more() { return 1; }\nint used() { return more(); }\n")
    return lab, lab.warm("-flto")


def test_the_object_is_bitcode(warm: tuple[Lab, Compiled]) -> None:
    assert warm[1].object.startswith(b"BC\xc0\xde")


@pytest.mark.archs(2)
def test_an_architecture_added_runs_its_unit_and_the_hosts_pass(warm: tuple[Lab, Compiled]) -> None:
    lab, before = warm
    after = lab.changed(before, "-flto", *ARCHS, "--offload-arch=gfx1030")
    counted = after.counted
    assert (counted.outcome, counted.missed, counted.back_ends) == (PARTIAL, {"gfx1030", "host"}, 1)
    assert "device code of gfx1030 is new" in lab.hipcache("explain", "out.o").out.decode()


@pytest.mark.archs(2)
def test_fewer_architectures_run_the_hosts_pass_alone(warm: tuple[Lab, Compiled]) -> None:
    lab, before = warm
    assert lab.changed(before, "-flto", *ARCH).counted.missed == {"host"}
    assert lab.compile("-flto").outcome == HIT


def test_an_edit_of_host_code_runs_no_back_end(warm: tuple[Lab, Compiled]) -> None:
    lab, before = warm
    lab.write("k.hip", SIDES + "int another() { return 2; }\n")
    counted = lab.changed(before, "-flto").counted
    assert (counted.missed, counted.back_ends) == ({"host"}, 0)


def test_an_edit_of_a_header_of_the_host_runs_no_device_unit(warm: tuple[Lab, Compiled]) -> None:
    lab, before = warm
    lab.write("host.hpp", "inline int more() { return 2; }\nint used() { return more(); }\n")
    counted = lab.changed(before, "-flto").counted
    assert (counted.missed, counted.front_ends) == ({"host"}, 0)


@pytest.mark.archs(2)
def test_an_edit_of_device_code_reaches_the_host(warm: tuple[Lab, Compiled]) -> None:
    lab, before = warm
    lab.write("k.hip", SIDES.replace("* 7", "* 9"))
    assert lab.changed(before, "-flto").counted.missed == {"gfx906", "gfx90a", "host"}


@pytest.mark.parametrize("flag", ["-flto=thin", "-flto -fvisibility=hidden", "-flto -O1", "-flto -g"])
def test_another_flag_is_another_output(warm: tuple[Lab, Compiled], flag: str) -> None:
    lab, before = warm
    assert "host" in lab.changed(before, *flag.split()).counted.missed
    assert lab.compile("-flto").outcome == HIT


def test_lto_that_is_taken_back_shares_nothing_with_it(warm: tuple[Lab, Compiled]) -> None:
    lab, before = warm
    assert lab.changed(before, "-flto", "-fno-lto").counted.missed == {"host"}


def test_a_code_object_that_the_linker_changed_reaches_the_host(lab: Lab, tmp_path: Path) -> None:
    lab = with_changes(lab, compiler=str(toolchain(tmp_path / "llvm", lab.version)))
    lld = tmp_path / "llvm" / "bin" / "lld"
    script(lld, f'exec {LLVM[lab.version]}/bin/lld "$@" --build-id=none\n')
    before = lab.warm("-flto")
    replace(lld, f'#!/bin/sh\nexec {LLVM[lab.version]}/bin/lld "$@" --build-id=0xab\n'.encode())
    lab.changed(before, "-flto")


def test_another_bundler_runs_the_hosts_pass(lab: Lab, tmp_path: Path) -> None:
    lab = with_changes(lab, compiler=str(toolchain(tmp_path / "llvm", lab.version)))
    bundler = tmp_path / "llvm" / "bin" / "clang-offload-bundler"
    lines = [
        f'exec {LLVM[lab.version]}/bin/clang-offload-bundler "$@" {more}\n'
        for more in ("-bundle-align=4096", "-bundle-align=8192")
    ]
    script(bundler, lines[0])
    before = lab.warm("-flto")
    replace(bundler, b"#!/bin/sh\n" + lines[1].encode())
    assert lab.changed(before, "-flto").counted.missed == {"host"}
    assert "the code objects are bundled differently" in lab.hipcache("explain", "out.o").out.decode()


@since_18
def test_a_variable_that_the_bundler_reads_is_seen(warm: tuple[Lab, Compiled]) -> None:
    lab, before = warm
    assert lab.changed(before, "-flto", env={"OFFLOAD_BUNDLER_COMPRESS": "1"}).counted.missed == {"host"}


def test_the_same_in_another_directory(warm: tuple[Lab, Compiled]) -> None:
    lab, before = warm
    for name in ("k.hip", "host.hpp", "hip_in_short.hpp"):
        lab.write(f"other/{name}", (lab.root / name).read_bytes())
    there = lab.compile("-flto", cwd=lab.root / "other")
    assert (there.object, there.outcome) == (before.object, HIT)


@pytest.mark.parametrize("end", ["-flto", "-flto=thin -g"])
def test_bitcode_that_names_its_checkout_is_not_shared_under_a_base_directory(lab: Lab, end: str) -> None:
    missed = []
    for name in ("one", "two", "one"):
        root = lab.root / name
        lab.write(root / "hip_in_short.hpp", (lab.root / "hip_in_short.hpp").read_bytes())
        source = lab.write(root / "k.hip", kernel("sizeof(__FILE__)"))
        found = lab.compile(*end.split(), source=source, cwd=root, env={"HIPCACHE_BASEDIR": str(root)})
        missed.append("host" in found.counted.missed)
    assert missed == [True, True, False]


def test_a_source_without_kernels(lab: Lab) -> None:
    lab.write("k.hip", "int host() { return 1; }\n")
    lab.warm("-flto")


def test_messages_and_dependencies_are_kept(lab: Lab) -> None:
    lab.write("device.hpp", "\n")
    more = '#ifdef __HIP_DEVICE_COMPILE__\n#include "device.hpp"\n#endif\nstatic int unused;\n'
    lab.write("k.hip", kernel("1") + more)
    found = lab.warm("-flto", "-Wall", "-MD")
    assert "unused" in found.messages
    assert "device.hpp" in found.dependencies


def test_an_error_of_the_hosts_pass_alone_is_plain_clangs(warm: tuple[Lab, Compiled]) -> None:
    lab, _ = warm
    lab.write("host.hpp", "int used() { return nothing; }\n")
    ended = lab.compile("-flto")
    assert (ended.status, ended.outcome) == (1, "failed")


@pytest.mark.files
def test_each_lost_blob_on_its_own_is_recovered_from(warm: tuple[Lab, Compiled]) -> None:
    lab, before = warm
    for path in [path for path in sorted((lab.store / "v2/blobs").rglob("*")) if path.is_file()]:
        path.unlink(missing_ok=True)
        assert lab.run([*LAUNCHER, *lab.words("-flto")]).status == 0
        assert (lab.root / "out.o").read_bytes() == before.object


def test_a_warm_compile_is_a_direct_hit(lab: Lab, tmp_path: Path) -> None:
    direct = Direct(lab, tmp_path / "alone")
    before = lab.warm("-flto", "-MD")
    assert direct.ask("-flto", "-MD")
    assert (lab.root / "out.o").read_bytes() == before.object
    lab.write("hip_in_short.hpp", (lab.root / "hip_in_short.hpp").read_text() + "inline int also() { return 1; }\n")
    assert not direct.ask("-flto", "-MD")
