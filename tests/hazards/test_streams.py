"""Files that can be read but once, or in the user's own process alone: the compiler itself reads them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hip import LAUNCHER, Lab, kernel, only_19
from hipcache.base.paths import names_stream
from in_shell import shell

pytestmark = pytest.mark.archs(1)


@only_19
@pytest.mark.parametrize("where", ["@<(echo -DVALUE=7)", "@/dev/stdin < options", "-include /dev/stdin < header"])
def test_what_can_be_read_but_once_is_read_by_the_compiler(lab: Lab, where: str) -> None:
    lab.write("k.hip", kernel("VALUE"))
    lab.write("options", "-DVALUE=7")
    lab.write("header", "#define VALUE 7\n")
    for _ in range(2):
        assert shell(lab, f'"$@" {where}', *LAUNCHER, *lab.words()) == (0, b"", b"")
        made = (lab.root / "out.o").read_bytes()
        assert shell(lab, f'"$@" {where}', *lab.words()) == (0, b"", b"")
        assert made == (lab.root / "out.o").read_bytes()


@only_19
@pytest.mark.parametrize(
    "where",
    [
        *("-include <(cat header)", "-include /dev/fd/6 6<header", "-include../../../../../../../dev/fd/6 6<header"),
        *("-I/dev/fd/6 -include header.hpp 6<inc", "-idirafter /proc/self/fd/6 -include header.hpp 6<inc"),
        "--config=./more.cfg 6<header",
        *("--config /dev/fd/7 7<options", "-DVALUE=7 -I/dev/fd/6 6<inc"),
        *("-include pipe & cat header >pipe; wait $!", "-DVALUE -include other.hpp -I/proc/self/fd/6 6<inc"),
    ],
)
def test_a_file_that_is_open_in_the_users_shell_is_read_by_the_compiler(lab: Lab, where: str) -> None:
    lab.write("k.hip", kernel("VALUE"))
    lab.write("options", "-DVALUE=7")
    lab.write("more.cfg", "-include /dev/fd/6")
    for name in ("header", "inc/header.hpp"):
        lab.write(name, "#define VALUE 7\n")
    lab.write("inc/other.hpp", "#undef VALUE\n#define VALUE 8\n")
    os.mkfifo(lab.root / "pipe")
    words = lab.words("--cuda-host-only")
    ends = [(shell(lab, f'"$@" {where}', *to, *words), (lab.root / "out.o").read_bytes()) for to in ((), LAUNCHER)]
    assert ends[0][0][0] == 0
    assert ends[1] == ends[0]
    assert lab.counted().reason == "standard_streams"


@only_19
def test_a_compile_that_fails_alone_has_the_files_that_are_open_in_the_users_shell(lab: Lab) -> None:
    lab.write("k.hip", '#include "/dev/fd/6"\n' + kernel("VALUE"))
    lab.write("header", "#define VALUE 7\n")
    for _ in range(2):
        assert shell(lab, '"$@" 6<header', *LAUNCHER, *lab.words("--cuda-host-only")) == (0, b"", b"")
        (lab.root / "out.o").unlink()


@pytest.mark.parametrize("word", ["-I/home/dev/fd", "-I/dev/fdx", "-ffile-prefix-map=/proc/self/cwd=.", "-o", "", "-"])
def test_other_words_name_no_stream(tmp_path: Path, word: str) -> None:
    assert not names_stream(word, str(tmp_path))


@only_19
def test_a_source_from_standard_input_is_that_of_this_command(lab: Lab) -> None:
    for value in ("1", "2"):
        lab.write("input", f'extern "C" int host() {{ return {value}; }}')
        words = lab.words("-x", "hip", source="/dev/stdin")
        assert shell(lab, '"$@" < input', *LAUNCHER, *words) == (0, b"", b"")
        made = (lab.root / "out.o").read_bytes()
        assert shell(lab, '"$@" < input', *words) == (0, b"", b"")
        assert made == (lab.root / "out.o").read_bytes()


@pytest.mark.archs(2)
@pytest.mark.parametrize("target", ["-", "/dev/stdout", "/dev/stderr", "fifo.d"])
def test_a_dependency_file_that_is_a_stream_gets_a_rule_for_each_pass_as_from_clang(lab: Lab, target: str) -> None:
    os.mkfifo(lab.root / "fifo.d")
    command = "exec 3<>fifo.d; " if target == "fifo.d" else ""
    ended = []
    for launcher in ((), LAUNCHER, LAUNCHER):
        words = [*launcher, *lab.words("-MD", "-MF", target)]
        rules = "; timeout 0.5 cat <&3" if target == "fifo.d" else ""
        ended.append(shell(lab, f'{command}"$@"{rules}; true', *words))
    passes = 3 if int(lab.version) < 20 else 1  # (Later ones write a rule for the host's pass alone.)
    assert b"".join(ended[0][1:]).count(b"k.hip") == passes
    assert ended[1:] == [ended[0]] * 2
