"""Workers that have the compiler by their image: nothing is uploaded, and it runs if it is that of this machine."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest
from executor_lab import Liar, lying
from hip import Lab, kernel
from hipcache.executor import protocol
from hipcache.executor.protocol import Program, Workers
from hipcache.remote.backend import RemoteError
from remote_lab import IMAGE, Server, Team, execution_counts, executor, running
from workers_lab import told

pytestmark = pytest.mark.archs(1)
LARGE = 1 << 20
PROGRAM = "/usr/bin/env"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(executor(tmp_path_factory.mktemp("executor"), IMAGE)) as one:
        yield one


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    team = Team(tmp_path, "")
    yield team.machine()
    team.end()


def addressed(url: str) -> str:
    return f"{url}?prefer&installed&platform=OSFamily:linux"


def test_the_compiler_of_the_workers_image_makes_what_that_of_this_machine_makes(lab: Lab, server: Server) -> None:
    assert told(lab, addressed(server.url)) == ""
    assert execution_counts(lab) == {"done": 1}
    stored = [path.stat().st_size for path in server.place.rglob("*") if path.is_file()]
    assert stored
    assert max(stored) < LARGE, "no compiler was uploaded"


def test_what_the_workers_have_is_asked_once(lab: Lab, server: Server) -> None:
    with lying(liar := Liar(server.port, {})) as url:
        assert told(lab, addressed(url)) == ""
        assert liar.asked.count("Execute") == 3, "what it loads, the digests of that, and the action"
        for value in ("3", "4"):
            lab.write("k.hip", kernel(value))
            assert told(lab, addressed(url)) == ""
        assert liar.asked.count("Execute") == 5
    assert execution_counts(lab) == {"done": 3}


class Pretended:
    """Workers that are this machine, but for what `change` makes of the text of a command, by the command's name."""

    def __init__(self, **change: Callable[[str], str]) -> None:
        self.change = change

    def text_of(self, words: tuple[str, ...], environ: Mapping[str, str]) -> str:
        ended = subprocess.run(words, env=dict(environ), capture_output=True, text=True, check=True)
        return self.change.get(os.path.basename(words[0]), str)(ended.stdout)


def checked(change: Mapping[str, Callable[[str], str]]) -> Program:
    libraries = re.findall(r"(/\S+) \(", Pretended().text_of((PROGRAM,), {"LD_TRACE_LOADED_OBJECTS": "1"}))
    wanted = protocol.read_installed(PROGRAM, (PROGRAM, *libraries))
    return protocol.checked(cast("Workers", Pretended(**change)), wanted)


def another(text: str) -> str:
    """The first file has another digest."""
    return ("0" if text[:1] != "0" else "1") + text[1:]


def another_library(text: str) -> str:
    first, _, rest = text.partition("\n")
    return f"{first}\n{another(rest)}"


def one_less(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if "libc.so" not in line)


def test_a_program_that_is_the_same_there_is_started_by_its_path() -> None:
    assert checked({}).words == (PROGRAM,)


@pytest.mark.parametrize(
    ("command", "change", "name"),
    [
        ("sha256sum", another, PROGRAM),
        ("sha256sum", another_library, "lib"),
        ("sha256sum", lambda text: "", PROGRAM),
        ("sha256sum", lambda text: "\n\n  \n noise\0", PROGRAM),
        ("sha256sum", lambda text: text[: len(text) // 2], "lib"),
        ("sha256sum", one_less, "libc.so"),
        ("env", one_less, "libc.so"),
        ("env", lambda text: f"{text}\t/usr/bin/true (0x0000)\n", "true"),
        ("env", lambda text: f"{text}\t/usr/../usr/lib/x86_64-linux-gnu/libc.so.6 (0x0000)\n", PROGRAM),
    ],
)
def test_a_program_that_differs_there_in_anything_is_refused(
    command: str, change: Callable[[str], str], name: str
) -> None:
    with pytest.raises(RemoteError, match=f"its workers have another '{name}") as refused:
        checked({command: change})
    assert refused.value.kind == "toolchain"


def test_workers_with_another_compiler_are_not_used(lab: Lab, tmp_path: Path) -> None:
    """Another file than this machine's lies there at the compiler's path."""
    other, path = tmp_path / "bin", Path(lab.compiler).resolve().parent
    other.mkdir()
    for name in ("clang", "clang++", "lld", "ld.lld"):
        with (other / name).open("wb") as file:
            file.write((path / name).read_bytes() + b"padding")
        (other / name).chmod(0o755)
    with running(executor(tmp_path / "server", [*IMAGE, f"{other}:{path}"])) as server:
        said = told(lab, addressed(server.url))
    assert "its workers have another '" in said
    assert execution_counts(lab) == {"toolchain": 1}


def test_workers_without_the_compiler_are_not_used(lab: Lab, tmp_path: Path) -> None:
    with running(executor(tmp_path / "empty")) as server:
        said = told(lab, addressed(server.url))
    assert "executor 'grpc://127.0.0.1" in said
    counts = execution_counts(lab)
    assert sum(counts.values()) == 1
    assert "done" not in counts
