"""Compiles for the processor of this machine (`-march=native`): another processor gets nothing of them."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import pytest
from direct_lab import Direct, direct, remembered
from hip import HIT, Lab, settle
from hipcache.app.front import Compiled, make
from hipcache.base import native
from hipcache.build.context import Context, open_context
from hipcache.clang import driver
from hipcache.clang.command import parse
from hipcache.clang.driver import why_unknown
from hipcache.clang.tool_answers import Answer
from hipcache.config import Config
from hipcache.direct.provenance import Indirect, Provenance

__all__ = ["direct"]
pytestmark = [
    pytest.mark.archs(1),
    pytest.mark.takes_turns("lab"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors are asked through /proc/cpuinfo"),
]

FLAG = "-march=native"
OTHER = bytes(range(32))


@pytest.mark.every_compiler
@pytest.mark.parametrize("flags", [[FLAG], ["-mtune=native", "-O3"], ["-Xarch_host", FLAG], ["@words"]])
def test_a_compile_for_this_processor_is_a_direct_hit(direct: Direct, flags: Sequence[str]) -> None:
    direct.lab.write("words", FLAG)
    direct.lab.warm(*flags)
    assert direct.ask(*flags)
    assert direct.lab.compile(*flags).outcome == HIT


def engine_of(lab: Lab) -> Context:
    """In this process."""
    return open_context(Config(dir=lab.store), lab.environ, racy=0.03)


def made(lab: Lab) -> Compiled:
    return make(engine_of(lab), parse(tuple(lab.words(FLAG)), str(lab.root), lab.environ), None)


def be(monkeypatch: pytest.MonkeyPatch, processor: bytes) -> None:
    monkeypatch.setattr(native, "processor", lambda: processor)


@pytest.mark.parametrize("by", ["state", "contents"])
def test_a_record_of_another_processor_is_no_direct_hit(
    direct: Direct, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    lab, this = direct.lab, native.processor()
    lab.compile(FLAG)
    for processor, served in ((OTHER, False), (this, True)):
        be(monkeypatch, processor)
        settle()
        assert remembered(direct, engine_of(lab), made(lab), flags=[FLAG]) == ""
        if by == "contents":
            (lab.root / "k.hip").touch()
        assert direct.ask(FLAG) is served


def test_nothing_is_remembered_where_the_processor_changes_meanwhile(
    direct: Direct, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a virtual machine that goes to another host."""
    lab, run, asked = direct.lab, driver.run, []

    def moving(*arguments: Any) -> Answer:
        found = run(*arguments)
        be(monkeypatch, OTHER)
        asked.append(found.text)
        return found

    lab.compile(FLAG)
    settle()
    done = made(lab)
    be(monkeypatch, OTHER)
    assert "changed meanwhile" in remembered(direct, engine_of(lab), done, flags=[FLAG])
    be(monkeypatch, OTHER[::-1])
    monkeypatch.setattr(driver, "run", moving)
    assert isinstance(made(lab).provenance, Indirect)
    assert isinstance(made(lab).provenance, Provenance)
    assert len(asked) == 2, "the answer of the first was remembered"
    assert isinstance(made(lab).provenance, Provenance)
    assert len(asked) == 2, "the driver is asked again, though it is the same processor"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-O3", "-march=native"], "'-march=native' makes the driver ask the machine; name the processor (-march="),
        (
            ["-mtune=native", "--offload-arch=native"],
            "'--offload-arch=native' makes the driver ask the machine; name",
        ),
        (["-Inative"], "hipcache does not know all that the driver looked at"),
    ],
)
def test_what_is_not_known_is_named(words: Sequence[str], said: str) -> None:
    assert why_unknown(words).startswith(said)
