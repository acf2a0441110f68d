"""What a whole build needs, fetched before its first compile."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hip import LAUNCHER, Ended, Lab, kernel, settle
from hipcache.remote import invocation
from hipcache.remote.helper.commands import Listed
from hipcache.remote.helper.fetches import Prefetch
from hipcache.remote.invocation import Adoption
from hipcache.store.local import LocalStore
from remote_lab import SERVERS, Server, Team, free_port, remote_counts, running, uploaded
from remote_team import patient, web

__all__ = ["web"]


class Machines:
    """Machines with the same directories, as of one container image: labs of one place, a store for each."""

    def __init__(self, root: Path, url: str) -> None:
        self.team = Team(root, url)
        self.lab = self.team.machine()
        self.lab.write("other.hip", kernel("9"))
        self.number = 0
        settle()

    def fresh(self, **more: str) -> Lab:
        self.number += 1
        environ = {**self.lab.environ, "HIPCACHE_DIR": str(self.lab.root.parent / f"store{self.number}"), **more}
        made = Lab(self.lab.root, self.lab.version, self.lab.compiler, environ, self.lab.archs)
        return made

    def commands(self, lab: Lab, *flags: str) -> list[list[str]]:
        return [
            [lab.compiler, "-x", "hip", "-nogpuinc", "-nogpulib", *flags, "-c", name, "-o", f"{name}.o"]
            for name in ("k.hip", "other.hip")
        ]

    def listed(self, lab: Lab, *flags: str) -> Path:
        """As CMake writes it: without options of dependency files."""
        entries = [
            {"directory": str(lab.root), "command": " ".join(["/opt/bin/hipcache", *words]), "file": words[-3]}
            for words in self.commands(lab, *flags)
        ]
        entries.append({"directory": str(lab.root), "command": "/usr/bin/c++ -c plain.cpp", "file": "plain.cpp"})
        return lab.write("compile_commands.json", json.dumps(entries))

    def build(self, lab: Lab, *flags: str, env: Mapping[str, str] | None = None) -> list[bytes]:
        objects = []
        for words in self.commands(lab, *flags):
            rule = ["-MD", "-MT", "x.o", "-MF", f"{words[-1]}.d"]
            ended = lab.run([*LAUNCHER, words[0], *rule, *words[1:]], env=env)
            assert (ended.status, ended.out, ended.err) == (0, b"", b"")
            objects.append((lab.root / words[-1]).read_bytes())
            (lab.root / words[-1]).unlink()
        return objects


ARCHES = ("--offload-arch=gfx906", "--offload-arch=gfx90a")


@pytest.fixture(params=SERVERS)
def machines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machines]:
    with running(SERVERS[request.param](tmp_path / "server")) as server:
        found = Machines(tmp_path, patient(server.url))
        yield found
        found.team.end()


def ahead(lab: Lab, *words: str) -> Ended:
    return lab.hipcache("prefetch", *words, "compile_commands.json")


def test_a_build_is_fetched_whole_and_the_native_launcher_serves_it(machines: Machines) -> None:
    first = machines.fresh()
    objects = machines.build(first, *ARCHES)
    uploaded(first)
    second = machines.fresh(UNKNOWN_TO_THE_FIRST="1")
    machines.listed(second, *ARCHES)
    told = ahead(second)
    assert (told.status, told.err) == (0, b"")
    assert b"of 2 HIP compiles 2 fetched, 0 already here" in told.out
    counts = remote_counts(second)
    second.environ["HIPCACHE_REMOTE"] = ""
    assert machines.build(second, *ARCHES) == objects
    compiles = second.stats()["compiles"]
    assert compiles["hit"] == 2, second.stats()
    assert counts["hits"] == 2


@pytest.fixture
def webbed(tmp_path: Path, web: Server) -> Iterator[Machines]:
    found = Machines(tmp_path, patient(web.url))
    yield found
    found.team.end()


def test_what_is_here_is_not_fetched_again(webbed: Machines) -> None:
    first = webbed.fresh()
    webbed.build(first, *ARCHES)
    uploaded(first)
    webbed.listed(first, *ARCHES)
    before = remote_counts(first)
    assert b"of 2 HIP compiles 0 fetched, 2 already here" in ahead(first).out
    assert remote_counts(first) == before, "no remote was asked"


def test_a_large_environment_is_no_fault_of_the_remote(webbed: Machines) -> None:
    first = of_the_first(webbed)
    second = webbed.fresh(**{f"LARGE_{number}": "\u00e9" * 60_000 for number in range(8)})
    webbed.listed(second, *ARCHES)
    told = ahead(second, "--timeout", "60")
    assert (told.status, told.err) == (0, b"")
    assert b"of 2 HIP compiles 2 fetched" in told.out
    assert not (second.store / "v2/remote/down").exists()
    assert webbed.build(second, *ARCHES) == first


def of_the_first(webbed: Machines) -> list[bytes]:
    """The objects that the first machine has compiled, and uploaded."""
    lab = webbed.fresh()
    objects = webbed.build(lab, *ARCHES)
    uploaded(lab)
    return objects


def test_of_a_source_that_was_edited_the_results_are_fetched_that_still_serve(webbed: Machines) -> None:
    first = webbed.fresh()
    webbed.build(first, *ARCHES)
    uploaded(first)
    second = webbed.fresh()
    second.write("k.hip", f'{(second.root / "k.hip").read_text()}\nextern "C" int more() {{ return 1; }}\n')
    settle()
    webbed.listed(second, *ARCHES)
    assert b"of 2 HIP compiles 1 fetched, 0 already here, 1 to compile or look up" in ahead(second).out
    second.environ["HIPCACHE_REMOTE"] = ""
    webbed.build(second, *ARCHES)
    jobs = second.stats()["jobs"]
    assert jobs["backend"] == {"hits": 4, "misses": 0}  # type: ignore[index]
    assert jobs["frontend"]["misses"] > 0  # type: ignore[index]


def test_of_a_build_for_one_architecture_more_the_others_are_fetched(webbed: Machines) -> None:
    first = webbed.fresh()
    webbed.build(first, *ARCHES)
    uploaded(first)
    second = webbed.fresh()
    more = (*ARCHES, "--offload-arch=gfx1030")
    webbed.listed(second, *more)
    assert b"of 2 HIP compiles 0 fetched, 0 already here, 2 to compile or look up" in ahead(second).out
    second.environ["HIPCACHE_REMOTE"] = ""
    webbed.build(second, *more)
    units = second.stats()["units"]
    assert units["gfx906"]["hits"] == units["gfx90a"]["hits"] == 2  # type: ignore[index]
    assert units["gfx1030"]["misses"] == 2  # type: ignore[index]


def test_a_record_that_came_does_not_hold_for_an_edit_after_it(webbed: Machines) -> None:
    first = webbed.fresh()
    webbed.build(first, *ARCHES)
    uploaded(first)
    second = webbed.fresh()
    webbed.listed(second, *ARCHES)
    ahead(second)
    second.environ["HIPCACHE_REMOTE"] = ""
    second.write("hip_in_short.hpp", f"{(second.root / 'hip_in_short.hpp').read_text()}\ntypedef int other_now;\n")
    second.write("k.hip", kernel("12"))
    settle()
    objects = webbed.build(second, *ARCHES)
    assert objects == webbed.build(webbed.fresh(HIPCACHE_REMOTE=""), *ARCHES)


def test_another_checkout_is_served_by_its_base_directory(webbed: Machines, tmp_path: Path) -> None:
    root = str(webbed.lab.root)
    first = webbed.fresh(HIPCACHE_BASEDIR=root, PWD=root)
    objects = webbed.build(first, *ARCHES)
    uploaded(first)
    place = tmp_path / "elsewhere"
    shutil.copytree(first.root, place)
    settle()
    second = webbed.fresh(HIPCACHE_BASEDIR=str(place), PWD=str(place))
    second.root = place
    webbed.listed(second, *ARCHES)
    assert b"of 2 HIP compiles 2 fetched" in ahead(second).out
    second.environ["HIPCACHE_REMOTE"] = ""
    assert webbed.build(second, *ARCHES) == objects
    assert second.stats()["compiles"]["hit"] == 2  # type: ignore[index]


def test_each_unit_has_its_part_of_the_time_that_a_fetch_of_all_has_taken(webbed: Machines) -> None:
    first, second = webbed.fresh(), webbed.fresh()
    webbed.build(first, *ARCHES)
    near, far = (LocalStore(lab.store, max_bytes=1 << 30) for lab in (second, first))

    def fetch(keys: Sequence[str], records_alone: bool) -> tuple[int, str]:
        for key in keys:
            record = far.get_action(key) or b""
            near.put_action(key, record)
            near.put_blobs(far.get_blob(name) or b"" for name in invocation.unpack(record).invocations[0].contents)
        return len(keys), "far"

    counts = Counter[str]()
    moments = iter([100.0, 100.101])
    prefetch = Prefetch(near, Adoption(near, second.environ, ""), fetch, counts.update, clock=lambda: next(moments))
    those = [Listed(tuple(words), str(second.root)) for words in webbed.commands(second, *ARCHES)]
    assert prefetch.run(those).whole == len(those)
    for unit in ("gfx906", "gfx90a", "host"):
        assert (counts[f"{unit} hits"], counts[f"{unit} milliseconds"]) == (len(those), 101)


@pytest.mark.parametrize("word", ["-march=native", "-mtune=native"])
def test_a_compile_that_looks_at_the_processor_is_shared_with_nobody(webbed: Machines, word: str) -> None:
    first = webbed.fresh()
    webbed.build(first, *ARCHES, word)
    uploaded(first)
    second = webbed.fresh()
    webbed.listed(second, *ARCHES, word)
    assert b"of 2 HIP compiles 0 fetched, 0 already here" in ahead(second).out


@pytest.mark.parametrize("which", ["ac", "cas"])
def test_what_is_damaged_is_not_fetched(webbed: Machines, web: Server, which: str) -> None:
    first = webbed.fresh()
    objects = webbed.build(first, *ARCHES)
    uploaded(first)
    for file in (web.place / "www/team" / which).iterdir():
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] + bytes([content[len(content) // 2] ^ 1]))
    second = webbed.fresh()
    webbed.listed(second, *ARCHES)
    assert b"of 2 HIP compiles 0 fetched" in ahead(second).out
    assert webbed.build(second, *ARCHES) == objects


def test_a_step_of_a_build_never_fails_it(webbed: Machines, web: Server, tmp_path: Path) -> None:
    lab = webbed.fresh()
    assert lab.hipcache("prefetch").status == 1
    for words in ((), ("/absent/compile_commands.json",)):
        ended = lab.hipcache("prefetch", "--step", *words)
        assert (ended.status, ended.out) == (0, b"")
        assert ended.err.startswith(b"hipcache: prefetch failed: cannot read '"), ended.err
    for text in ("", "[]", "{}", "[1]", '[{"command": "\'", "directory": 1}]', '[{"arguments": [], "directory": "."}]'):
        lab.write("compile_commands.json", text)
        assert lab.hipcache("prefetch", "--step").status == 0
    webbed.listed(lab, *ARCHES)
    web.kill()
    ended = ahead(lab, "--step")
    assert ended.status == 0
    assert ended.err.count(b"\n") <= 2, ended.err
    for off in ({"HIPCACHE_REMOTE": ""}, {"HIPCACHE_PREFETCH": "0"}, {"HIPCACHE_DISABLE": "1"}):
        ended = lab.hipcache("prefetch", "--step", env=off)
        assert (ended.status, ended.out, ended.err) == (0, b"", b"")


def test_a_manifest_puts_nothing_where_another_commands_record_is(webbed: Machines) -> None:
    """A command that a manifest names is not believed: its record goes to the place of the command at hand, if it is
    that command."""
    first = webbed.fresh()
    webbed.build(first, *ARCHES)
    store = LocalStore(first.store, max_bytes=1 << 30)
    words = webbed.commands(first, *ARCHES)
    keys = [invocation.manifest_key(argv, str(first.root), str) for argv in words]
    swapped = [store.get_action(key) for key in reversed(keys)]
    for key, record in zip(keys, swapped, strict=True):
        assert record
        store.put_action(key, record)
    webbed.listed(first, *ARCHES)
    first.environ["HIPCACHE_REMOTE"] = f"http://127.0.0.1:{free_port()}"
    assert b"of 2 HIP compiles 0 fetched, 0 already here, 2 to compile" in ahead(first).out
