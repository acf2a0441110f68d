"""Plans of the new offload driver: what clang-linker-wrapper and its clang print gives them the old driver's shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from hipcache.base.errors import PassThrough
from hipcache.clang import dry_run, plan, spelling
from hipcache.clang.dry_run import DryRuns
from hipcache.clang.plan import Plan
from recordings import PLANS, WRAPPED, text

CLANGS = ("clang22", "clang23", "clang24")


class Printed:
    """What was recorded, as the wrapper and its clang would print it. `old` -> `new`: another text in its place."""

    def __init__(self, name: str, old: str = "", new: str = "") -> None:
        printed = (PLANS / f"{name}.printed").read_text().replace(old, new)
        self._wrapper, *self._clangs = printed.split("\n\n")
        self.asked: list[Sequence[str]] = []

    def wrapper(self, package: Sequence[str], wrapper: Sequence[str]) -> str:
        self.asked += [package, wrapper]
        return self._wrapper

    def clang(self, argv: Sequence[str]) -> str:
        self.asked.append(argv)
        return self._clangs.pop(0)


def parsed(name: str, printed: Printed | None = None, old: str = "", new: str = "") -> Plan:
    flat = partial(dry_run.flat, asked=printed or Printed(name))  # type: ignore[arg-type]
    return plan.parse(text(name).replace(old, new) if old else text(name), flat=flat)


def left(name: str, old: str, new: str, *, printed: bool = True) -> str:
    with pytest.raises(PassThrough) as why:
        if printed:
            parsed(name, Printed(name, old, new))
        else:
            parsed(name, None, old, new)
    return why.value.reason


@pytest.mark.parametrize("name", WRAPPED)
def test_an_edit_that_moves_lines_needs_no_pass_for_a_device(name: str) -> None:
    """Each option of these passes is known to show no number of a line."""
    assert all(spelling.shows_no_line(one.compile) for one in parsed(name).devices)


@pytest.mark.parametrize("name", WRAPPED)
def test_each_arch_is_linked_by_lld_and_all_are_bundled(name: str) -> None:
    found = parsed(name)
    assert found.in_order
    assert found.embeds
    assert found.bundle
    assert all(one.by_lto and one.link and one.link.program.endswith("ld.lld") for one in found.devices)
    inputs = [word for word in found.bundle.arguments if word.startswith("-input=") and word != "-input=/dev/null"]
    assert sorted(inputs) == sorted(f"-input={one.code}" for one in found.devices)
    passes = [one.obj for one in found.devices]
    assert [*found.order[: len(passes)], found.order[-1]] == [*passes, "k.o"]
    assert {*found.order[len(passes) : -1]} == {one.code for one in found.devices}


@pytest.mark.parametrize("clang", CLANGS)
def test_archs_are_named_as_the_user_wrote_them(clang: str) -> None:
    assert {one.arch for one in parsed(f"{clang}-wrapped-archs").devices} == {"gfx942", "gfx1100"}
    features = {one.arch for one in parsed(f"{clang}-wrapped-features").devices}
    assert features == {"gfx90a:xnack+", "gfx90a:xnack-", "gfx9-4-generic"}


@pytest.mark.parametrize("name", WRAPPED)
def test_questions_name_no_temporary_file_of_the_plan(name: str) -> None:
    printed = Printed(name)
    parsed(name, printed)
    assert not any("/tmp/" in word for words in printed.asked for word in words)


@pytest.mark.parametrize("clang", CLANGS)
def test_what_is_compressed_and_how_many_are_linked_at_once_is_the_wrappers_to_say(clang: str) -> None:
    name, option = f"{clang}-wrapped-features", '"--emit-fatbin-only"'
    printed = Printed(name)
    found = parsed(name, printed, option, f'{option} "--wrapper-jobs=jobserver"')
    assert found.bundle
    assert "-compress" in found.bundle.arguments
    assert not any("jobs" in word for words in printed.asked for word in words)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "-Wl,--no-undefined package",
            "-Wl,--no-undefined package-amdgcn-amd-amdhsa-gfx1100-000000.o package",
            "target_id",
        ),
        (' "/usr/lib', "/usr/lib", "plan"),
        ("clang-offload-bundler", "new-bundler", "plan"),
        ("Thread model: posix\n", "clang: warning: said\n", "plan"),
        ('"-shared"', '"--emit-llvm"', "linker_option"),
        ("-input=fat", "-input=thin", "plan"),
    ],
    ids=["together", "unquoted", "bundler", "warning", "lld", "input"],
)
def test_what_is_printed_otherwise_is_left(old: str, new: str, reason: str) -> None:
    assert left("clang23-wrapped-archs", old, new) == reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"--emit-fatbin-only"', '"--emit-fatbin-only" "--new-option"'),
        ("--host-triple=x86_64-pc-linux-gnu", "--host-triple=x86_64 pc"),
        ('"--emit-fatbin-only"', '"-r"'),
        ("llvm-offload-binary", "new-packager"),
        ("kind=hip", "sort=hip"),
    ],
    ids=["option", "blank", "relocatable", "packager", "field"],
)
def test_a_wrapper_that_is_not_understood_is_left(old: str, new: str) -> None:
    assert left("clang23-wrapped-archs", old, new, printed=False) == "plan"


@pytest.mark.parametrize("name", WRAPPED)
def test_a_plan_without_one_of_its_jobs_is_left(name: str) -> None:
    jobs = [line for line in text(name).splitlines(keepends=True) if line.startswith(' "')]
    for job in jobs:
        with pytest.raises(PassThrough):
            parsed(name, None, job)
    assert len(jobs) > 3


@pytest.mark.parametrize("place", ["packager", "wrapper", "clang"])
def test_a_script_that_would_never_run_is_left(tmp_path: Path, place: str) -> None:
    programs = {name: tmp_path / name for name in ("packager", "wrapper", "clang")}
    for name, path in programs.items():
        path.write_bytes(b"#!/bin/sh\n" if name == place else b"\x7fELF")
        path.chmod(0o755)
    packager, wrapper, clang = map(str, programs.values())
    asked = DryRuns(SimpleNamespace(environ={}), None, str(tmp_path), Path)  # type: ignore[arg-type]
    with pytest.raises(PassThrough, match="is a script"):
        if place == "clang":
            asked.clang([clang, "a.o"])
        else:
            asked.wrapper([packager], [wrapper])
