"""The logs of a build's compiles, which native hits write themselves: the statistics log, and HIPCACHE_LOG."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hip import ENGINE_ALONE, LAUNCHER, Lab, only_19
from hipcache import cli
from hipcache.report import stats_log
from hipcache.report.outcome import CompileOutcome, UnitOutcome

pytestmark = pytest.mark.archs(1)

WORD = '-DWORD="a\\ b"'
MISS = CompileOutcome(
    "miss", units=(UnitOutcome("gfx906", False, False, False, ("first compile",), 1.5), UnitOutcome("host", False))
)


@pytest.fixture
def alone(lab: Lab, tmp_path: Path) -> Path:
    """The launcher without an engine: it fails where it is no direct hit."""
    (tmp_path / "alone").mkdir()
    shutil.copy(LAUNCHER[0], tmp_path / "alone")
    engine = tmp_path / "alone/hipcache-engine"
    engine.write_text("#!/bin/sh\nexit 99\n")
    engine.chmod(0o755)
    return tmp_path / "alone/hipcache"


def stats(lab: Lab, *words: str, status: int = 0) -> str:
    out, err = io.StringIO(), io.StringIO()
    assert cli.run(["stats", *words], lab.environ, out, err) == status, err.getvalue()
    return out.getvalue() + err.getvalue()


@only_19
@pytest.mark.archs(2)
def test_a_miss_and_a_native_hit_are_lines_whose_sum_is_that_of_the_store(lab: Lab, alone: Path) -> None:
    log = lab.root / "a log.jsonl"
    lab.warm()  # without the variable: it is no part of what a direct hit depends on
    stats(lab, "--zero")
    lab.write("other.hip", (lab.root / "k.hip").read_text() + "int more;\n")
    env = {"HIPCACHE_STATS_LOG": str(log)}
    assert lab.hipcache(*lab.words(source="other.hip"), env=env).status == 0
    assert lab.run([alone, *lab.words()], env=env).status == 0
    missed, hit = stats_log.read(log)
    assert (missed.direct, hit.direct) == (False, True)
    assert {missed.object, hit.object} == {str(lab.root / "out.o")}
    assert missed.outcome != "hit"
    assert hit.outcome == "hit"
    assert missed.began < hit.began < hit.began + hit.seconds
    assert missed.seconds > hit.seconds
    assert any(unit.why for unit in missed.units)
    of_log, of_store = json.loads(stats(lab, "--stats-log", str(log), "--json")), json.loads(stats(lab, "--json"))
    assert of_log.pop("since") == pytest.approx(missed.began)
    average = of_log.pop("average_seconds")
    assert average["miss"] > average["hit"] > 0
    average = of_store.pop("average_seconds")
    assert average["miss"] > average["hit"] > 0
    del of_store["since"]
    assert of_log == of_store
    assert of_store["timed"] == {"miss": 1, "hit": 1}
    lab.environ |= env
    assert stats(lab, "--stats-log", "--markdown").startswith("### hipcache")


@only_19
@pytest.mark.parametrize("form", ["text", "json"])
def test_who_wants_a_log_is_served_by_the_native_program_and_reads_the_same_line(
    lab: Lab, alone: Path, form: str
) -> None:
    log = lab.root / "log"
    env = {"HIPCACHE_LOG": str(log), "HIPCACHE_LOG_FORMAT": form}
    lab.warm(WORD)
    assert lab.run([*ENGINE_ALONE, *lab.words(WORD)], env=env).status == 0
    assert lab.run([alone, *lab.words(WORD)], env=env).status == 0
    engine, native = log.read_text().splitlines()
    if form == "text":
        hidden = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d \d+ ")
        assert hidden.sub("", engine) == hidden.sub("", native)
        assert native.endswith(" hit   " + " ".join(lab.words(WORD)))
        return
    of_engine, of_native = json.loads(engine), json.loads(native)
    assert of_native["command"] == of_engine["command"] == lab.words(WORD)
    assert of_native["counted"] == [f"{of_engine['counted'][0]}\tdirect ..."]
    assert (of_engine.pop("units") != [], of_native["direct"]) == (True, True)
    assert of_native.keys() == of_engine.keys()


@only_19
@pytest.mark.parametrize("text", ["stats_log: {}\n", "HIPCACHE_STATS_LOG: {}\nlog_format: json\n"])
def test_a_config_file_may_name_the_log(lab: Lab, alone: Path, text: str) -> None:
    log = lab.root / "stats.jsonl"
    lab.write(lab.root.parent / "home/.config/hipcache/hipcache.yaml", text.format(log))
    lab.warm()
    assert lab.run([alone, *lab.words()]).status == 0
    assert [one.direct for one in stats_log.read(log)][-1]


@only_19
def test_a_log_that_only_the_engine_can_name_is_left_to_it(lab: Lab, alone: Path) -> None:
    lab.warm()
    for variables in ({"HIPCACHE_LOG": "~/log"}, {"HIPCACHE_STATS_LOG": "log"}, {"HIPCACHE_LOG_FORMAT": "xml"}):
        assert lab.run([alone, *lab.words()], env=variables).status == 99
    lab.write(lab.root.parent / "home/.config/hipcache/hipcache.yaml", "'log': /tmp/log\n")
    assert lab.run([alone, *lab.words()]).status == 99
    ended = lab.run(["/bin/true"])
    assert lab.run([*LAUNCHER, *lab.words()], env={"HIPCACHE_LOG": "~/log"}).status == ended.status
    assert " hit " in (lab.root.parent / "home/log").read_text()


@only_19
def test_a_compile_of_plain_cxx_and_one_that_is_refused_are_lines_too(lab: Lab, alone: Path) -> None:
    lab.warm()
    log = lab.root / "stats.jsonl"
    lab.write("plain.cpp", "int x;\n")
    env = {"HIPCACHE_STATS_LOG": str(log)}
    assert lab.run([alone, "g++", "-c", "plain.cpp", "-o", "plain.o"], env=env).status == 0
    lab.run([*LAUNCHER, *lab.words("--no-such-option")], env=env)
    left, refused = stats_log.read(log)
    assert (left.outcome, left.reason, left.object) == ("passed_through", "not_hip", str(lab.root / "plain.o"))
    assert refused.outcome == "failed"
    assert left.directory == str(lab.root)


@only_19
def test_native_hits_at_once_do_not_mix_their_lines(lab: Lab, alone: Path) -> None:
    lab.warm()
    log = lab.root / "stats.jsonl"
    with ThreadPoolExecutor(8) as pool:
        words, env = [alone, *lab.words()], {"HIPCACHE_STATS_LOG": str(log)}
        assert {ended.status for ended in pool.map(lambda _: lab.run(words, env=env), range(40))} == {0}
    assert len(log.read_text().splitlines()) == len(list(stats_log.read(log))) == 40


@only_19
def test_a_log_that_cannot_be_written_costs_no_hit_and_is_told(lab: Lab, alone: Path) -> None:
    lab.warm()
    ended = lab.run([alone, *lab.words()], env={"HIPCACHE_STATS_LOG": "/proc/none/log"})
    assert ended.status == 0
    assert b"cannot write the log '/proc/none/log'" in ended.err


@only_19
@pytest.mark.parametrize("small_disk", ["16k"], indirect=True)
@pytest.mark.parametrize("variable", ["HIPCACHE_STATS_LOG", "HIPCACHE_LOG"])
@pytest.mark.parametrize("by", ["launcher", "engine"])
def test_a_line_that_has_only_half_its_room_is_told_and_not_begun(
    lab: Lab, alone: Path, small_disk: Path, variable: str, by: str
) -> None:
    lab.warm()
    log, filler = small_disk / "log", small_disk / "filler"
    before = "\n" * 4090
    log.write_text(before)
    with pytest.raises(OSError, match="No space left"), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(1024))
    env = {variable: str(log), "HIPCACHE_LOG_FORMAT": "json"}
    words = [alone] if by == "launcher" else ENGINE_ALONE
    ended = lab.run([*words, *lab.words()], env=env)
    assert (ended.status, ended.err.decode()) == (
        0,
        f"hipcache: cannot write the log '{log}': No space left on device\n",
    )
    assert log.read_text() == before
    filler.unlink()
    assert lab.run([*words, *lab.words()], env=env).err == b""
    assert [one.outcome for one in stats_log.read(log)] == ["hit"]


@only_19
@pytest.mark.parametrize("by", ["launcher", "engine"])
def test_a_long_line_goes_whole_into_a_pipe_that_is_read(lab: Lab, alone: Path, by: str) -> None:
    long = f"-DLONG={'x' * 100_000}"  # more than a pipe has room for
    lab.warm(long)
    pipe = lab.root / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    with open(reader, "rb") as file, ThreadPoolExecutor(1) as pool:
        keeper = os.open(pipe, os.O_WRONLY)  # until then there is no end of file
        text = pool.submit(file.read)
        words = [alone] if by == "launcher" else ENGINE_ALONE
        ended = lab.run(
            [*words, *lab.words(long)], env={"HIPCACHE_LOG": str(pipe), "HIPCACHE_LOG_FORMAT": "json"}, seconds=60
        )
        os.close(keeper)
        told = json.loads(text.result(60))
    assert (ended.status, ended.err) == (0, b"")
    assert told["command"] == lab.words(long)


@only_19
@pytest.mark.parametrize("variable", ["HIPCACHE_STATS_LOG", "HIPCACHE_LOG"])
def test_a_pipe_that_nobody_reads_holds_no_compile_up(lab: Lab, alone: Path, variable: str) -> None:
    lab.warm()
    pipe = lab.root / "pipe"
    os.mkfifo(pipe)
    lab.write("plain.cpp", "int x;\n")
    reader = -1
    try:
        for state in ("nobody has it open", "it is full"):
            by_engine = [*LAUNCHER, *lab.words(f"-D{state.replace(' ', '_')}")]
            for words in [alone, *lab.words()], by_engine, [alone, "g++", "-c", "plain.cpp", "-o", "plain.o"]:
                ended = lab.run(words, env={variable: str(pipe)}, seconds=60)
                assert ended.status == 0, state
                assert b"cannot write the log" in ended.err
            if reader < 0:
                reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
                full = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
                with pytest.raises(BlockingIOError):
                    while True:
                        os.write(full, bytes(4096))
                os.close(full)
    finally:
        if reader >= 0:
            os.close(reader)


@only_19
@pytest.mark.parametrize("what", ["a direct hit", "plain C++"])
def test_a_log_whose_reader_has_gone_ends_nothing(lab: Lab, alone: Path, what: str) -> None:
    lab.warm()
    lab.write("plain.cpp", "int x;\n")
    words = {
        "a direct hit": lab.words(),
        "plain C++": ["g++", "-c", "plain.cpp", "-o", "plain.o"],
    }[what]
    expected = subprocess.run(words, cwd=lab.root, env=lab.environ, stderr=subprocess.DEVNULL, timeout=60, check=False)
    lab.run([*LAUNCHER, *words])
    read, write = os.pipe()
    os.close(read)
    try:
        ended = subprocess.run(
            [alone, *words],
            cwd=lab.root,
            env={**lab.environ, "HIPCACHE_LOG": f"/proc/self/fd/{write}"},
            pass_fds=[write],
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write)
    assert ended.returncode == expected.returncode


def test_a_line_reads_as_what_was_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    path = "k\udcff.o"
    text = stats_log.line(MISS, began=10.0, now=12.5, cwd="/build", path=path)
    log.write_text(f"# a comment\n\n{text}\n{text[:40]}\n", encoding="utf-8", errors="surrogateescape")
    (one,) = stats_log.read(log)
    assert (one.outcome, one.seconds, one.object) == ("miss", 2.5, f"/build/{path}")
    assert [(unit.name, unit.seconds, unit.why) for unit in one.units] == [
        ("gfx906", 1.5, ("first compile",)),
        ("host", 0.0, ()),
    ]
    assert stats_log.total(log).compiles["miss"] == 1


def test_what_is_no_log_is_told(lab: Lab) -> None:
    lab.write("other", "what\nis this\n")
    assert "is not a statistics log\n  set HIPCACHE_STATS_LOG" in stats(
        lab, "--stats-log", str(lab.root / "other"), status=1
    )
    assert "cannot read the statistics log" in stats(lab, "--stats-log", str(lab.root / "none"), status=1)
    assert "needs a FILE, because HIPCACHE_STATS_LOG is not set" in stats(lab, "--stats-log", status=1)
    assert "--since" in stats(lab, "--stats-log", "x", "--zero", status=1)
