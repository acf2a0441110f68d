"""The native program asks the storage helper for a whole compile, and starts it where there is none."""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hip import LAUNCHER, Ended, Lab, explained, kernel, settle
from hipcache.remote.helper.commands import read_question
from remote_lab import SECONDS, SERVERS, Server, remote_counts, running, sockets, uploaded
from remote_team import patient, web
from test_prefetch import ARCHES, Machines, webbed

__all__ = ["web", "webbed"]

# The exit status of the engine's stand-in: the native program had no hit.
UNSERVED = 99


@pytest.fixture(params=["nginx", "casd"])
def machines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machines]:
    with running(SERVERS[request.param](tmp_path / "server")) as server:
        found = Machines(tmp_path, patient(server.url))
        yield found
        found.team.end()


def alone(root: Path) -> str:
    """The native program, with an engine that is a storage helper and nothing else."""
    place = root / "alone"
    place.mkdir()
    shutil.copy(LAUNCHER[0], place / "hipcache")
    engine = Path(LAUNCHER[0]).with_name("hipcache-engine")
    script = f'#!/bin/sh\n[ "$1" = --storage-helper ] && exec {engine} "$@"\nexit {UNSERVED}\n'
    (place / "hipcache-engine").write_text(script)
    (place / "hipcache-engine").chmod(0o755)
    return str(place / "hipcache")


def served(lab: Lab, native: str, *words: str) -> Ended:
    return questions(lab, native, *words)[0]


def questions(lab: Lab, native: str, *words: str) -> tuple[Ended, int]:
    """By the native program alone, and how often it was run: on a busy machine a question may find a helper that is not
    up in time, or does not answer in time; what that one fetches is counted then, though nobody waits for it."""
    end, asked = time.monotonic() + 60, 1
    while (ended := lab.run([native, *words])).status == UNSERVED and time.monotonic() < end:
        time.sleep(0.1)
        asked += 1
    return ended, asked


def filled(machines: Machines) -> list[bytes]:
    first = machines.fresh()
    objects = machines.build(first, *ARCHES)
    uploaded(first)
    return objects


def commands(machines: Machines, lab: Lab) -> list[list[str]]:
    """As `Machines.build` runs them."""
    found = []
    for words in machines.commands(lab, *ARCHES):
        found.append([words[0], "-MD", "-MT", "x.o", "-MF", f"{words[-1]}.d", *words[1:]])
    return found


def test_a_compile_is_fetched_whole_and_no_engine_starts(machines: Machines) -> None:
    objects = filled(machines)
    second = machines.fresh(UNKNOWN_TO_THE_FIRST="1")
    native = alone(second.root)
    asked = 0
    for words, content in zip(commands(machines, second), objects, strict=True):
        ended, times = questions(second, native, *words)
        asked += times
        assert (ended.status, ended.out, ended.err) == (0, b"", b"")
        assert (second.root / words[-1]).read_bytes() == content
        assert (second.root / f"{words[-1]}.d").exists()
    assert second.stats()["compiles"]["hit"] == 2  # type: ignore[index]
    assert 2 <= remote_counts(second)["hits"] <= asked


def test_a_whole_build_is_fetched_ahead_and_no_engine_starts(webbed: Machines) -> None:
    filled(webbed)
    second = webbed.fresh()
    native = alone(second.root)
    webbed.listed(second, *ARCHES)
    ended = served(second, native, "prefetch", "--step")
    assert (ended.status, ended.err) == (0, b"")
    assert b"of 2 HIP compiles 2 fetched, 0 already here, 0 to compile" in ended.out
    for words in (["absent.json"], ["--timeout", "5"], ["one", "two"], ["--help"]):
        assert second.run([native, "prefetch", *words]).status == UNSERVED, "the engine says what is wrong"


def test_explain_names_the_remote_of_a_compile_that_came_whole(webbed: Machines) -> None:
    filled(webbed)
    second = webbed.fresh()
    native = alone(second.root)
    (one, *rest), other = commands(webbed, second)
    assert served(second, native, one, *rest).status == 0
    webbed.listed(second, *ARCHES)
    assert b"2 fetched" in served(second, native, "prefetch").out
    for words in ([one, *rest], other):
        end, text = time.monotonic() + SECONDS, ""
        while "note: results came from remote" not in text:
            assert time.monotonic() < end, text
            text = explained(second.environ, str(second.root / words[-1]))
        assert f"'{second.root / words[-1]}'" in text
        assert f"from remote '{webbed.team.url.partition('?')[0]}'" in text
    second.write("k.hip", kernel("8"))
    assert second.run([*LAUNCHER, one, *rest]).status == 0
    assert "is new" not in explained(second.environ, str(second.root / rest[-1])), "it had no inputs to compare with"


def test_compiles_that_ask_at_once_are_all_served_by_one_helper(webbed: Machines) -> None:
    objects = filled(webbed)
    second = webbed.fresh()
    native = alone(second.root)
    with ThreadPoolExecutor(6) as pool:
        ends = list(pool.map(lambda words: served(second, native, *words), commands(webbed, second) * 3))
    assert [one.status for one in ends] == [0] * 6
    assert [(second.root / words[-1]).read_bytes() for words in commands(webbed, second)] == objects
    # One of the first machine, and one of this.
    assert len(sockets(second)) == 2


def test_of_an_edited_source_no_content_is_fetched_and_the_engine_goes_on(webbed: Machines, web: Server) -> None:
    filled(webbed)
    second = webbed.fresh()
    second.write("k.hip", kernel("21"))
    settle()
    words = commands(webbed, second)[0]
    assert second.run([alone(second.root), *words]).status == UNSERVED
    assert remote_counts(second)["hits"] == 0
    assert b"/cas/" not in b"".join(
        line for line in (web.place / "access.log").read_bytes().splitlines() if b"GET" in line
    )


def test_a_header_that_the_record_lists_is_compared_as_ever(webbed: Machines) -> None:
    """The helper has said yes before, and the file is another one by now."""
    filled(webbed)
    second = webbed.fresh()
    native = alone(second.root)
    words = commands(webbed, second)[0]
    assert served(second, native, *words).status == 0
    header = second.root / "hip_in_short.hpp"
    header.write_text(f"{header.read_text()}\ntypedef int another;\n")
    settle()
    assert second.run([native, *words]).status == UNSERVED


@pytest.mark.parametrize("which", ["ac", "cas"])
def test_what_is_damaged_is_compiled(webbed: Machines, web: Server, which: str) -> None:
    objects = filled(webbed)
    for file in (web.place / "www/team" / which).iterdir():
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] + bytes([content[len(content) // 2] ^ 1]))
    second = webbed.fresh()
    assert webbed.build(second, *ARCHES) == objects


@pytest.mark.parametrize("name", ["HIPCACHE_DISABLE", "HIPCACHE_READONLY", "HIPCACHE_RECACHE"])
def test_where_no_remote_is_to_be_asked_none_is(webbed: Machines, name: str) -> None:
    filled(webbed)
    second = webbed.fresh(**{name: "1"})
    before = doors(second)
    assert second.run([alone(second.root), *commands(webbed, second)[0]]).status == UNSERVED
    assert doors(second) == before


def doors(lab: Lab) -> set[str]:
    return {path.name for path in (Path(lab.environ["XDG_RUNTIME_DIR"]) / "hipcache").glob("door-*")}


def test_a_helper_that_says_nothing_costs_a_moment_and_loses_its_door(webbed: Machines) -> None:
    filled(webbed)
    second = webbed.fresh()
    native = alone(second.root)
    before = doors(second)
    words = commands(webbed, second)[0]
    assert served(second, native, *words).status == 0
    (name,) = (one for one in doors(second) - before if not one.endswith(".lock"))
    place = Path(second.environ["XDG_RUNTIME_DIR"]) / "hipcache" / name
    place.unlink()
    directory = os.open(place.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"/proc/self/fd/{directory}/{name}")
        silent.listen()
        shutil.rmtree(second.store / "v2")
        assert second.run([native, *words]).status == UNSERVED
    os.close(directory)
    assert not place.exists()


def test_who_waits_in_vain_for_the_turn_to_read_reads_itself(webbed: Machines) -> None:
    """With a new store one compile reads the compiler's files for all: this one never ends."""
    filled(webbed)
    second = webbed.fresh()
    place = Path(second.environ["XDG_RUNTIME_DIR"]) / "hipcache/reading.lock"
    with place.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert served(second, alone(second.root), *commands(webbed, second)[0]).status == 0


def test_an_engine_that_cannot_start_is_not_started_by_each_compile(webbed: Machines) -> None:
    second = webbed.fresh()
    native = alone(second.root)
    log = second.root / "starts"
    Path(native).with_name("hipcache-engine").write_text(f"#!/bin/sh\necho $1 >> {log}\nexit {UNSERVED}\n")
    words = commands(webbed, second)[0]
    for _ in range(3):
        assert second.run([native, *words]).status == UNSERVED
    assert log.read_text().split().count("--storage-helper") == 1


def test_a_local_hit_makes_the_same_system_calls_with_a_remote(webbed: Machines) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    lab = webbed.fresh(HIPCACHE_REMOTE="", HIPCACHE_RESIDENT="0")
    words = commands(webbed, lab)[0]
    lab.run([*LAUNCHER, *words])
    lab.run([*LAUNCHER, *words])
    native = alone(lab.root)
    calls = []
    for url in ("", webbed.team.url):
        trace = lab.root / "trace"
        ended = lab.run([strace, "-o", str(trace), native, *words], env={"HIPCACHE_REMOTE": url})
        if b"ptrace" in ended.err:
            pytest.skip("no process may be traced here")
        assert ended.status == 0
        calls.append([line.partition("(")[0] for line in trace.read_text().splitlines()])
    assert calls[0] == calls[1]


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        (b"ask\n", b""),
        (b"ask 4\n", b"a\0b\0"),
        (b"ask x 1\n", b"a\0b\0"),
        (b"ask 4 0\n", b"a\0b\0"),
        (b"ask -1 1\n", b"a\0b\0"),
        (b"ask 4 2\n", b"a\0b\0"),
        (b"ask 5 1\n", b"a\0b\0"),
        (b"ask 4 1\n", b"a\0bc"),
        (b"ask 99999999 1\n", b"a\0b\0"),
    ],
)
def test_what_is_no_question_is_refused(line: bytes, rest: bytes) -> None:
    with pytest.raises(ValueError, match=r"size|cut|few|unpack|literal"):
        read_question(line, io.BytesIO(rest))


def test_a_question_has_directory_words_and_variables() -> None:
    text = b"/work\0clang++\0\0-c\0A=b=c\0B=\xff\0"
    asked = read_question(b"ask %d 3\n" % len(text), io.BytesIO(text))
    assert (asked.ahead, asked.cwd, asked.argv) == (False, "/work", ("clang++", "", "-c"))
    assert asked.environ == {"A": "b=c", "B": "\udcff"}
