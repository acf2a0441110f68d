"""Several executors in the settings: which of them is offered an action."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hip import LAUNCHER, Lab, kernel
from hipcache import config
from hipcache.base.errors import ConfigError
from hipcache.config import Config
from hipcache.executor import workers
from hipcache.executor.client import Executions
from hipcache.remote.client import Client
from remote_lab import SECONDS, Server, execution_counts, free_port
from workers_lab import lab, server, told

__all__ = ["lab", "server"]

pytestmark = pytest.mark.archs(1)

NEAR, FAR, SPARE = (f"grpc://{name}:1" for name in ("near", "far", "spare"))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([NEAR, FAR], {NEAR: 1.0}),
        ([f"{NEAR}?weight=3", FAR], {NEAR: 0.75, FAR: 0.25}),
        ([f"{NEAR}?weight=5", f"{FAR}?weight=3", f"{SPARE}?weight=2"], {NEAR: 0.5, FAR: 0.3, SPARE: 0.2}),
    ],
    ids=["in order", "one has none", "three"],
)
def test_the_first_of_several_executors_is_chosen_as_often_as_its_weight_says(
    texts: list[str], expected: dict[str, float]
) -> None:
    those, chance = [workers.parse(text) for text in texts], Random(1)
    count = 4000
    firsts = Counter(those[workers.order(those, chance.random)[0]].address.name for _ in range(count))
    assert {name: times / count for name, times in firsts.items()} == pytest.approx(expected, abs=0.03)
    assert sorted(workers.order(those, chance.random)) == list(range(len(those))), "each has its turn"


def test_an_executor_with_all_its_options_in_the_file(tmp_path: Path) -> None:
    text = """\
executor:
  - grpc://near:1?jobs=2
  - address: grpcs://far:2/main
    jobs: 32
    weight: 3
    prefer: true
    ca-file: /etc/team & co.pem
    platform:
      OSFamily: linux
      container-image: docker://registry/rocm@sha256:00ff
"""
    file = tmp_path / "hipcache.yaml"
    file.write_text(text)
    near, far = map(workers.parse, config.load({"HOME": "/h", "HIPCACHE_CONFIG": str(file)}).executor)
    assert (near.address.name, near.jobs, near.weight) == (NEAR, 2, 0)
    assert (far.address.name, far.jobs, far.weight, far.prefer) == ("grpcs://far:2/main", 32, 3, True)
    assert far.address.files == {"ca-file": "/etc/team & co.pem"}
    assert far.platform == (("OSFamily", "linux"), ("container-image", "docker://registry/rocm@sha256:00ff"))


@pytest.mark.parametrize(
    "entry", ["- jobs: 4", "- [one]", "- address: [one]", "- {address: grpc://a:1, jobs: [4]}", "- {[a]: b}"]
)
def test_an_executor_in_the_file_that_is_none_is_told_with_its_line(tmp_path: Path, entry: str) -> None:
    file = tmp_path / "hipcache.yaml"
    file.write_text(f"executor:\n  {entry}\n")
    with pytest.raises(ConfigError, match=r"hipcache\.yaml:1: key 'executor'"):
        config.load({"HOME": "/h", "HIPCACHE_CONFIG": str(file)})


def test_a_mistyped_option_of_an_executor_is_told_as_its_own() -> None:
    for words, what, hint in (
        ("wieght=3", "unknown option 'wieght'", "did you mean 'weight'?"),
        ("perfer", "unknown option 'perfer'", "did you mean 'prefer'?"),
        ("tokenfile=/t", "unknown option 'tokenfile'", "did you mean 'token-file'?"),
        ("prefer=1", "'prefer' takes no value", "write 'prefer' alone"),
    ):
        with pytest.raises(ConfigError) as told:
            workers.parse(f"grpc://a:1?{words}")
        assert (told.value.message, told.value.hint) == (f"executor 'grpc://a:1': {what}", hint)
    with pytest.raises(ConfigError, match="executor 'non' is neither an address nor 'none'"):
        workers.parse("non")
    with pytest.raises(ConfigError, match="executor 'grpc://a' has no port"):
        workers.parse("grpc://a?jobs=4")


def test_an_option_that_is_switched_off_in_the_file_is_not_set(tmp_path: Path) -> None:
    file = tmp_path / "hipcache.yaml"
    file.write_text("executor:\n  - address: grpc://a:1\n    prefer: false\n    installed: true\n")
    (found,) = map(workers.parse, config.load({"HOME": "/h", "HIPCACHE_CONFIG": str(file)}).executor)
    assert (found.prefer, found.installed) == (False, True)


@pytest.mark.parametrize("key", ["remote", "executor"])
def test_an_address_without_a_list_is_told_how_to_write_one(tmp_path: Path, key: str) -> None:
    file = tmp_path / "hipcache.yaml"
    file.write_text(f"{key}:\n  address: grpc://a:1\n")
    with pytest.raises(ConfigError, match=f"key '{key}' needs an address, or a list of them") as told:
        config.load({"HOME": "/h", "HIPCACHE_CONFIG": str(file)})
    assert "'- address: ...'" in told.value.hint


@pytest.mark.parametrize("weight", ["0", "-1", "1.5", "1001", "many"])
def test_a_weight_is_a_number(weight: str) -> None:
    with pytest.raises(ConfigError, match=f"'{weight}' is not a valid value of 'weight'"):
        workers.parse(f"grpc://a:1?weight={weight}")


def test_where_one_of_several_executors_fails_the_others_have_its_actions(lab: Lab, server: Server) -> None:
    gone = f"grpc://127.0.0.1:{free_port()}"
    said = told(lab, f"{gone}?prefer&weight=1000 {server.url}?prefer")
    assert f"executor '{gone}'" in said, said
    assert execution_counts(lab) == {"unreachable": 1, "done": 1}


def test_slots_are_counted_for_each_executor_wherever_it_is_named(tmp_path: Path) -> None:
    def executions(*executor: str) -> Executions:
        settings = Config(dir=tmp_path, executor=executor)
        return Executions(Client(settings, {"XDG_RUNTIME_DIR": str(tmp_path)}, print), print)

    one = executions("grpc://one:1?jobs=1").attempt()
    assert one is not None
    assert executions("grpc://one:1?jobs=1&prefer").attempt() is None, "it is taken"
    two = executions("grpc://one:1?jobs=1", "grpc://two:1?jobs=1").attempt()
    assert two is not None
    assert two[0] == 1
    other = executions("grpc://one:1?jobs=1&platform=pool:large").attempt()
    assert other is not None
    for _, slot in (one, two, other):
        with slot:
            continue


def compilers_of(lab: Lab) -> int:
    """How many passes of the compiler this machine runs for it now; asking the driver and bundling are none. A worker's
    have other variables."""
    mark, found = f"HIPCACHE_DIR={lab.store}\0".encode(), 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            name = os.readlink(process / "exe").rpartition("/")[2]
            if name.startswith(("clang", "lld")) and mark in (process / "environ").read_bytes() + b"\0":
                words = (process / "cmdline").read_bytes().split(b"\0")
                found += name.startswith("lld") or b"-cc1" in words
    return found


def test_more_compiles_at_once_than_cores_use_the_workers_and_no_more_compilers_here(lab: Lab, server: Server) -> None:
    """As `ninja -j 4` starts them, where one slot is for all: while one has it, the others' actions go elsewhere. (On a
    busy machine the slot may be free whenever one of them asks.)"""
    assert told(lab, lab.environ["HIPCACHE_EXECUTOR"]) == "", "now the server has the compiler"
    before = execution_counts(lab)["done"]
    lab.environ |= {"HIPCACHE_JOBS": "1", "HIPCACHE_EXECUTOR": server.url}
    for wave in range(6):
        assert most_at_once(lab, [4 * wave + number for number in range(4)]) == 1
        if execution_counts(lab)["done"] > before:
            return
    pytest.fail("no action went elsewhere")


def most_at_once(lab: Lab, numbers: list[int]) -> int:
    """Of passes here while sources of these numbers are compiled, all at once. Their objects are plain clang's."""
    commands, plain = [], []
    for number in numbers:
        lab.write(f"k{number}.hip", kernel(str(number)))
        archs = ("--offload-arch=gfx906", "--offload-arch=gfx90a", "--offload-arch=gfx1030")
        commands.append(lab.words("-O3", *archs, source=f"k{number}.hip", output=f"k{number}.o"))
        assert lab.run(commands[-1]).status == 0
        plain.append((lab.root / f"k{number}.o").read_bytes())
        (lab.root / f"k{number}.o").unlink()
    started = [subprocess.Popen([*LAUNCHER, *words], cwd=lab.root, env=lab.environ) for words in commands]
    most = 0
    try:
        end = time.monotonic() + 5 * SECONDS
        while any(one.poll() is None for one in started) and time.monotonic() < end:
            most = max(most, compilers_of(lab))
            time.sleep(0.01)
    finally:
        for one in started:
            one.kill()
            one.wait()
    assert [one.returncode for one in started] == [0] * 4
    assert [(lab.root / f"k{number}.o").read_bytes() for number in numbers] == plain
    return most
