"""HIPCACHE_VERIFY: hits compared with compiles anew while a build goes on; a store that lies is found out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hip import HIT, LAUNCHER, Lab, only_19, script
from hipcache import config as settings
from hipcache.base.values import replace
from hipcache.build.context import open_context
from hipcache.clang.command import parse_each
from hipcache.processes.runner import Completed, Runner, SubprocessRunner
from hipcache.verify import comparison
from hipcache.verify.comparison import Difference, first_difference
from poison import poison

pytestmark = pytest.mark.archs(1)

EACH = {"HIPCACHE_VERIFY": "1"}
BY_LAUNCHER, BY_ENGINE = "direct", "engine"


def verified(lab: Lab) -> dict[str, int]:
    counts = lab.stats()["verified"]
    assert isinstance(counts, dict)
    return {verdict: count for verdict, count in counts.items() if count}


@pytest.fixture(params=[BY_LAUNCHER, BY_ENGINE])
def served_by(request: pytest.FixtureRequest, lab: Lab) -> dict[str, str]:
    """The variables with which a hit is served that way, and compared. (The launcher leaves "~" to the engine.)"""
    return EACH | ({"HIPCACHE_LOG": "~/log"} if request.param == BY_ENGINE else {})


def compile_again(lab: Lab, env: dict[str, str], *flags: str) -> tuple[int, str, bytes]:
    ended = lab.run([*LAUNCHER, *lab.words(*flags)], env=env)
    return ended.status, ended.err.decode(), (lab.root / "out.o").read_bytes()


@pytest.mark.parametrize("flags", [("-MD",), ("-Wall", "-g", "-gsplit-dwarf")])
def test_a_hit_that_is_right_is_the_same(lab: Lab, served_by: dict[str, str], flags: tuple[str, ...]) -> None:
    lab.write("k.hip", '#include "hip_in_short.hpp"\n__global__ void k(int* p) { p[0]++; }\nstatic int unused;\n')
    before = lab.warm(*flags)
    rule = (lab.root / "out.d").read_bytes() if "-MD" in flags else b""
    assert compile_again(lab, served_by, *flags) == (0, before.messages, before.object)
    assert not rule or (lab.root / "out.d").read_bytes() == rule, "hipcache's, which lists more than clang's"
    assert verified(lab) == {"same": 1}
    assert lab.hipcache("stats").out.decode().count("1 same, 0 different") == 1


def test_nothing_stays_in_the_directory_for_temporary_files(lab: Lab, served_by: dict[str, str]) -> None:
    lab.warm()
    place = lab.root.parent / "temporary"
    place.mkdir()
    status, messages, _ = compile_again(lab, served_by | {"TMPDIR": str(place)})
    assert (status, messages, verified(lab)) == (0, "", {"same": 1})
    assert list(place.iterdir()) == []


@pytest.mark.archs(2)
def test_a_poisoned_store_is_found_out(lab: Lab, served_by: dict[str, str]) -> None:
    before = lab.warm("-MD")
    wrong = poison(lab.store, before.object)
    without = {name: value for name, value in served_by.items() if name != "HIPCACHE_VERIFY"}
    assert compile_again(lab, without, "-MD")[2] == wrong, "else the test shows nothing"
    status, said, delivered = compile_again(lab, served_by, "-MD")
    assert (status, delivered) == (0, before.object)
    assert "THE STORE SERVED A WRONG OBJECT" in said
    assert f"'{lab.root}/out.o' for gfx906 gfx90a: {len(wrong)} bytes from the store" in said
    assert f"first difference at byte {first_difference(wrong, before.object)}" in said
    assert verified(lab) == {"different": 1}
    (report,) = (lab.store / "v2/reports").iterdir()
    assert (report / "served").read_bytes() == wrong
    assert (report / "fresh").read_bytes() == before.object
    told = json.loads((report / "report.json").read_text())
    assert told["directory"] == str(lab.root)
    assert told["command"][-1] == "out.o"
    # The store has been put right.
    for _ in range(3):
        assert compile_again(lab, without, "-MD") == (0, "", before.object)
    lab._seen = lab.stats()
    assert lab.compile("-MD").outcome == HIT


@only_19
def test_reports_are_few_and_small(lab: Lab) -> None:
    small = Difference("out.o", ("clang++",), "/", (), b"served", b"fresh")
    kept = [comparison.keep(lab.store, small, now) for now in range(comparison.MOST + 3)]
    assert sorted(os.listdir(lab.store / "v2/reports")) == sorted(one.name for one in kept[3:] if one)
    large = Difference("out.o", ("clang++",), "/", (), bytes(comparison.MOST_BYTES), b"fresh")
    report = comparison.keep(lab.store, large, 99.0)
    assert report
    assert os.listdir(report) == ["report.json"]


@only_19
def test_reports_do_not_leave_the_store_by_a_link(lab: Lab, tmp_path: Path) -> None:
    (lab.store / "v2").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (lab.store / "v2/reports").symlink_to(tmp_path / "outside")
    kept = comparison.keep(lab.store, Difference("out.o", (), "/", (), b"1", b"2"), 1.0)
    assert os.listdir(tmp_path / "outside") == []
    assert kept and kept.resolve() == kept, "a directory has taken the link's place"


class Noisy(SubprocessRunner):
    """A driver whose object ends another way each time."""

    def run(self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Completed:
        done = super().run(argv, cwd=cwd, env=env)
        if cwd and "-o" in argv and "-cc1" not in argv:
            with (cwd / argv[argv.index("-o") + 1]).open("ab") as file:
                file.write(os.urandom(8))
        return done

    def group(self, servers: object = None) -> Runner:
        return self


@only_19
def test_a_compiler_that_differs_from_itself_is_told_apart(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    lab.warm()
    config, words = settings.load(lab.environ), lab.words()
    context = replace(open_context(config, lab.environ), runner=Noisy())
    comparison.compare(context, parse_each(tuple(words), str(lab.root), lab.environ), words, str(lab.root), config)
    assert verified(lab) == {"varying": 1}
    assert capfd.readouterr().err == ""
    assert b"1 not reproducible by the compiler itself" in lab.hipcache("stats").out
    assert not (lab.store / "v2/reports").exists()


@only_19
def test_where_the_compiler_fails_it_says_why(lab: Lab) -> None:
    """A record that leads to an object where there is none to be: the build must stop as without hipcache."""
    lab.warm()
    broken = script(lab.root.parent / "clang++", "echo 'error: broken' >&2; exit 3")
    config, words = settings.load(lab.environ), lab.words()
    commands = parse_each(tuple(words), str(lab.root), lab.environ)
    with pytest.raises(comparison.CompilerFails):
        comparison.compare(
            replace(open_context(config, lab.environ), runner=Broken(str(broken))),
            commands,
            words,
            str(lab.root),
            config,
        )


class Broken(SubprocessRunner):
    """Runs another program in the place of the driver."""

    def __init__(self, program: str) -> None:
        super().__init__()
        self._program = program

    def run(self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Completed:
        return super().run([self._program, *argv[1:]] if "-c" in argv else argv, cwd=cwd, env=env)

    def group(self, servers: object = None) -> Runner:
        return self


@only_19
def test_a_share_of_none_compares_nothing_and_a_bad_one_is_told(lab: Lab) -> None:
    before = lab.warm()
    for share in ("0", "0/5"):
        assert compile_again(lab, {"HIPCACHE_VERIFY": share})[0] == 0
    assert verified(lab) == {}
    ended = lab.hipcache("config", env={"HIPCACHE_VERIFY": "5/1"})
    assert ended.status == 1
    assert b"'5/1' is not a fraction" in ended.err
    assert compile_again(lab, {"HIPCACHE_VERIFY": "5/1"})[2] == before.object


@only_19
@pytest.mark.parametrize("text", ["verify: 1/1\n", "verify: '1/1' # all of them\n"])
def test_the_share_of_a_config_file_is_the_launchers_too(lab: Lab, text: str) -> None:
    env = {"HIPCACHE_CONFIG": str(lab.write(lab.root.parent / "hipcache.yaml", text))}
    lab.warm(env=env)
    by_engine = verified(lab)["same"]
    compile_again(lab, env)
    assert verified(lab) == {"same": by_engine + 1}


@only_19
def test_one_in_some_is_drawn(lab: Lab) -> None:
    """Of 200 hits, between 1 and 199: a wrong answer in 4e11 runs."""
    lab.warm()
    for _ in range(200):
        compile_again(lab, {"HIPCACHE_VERIFY": "1/8"})
        if verified(lab):
            break
    assert 0 < verified(lab)["same"] < 200


@only_19
def test_a_read_only_store_is_compared_and_left(lab: Lab) -> None:
    before = lab.warm()
    poison(lab.store, before.object)
    status, said, delivered = compile_again(lab, EACH | {"HIPCACHE_READONLY": "1"})
    assert (status, delivered) == (0, before.object)
    assert "WRONG OBJECT" in said
    assert not (lab.store / "v2/reports").exists()
    assert verified(lab) == {}
