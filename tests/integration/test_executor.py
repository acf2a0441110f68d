"""Back ends and device links that workers of a server run: what comes back is what this machine would have made, and
whatever goes wrong there, it is made here."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from executor_lab import Liar, contents, lying, result, staying
from hip import LAUNCHER, MISS, Lab, kernel
from hipcache.config import Config
from hipcache.executor import workers
from hipcache.processes.slots import SharedSlots
from programs import Program
from remote_lab import SECONDS, Server, Team, casd, execution_counts, link, running
from workers_lab import all_slots_held, lab, server, told

__all__ = ["lab", "server"]
pytestmark = pytest.mark.archs(1)

QUEUED, EXECUTING = 2, 3
# An ELF file for AMD GPUs as far as its head says.
WRONG = b"\x7fELF\x02\x01" + bytes(12) + b"\xe0\0" + bytes(100)


@pytest.mark.archs(2)
@pytest.mark.parametrize("lab", ["15", "19"], indirect=True)
@pytest.mark.parametrize("flags", [["-O3"], ["-O2", "-g"], ["-foffload-lto"]], ids=" ".join)
def test_what_workers_make_is_what_this_machine_makes(lab: Lab, flags: list[str]) -> None:
    assert lab.compile(*flags).outcome == MISS
    assert execution_counts(lab) == {"done": 2}
    assert "note: executor 'grpc://127.0.0.1" in lab.hipcache("explain").out.decode()


def test_assembly_that_reads_a_file_is_compiled_here(lab: Lab) -> None:
    lab.write("step.inc", "s_nop 1\n")
    lab.write("k.hip", kernel("1") + '__device__ void step() { asm volatile(".include \\"step.inc\\""); }\n')
    assert lab.compile().outcome == MISS
    assert execution_counts(lab) == {}


@pytest.mark.parametrize("lab", ["15", "19"], indirect=True)
def test_device_links_go_there_while_no_slot_is_free_here(lab: Lab) -> None:
    program = Program(lab)
    program.build()
    url = lab.environ["HIPCACHE_EXECUTOR"].partition("?")[0]
    lab.environ |= {"HIPCACHE_EXECUTOR": url, "HIPCACHE_JOBS": "2"}
    with all_slots_held(lab, 2):
        program.link()
    assert execution_counts(lab) == {"done": 2}
    program.one("5", "-O1")
    program.link()
    assert execution_counts(lab) == {"done": 2}, "slots are free"


def test_a_remote_that_has_workers_is_an_executor(lab: Lab, server: Server) -> None:
    program = Program(lab)
    program.build()
    del lab.environ["HIPCACHE_EXECUTOR"]
    lab.environ |= {"HIPCACHE_REMOTE": f"{server.url}?timeout=30", "HIPCACHE_JOBS": "1"}
    with all_slots_held(lab, 1):
        program.link()
    assert execution_counts(lab) == {"done": 2}


def test_of_a_remote_that_has_none_nothing_is_told(tmp_path: Path) -> None:
    with running(casd(tmp_path / "server")) as cache:
        team = Team(tmp_path, f"{cache.url}?timeout=30")
        lab = team.machine()
        lab.environ["HIPCACHE_JOBS"] = "1"
        lab.compile("-O3", "--offload-arch=gfx906", "--offload-arch=gfx90a", "--offload-arch=gfx1030")
        team.end()
    assert execution_counts(lab) == {}


REMOTE = "grpc://cache:9092/main"


@pytest.mark.parametrize(
    ("remote", "executor", "key", "expected"),
    [
        ((REMOTE, "http://web"), (), None, (REMOTE,)),
        ((REMOTE,), (), Path("/key"), ()),
        ((f"{REMOTE}?timeout=2&read-only",), (), None, ()),
        ((REMOTE,), ("none",), None, ()),
        ((REMOTE,), ("grpc://a:1", "grpc://b:1"), Path("/key"), ("grpc://a:1", "grpc://b:1")),
    ],
    ids=["remote", "key", "read-only", "none", "named"],
)
def test_which_executors_the_settings_name(
    remote: tuple[str, ...], executor: tuple[str, ...], key: Path | None, expected: tuple[str, ...]
) -> None:
    assert workers.named(Config(Path("/store"), remote=remote, executor=executor, key=key)) == expected


def cut(response: Any) -> None:
    response.result.output_files[0].ClearField("digest")


def no_output(response: Any) -> None:
    del response.result.output_files[:]


def failed(response: Any) -> None:
    response.result.exit_code = 1


def lost(response: Any) -> None:
    response.status.code = 14


def another(response: Any) -> None:
    response.result.output_files[0].contents = b"no code at all"
    blob = response.result.output_files[0].digest
    blob.hash, blob.size_bytes = "a7ecc0e2e5b1c9ea7e0eff0d5c1bd4d1b7bd4f6d1c9dbf10b3ecdbdb2b3de3f1", 14


def cut_text(response: Any) -> None:
    response.result.stderr_raw = b"warn"
    blob = response.result.stderr_digest
    blob.hash, blob.size_bytes = "a7ecc0e2e5b1c9ea7e0eff0d5c1bd4d1b7bd4f6d1c9dbf10b3ecdbdb2b3de3f1", 9


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


LIES: dict[str, tuple[dict[str, Callable[[bytes], bytes]], str]] = {
    "flipped": ({"BatchReadBlobs": contents(flip)}, "garbage"),
    "short": ({"BatchReadBlobs": contents(lambda content: content[:-1])}, "garbage"),
    "no digest": ({"Execute": result(cut)}, "no output"),
    "another content": ({"Execute": result(another)}, "garbage"),
    "cut text": ({"Execute": result(cut_text)}, "garbage"),
    "no output": ({"Execute": result(no_output)}, "no output"),
    "status": ({"Execute": result(failed)}, "status"),
    "worker lost": ({"Execute": result(lost)}, "worker"),
    "noise": ({"Execute": lambda answer: b"\xff" * 9}, "unreachable"),
}


@pytest.mark.parametrize("lie", LIES)
def test_where_a_server_lies_it_is_made_here(server: Server, lab: Lab, lie: str) -> None:
    tampers, kind = LIES[lie]
    with lying(Liar(server.port, tampers)) as url:
        said = told(lab, f"{url}?prefer")
    assert said.count("hipcache: everything is compiled on this machine: executor 'grpc://127.0.0.1") == 1, said
    assert execution_counts(lab) == {kind: 1} | ({"failed": 1} if kind == "status" else {})


INVALID = """
#include "hip_in_short.hpp"
extern "C" __global__ void kernel(int* p) { asm volatile("no_such_instruction v0, v1" ::: "v0"); p[0] = NUMBER; }
"""


def test_an_error_of_the_users_own_is_no_fault_of_the_executor(server: Server, lab: Lab) -> None:
    """More often than an executor may fail before it is left alone."""
    for number in range(4):
        lab.write("k.hip", INVALID.replace("NUMBER", str(number)))
        words = lab.words("-O3", "--offload-arch=gfx906")
        plain = lab.run(words)
        assert plain.status == 1
        assert b"no_such_instruction" in plain.err
        made = lab.run([*LAUNCHER, *words])
        assert (made.status, made.out, made.err) == (plain.status, plain.out, plain.err)
    assert execution_counts(lab) == {"failed": 4}
    lab.write("k.hip", kernel("7"))
    assert told(lab, lab.environ["HIPCACHE_EXECUTOR"]) == ""
    assert execution_counts(lab) == {"failed": 4, "done": 1}


def test_failures_that_this_machine_does_not_confirm_end_the_use_of_an_executor(server: Server, lab: Lab) -> None:
    liar = Liar(server.port, {"Execute": result(failed)})
    with lying(liar) as url:
        for number in range(5):
            lab.write("k.hip", kernel(str(number)))
            said = told(lab, f"{url}?prefer")
            assert ("a command ended with status 1 there" in said) == (number == 0), said
    assert liar.asked.count("Execute") == 3
    assert execution_counts(lab)["failed"] == execution_counts(lab)["status"] == 3


def code(response: Any) -> None:
    """Of the right kind, and under its right digest."""
    response.result.output_files[0].contents = WRONG
    blob = response.result.output_files[0].digest
    blob.hash, blob.size_bytes = hashlib.sha256(WRONG).hexdigest(), len(WRONG)


def test_a_sample_is_compared_with_what_this_machine_makes(server: Server, lab: Lab) -> None:
    lab.environ["HIPCACHE_VERIFY"] = "1"
    assert told(lab, lab.environ["HIPCACHE_EXECUTOR"]) == ""
    assert execution_counts(lab) == {"done": 1, "checked": 1}
    lab.write("k.hip", kernel("7"))
    with lying(Liar(server.port, {"Execute": result(code)})) as url:
        assert "it made another output than this machine" in told(lab, f"{url}?prefer")
    assert execution_counts(lab) == {"done": 2, "checked": 1, "different": 1}


def test_an_action_that_takes_too_long_there_is_made_here(server: Server, lab: Lab) -> None:
    liars: list[Liar] = []
    liars.append(Liar(server.port, {}, {"Execute": staying(liars, EXECUTING)}))
    with lying(liars[0]) as url:
        assert "took longer than 1 s" in told(lab, f"{url}?prefer&limit=1")
    assert execution_counts(lab) == {"limit": 1}


def test_where_a_server_falls_silent_it_is_made_here(server: Server, lab: Lab) -> None:
    liars: list[Liar] = []

    def tamper(answer: bytes) -> bytes:
        if liars[0].asked.count("GetCapabilities") > 1:
            liars[0].ended.wait(SECONDS)
        return answer

    liars.append(Liar(server.port, {"GetCapabilities": tamper}, {"Execute": staying(liars, EXECUTING)}))
    with lying(liars[0]) as url:
        assert "it does not answer in time" in told(lab, f"{url}?prefer&timeout=0.1")
    assert execution_counts(lab) == {"unreachable": 1}


def test_over_a_slow_link_the_object_is_the_same(server: Server, lab: Lab) -> None:
    with link(server.port, 0.01) as port:
        assert told(lab, f"grpc://127.0.0.1:{port}?prefer") == ""
    assert execution_counts(lab) == {"done": 1}


def test_an_action_that_waits_for_a_worker_is_taken_back_when_a_slot_is_free(server: Server, lab: Lab) -> None:
    program = Program(lab)
    program.build()
    liars: list[Liar] = []
    liars.append(Liar(server.port, {}, {"Execute": staying(liars, QUEUED)}))
    runtime = Path(lab.environ["XDG_RUNTIME_DIR"]) / "hipcache"
    runtime.mkdir(mode=0o700)
    with lying(liars[0]) as url:
        lab.environ |= {"HIPCACHE_EXECUTOR": url, "HIPCACHE_JOBS": "1"}
        slot = SharedSlots(1, str(runtime)).attempt()
        assert slot

        def release() -> None:
            with slot:
                end = time.monotonic() + SECONDS
                while "Execute" not in liars[0].asked and time.monotonic() < end:
                    time.sleep(0.05)

        thread = threading.Thread(target=release)
        thread.start()
        program.link()
        thread.join()
        assert "CancelOperation" in liars[0].asked
    assert execution_counts(lab)["taken back"] > 0


def test_where_no_server_answers_it_is_made_here_and_told_once(lab: Lab, server: Server) -> None:
    server.kill()
    try:
        said = told(lab, lab.environ["HIPCACHE_EXECUTOR"])
        assert said.count("hipcache: everything is compiled on this machine") == 1
        lab.write("k.hip", kernel("3"))
        assert told(lab, lab.environ["HIPCACHE_EXECUTOR"]) == "", "told once in a build"
    finally:
        server.start()
    assert execution_counts(lab)["unreachable"] == 1


def test_a_wrong_address_is_told_and_costs_nothing_else(lab: Lab) -> None:
    assert "is not a Remote Execution API server" in told(lab, "https://example.com/x")


def test_a_hit_asks_no_executor(lab: Lab) -> None:
    lab.compile("-O3")
    before = execution_counts(lab)
    lab.compile("-O3")
    assert lab.hipcache(*lab.words("-O3")).status == 0
    assert execution_counts(lab) == before


def test_the_doctor_asks_whether_it_runs_actions(lab: Lab) -> None:
    def doctor() -> str:
        return lab.hipcache("doctor", "--compiler", "/bin/false").out.decode()

    assert "runs actions" in doctor()
    lab.environ["HIPCACHE_EXECUTOR"] = "grpc://127.0.0.1:1"
    assert "fault  executor 'grpc://127.0.0.1:1'" in doctor().lower()


def test_stats_tell_what_ran_there(lab: Lab) -> None:
    lab.compile("-O3", "--offload-arch=gfx906")
    assert "executors  1 action run remotely" in lab.hipcache("stats").out.decode()
