"""What a user may not read or enter is an error as of clang, also where it was there for an earlier compile."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
from hip import HIT, LAUNCHER, Ended, Lab, kernel, let_others_in, settle

pytestmark = [
    pytest.mark.takes_turns("lab"),
    pytest.mark.archs(1),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users"),
]

ONE = "65532"


def as_user(lab: Lab, user: str, argv: Sequence[str], env: dict[str, str] | None = None) -> Ended:
    settle()
    return lab.run(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *argv], env=env)


def give_to(lab: Lab, user: str) -> None:
    let_others_in(lab.root)
    for path in (lab.root.parent, *lab.root.parent.rglob("*")):
        os.chown(path, int(user), int(user), follow_symlinks=False)


def served(lab: Lab, user: str, words: Sequence[str], env: dict[str, str] | None = None) -> None:
    for _ in range(2):
        ended = as_user(lab, user, [*LAUNCHER, *words], env)
        assert ended.status == 0, ended.err
    assert lab.stats()["compiles"]["hit"] == 1  # type: ignore[index]
    lab.count_anew()


def test_a_directory_that_cannot_be_entered_is_not_one_without_the_header(lab: Lab) -> None:
    lab.write("second/value.h", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include <value.h>"))
    first = lab.root / "first"
    first.mkdir()
    give_to(lab, ONE)
    words = lab.words("-Ifirst", "-Isecond")
    served(lab, ONE, words)
    first.chmod(0o000)
    plain = as_user(lab, ONE, words)
    assert plain.status == 1
    for _ in range(2):
        assert as_user(lab, ONE, [*LAUNCHER, *words]) == plain
        assert lab.counted().outcome == "failed"
    first.chmod(0o755)
    assert as_user(lab, ONE, [*LAUNCHER, *words]).status == 0
    assert lab.counted().outcome == HIT


def test_what_the_driver_cannot_look_for_costs_no_hits(lab: Lab) -> None:
    """A directory of PATH that is another user's."""
    private = lab.root.parent / "private"
    private.mkdir(mode=0o700)
    give_to(lab, ONE)
    os.chown(private, 0, 0)
    served(lab, ONE, lab.words(), {"PATH": f"{private}/bin:{os.environ['PATH']}"})
