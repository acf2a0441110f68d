"""Options of configuration files and of CCC_OVERRIDE_OPTIONS: the driver puts them before those of the command, and so
before hipcache's own."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest
from at_once import both
from direct_lab import Direct
from hip import BARE, CUID, HIT, LAUNCHER, Lab, explained, in_terminal, only_19, write_files
from hipcache.clang.driver import configuration_words

pytestmark = pytest.mark.archs(1)

STATIC = """\
#include "hip_in_short.hpp"
static __device__ int counter = 1;
void* address() { return (void*)&counter; }
int main() { return address() == 0; }
"""


def configured(lab: Lab, config: str) -> list[str]:
    """The words that read such a configuration file."""
    lab.write("own.cfg", config)
    return ["--config", "./own.cfg"]


def without_cuid(lab: Lab, *flags: str) -> list[str]:
    return [word for word in lab.words(*flags) if word != CUID]


# A CUID


@pytest.mark.parametrize("option", ["-cuid=mine", "-fuse-cuid=none"])
@pytest.mark.parametrize("flag", ["-fgpu-rdc", "-fno-gpu-rdc"])
def test_a_cuid_of_a_configuration_file_is_the_objects(lab: Lab, option: str, flag: str) -> None:
    lab.write("k.hip", STATIC)
    command = without_cuid(lab, flag, *configured(lab, option))
    assert lab.same(command).status == 0
    assert lab.same(command).outcome == HIT, explained(lab.environ)


@only_19
def test_that_of_an_edit_is(lab: Lab) -> None:
    lab.write("k.hip", STATIC)
    for edit in ("#^-fuse-cuid=none", "#+-cuid=mine"):
        for _ in range(2):
            made = lab.same(without_cuid(lab), env={"CCC_OVERRIDE_OPTIONS": edit})
        assert made.outcome == HIT, (edit, explained(lab.environ))


@pytest.mark.parametrize("flag", ["-fgpu-rdc", "-fno-gpu-rdc"])
def test_a_cuid_of_a_configuration_file_is_the_programs(lab: Lab, monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    monkeypatch.setattr("at_once.CUID", "-DQ")
    lab.write("k.hip", STATIC)
    flags = ["-nostdlib", "-shared", "-fPIC", flag, *configured(lab, "-cuid=mine")]
    for _ in range(2):
        made = both(lab, "k.hip", *lab.archs, *flags, libraries=("-no-hip-rt",))
        assert made.ended.status == 0, made.ended.err
    assert made.counted.outcome == HIT, explained(lab.environ)


# The width of messages


NARROW = {"TERM": "xterm", "COLUMNS": "60"}
WIDE = """\
[[nodiscard]] int a_function_with_a_long_name(int, int);
int use() { a_function_with_a_long_name(1000000, 2000000); return a_function_with_a_long_name(3000000, 4000000); }
"""


@pytest.mark.parametrize("edit", [False, True], ids=["file", "edit"])
def test_a_width_of_messages_is_the_one_on_a_terminal(lab: Lab, edit: bool) -> None:
    lab.write("k.hip", WIDE)
    if edit and lab.version == "15":
        pytest.skip("it knows no such edits")
    words = lab.words(*([] if edit else configured(lab, "-fmessage-length=0")))
    env = lab.environ | NARROW | ({"CCC_OVERRIDE_OPTIONS": "#^-fmessage-length=0"} if edit else {})
    time.sleep(0.05)
    plain = in_terminal(words, lab.root, env)
    assert b"a_function_with_a_long_name" in plain[1]
    assert b"..." not in plain[1]
    for _ in range(2):
        assert in_terminal([*LAUNCHER, *words], lab.root, env) == plain


def test_it_is_that_of_a_program(lab: Lab) -> None:
    lab.write("k.hip", WIDE)
    for flag in ("-fno-gpu-rdc", "-fgpu-rdc"):
        end = ["-nostdlib", "-no-hip-rt", "-shared", "-fPIC", flag, "k.hip", "-o", "k.so"]
        words = [lab.compiler, *lab.archs, *BARE, CUID, *configured(lab, "-fmessage-length=0"), *end]
        plain, cached = (in_terminal([*first, *words], lab.root, lab.environ | NARROW)[1] for first in ([], LAUNCHER))
        assert b"..." not in plain
        # ld names temporary objects.
        assert re.sub(rb"-[0-9a-f]{6}\b", b"", cached) == re.sub(rb"-[0-9a-f]{6}\b", b"", plain)


# Words of such files


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-O1 \\\n-MJ x.json\n", ["-O1", "-MJ", "x.json"]),
        ("-O1\\\r\n-MJ\r\n-g", ["-O1-MJ", "-g"]),
        ("# all of it \\\n -g # not\n", ["-g", "#", "not"]),
        ("-g \\\n#no comment\n\n\t# one\n-O1", ["-g", "#no", "comment", "-O1"]),
        ("-DX='a b' \"-DY=c\n-g\n", ["-DX=a b", "-DY=c", "-g"]),
        ('-DX=\\"a\\\\ \\', ['-DX="a\\', "\\"]),
        ("-I<CFGDIR>/include @more.cfg -g\n", ["-I{root}/include", "-I{root}", "-MJ", "x.json", "-g"]),
        ("@<CFGDIR>/sub/more.cfg", ["-I{root}/sub", "-DX={root}/sub/"]),
        ("@sub/inner.cfg", ["-I{root}/sub", "-DX={root}/sub/"]),
        ("\ufeff-MJx.json", ["-MJx.json"]),
    ],
)
def test_words_are_those_that_clang_reads(tmp_path: Path, text: str, words: list[str]) -> None:
    files = {
        "own.cfg": text,
        "more.cfg": "# more\n-I<CFGDIR> \\\n -MJ x.json",
        "sub/more.cfg": "-I<CFGDIR> -DX=<CFGDIR>/",
        "sub/inner.cfg": "@more.cfg",
    }
    write_files(tmp_path, files)
    (tmp_path / "own.cfg").write_bytes(text.encode())
    assert configuration_words(f"{tmp_path}/own.cfg") == [word.replace("{root}", str(tmp_path)) for word in words]
    (tmp_path / "own.cfg").write_bytes(text.removeprefix("\ufeff").encode("utf-16"))
    assert configuration_words(f"{tmp_path}/own.cfg") == [word.replace("{root}", str(tmp_path)) for word in words]


@only_19
@pytest.mark.parametrize(
    ("config", "made", "reason"),
    [
        ("-O1 \\\n-gen-cdb-fragment-path cdb\n", "cdb", "temporary_names"),
        ("-O1 \\\n-MJ x.json", "x.json", "temporary_names"),
        ("-O1 \\\n-fproc-stat-report=x.csv", "x.csv", "side_output"),
        ("@sub/more.cfg", "x.json", "temporary_names"),
        ("@<CFGDIR>/sub/more.cfg", "x.json", "temporary_names"),
        ("--config=./inner.cfg", "x.json", "plan"),
    ],
)
def test_an_option_for_another_file_is_found_anywhere(lab: Lab, config: str, made: str, reason: str) -> None:
    write_files(lab.root, {"inner.cfg": "-MJ x.json", "sub/more.cfg": "@inner.cfg", "sub/inner.cfg": "-MJ x.json"})
    for _ in range(2):
        assert lab.hipcache(*lab.words(*configured(lab, config))).status == 0
        assert lab.counted().reason == reason
        (lab.root / made).rename(lab.root / "away")
        if (lab.root / "away").is_dir():
            shutil.rmtree(lab.root / "away")


def test_a_random_cuid_in_a_continued_line_is_left_to_the_compiler(lab: Lab) -> None:
    lab.hipcache(*without_cuid(lab, *configured(lab, "-O1 \\\n-fuse-cuid=random")))
    assert lab.counted().reason == "random_cuid"


@only_19
def test_a_processor_that_a_file_within_asks_for_leaves_no_direct_hit(lab: Lab, tmp_path: Path) -> None:
    write_files(lab.root, {"inner.cfg": "-march=native", "sub/more.cfg": "@../inner.cfg"})
    direct = Direct(lab, tmp_path / "launcher")
    for config in ("--config=./inner.cfg", "@sub/more.cfg"):
        flags = configured(lab, config)
        for _ in range(2):
            lab.compile(*flags)
        assert not direct.ask(*flags)
