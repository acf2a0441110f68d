"""A compile that leaves no record for direct hits: `explain` and the log say why. Statistics count direct hits."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from direct_lab import Direct, direct, remembered
from hip import HIT, LAUNCHER, Lab, only_19, script, settle
from hipcache.app.front import Compiled, make
from hipcache.build.context import Context, open_context
from hipcache.clang.command import parse
from hipcache.config import Config, load
from hipcache.direct.provenance import Provenance
from told import explained, statistics

__all__ = ["direct"]
pytestmark = [pytest.mark.archs(1), only_19]

NOTE = "note: the next compile of this command is no direct hit: "


def test_direct_hits_are_counted_apart(direct: Direct) -> None:
    lab = direct.lab
    lab.warm()
    before = statistics(lab.environ)["direct_hits"]
    assert direct.ask()
    lab.compile("-DOTHER")
    assert statistics(lab.environ)["direct_hits"] == before + 1  # type: ignore[operator]


def by_a_script(lab: Lab) -> list[str]:
    lab.write("words.rsp", "-DONE=1")
    compiler = script(lab.root / "clang++", f'shift; exec {lab.compiler} $(cat words.rsp) "$@"\n')
    return [str(compiler), "@words.rsp", *lab.words()[1:]]


def by_a_config_file(lab: Lab) -> list[str]:
    lab.write("own.cfg", "-march=native\n")
    return lab.words("--config=./own.cfg")


REASONS: dict[str, tuple[Callable[[Lab], list[str]], str]] = {
    "the processor is asked": (by_a_config_file, "hipcache does not know all that the driver looked at"),
    "a script reads a file of options": (by_a_script, "a script read a response file"),
}


@pytest.mark.parametrize("reason", REASONS)
def test_explain_and_the_log_say_why_there_is_no_direct_hit(direct: Direct, tmp_path: Path, reason: str) -> None:
    lab, log = direct.lab, tmp_path / "log"
    words, why = REASONS[reason][0](lab), REASONS[reason][1]
    for _ in range(2):
        assert lab.run([*LAUNCHER, *words], env={"HIPCACHE_LOG": str(log)}).status == 0
        assert f"{NOTE}{why}\n" in explained(lab.environ, str(lab.root / "out.o"))
    assert log.read_text().count(f"no direct hit: {why} (") == 2
    assert lab.run([*LAUNCHER, *lab.words()]).status == 0
    assert NOTE not in explained(lab.environ, str(lab.root / "out.o"))


def compiled(direct: Direct, racy: float = 0.03, flags: Sequence[str] = ()) -> tuple[Context, Compiled]:
    """The lab's compile from the store."""
    lab = direct.lab
    lab.compile(*flags)
    settle()
    context = open_context(Config(dir=lab.store), lab.environ, racy=racy)
    done = make(context, parse(tuple(lab.words(*flags)), str(lab.root), lab.environ), None)
    assert done.outcome.outcome == HIT
    return context, done


def test_a_file_that_changed_behind_the_compile_is_named(direct: Direct) -> None:
    context, done = compiled(direct)
    assert remembered(direct, context, done) == ""
    header = direct.lab.root / "value.hpp"
    header.write_text(header.read_text() + "\n")
    assert remembered(direct, context, done) == f"'{header}' changed meanwhile"


def test_a_config_file_that_is_young_is_named(direct: Direct) -> None:
    """Its content was not read in this compile, so its age alone tells whether the status stands for it."""
    config = direct.lab.root / ".hipcache.yaml"
    config.write_text("# as by default\n")
    context, done = compiled(direct, racy=300)
    system = load(direct.lab.environ).system_paths  # the tests' compiler may be young, too
    assert remembered(direct, context, done, system) == f"'{config}' was changed too recently"
    os.utime(config, (1, 1))
    assert remembered(direct, context, done, system) == f"'{config}' was changed too recently", "its status was"


@pytest.mark.files
def test_an_output_that_was_evicted_is_told(direct: Direct) -> None:
    context, done = compiled(direct)
    assert isinstance(done.provenance, Provenance)
    (output,) = done.provenance.outputs.files
    (direct.lab.store / "v2/blobs" / output.digest).unlink()
    assert remembered(direct, context, done) == "the store no longer has what it made"


def test_a_record_that_cannot_be_written_is_told(direct: Direct) -> None:
    context, done = compiled(direct)
    place = direct.record().parent
    place.rename(place.with_name("moved"))
    place.write_text("no directory")
    why = remembered(direct, context, done)
    assert why == f"cannot store '{place}': Not a directory"
