"""What a user may not read or enter is an error as of clang, also where it was there for an earlier compile."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hip import HIT, LAUNCHER, Ended, Lab, kernel, let_others_in, only_19, settle

pytestmark = [
    pytest.mark.takes_turns("lab"),
    pytest.mark.archs(1),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users"),
]

ONE, OTHER = "65532", "65533"


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


def shared_store(lab: Lab) -> dict[str, str]:
    give_to(lab, ONE)
    for path in (lab.root.parent, lab.root):
        path.chmod(0o777)
    return {"HIPCACHE_UMASK": "000"}


def fails_for_the_other(lab: Lab, words: Sequence[str], env: dict[str, str]) -> None:
    lab.root.joinpath("out.o").unlink()
    plain = as_user(lab, OTHER, words)
    assert plain.status == 1
    assert b"ermission denied" in plain.err or b"cannot read configuration file" in plain.err
    ended = as_user(lab, OTHER, [*LAUNCHER, *words], env)
    assert (ended.status, ended.out, ended.err) == (plain.status, plain.out, plain.err)
    assert not lab.root.joinpath("out.o").exists()
    assert as_user(lab, ONE, [*LAUNCHER, *words], env).status == 0


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_header_of_another_user_is_not_served_to_those_who_may_not_read_it(lab: Lab, mode: int) -> None:
    lab.write("private.h", "#define VALUE 1\n").chmod(mode)
    lab.write("k.hip", kernel("VALUE", '#include "private.h"'))
    env = shared_store(lab)
    served(lab, ONE, lab.words(), env)
    fails_for_the_other(lab, lab.words(), env)


def test_a_header_of_the_system_is_not_served_by_its_content_to_those_who_may_not_read_it(lab: Lab) -> None:
    """Another compile's claim about the contents spares reading them, not asking for the right to."""
    header = lab.write(lab.root.parent / "system/private.h", "#define VALUE 1\n")
    header.chmod(0o600)
    lab.write("k.hip", kernel("VALUE", "#include <private.h>"))
    env = {**shared_store(lab), "HIPCACHE_SYSTEM_PATHS": f"/usr:{header.parent}"}
    words = lab.words(f"-I{header.parent}")
    served(lab, ONE, words, env)
    os.utime(header, (1, 1))
    assert as_user(lab, ONE, [*LAUNCHER, *words], env).status == 0
    fails_for_the_other(lab, words, env)


def deny(path: Path) -> None:
    """To the other user alone, in an ACL: acl(5), and posix_acl_xattr_header of linux/posix_acl_xattr.h."""
    owner, user, group, mask, others, nobody = 1, 2, 4, 16, 32, 0xFFFFFFFF
    may = 5 if path.is_dir() else 4
    entries = [(owner, may | 2, nobody), (user, 0, int(OTHER)), *((tag, may, nobody) for tag in (group, mask, others))]
    try:
        packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
        os.setxattr(path, "system.posix_acl_access", packed)
    except OSError as error:
        pytest.skip(f"cannot set an ACL: {error}")


def test_a_header_with_an_acl_is_not_served_to_the_user_whom_it_denies(lab: Lab) -> None:
    lab.write("private.h", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", '#include "private.h"'))
    env = shared_store(lab)
    deny(lab.root / "private.h")
    served(lab, ONE, lab.words(), env)
    fails_for_the_other(lab, lab.words(), env)


@only_19
def test_a_config_file_of_another_user_is_an_error_for_others(lab: Lab) -> None:
    lab.write("clang.cfg", "-DVALUE=1\n").chmod(0o600)
    lab.write("k.hip", kernel("VALUE"))
    env = shared_store(lab)
    words = lab.words("--config=./clang.cfg")
    served(lab, ONE, words, env)
    fails_for_the_other(lab, words, env)


@pytest.mark.parametrize("by", ["mode", "ACL"])
def test_a_directory_of_another_user_that_may_not_be_entered_is_an_error_for_others(lab: Lab, by: str) -> None:
    lab.write("second/value.h", "#define VALUE 1\n")
    lab.write("k.hip", kernel("VALUE", "#include <value.h>"))
    first = lab.root / "first"
    first.mkdir(mode=0o700 if by == "mode" else 0o755)
    env = shared_store(lab)
    if by == "ACL":
        deny(first)
    words = lab.words("-Ifirst", "-Isecond")
    served(lab, ONE, words, env)
    fails_for_the_other(lab, words, env)
