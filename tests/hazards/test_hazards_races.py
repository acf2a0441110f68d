"""Never a wrong object, part 4: what changes while the compile runs.

A compiler of our own (a shell script around clang) makes the change at a known moment of a pass. Whatever that compile
gave, the next one must give what a fresh compile gives: nothing that mixes old and new may have been stored.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace as with_changes
from pathlib import Path

import pytest
from hip import DEVICE_LIBRARIES, HIT, LLVM, Lab, kernel, toolchain, watched_compiler
from toolchains import another_cosine

pytestmark = pytest.mark.archs(1)

BEFORE = "before"  # the pass reads what the change leaves
AFTER = "after"  # the pass has read what was there before


def changing(lab: Lab, tmp_path: Path, moment: str, change: str, passes: str) -> Lab:
    """A compiler that does `change` (once) before or after the first pass whose command has `passes`."""
    real = LLVM[lab.version] / "bin" / "clang"
    once = tmp_path / "once"
    act = f"rm {once}; {change}"
    ran = f'{real} "$@"; status=$?'
    body = f"{act}; {ran}" if moment == BEFORE else f"{ran}; {act}"
    hook = f'if [ -e {once} ]; then case "$*" in *{passes}*) {body}; exit $status;; esac; fi'
    once.touch()
    compiler = watched_compiler(tmp_path / "watched", lab.version, hook)
    return with_changes(lab, compiler=str(compiler))


HOST = "fcuda-include-gpubinary"
DEVICE = "target-cpu?gfx906"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("passes", [HOST, DEVICE], ids=["host", "device"])
@pytest.mark.parametrize("moment", [BEFORE, AFTER])
@pytest.mark.parametrize("name", ["k.hip", "value.hpp"])
def test_a_file_edited_while_a_pass_runs_spoils_nothing(
    lab: Lab, tmp_path: Path, name: str, moment: str, passes: str
) -> None:
    texts = {"k.hip": kernel("VALUE + 1", '#include "value.hpp"'), "value.hpp": "#define VALUE 1\n"}
    for file, text in texts.items():
        lab.write(file, text)
    new = tmp_path / "new"
    new.write_text(texts[name].replace("1", "2"))
    lab = changing(lab, tmp_path, moment, f"cp {new} {lab.root / name}", passes)
    assert lab.hipcache(*lab.words()).status == 0
    lab.counted()
    assert not (tmp_path / "once").exists(), "the change was made"
    lab.compile()
    assert lab.compile().outcome == HIT
    (lab.root / name).write_text(texts[name])
    lab.compile()


@pytest.mark.parametrize("moment", [BEFORE, AFTER])
def test_a_file_replaced_by_an_old_one_while_a_pass_runs_spoils_nothing(lab: Lab, tmp_path: Path, moment: str) -> None:
    lab.write("k.hip", kernel("VALUE", '#include "value.hpp"'))
    header = lab.write("value.hpp", "#define VALUE 1\n")
    other = lab.write("other.hpp", "#define VALUE 2\n")
    for path in (header, other):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    keep = tmp_path / "keep.hpp"
    lab = changing(lab, tmp_path, moment, f"mv {header} {keep}; mv {other} {header}", HOST)
    assert lab.hipcache(*lab.words()).status == 0
    lab.counted()
    lab.compile()
    keep.replace(header)
    lab.compile()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("moment", [BEFORE, AFTER])
@pytest.mark.parametrize("how", ["link", "directory", "parent"])
def test_a_directory_switched_while_a_pass_runs_spoils_nothing(lab: Lab, tmp_path: Path, how: str, moment: str) -> None:
    lab.write("k.hip", kernel("VALUE", "#include <deep/value.hpp>"))
    for number in (1, 2):
        lab.write(f"v{number}/deep/value.hpp", f"#define VALUE {number}\n")
    current = lab.root / "current"
    if how == "link":
        current.symlink_to("v1")
        change = f"ln -s v2 {current}.new; mv -T {current}.new {current}"
    elif how == "directory":
        (lab.root / "v1").rename(current)
        change = f"mv {current} {current}.old; mv {lab.root}/v2 {current}"
    else:
        (lab.root / "v1").rename(current)
        change = f"mv {current}/deep {current}/old; mv {lab.root}/v2/deep {current}/deep"
    lab = changing(lab, tmp_path, moment, change, HOST)
    assert lab.hipcache(*lab.words("-I", "current")).status == 0
    lab.counted()
    lab.compile("-I", "current")


@pytest.mark.parametrize("moment", [BEFORE, AFTER])
def test_a_header_that_appears_while_a_pass_runs_spoils_nothing(lab: Lab, tmp_path: Path, moment: str) -> None:
    lab.write("k.hip", kernel("VALUE", "#include <value.hpp>"))
    (lab.root / "first").mkdir()
    lab.write("second/value.hpp", "#define VALUE 1\n")
    new = lab.write("new.hpp", "#define VALUE 2\n")
    flags = ("-I", "first", "-I", "second")
    lab = changing(lab, tmp_path, moment, f"cp {new} {lab.root}/first/value.hpp", HOST)
    assert lab.hipcache(*lab.words(*flags)).status == 0
    lab.counted()
    lab.compile(*flags)
    (lab.root / "first" / "value.hpp").unlink()
    lab.compile(*flags)


@pytest.mark.parametrize("moment", [BEFORE, AFTER])
def test_a_list_named_by_a_flag_that_changes_while_a_pass_runs_spoils_nothing(
    lab: Lab, tmp_path: Path, moment: str
) -> None:
    lab.write("k.hip", kernel("1") + "int divide(int a, int b) { return a / b; }\n")
    listed = lab.write("list.txt", "fun:nothing\n")
    new = tmp_path / "new"
    new.write_text("fun:*divide*\n")
    flags = ("-fsanitize=integer-divide-by-zero", "-fno-gpu-sanitize", f"-fsanitize-ignorelist={listed}")
    lab = changing(lab, tmp_path, moment, f"cp {new} {listed}", HOST)
    assert lab.hipcache(*lab.words(*flags)).status == 0
    lab.counted()
    lab.compile(*flags)
    listed.write_text("fun:nothing\n")
    lab.compile(*flags)


@pytest.mark.archs(2)
@pytest.mark.parametrize("moment", [BEFORE, AFTER])
def test_device_libraries_that_change_while_a_pass_runs_spoil_nothing(lab: Lab, tmp_path: Path, moment: str) -> None:
    lab.write(
        "k.hip",
        '#include "hip_in_short.hpp"\nextern "C" __device__ float __ocml_cos_f32(float);\n'
        'extern "C" __global__ void kernel(float* p) { p[0] = __ocml_cos_f32(p[1]); }\n',
    )
    bitcode = tmp_path / "bitcode"
    shutil.copytree(DEVICE_LIBRARIES, bitcode)
    other, old = tmp_path / "other.bc", tmp_path / "old.bc"
    ocml = bitcode / "ocml.bc"
    other.write_bytes(another_cosine())
    shutil.copy(ocml, old)
    lab = changing(lab, tmp_path, moment, f"cp {other} {ocml}", DEVICE)
    command = [lab.compiler, "--offload-arch=gfx906", "-nogpuinc", "-O2", "-cuid=5eed", "-c", "k.hip", "-o", "out.o"]
    command.append(f"--rocm-device-lib-path={bitcode}")
    assert lab.hipcache(*command).status == 0
    lab.counted()
    lab.same(command)
    shutil.copy(old, ocml)
    lab.same(command)


@pytest.mark.archs(2)
@pytest.mark.parametrize("moment", [BEFORE, AFTER])
def test_a_linker_that_is_replaced_while_a_pass_runs_spoils_nothing(lab: Lab, tmp_path: Path, moment: str) -> None:
    root = tmp_path / "llvm"
    toolchain(root, lab.version)
    real, lld = LLVM[lab.version] / "bin" / "lld", root / "bin" / "lld"
    texts = [f'#!/bin/sh\nexec {real} "$@" --build-id={kind}\n' for kind in ("none", "0xab")]
    new = tmp_path / "new"
    for path, text in ((lld, texts[0]), (new, texts[1])):
        path.write_text(text)
        path.chmod(0o755)
    once = tmp_path / "once"
    once.touch()
    hook = f'if [ -e {once} ]; then case "$*" in *{DEVICE}*) rm {once}; cp {new} {lld};; esac; fi'
    if moment == AFTER:
        hook = f'if [ -e {once} ]; then case "$*" in *{HOST}*) rm {once}; cp {new} {lld};; esac; fi'
    compiler = watched_compiler(tmp_path / "watched", lab.version, hook)
    # The plan names the linker beside the driver that answers.
    compiler.write_text(compiler.read_text().replace("sed 's#", f"sed -e 's#{real}#{lld}#' -e 's#"))
    lab = with_changes(lab, compiler=str(compiler))
    assert lab.hipcache(*lab.words("--offload-arch=gfx906")).status == 0
    lab.counted()

    def through(path: Path) -> bytes:
        """The object with the linker that is at `path` now, by a store of its own."""
        env = {"HIPCACHE_DIR": str(tmp_path / f"store-{len(list(tmp_path.iterdir()))}")}
        assert lab.hipcache(*lab.words("--offload-arch=gfx906"), env=env).status == 0
        return (lab.root / "out.o").read_bytes()

    for text in (texts[1], texts[0]):
        lld.write_text(text)
        assert lab.hipcache(*lab.words("--offload-arch=gfx906")).status == 0
        made = (lab.root / "out.o").read_bytes()
        assert made == through(lld)
