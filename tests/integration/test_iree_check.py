"""`hipcache iree-check`: what a module is built for, whether it fits, and what it says of files that are none."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from hipcache import cli
from hipcache.iree import module
from hipcache.iree.module import BadModule, Wanted
from iree_lab import AMDGPU, HIP, LOCAL, PROGRAM, SCRIPT, made, needs_iree

pytestmark = needs_iree

MIXED = (*HIP, "--iree-rocm-container-type=amdgpu")


def check(*words: str | Path) -> tuple[int, str, str]:
    """(exit status, standard output, standard error)."""
    out, err = io.StringIO(), io.StringIO()
    status = cli.run(["iree-check", *map(str, words)], os.environ, out, err)
    return status, out.getvalue(), err.getvalue()


BUILT = {
    "hip": (HIP, ("hip",), ("rocm-hsaco-fb",), ("gfx942",), "--device=hip"),
    "amdgpu": (AMDGPU, ("amdgpu",), ("gfx942",), ("gfx942",), "--device=amdgpu"),
    "local": (LOCAL, ("local",), ("embedded-elf-x86_64",), (), "--device=local-task"),
    "no zip": ((*HIP, "--iree-vm-emit-polyglot-zip=false"), ("hip",), ("rocm-hsaco-fb",), ("gfx942",), "--device=hip"),
}


@pytest.mark.parametrize("case", BUILT)
def test_a_module_says_for_what_it_is_built_and_how_to_run_it(case: str) -> None:
    flags, devices, formats, archs, flag = BUILT[case]
    path = made("matmul", *flags)
    found = module.read(str(path))
    assert (found.devices, found.formats, found.archs, found.executables) == (devices, formats, archs, 1)
    status, out, err = check(path)
    assert (status, err) == (0, "")
    assert f"iree-run-module {flag} --module={path}" in out


def test_a_module_for_another_device_does_not_fit_in_one_line() -> None:
    path = made("matmul", *AMDGPU)
    status, out, err = check(path, "--device=hip")
    assert (status, out) == (1, "")
    assert err == (
        f"hipcache: '{path}' is built for amdgpu gfx942, not for hip: run it with --device=amdgpu, "
        "or compile it with --iree-hal-target-device=hip\n"
    )
    assert check(path, "--device=amdgpu")[0] == 0


def test_a_module_for_another_target_does_not_fit_and_a_product_is_its_architecture() -> None:
    path = made("matmul", *HIP)
    status, _, err = check(path, "--device=hip", "--target=gfx90a")
    assert status == 1
    assert err == f"hipcache: '{path}' is built for gfx942, not for gfx90a: compile it with --iree-rocm-target=gfx90a\n"
    assert check(path, "--device=hip", "--target=mi300x")[0] == 0


def test_a_name_that_says_another_device_or_target_does_not_fit(tmp_path: Path) -> None:
    for name, status in (("m.hip.gfx942.vmfb", 0), ("m.amdgpu.gfx942.vmfb", 1), ("m.hip.gfx90a.vmfb", 1)):
        shutil.copy(made("matmul", *HIP), tmp_path / name)
        assert check(tmp_path / name)[0] == status, name


def test_a_container_of_the_other_device_is_found() -> None:
    """Which iree-compile makes without a word."""
    status, _, err = check(made("matmul", *MIXED))
    assert status == 1
    assert "asks for hip and holds a container of amdgpu" in err and err.count("\n") == 1


def test_processors_run_modules_for_local_by_either_driver() -> None:
    found = module.read(str(made("matmul", *LOCAL)))
    assert not module.misfit(found, Wanted("local-sync")) and not module.misfit(found, Wanted("local"))
    assert module.misfit(found, Wanted("hip"))


def test_a_manifest_lists_each_module_with_device_target_and_digest(tmp_path: Path) -> None:
    paths = [made("matmul", *flags) for flags in (HIP, AMDGPU)]
    assert check(*paths, f"--manifest={tmp_path / 'm.json'}", "--quiet") == (0, "", "")
    listed = json.loads((tmp_path / "m.json").read_text())["modules"]
    assert [(one["device"], one["target"], one["run"]) for one in listed] == [
        ("hip", "gfx942", "--device=hip"),
        ("amdgpu", "gfx942", "--device=amdgpu"),
    ]
    assert [one["sha256"] for one in listed] == [sha256(path.read_bytes()).hexdigest() for path in paths]
    assert (tmp_path / listed[0]["file"]).resolve() == paths[0].resolve()


@pytest.mark.parametrize("form", ["hip", "no zip"])
def test_a_module_that_is_cut_anywhere_is_damaged(form: str) -> None:
    raw = made("matmul", *BUILT[form][0]).read_bytes()
    lengths = [*range(0, 400, 7), *range(400, len(raw), 211), len(raw) - 1]
    for length in lengths:
        with pytest.raises((BadModule, ValueError)):
            module.parse("m.vmfb", raw[:length])


def test_a_module_with_any_byte_changed_reads_or_is_damaged() -> None:
    raw = bytearray(made("matmul", *BUILT["no zip"][0]).read_bytes())
    for place in range(0, len(raw), 17):
        changed = bytes(raw[:place]) + bytes([raw[place] ^ 0xFF]) + bytes(raw[place + 1 :])
        try:
            module.parse("m.vmfb", changed)
        except (BadModule, ValueError):
            continue


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[dict[str, bytes]]:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("text", "no module")
    zipped = (tmp_path / "other.zip").read_bytes()
    raw = bytearray(made("matmul", *HIP).read_bytes())
    raw[200] ^= 1
    yield {
        "is empty": b"",
        "is no module of IREE": b"func.func @f()\n" * 40,
        "is a code object or a shared library": Path(PROGRAM).read_bytes()[:4096],
        "is a zip file without a module": zipped,
        "does not have its checksum": bytes(raw),
    }


def test_files_that_are_no_modules_are_named_for_what_they_are(tmp_path: Path, foreign: dict[str, bytes]) -> None:
    for what, content in foreign.items():
        (tmp_path / "m.vmfb").write_bytes(content)
        status, _, err = check(tmp_path / "m.vmfb")
        assert status == 1 and what in err and "Traceback" not in err, err
    assert "cannot read" in check(tmp_path / "none.vmfb")[2]


def test_the_flag_that_is_told_runs_the_module() -> None:
    path = made("two", *LOCAL)
    flag = module.flag(module.read(str(path)))
    words = [SCRIPT.replace("iree-compile", "iree-run-module"), flag, f"--module={path}", "--function=scale"]
    done = subprocess.run([*words, "--input=16xf32=2"], capture_output=True, text=True, timeout=60, check=True)
    assert "16xf32=4 4 4" in done.stdout
